package report

import (
	"fmt"
	"math"
	"slices"
)

// A headline summarizes an implementation: medians over its runs.
type headline struct {
	Name    string
	Runs    string // "median of 3 runs", or "1 run"
	Color   int
	Figures []fact // the first is shown large
}

// headlined are the metrics of a headline.
var headlined = []string{"pairs/s", "acquire p50", "acquire p99", "CPU µs/pair"}

// headlines returns one headline per implementation, in the order of their
// first runs. All but the first show ratios to the first. Runs of an earlier
// result count separately.
func headlines(runs []Run, styles []style) (all []headline) {
	groups := [][]Run{}
	colors := []int{}
	for i, r := range runs {
		place := slices.IndexFunc(groups, func(g []Run) bool { return g[0].Impl == r.Impl && g[0].Earlier == r.Earlier })
		if place < 0 {
			groups, colors = append(groups, []Run{r}), append(colors, styles[i].Color)
			continue
		}
		groups[place] = append(groups[place], r)
	}
	for i, g := range groups {
		h := headline{Name: implName(g[0]), Runs: count(len(g), "run"), Color: colors[i]}
		if len(g) > 1 {
			h.Runs = "median of " + h.Runs
		}
		for _, m := range metrics {
			if slices.Contains(headlined, m.name) {
				h.Figures = append(h.Figures, m.headline(g, groups[0], i > 0))
			}
		}
		h.Figures = append(h.Figures, granted(g))
		all = append(all, h)
	}
	return all
}

// implName returns the name of an implementation whose runs are summarized.
func implName(r Run) string {
	name := clip(r.Impl, 60)
	if name == "" {
		name = "run"
	}
	if r.Earlier {
		name += " (earlier)"
	}
	return name
}

// headline returns the median over the runs, with its ratio to that of the
// first implementation if this is another one.
func (m metric) headline(runs, first []Run, other bool) fact {
	x, ok := m.median(runs)
	if !ok {
		return fact{Name: m.name, Text: unknown}
	}
	f := fact{Name: m.name, Text: m.write(x)}
	if y, ok := m.median(first); ok && other && y > 0 {
		f.Note, _ = ratio(x/y, m.moreGood)
	}
	return f
}

// median returns the median over the runs that have the figure, and false if
// none has.
func (m metric) median(runs []Run) (float64, bool) {
	var known []float64
	for _, r := range runs {
		if x, ok := m.figure(r); ok {
			known = append(known, x)
		}
	}
	if len(known) == 0 {
		return 0, false
	}
	slices.Sort(known)
	n := len(known)
	return (known[(n-1)/2] + known[n/2]) / 2, true
}

// granted returns the share of attempts that got the lock, over all runs. It is
// rounded down: a failed attempt among millions must not read 100 %.
func granted(runs []Run) fact {
	var got, all int64
	for _, r := range runs {
		for name, n := range r.Outcomes {
			all += n
			if name == "granted" {
				got += n
			}
		}
	}
	f := fact{Name: "granted", Text: unknown}
	if all > 0 {
		f.Text = fmt.Sprintf("%g %%", math.Floor(1000*float64(got)/float64(all))/10)
	}
	return f
}
