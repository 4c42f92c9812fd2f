package pure

import "time"

const (
	// driftBase is added to every drift for the granularity of expiry on the
	// server, as in the description of the algorithm.
	driftBase = 2 * time.Millisecond
	// DefaultDriftFactor bounds the relative rate of a client's and a node's
	// clock (R4).
	DefaultDriftFactor = 0.01
	// LongestTTL keeps every sum of times far below the maximum of a
	// time.Duration.
	LongestTTL = 100 * 365 * 24 * time.Hour
)

// Drift returns how far the clocks of client and nodes may drift apart in one
// TTL (R4).
func Drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(float64(ttl)*factor) + driftBase
}

// Validity returns how long a lock is certain to be held: the keys were set
// after the attempt began, so up to elapsed of their TTL may be gone (R4).
func Validity(ttl, elapsed, drift time.Duration) time.Duration {
	return ttl - elapsed - drift
}

// Elapsed returns the time between two readings, by the monotonic or by the
// wall clock, whichever is more: a suspend may stop the first, and a step back
// changes the second. An error in this direction can only cost a lock (R4).
func Elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}

// Remaining returns the time from now until the end, by the monotonic or by the
// wall clock, whichever is less.
func Remaining(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// WholeMilliseconds truncates a TTL to what the protocol can express, before
// any other use (R4).
func WholeMilliseconds(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) }
