package faults

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
		Ways: []string{StalledStopped}, Callers: []int{16}, Healthy: time.Second, Stalled: 2 * time.Second, leak: stalledGrowth / 2,
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Err(), "R26: stopped, 16 callers: the heap grew by")
}

// The quantiles of the pressure are true to a thirty-second part, never too small, and bounded.
func TestLatencies(t *testing.T) {
	for d := time.Duration(0); d < 70*time.Second; d = d*17/16 + 1 {
		upper := latencyOf(latencyBucket(d))
		if d >= 1<<36 {
			require.Equal(t, latencyBuckets-1, latencyBucket(d))
			continue
		}
		require.Greater(t, upper, d)
		require.LessOrEqual(t, float64(upper), float64(d)*(1+1.0/32)+1)
	}
	require.Zero(t, latencyBucket(-time.Second))
	var l latencies
	require.Zero(t, l.quantile(0.99))
	for i := range 100 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	require.InDelta(t, 99, l.quantile(0.99).Seconds()*1000, 4)
	require.InDelta(t, 50, l.quantile(0.5).Seconds()*1000, 2)
	require.InDelta(t, 1, l.quantile(0).Seconds()*1000, 0.1)
}
