package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A metric is a row of the comparison.
type metric struct {
	name     string
	figure   func(Run) (float64, bool) // false if the run does not know the figure
	write    func(float64) string
	moreGood bool // otherwise less is good
	bar      bool
}

// metrics are in the order of interest: how much, how long, at what cost.
var metrics = []metric{
	{
		name: "pairs/s", write: thousands, moreGood: true, bar: true,
		figure: func(r Run) (float64, bool) { return r.PerSec, finite(r.PerSec) },
	},
	ofQuantiles("acquire p50", acquired, 50),
	ofQuantiles("acquire p90", acquired, 90),
	ofQuantiles("acquire p99", acquired, 99),
	ofQuantiles("acquire p99.9", acquired, 99.9),
	ofQuantiles("acquire max", acquired, 100),
	ofQuantiles("release p50", released, 50),
	ofQuantiles("release p99", released, 99),
	ofQuantiles("release max", released, 100),
	perPair("CPU µs/pair", func(r Run) float64 { return r.CPUMicrosPerPair }),
	perPair("allocs/pair", func(r Run) float64 { return r.AllocsPerPair }),
	perPair("bytes/pair", func(r Run) float64 { return r.BytesPerPair }),
}

func acquired(r Run) Quantiles { return r.Acquire }
func released(r Run) Quantiles { return r.Release }

// ofQuantiles returns the metric of a percentile, of latencies in nanoseconds.
func ofQuantiles(name string, of func(Run) Quantiles, percentile float64) metric {
	return metric{
		name: name,
		figure: func(r Run) (float64, bool) {
			d, ok := of(r).at(percentile)
			return float64(d), ok
		},
		write: func(x float64) string { return latency(time.Duration(x)) },
	}
}

// perPair is unknown for a run without pairs, whatever its field says.
func perPair(name string, figure func(Run) float64) metric {
	return metric{name: name, write: digits, figure: func(r Run) (float64, bool) {
		x := figure(r)
		return x, finite(x) && r.Pairs > 0
	}}
}

// comparison shows the runs side by side, with ratios to the first.
func comparison(runs []Run, styles []style) section {
	s := section{ID: "runs", Title: "Runs compared"}
	if len(runs) == 0 {
		s.Empty = "There is no run: the measurement ended before the first."
		return s
	}
	t := &table{Caption: "Throughput, latency and cost of each run", Head: runHeads("", styles)}
	if len(runs) > 1 {
		t.Ratios = true
		s.Note = fmt.Sprintf("Ratios are to %s, the first run. A triangle points up where a figure is more than 5 %% greater, "+
			"down where it is that much smaller; it is filled where that is better.", styles[0].Name)
	} else {
		s.Title, t.Single = "The run", true
	}
	for _, m := range metrics {
		t.row(m.row(runs, styles)...)
	}
	counts := func(name string, of func(Run) int64) {
		row := []cell{text(name)}
		for _, r := range runs {
			row = append(row, text(whole(of(r))))
		}
		t.row(row...)
	}
	counts("pairs", func(r Run) int64 { return r.Pairs })
	counts("callers", func(r Run) int64 { return int64(r.Callers) })
	row := []cell{text("duration")}
	for _, r := range runs {
		row = append(row, text(seconds(r.Duration)))
	}
	t.row(row...)
	if slices.ContainsFunc(runs, func(r Run) bool { return r.Late+r.NotBegun > 0 }) {
		counts("attempts begun late", func(r Run) int64 { return r.Late })
		counts("attempts not begun", func(r Run) int64 { return r.NotBegun })
	}
	counts("violations of exclusion", func(r Run) int64 { return r.Violations })
	for i := range t.Rows[len(t.Rows)-1] {
		if i > 0 && runs[i-1].Violations > 0 {
			t.Rows[len(t.Rows)-1][i].Class = "bad"
		}
	}
	s.Table = t
	return s
}

// row has a bar proportional to the largest figure, and a ratio only if the
// first run's figure is not zero.
func (m metric) row(runs []Run, styles []style) []cell {
	cells := []cell{text(m.name)}
	greatest := 0.0
	for _, r := range runs {
		if x, ok := m.figure(r); ok {
			greatest = max(greatest, x)
		}
	}
	first, hasFirst := m.figure(runs[0])
	for i, r := range runs {
		x, ok := m.figure(r)
		if !ok {
			cells = append(cells, text(unknown))
			continue
		}
		c := text(m.write(x))
		if m.bar && greatest > 0 {
			c.Bar = &bar{int(math.Round(100 * max(0, x) / greatest)), styles[i].Color}
		}
		if i > 0 && hasFirst && first > 0 {
			c.Note, c.Class = ratio(x/first, m.moreGood)
		}
		cells = append(cells, c)
	}
	return cells
}

// ratio formats a ratio. The sign shows the direction without colors. A ratio
// within 5 % is unmarked, so that small differences do not catch the eye.
func ratio(x float64, moreGood bool) (note, class string) {
	note = "× " + digits(x)
	switch {
	case math.Abs(x-1) <= 0.05:
		return note, ""
	case x > 1 && moreGood:
		return note + " ▲", "better"
	case x > 1:
		return note + " △", "worse"
	case moreGood:
		return note + " ▽", "worse"
	}
	return note + " ▼", "better"
}
