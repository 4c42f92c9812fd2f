package bench

import "time"

// The arithmetic of R4 stands here once more, though redlock has the same. That
// of redlock is no part of its interface, and a baseline that shared it would
// share its mistakes too: then nobody would see that both hold a lock for too
// long. The tests of both packages compute the example of the rules, 9.889 s.

// driftFloor is the absolute part of the drift.
const driftFloor = 2 * time.Millisecond

// validity is what remains of a TTL.
func validity(ttl, elapsed time.Duration, driftFactor float64) time.Duration {
	return ttl - elapsed - time.Duration(float64(ttl)*driftFactor) - driftFloor
}

// elapsed is the larger of the monotonic and the wall difference, so that a
// suspend can only cost a lock.
func elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}
