package load

import "cmp"

// metric is a figure of a run, used to compare runs.
type metric struct {
	name   string // in --fail-if
	column string // in CSV, with the unit; empty if it equals name
	figure func(runResult) float64
	// known reports whether a run has the figure at all: the 0 of a run without
	// a grant must not be taken for a latency. If nil, every run has it.
	known func(runResult) bool
}

func (m metric) of(r runResult) bool { return m.known == nil || m.known(r) }

// counted reports whether the figure is a number of events, which grows with
// the run.
func (m metric) counted() bool { return m.known == nil && m.name != "pairs_per_s" }

func someGrant(r runResult) bool { return r.Outcomes.Granted > 0 }
func somePair(r runResult) bool  { return r.Pairs > 0 }

// runMetrics are the figures that --fail-if accepts and that CSV has as
// columns.
var runMetrics = []metric{
	{"pairs_per_s", "", func(r runResult) float64 { return r.PairsPerS }, nil},
	{"p50", "acquire_p50_us", func(r runResult) float64 { return r.AcquireUS.P50 }, someGrant},
	{"p90", "acquire_p90_us", func(r runResult) float64 { return r.AcquireUS.P90 }, someGrant},
	{"p99", "acquire_p99_us", func(r runResult) float64 { return r.AcquireUS.P99 }, someGrant},
	{"p999", "acquire_p999_us", func(r runResult) float64 { return r.AcquireUS.P999 }, someGrant},
	{"max", "acquire_max_us", func(r runResult) float64 { return r.AcquireUS.Max }, someGrant},
	{"release_p50", "release_p50_us", func(r runResult) float64 { return r.ReleaseUS.P50 }, somePair},
	{"release_p90", "release_p90_us", func(r runResult) float64 { return r.ReleaseUS.P90 }, somePair},
	{"release_p99", "release_p99_us", func(r runResult) float64 { return r.ReleaseUS.P99 }, somePair},
	{"release_p999", "release_p999_us", func(r runResult) float64 { return r.ReleaseUS.P999 }, somePair},
	{"release_max", "release_max_us", func(r runResult) float64 { return r.ReleaseUS.Max }, somePair},
	{"allocs_per_pair", "", func(r runResult) float64 { return r.AllocsPerPair }, somePair},
	{"bytes_per_pair", "", func(r runResult) float64 { return r.BytesPerPair }, somePair},
	{"cpu_us_per_pair", "", func(r runResult) float64 { return r.CPUUSPerPair }, somePair},
	{"granted", "", func(r runResult) float64 { return float64(r.Outcomes.Granted) }, nil},
	{"held", "", func(r runResult) float64 { return float64(r.Outcomes.Held) }, nil},
	{"noquorum", "", func(r runResult) float64 { return float64(r.Outcomes.NoQuorum) }, nil},
	{"expired", "", func(r runResult) float64 { return float64(r.Outcomes.Expired) }, nil},
	{"cancelled", "", func(r runResult) float64 { return float64(r.Outcomes.Cancelled) }, nil},
	{"error", "", func(r runResult) float64 { return float64(r.Outcomes.Error) }, nil},
	{"violations", "", func(r runResult) float64 { return float64(r.Violations) }, nil},
	{"late", "", func(r runResult) float64 { return float64(r.Late) }, nil},
	{"not_begun", "", func(r runResult) float64 { return float64(r.NotBegun) }, nil},
}

func metricNames() (names []string) {
	for _, m := range runMetrics {
		names = append(names, m.name)
	}
	return names
}

// columnNames returns the names of the CSV columns.
func columnNames() (names []string) {
	for _, m := range runMetrics {
		names = append(names, cmp.Or(m.column, m.name))
	}
	return names
}

// findMetric accepts either name of a metric.
func findMetric(name string) (metric, bool) {
	for _, m := range runMetrics {
		if name == m.name || name == m.column {
			return m, true
		}
	}
	return metric{}, false
}
