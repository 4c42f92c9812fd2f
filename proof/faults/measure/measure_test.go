package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Quantiles are exact to a thirty-second part, never too small, and bounded.
func TestHistogram(t *testing.T) {
	for d := time.Duration(0); d < 70*time.Second; d = d*17/16 + 1 {
		end := endOf(bucketOf(d))
		if d >= 1<<36 {
			require.Equal(t, Buckets-1, bucketOf(d))
			continue
		}
		require.Greater(t, end, d)
		require.LessOrEqual(t, float64(end), float64(d)*(1+1.0/32)+1)
	}
	require.Zero(t, bucketOf(-time.Second))
	var h Histogram
	require.Zero(t, h.Quantile(0.99))
	for i := range 100 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	require.InDelta(t, 99, h.Quantile(0.99).Seconds()*1000, 4)
	require.InDelta(t, 50, h.Quantile(0.5).Seconds()*1000, 2)
	require.InDelta(t, 1, h.Quantile(0).Seconds()*1000, 0.1)
}
