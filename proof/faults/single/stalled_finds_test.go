package single

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// The measurement finds memory that is lost while a node is silent. Half of
// what is allowed is lost at each sample, and at least four come before the
// last.
func TestStalledFindsALeak_R26(t *testing.T) {
	redistest.Long(t)
	redistest.Alone(t)
	redistest.Require(t)
	redistest.NoLeaks(t)
	s, err := MeasureStalled(t.Context(), StalledOptions{
		Faults: []string{Stopped}, Callers: []int{16}, Healthy: time.Second, Stalled: 2 * time.Second, leak: stalledGrowth / 2,
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Err(), "R26: stopped, 16 callers: the heap grew by")
}
