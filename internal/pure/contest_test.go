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

func TestWhatIsLeftForTheNext(t *testing.T) {
	const whole = 100 * time.Millisecond
	for _, c := range []struct {
		left         time.Duration
		worth, young bool
	}{
		{-1, false, false},
		{0, false, false},
		{whole/2 - 1, false, false},
		{whole / 2, true, false},
		{whole*9/10 - 1, true, false},
		{whole * 9 / 10, true, true},
		{2 * whole, true, true},
	} {
		require.Equal(t, c.worth, WorthHandingOver(c.left, whole), c.left)
		require.Equal(t, c.young, Young(c.left, whole), c.left)
	}
	require.False(t, WorthHandingOver(0, 0))
	require.Equal(t, Never, Added(Never, time.Hour))
	require.Equal(t, 2*time.Hour, Added(time.Hour, time.Hour))
	require.Equal(t, time.Hour-1, Added(time.Hour, -1))
	require.Equal(t, Never, Added(Never, -1))
	require.Equal(t, Never, Added(Never-1, 1))
}

// The first renewal of a hold is due at once, unless none is to be made.
func TestARenewalAtOnce(t *testing.T) {
	const validity = 9 * time.Second
	r := NewRenewal(validity, Never, true).AtOnce()
	require.True(t, r.Held())
	require.Zero(t, r.Alarm())
	_, act := r.On(OnLook, time.Second, 0)
	require.Equal(t, ToRenew, act)
	r = NewRenewal(validity, Never, false).AtOnce()
	_, act = r.On(OnLook, time.Second, 0)
	require.Equal(t, CarryOn, act)
	r, _ = r.On(OnEnd, 0, 0)
	require.False(t, r.Held())
}

func TestRetryDelay(t *testing.T) { // R11
	const us = time.Microsecond
	for _, c := range []struct {
		attempt     int
		quorumTime  time.Duration
		least, most time.Duration
		floor, ceil time.Duration
	}{
		{1, 0, 0, 200 * ms, 0, 400 * us},
		{2, 0, 0, 200 * ms, 0, 800 * us},
		{3, 0, 0, 200 * ms, 0, 1600 * us},
		{9, 0, 0, 200 * ms, 0, 102400 * us},
		{10, 0, 0, 200 * ms, 0, 200 * ms},
		{11, 0, 0, 200 * ms, 0, 200 * ms},
		{1 << 30, 0, 0, 200 * ms, 0, 200 * ms},
		{1, ms, 0, 200 * ms, 2 * ms, 4 * ms},
		{1, 5 * ms, 0, 200 * ms, 10 * ms, 20 * ms},
		{2, 5 * ms, 0, 200 * ms, 10 * ms, 40 * ms},
		{9, 5 * ms, 0, 200 * ms, 10 * ms, 200 * ms},
		{1, 80 * ms, 0, 200 * ms, 160 * ms, 200 * ms},
		{1, 100 * ms, 0, 200 * ms, 200 * ms, 200 * ms},
		{1, time.Hour, 0, 200 * ms, 200 * ms, 200 * ms},
		{5, time.Hour, 0, 200 * ms, 200 * ms, 200 * ms},
		{1, 0, 50 * ms, 200 * ms, 50 * ms, 200 * ms},
		{30, 0, 50 * ms, 200 * ms, 50 * ms, 200 * ms},
		{1, 60 * ms, 50 * ms, 200 * ms, 120 * ms, 200 * ms},
		{1, time.Hour, 50 * ms, 200 * ms, 200 * ms, 200 * ms},
		{3, 0, ms, ms, ms, ms},
		{3, 5 * ms, 0, ms, ms, ms},
		{1, 0, time.Second, 2 * time.Second, time.Second, 2 * time.Second},
		{20, 0, 0, 2 * time.Second, 0, 2 * time.Second},
		{1, 0, 0, 10 * time.Second, 0, 400 * us},
	} {
		require.Equal(t, c.floor, RetryDelay(c.attempt, c.quorumTime, c.least, c.most, 0), "floor of %+v", c)
		require.InDelta(t, float64(c.ceil), float64(RetryDelay(c.attempt, c.quorumTime, c.least, c.most, 0.9999999)), float64(us), "ceiling of %+v", c)
		require.InDelta(t, float64(c.floor+c.ceil)/2, float64(RetryDelay(c.attempt, c.quorumTime, c.least, c.most, 0.5)), 2, "jitter of %+v", c)
	}
}
