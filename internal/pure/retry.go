package pure

import "time"

const (
	// RetryMost bounds the delay between two attempts (R11).
	RetryMost = 200 * time.Millisecond
	// retryFirst is the first ceiling, where the time to a quorum says less.
	retryFirst = 400 * time.Microsecond
)

// RetryDelay is the time to wait after the given failed attempt, counted from 1: full jitter between a floor of twice
// the time that a quorum takes and a ceiling that doubles with each attempt up to 200 ms (R11). random is uniform in
// [0, 1). Clients that collided part quickly, and many waiters do not flood the nodes.
func RetryDelay(attempt int, quorumTime time.Duration, random float64) time.Duration {
	floor := min(2*quorumTime, RetryMost)
	ceiling := max(retryFirst, 2*floor)
	for range min(attempt-1, 16) {
		ceiling = min(2*ceiling, RetryMost)
	}
	ceiling = max(floor, min(ceiling, RetryMost))
	return floor + time.Duration(random*float64(ceiling-floor))
}
