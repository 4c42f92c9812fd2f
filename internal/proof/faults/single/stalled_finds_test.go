package single

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// The measurement finds what it is there for: memory that is lost while a node is silent. What is lost at one look is half
// of what is allowed, and four of them at least come before the last look.
func TestStalledFindsALeak_R26(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	s, err := MeasureStalled(t.Context(), StalledOptions{
		Faults: []string{Stopped}, Callers: []int{16}, Healthy: time.Second, Stalled: 2 * time.Second, leak: stalledGrowth / 2,
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Err(), "R26: stopped, 16 callers: the heap grew by")
}
