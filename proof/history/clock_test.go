package history_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/proof/history"
)

// Clocks that are created while the machine is busy agree. The error of a clock
// shifts the events of its process, and looks like two holders if it exceeds
// the locks' margins.
func TestClocksAgreeWhereTheMachineIsBusy(t *testing.T) {
	var stop atomic.Bool
	var busy sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for !stop.Load() {
			}
		})
	}
	defer func() {
		stop.Store(true)
		busy.Wait()
	}()
	moment := time.Now()
	var told []int64
	for end := moment.Add(300 * time.Millisecond); len(told) < 2 || time.Now().Before(end); {
		told = append(told, history.NewClock().At(moment))
	}
	require.Less(t, time.Duration(slices.Max(told)-slices.Min(told)), time.Millisecond, "%d clocks", len(told))
}

// A clock advances with the system's.
func TestClockFollowsTheSystems(t *testing.T) {
	c := history.NewClock()
	for range 100 {
		before := history.Monotonic()
		now := c.Now()
		after := history.Monotonic()
		require.GreaterOrEqual(t, now, before-int64(time.Millisecond))
		require.LessOrEqual(t, now, after+int64(time.Millisecond))
	}
}
