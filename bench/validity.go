package bench

import "time"

// The arithmetic of R4 is repeated here on purpose. redlock does not export its
// own, and a baseline that shared it would share its mistakes: no test would
// notice that both hold a lock for too long. The tests of both packages compute
// the example of the rules, 9.889 s.

// driftFloor is the absolute part of the drift.
const driftFloor = 2 * time.Millisecond

// defaultDrift is the usual relative part.
const defaultDrift = 0.01

// Validity returns what remains of a TTL at a time after start, at which nothing
// had been sent yet, with the usual drift factor. It is for peers that are not a
// [Rueidis].
func Validity(ttl time.Duration, start, now time.Time) time.Duration {
	return validity(ttl, elapsed(start, now), defaultDrift)
}

// validity returns what remains of a TTL.
func validity(ttl, elapsed time.Duration, driftFactor float64) time.Duration {
	return ttl - elapsed - time.Duration(float64(ttl)*driftFactor) - driftFloor
}

// elapsed returns the larger of the monotonic and the wall-clock difference, so
// that a suspend can only cost a lock.
func elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}
