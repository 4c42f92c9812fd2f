package redlock

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each time is in the bucket with its bounds; a time equal to a bound is in the
// next one.
func TestBuckets(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, 1: 0, 1023: 0, 1024: 1, 2047: 1, 2048: 2,
		time.Millisecond: 10, time.Second: 20,
		1<<36 - 1: 26, 1 << 36: 27, time.Hour: 27, math.MaxInt64: 27,
	} {
		assert.Equal(t, want, bucketOf(d), "%d ns", d)
	}
	var h Histogram
	for bucket := range lastBucket {
		assert.Equal(t, bucket, bucketOf(h.Bound(bucket)-1))
		assert.Equal(t, bucket+1, bucketOf(h.Bound(bucket)))
	}
	assert.Equal(t, time.Duration(math.MaxInt64), h.Bound(lastBucket))
}

func histogramOf(times ...time.Duration) Histogram {
	var h histogram
	for _, d := range times {
		h.record(d)
	}
	return h.snapshot()
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration // 90 of 100 µs, 9 of 1.5 ms, 1 of 3 s
	for i := range 100 {
		switch {
		case i < 90:
			hundred = append(hundred, 100*time.Microsecond)
		case i < 99:
			hundred = append(hundred, 1500*time.Microsecond)
		default:
			hundred = append(hundred, 3*time.Second)
		}
	}
	h := histogramOf(hundred...)
	for _, c := range []struct {
		q        float64
		from, to time.Duration // the estimate is above from and not above to
	}{
		{-1, 1 << 16, 1 << 17}, {0, 1 << 16, 1 << 17}, {0.5, 1 << 16, 1 << 17}, {0.9, 1 << 16, 1 << 17},
		{0.901, 1 << 20, 1 << 21}, {0.99, 1 << 20, 1 << 21},
		{0.991, 1 << 31, 1 << 32}, {1, 1 << 31, 1 << 32}, {7, 1 << 31, 1 << 32},
	} {
		got := h.Quantile(c.q)
		assert.Greater(t, got, c.from, "q=%v", c.q)
		assert.LessOrEqual(t, got, c.to, "q=%v", c.q)
	}
	assert.Less(t, h.Quantile(0.1), h.Quantile(0.9), "it is spread over the bucket")
	assert.EqualValues(t, 100, h.Total())
	assert.Equal(t, 90*100*time.Microsecond+9*1500*time.Microsecond+3*time.Second, h.Sum)

	assert.Zero(t, Histogram{}.Quantile(0.5))
	assert.Zero(t, h.Quantile(math.NaN()))
	assert.Equal(t, time.Duration(1<<36), histogramOf(time.Hour).Quantile(0.5), "of the open bucket, where it begins")
	assert.Equal(t, time.Duration(1<<10), histogramOf(5).Quantile(1))
}

// For any times, a quantile is in the bucket of the true one, and a larger part
// never has a smaller quantile.
func TestQuantileLiesInTheBucketOfTheTrueOne(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		times := make([]time.Duration, 1+rng.IntN(200))
		for i := range times {
			times[i] = time.Duration(rng.Int64N(1<<41) >> rng.IntN(41))
		}
		q := rng.Float64()
		h := histogramOf(times...)
		slices.Sort(times)
		rank := max(1, int(math.Ceil(q*float64(len(times)))))
		want := bucketOf(times[rank-1])
		got := h.Quantile(q)
		from := time.Duration(0)
		if want > 0 {
			from = h.Bound(want - 1)
		}
		if want == lastBucket {
			require.Equal(t, from, got)
			continue
		}
		require.Greater(t, got, from)
		require.LessOrEqual(t, got, h.Bound(want))
		require.LessOrEqual(t, h.Quantile(q/2), got)
	}
}

func TestHistogramAsJSON(t *testing.T) {
	h := histogramOf(time.Millisecond, time.Second)
	text, err := json.Marshal(h)
	require.NoError(t, err)
	var back Histogram
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, h, back)
}
