package report

import (
	"time"

	"github.com/redmux/redmux/bench/compare/internal/window"
)

// A metric is a figure that is taken from a window.
type metric struct {
	name string
	unit string
	// more is set if more of it is better; otherwise it is a cost.
	more bool
	// trifle is a value below which the figure counts as zero: for example the
	// runtime's own allocations, spread over the pairs of a window.
	trifle float64
	// of reports false if the window does not have the figure.
	of func(r window.Result) (float64, bool)
}

var (
	throughput = metric{name: "pairs per second", more: true, of: func(r window.Result) (float64, bool) {
		return float64(r.Pairs) / r.Elapsed.Seconds(), r.Elapsed > 0
	}}
	p50       = latency("p50 of an acquisition", func(r window.Result) time.Duration { return r.P50 })
	p99       = latency("p99 of an acquisition", func(r window.Result) time.Duration { return r.P99 })
	p999      = latency("p99.9 of an acquisition", func(r window.Result) time.Duration { return r.P999 })
	clientCPU = perPair("client CPU per pair", "µs", func(r window.Result) (float64, bool) {
		return microseconds(r.ClientCPU), r.ClientCPU > 0 // zero where the system does not tell
	})
	serversCPU = perPair("servers' CPU per pair", "µs", func(r window.Result) (float64, bool) {
		if r.ServersCPU == nil {
			return 0, false
		}
		return microseconds(*r.ServersCPU), true
	})
	// A window's few allocations that belong to no pair are some tens, of a
	// kilobyte or so, over thousands of pairs.
	mallocs = trifling(0.05, perPair("allocations per pair", "", func(r window.Result) (float64, bool) {
		return float64(r.Mallocs), true
	}))
	bytes = trifling(8, perPair("bytes allocated per pair", "B", func(r window.Result) (float64, bool) {
		return float64(r.Bytes), true
	}))
	syscalls = metric{name: "system calls per pair", of: func(r window.Result) (float64, bool) {
		if r.CountedFor <= 0 || r.Pairs == 0 || r.Elapsed <= 0 {
			return 0, false
		}
		// The count and the window are not of the same length: it is the rates
		// that are divided.
		perSecond := float64(r.Syscalls) / r.CountedFor.Seconds()
		return perSecond / (float64(r.Pairs) / r.Elapsed.Seconds()), true
	}}
	collections = metric{name: "garbage collections", unit: "1/s", of: func(r window.Result) (float64, bool) {
		return float64(r.Collections) / r.Elapsed.Seconds(), r.Elapsed > 0
	}}
	goroutines = metric{name: "goroutines", of: func(r window.Result) (float64, bool) {
		return float64(r.Goroutines), r.Goroutines > 0
	}}
	longestGap = metric{name: "longest time without a grant", unit: "ms", of: func(r window.Result) (float64, bool) {
		return microseconds(r.Gap) / 1000, r.Gap > 0
	}}
)

func latency(name string, of func(r window.Result) time.Duration) metric {
	return metric{name: name, unit: "µs", of: func(r window.Result) (float64, bool) {
		d := of(r)
		return microseconds(d), d > 0
	}}
}

// perPair divides what a window used by its pairs. Without pairs the figure is
// unknown.
func perPair(name, unit string, of func(r window.Result) (float64, bool)) metric {
	return metric{name: name, unit: unit, of: func(r window.Result) (float64, bool) {
		sum, known := of(r)
		return sum / float64(r.Pairs), known && r.Pairs > 0
	}}
}

func trifling(trifle float64, m metric) metric {
	m.trifle = trifle
	return m
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
