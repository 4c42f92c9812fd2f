package pure

import "time"

const (
	// driftBase is added to every drift for the granularity of expiry on the server, as the algorithm's description does.
	driftBase = 2 * time.Millisecond
	// DefaultDriftFactor bounds the relative rate of a client's and a node's clock (R4).
	DefaultDriftFactor = 0.01
	// LongestTTL keeps every sum of times far below what a time.Duration holds.
	LongestTTL = 100 * 365 * 24 * time.Hour
)

// Drift is what the clocks of client and nodes may disagree by over one TTL (R4).
func Drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(float64(ttl)*factor) + driftBase
}

// Validity is how long a lock is still certain to be held: the keys were set after the attempt began, so at least
// elapsed of their TTL may be gone (R4).
func Validity(ttl, elapsed, drift time.Duration) time.Duration {
	return ttl - elapsed - drift
}

// Elapsed is the time between two readings by the monotonic or the wall clock, whichever says more: a machine that slept
// may have stopped the first, a step back may have turned the second. Being wrong this way can only cost a lock (R4).
func Elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}

// Remaining is the time until the end by the clock that says less.
func Remaining(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Later is the later of two ends.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// WholeMilliseconds cuts a TTL to what the protocol can say, before it is used anywhere (R4).
func WholeMilliseconds(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) }
