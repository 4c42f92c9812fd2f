package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A view is the page as the template writes it: every figure is text, and every
// decision whether to show something is made.
type view struct {
	assets
	Title     string
	Made      string
	Facts     []fact
	Headlines []headline
	Warnings  []warning
	Runs      []style // in the order of the page; index i is run i of the charts
	Sections  []section
	Data      chartData
}

func (v view) with(a assets) view {
	v.assets = a
	return v
}

// A fact is a measured value or a setting.
type fact struct{ Name, Text, Note string }

// A section is a heading with its content. Empty says so if there are no
// figures.
type section struct {
	ID, Title, Note string
	Table           *table
	Charts          []chart
	Empty           string
}

// A chart is drawn by the script from view.Data, which it finds by Kind and
// Run. The table contains everything that it shows.
type chart struct {
	Kind, Title string
	Run         int    // -1: all runs in one picture
	Summary     string // for readers who cannot see it
	Latency     bool   // of the vertical axis; it may be logarithmic
	Table       *table
}

// newView has the same sections in the same order for every result, so that two
// pages can be compared.
func newView(p Page) view {
	v := view{Title: clip(p.Title, 2000), Facts: facts(p), Warnings: warnings(p), Runs: styles(p.Runs)}
	if !p.Made.IsZero() {
		v.Made = p.Made.UTC().Format("2 January 2006, 15:04:05 UTC")
	}
	v.Headlines = headlines(p.Runs, v.Runs)
	v.Data = newChartData(p.Runs, v.Runs)
	v.Sections = []section{
		comparison(p.Runs, v.Runs),
		throughput(p.Runs, v.Runs),
		percentiles(p.Runs, v.Runs),
		latencies(p.Runs, v.Runs),
		outcomes(p.Runs, v.Runs),
		causes(p.Runs, v.Runs),
		nodes(p.Runs, v.Runs),
		faults(p.Runs, v.Runs),
	}
	return v
}

// A style is the name of a run and how it is drawn. An implementation has one
// color for all its runs, and each run a pattern of dashes, which tells lines
// apart on paper, or without seeing colors.
type style struct {
	Name        string
	Color, Dash int
	Faint       bool // another run of the implementation has its median
}

// page.css and charts.js have as many of each.
const (
	colors = 6
	dashes = 5
)

func styles(runs []Run) (all []style) {
	var kinds []string
	for i, r := range runs {
		name, kind := clip(r.Impl, 60), r.Impl
		if name == "" {
			name = "run"
		}
		name += fmt.Sprintf(" #%d", r.Number)
		if r.Earlier {
			name, kind = name+" (earlier)", kind+" (earlier)"
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		all = append(all, style{Name: name, Color: slices.Index(kinds, kind) % colors, Dash: i % dashes, Faint: !isMedian(runs, i)})
	}
	return all
}

// isMedian reports whether a run has the median of the pairs per second of its
// implementation's, or the lower one of two in the middle.
func isMedian(runs []Run, i int) bool {
	var like []int
	for k, r := range runs {
		if r.Impl == runs[i].Impl && r.Earlier == runs[i].Earlier {
			like = append(like, k)
		}
	}
	slices.SortStableFunc(like, func(a, b int) int { return cmp.Compare(runs[a].PerSec, runs[b].PerSec) })
	return like[(len(like)-1)/2] == i
}

// facts describe with what the figures can be compared.
func facts(p Page) []fact {
	backends := map[string]string{
		"remote": "The masters named on the command line, over the network between them and this program.",
		"spawned": "Servers that loadgen started on its own machine for this measurement: no network, " +
			"and the processor is shared with them.",
		"embedded": "Stand-ins inside the measuring process, no servers: the figures say nothing about real ones.",
	}
	f := []fact{
		{"Backend", clip(p.Backend, 80), backends[p.Backend]},
		{"Loop", clip(p.Loop, 80), loopNote(p.Loop)},
	}
	var now []Run // an earlier run may have had other settings
	for _, r := range p.Runs {
		if !r.Earlier {
			now = append(now, r)
		}
	}
	if len(now) == 0 {
		return append(f, fact{"Runs", "none", "Nothing was measured."})
	}
	f = append(f,
		fact{"Runs", distinct(now, func(r Run) string { return clip(r.Impl, 60) }), count(len(now), "run") + earlierNote(len(p.Runs)-len(now))},
		fact{"Callers", distinct(now, func(r Run) string { return whole(int64(r.Callers)) }), "That worked at once."},
		fact{"Duration", distinct(now, func(r Run) string { return seconds(r.Duration) }), "Of each run, without its warm-up."})
	if products := distinct(now, productsOf); products != "" {
		f = append(f, fact{"Nodes", products, "The masters of a lock."})
	}
	return f
}

// earlierNote keeps runs of another day from being mistaken for these.
func earlierNote(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d read from an earlier result", n)
}

// loopNote says what the latencies of such a loop leave out.
func loopNote(loop string) string {
	switch {
	case strings.HasPrefix(loop, "closed"):
		return "A caller starts its next attempt when the last has ended, so a slow answer delays those behind it " +
			"and is counted once. Latencies are of the attempts that were made."
	case strings.HasPrefix(loop, "open"):
		return "Attempts start at a fixed rate, regardless of earlier ones. Latency counts from the intended start, " +
			"waiting included."
	}
	return ""
}

// productsOf counts a run's servers by product: "5 × valkey 9.1.2".
func productsOf(r Run) string {
	var kinds []string
	of := map[string]int{}
	for _, n := range r.Nodes {
		kind := clip(strings.TrimSpace(n.Product+" "+n.Version), 60)
		if kind == "" {
			kind = "unknown"
		}
		if of[kind]++; of[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d × %s", of[kind], kind)
	}
	return strings.Join(kinds, ", ")
}

// distinct lists the texts of the runs, each once; after a few it only counts
// the rest.
func distinct(runs []Run, text func(Run) string) string {
	var all []string
	for _, r := range runs {
		if s := text(r); s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	const most = 12
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("%d more", len(all)-most))
	}
	return strings.Join(all, ", ")
}

// A warning is what every reader must see. A mild one is amber.
type warning struct {
	Text string
	Mild bool
}

// rare is the share of attempts up to which lateness is mild: it hides nothing
// but the last percentiles.
const rare = 0.01

func warnings(p Page) (all []warning) {
	for _, r := range p.Remarks {
		all = append(all, warning{clip(r, 300), false})
	}
	runs, named := p.Runs, styles(p.Runs)
	for i, r := range runs {
		if r.Violations > 0 {
			all = append(all, warning{fmt.Sprintf("Mutual exclusion was violated in %s: %s.", named[i].Name, times(r.Violations)), false})
		}
		attempts := r.NotBegun
		for _, n := range r.Outcomes {
			attempts += n
		}
		mild := float64(r.NotBegun) <= rare*float64(attempts)
		if r.NotBegun > 0 {
			all = append(all, warning{fmt.Sprintf("In %s %s of the open loop were due and had not begun at the end: no latency counts them.",
				named[i].Name, count(int(r.NotBegun), "attempt")), mild})
		}
	}
	return all
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return whole(n) + " times"
}

// axisTime returns a sample's position on the axis of time: its middle.
func axisTime(s Sample) num { return num((s.At - s.Length/2).Seconds()) }

// faultName names the fault and the node: "stop node 2".
func faultName(f Fault) string {
	return fmt.Sprintf("%s node %d", clip(f.Kind, 40), f.Node)
}

// until returns the end of a fault; one without a length is a moment.
func (f Fault) until() time.Duration { return f.At + max(0, f.Length) }
