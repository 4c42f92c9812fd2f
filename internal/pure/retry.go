package pure

import "time"

const (
	// RetryMost bounds the delay between two attempts, unless the configuration
	// does (R11).
	RetryMost = 200 * time.Millisecond
	// retryFirst is the lowest first ceiling.
	retryFirst = 400 * time.Microsecond
)

// RetryDelay returns the time to wait after the given failed attempt, counted
// from 1: a random time between a floor and a ceiling (full jitter, R11).
// random is uniform in [0, 1). The floor is the larger of least and twice the
// time to a quorum. The ceiling is most; if least is zero, it begins at twice
// the floor and doubles with each attempt up to most. So clients that collided
// quickly drift apart, and many waiters do not flood the nodes.
func RetryDelay(attempt int, quorumTime, least, most time.Duration, random float64) time.Duration {
	floor := min(max(least, 2*quorumTime), most)
	ceiling := most
	if least == 0 {
		ceiling = max(retryFirst, 2*floor)
		for range min(attempt-1, 16) {
			ceiling = min(2*ceiling, most)
		}
	}
	ceiling = max(floor, min(ceiling, most))
	return floor + time.Duration(random*float64(ceiling-floor))
}
