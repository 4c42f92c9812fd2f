package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency records durations from 64 ns to an hour, within one per cent: an
// attempt of an open loop may wait for its turn for that long. It keeps two
// digits and not three, because a thousand callers with two histograms each
// would otherwise keep hundreds of megabytes alive, and a heap of that size
// hides the cost of garbage.
type latency struct{ *hdrhistogram.Histogram }

const longest = time.Hour

func newLatency() latency { return latency{hdrhistogram.New(64, int64(longest), 2)} }

// record counts a duration above longest as longest.
func (l latency) record(d time.Duration) { l.RecordValue(int64(min(d, longest))) }

// quantiles are in microseconds; all are 0 if nothing was recorded.
type quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// quantiles are exact to the histogram's one per cent.
func (l latency) quantiles() quantiles {
	if l.TotalCount() == 0 {
		return quantiles{}
	}
	at := func(percentile float64) float64 { return float64(l.ValueAtPercentile(percentile)) / 1e3 }
	return quantiles{at(50), at(90), at(99), at(99.9), float64(l.Max()) / 1e3}
}
