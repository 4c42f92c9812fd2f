package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContestWindow(t *testing.T) {
	for _, c := range []struct{ period, usual, window time.Duration }{
		{0, 0, 0},
		{0, ms, 2 * ms},
		{-time.Hour, ms, 2 * ms},
		{9 * ms, ms, 3 * ms},
		{3 * ms, ms, 2 * ms}, // nearer to each other they would split the votes
		{60 * ms, ms, 20 * ms},
		{time.Hour, ms, 20 * ms},
		{time.Hour, 50 * ms, 100 * ms}, // distant nodes
	} {
		require.Equal(t, c.window, ContestWindow(c.period, c.usual), "%+v", c)
	}
}

// A caller that has lost more waits for a little less, and never for long.
func TestContestDelay(t *testing.T) {
	for _, c := range []struct {
		lost   int
		random float64
		delay  time.Duration
	}{{0, 0, 0}, {0, 0.5, 16 * ms}, {0, 1, 32 * ms}, {32, 1, 16 * ms}, {96, 1, 8 * ms}} {
		require.Equal(t, c.delay, ContestDelay(c.lost, 32*ms, c.random), "%+v", c)
	}
}

// A caller that waits alone loses no time, and one that wins always does not
// win because the others draw lots.
func TestWhoDrawsALot(t *testing.T) {
	for _, c := range []struct {
		again      bool
		wary, lost int
		random     float64
		draws      bool
	}{
		{false, 0, 0, 0, false},
		{false, ContestsWary, 3, 0.5, false}, // it comes for the first time
		{true, 1, 0, 0.99, true},
		{true, 0, 0, 0.06, true},
		{true, 0, 0, 0.07, false},
		{true, 16, 7, 0, true},
		{true, 16, 8, 0.24, false}, // one may not know that others wait
		{true, 16, 8, 0.25, true},
	} {
		require.Equal(t, c.draws, DrawsLot(c.again, c.wary, c.lost, c.random), "%+v", c)
	}
}

// The extension of a lock is pushed as its release is.
func TestWhatIsAContest(t *testing.T) {
	require.True(t, IsContest(10*ms, -1), "so soon that the keys' end was not heard of")
	require.True(t, IsContest(10*ms, 10*time.Second))
	require.True(t, IsContest(2499*ms, 10*time.Second))
	require.False(t, IsContest(2500*ms, 10*time.Second))
	require.False(t, IsContest(3300*ms, 10*time.Second), "a renewal")
}
