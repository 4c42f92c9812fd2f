package single_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/proof/faults/single"
	"github.com/redmux/redmux/internal/redistest"
)

// With one fault of each kind at one node of five, the others go on (R5). Only
// a standstill fails this test, since the machine may be busy; the long
// measurement has figures.
func TestLatencyUnderOneFault_R5(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	stretch := 300 * time.Millisecond
	names := single.Latencies()
	if testing.Short() || underRace {
		names = []string{single.Stopped, "reset", "CLIENT KILL"}
	}
	l, err := single.MeasureLatency(t.Context(), single.LatencyOptions{Faults: names, Callers: 16, Stretch: stretch, Turns: 1})
	require.NoError(t, err)
	t.Log(l)
	for _, line := range l.Lines {
		require.Greater(t, line.Healthy.Grants, uint64(50), line.Fault)
		require.Greater(t, line.Faulted.Grants, uint64(50), line.Fault)
		require.Less(t, line.Faulted.P50, stretch, line.Fault)
		require.NotZero(t, line.Faulted.P99, line.Fault)
	}
	_, err = single.MeasureLatency(t.Context(), single.LatencyOptions{Faults: []string{"gremlins"}})
	require.ErrorContains(t, err, "gremlins")
}
