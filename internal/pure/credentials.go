package pure

import "time"

// Times to ask for credentials again.
const (
	// askLeast is the least time between two questions for a live connection.
	askLeast = 100 * time.Millisecond
	// askFirst and askMost bound the pause after a question that was of no use.
	askFirst = time.Second
	askMost  = 30 * time.Second
	// askBarred is how often a rest after refused credentials is cut short to
	// ask for others: in eighths of it, but not within askFirst.
	askBarred = 8
)

// AskAgain returns how long a connection may live on before others are asked
// for. left is what remains of its credentials, or Never. vain counts the last
// questions in a row that gave none that are of use. jitter is uniform in [0,
// 1): clients that start together do not ask together.
func AskAgain(left time.Duration, vain int, jitter float64) time.Duration {
	soon := max(askLeast, shorten(left/4*3, jitter))
	switch {
	case vain == 0 && left == Never:
		return Never
	case vain == 0 && left > 0:
		return soon
	}
	pause := shorten(min(askMost, askFirst<<min(max(vain, 1)-1, 5)), jitter)
	if left > 0 {
		return min(pause, soon)
	}
	return pause
}

// AskBarred returns the pause between two questions within a rest of the given
// length.
func AskBarred(rest time.Duration) time.Duration { return max(askFirst, rest/askBarred) }
