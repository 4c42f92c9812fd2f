package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

func TestRetryDelayNeverShrinksNorExceedsItsBounds(t *testing.T) { // R11
	for _, quorumTime := range []time.Duration{0, 1, ms / 3, ms, 7 * ms, 99 * ms, 101 * ms, time.Minute} {
		for _, random := range []float64{0, 0.1, 0.5, 0.999999} {
			before := time.Duration(0)
			for attempt := 1; attempt < 40; attempt++ {
				d := RetryDelay(attempt, quorumTime, 0, RetryMost, random)
				require.GreaterOrEqual(t, d, before, "attempt %d, %v, %v", attempt, quorumTime, random)
				require.GreaterOrEqual(t, d, min(2*quorumTime, RetryMost))
				require.LessOrEqual(t, d, RetryMost)
				before = d
			}
		}
	}
}
