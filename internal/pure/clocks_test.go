package pure_test // redistest imports pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

const ms = time.Millisecond

func TestElapsedIsTheLargerOfTheTwoClocks(t *testing.T) { // R4
	start := time.Now()
	wallOnly := start.Round(0)
	require.Equal(t, 5*ms, pure.Elapsed(start, start.Add(5*ms)), "both agree")
	require.Equal(t, 5*ms, pure.Elapsed(wallOnly, wallOnly.Add(5*ms)))
	require.Zero(t, pure.Elapsed(start, start))

	require.Equal(t, time.Hour+5*ms, pure.Elapsed(start, redistest.Clocks(start, 5*ms, time.Hour+5*ms)), "suspend")
	require.Equal(t, 5*ms, pure.Elapsed(start, redistest.Clocks(start, 5*ms, -time.Hour)), "the wall clock was set back")
	require.Equal(t, time.Minute, pure.Elapsed(start, redistest.Clocks(start, 5*ms, time.Minute)), "the wall clock was set forward: it may only cost a lock")
	require.Equal(t, time.Minute, pure.Elapsed(start, redistest.Clocks(start, time.Minute, 0)), "the wall clock was stopped")
}

func TestRemainingIsTheSmallerOfTheTwoClocks(t *testing.T) { // R4, R15
	start := time.Now()
	until := start.Add(10 * time.Second)
	require.Equal(t, 10*time.Second, pure.Remaining(until, start))
	require.Equal(t, 10*time.Second-5*ms, pure.Remaining(until, start.Add(5*ms)))
	require.Equal(t, -time.Second, pure.Remaining(until, start.Add(11*time.Second)))
	require.Equal(t, 10*time.Second-time.Hour, pure.Remaining(until, redistest.Clocks(start, 5*ms, time.Hour)), "suspend")
	require.Equal(t, 10*time.Second-5*ms, pure.Remaining(until, redistest.Clocks(start, 5*ms, -time.Hour)), "set back")
	require.Equal(t, 9*time.Second, pure.Remaining(until, redistest.Clocks(start, time.Second, 0)), "stopped")
	for _, ends := range [][2]time.Time{{start, until}, {until, start}, {until, until}} {
		require.Equal(t, until, pure.Later(ends[0], ends[1]))
	}
}
