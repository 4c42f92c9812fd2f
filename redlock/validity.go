package redlock

import "time"

const (
	// driftBase is added to every drift for the granularity of expiry on the server, as the algorithm's description does.
	driftBase = 2 * time.Millisecond
	// defaultDriftFactor bounds the relative rate of a client's and a node's clock (R4).
	defaultDriftFactor = 0.01
	// longestTTL keeps every sum of times far below what a time.Duration holds.
	longestTTL = 100 * 365 * 24 * time.Hour
)

// drift is what the clocks of client and nodes may disagree by over one TTL (R4).
func drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(float64(ttl)*factor) + driftBase
}

// validity is how long a lock is still certain to be held: the keys were set after the attempt began, so at least
// elapsed of their TTL may be gone (R4).
func validity(ttl, elapsed, drift time.Duration) time.Duration {
	return ttl - elapsed - drift
}

// elapsed is the time between two readings by the monotonic or the wall clock, whichever says more: a machine that slept
// may have stopped the first, a step back may have turned the second. Being wrong this way can only cost a lock (R4).
func elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}

// remaining is the time until the end by the clock that says less.
func remaining(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// later is the later of two ends.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wholeMilliseconds cuts a TTL to what the protocol can say, before it is used anywhere (R4).
func wholeMilliseconds(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) }
