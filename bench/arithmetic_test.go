package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTallySettlesOnce(t *testing.T) {
	const g, r, f = granted, refused, failed
	for _, c := range []struct {
		name    string
		n       int
		all     bool
		votes   []vote
		settled int // the index of the vote that settles the tally
	}{
		{"one", 1, false, []vote{g}, 0},
		{"quorum of three", 3, false, []vote{g, r, g}, 2},
		{"early", 5, false, []vote{g, g, g, g, g}, 2},
		{"refused early", 5, false, []vote{r, g, r, r, g}, 3},
		{"failures and refusals", 5, false, []vote{r, f, g, f, r}, 3},
		{"even number", 2, false, []vote{r, g}, 0},
		{"even number granted", 4, false, []vote{g, g, r, g}, 3},
		{"wait for all", 3, true, []vote{g, g, g}, 2},
		{"wait for all, refused", 3, true, []vote{r, f, g}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tally tally
			for i, v := range c.votes {
				require.Equal(t, i == c.settled, tally.add(v, c.n, c.n/2+1, c.all), "vote %d", i)
			}
		})
	}
}

// R4 as arithmetic: 1 % and 2 ms of drift.
func TestValidity(t *testing.T) {
	const ms = time.Millisecond
	require.Equal(t, 9889*ms, validity(10*time.Second, 9*ms, 0.01))
	require.Zero(t, validity(100*ms, 97*ms, 0.01))
	require.Negative(t, validity(2*ms, 0, 0.01))
}

// R4: a clock that was set, or that stood still in suspend, can only cost a
// lock.
func TestElapsedIsTheLargerDifference(t *testing.T) {
	start := time.Now()
	now := start.Add(time.Second)
	require.Equal(t, time.Second, elapsed(start, now))
	// No monotonic reading: only the wall clocks differ.
	slept := time.Unix(0, now.UnixNano()+int64(time.Minute))
	require.Equal(t, time.Minute+time.Second, elapsed(start.Round(0), slept))
}

func TestRetryDelay(t *testing.T) {
	const took = time.Millisecond
	require.Equal(t, 2*took, retryDelay(0, took, 0), "never sooner than the release needs")
	require.Equal(t, 3*took, retryDelay(0, took, 0.5))
	require.Equal(t, 2*took+maxRetryDelay/2, retryDelay(60, took, 0.5), "the window is bounded")
	require.LessOrEqual(t, retryDelay(1000, time.Hour, 0.999), 2*maxRetryDelay)
}
