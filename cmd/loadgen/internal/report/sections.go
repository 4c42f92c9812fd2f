package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// noSamples takes the place of a chart over time.
const noSamples = "No samples over time were kept."

// sampled reports whether any run can be shown over time. A run from an earlier
// result cannot.
func sampled(runs []Run) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return len(r.Series) > 0 })
}

// throughput is not smoothed: a second without any pair is what a reader looks
// for.
func throughput(runs []Run, styles []style) section {
	s := section{ID: "throughput", Title: "Throughput over time",
		Note: "Pairs of an acquisition and its release per second. Each point stands in the middle of its interval." + faintNote(runs)}
	if !sampled(runs) {
		s.Note, s.Empty = "", noSamples
		return s
	}
	perSecond := func(s Sample) string { return thousands(float64(rate(s.Pairs, s.Length))) }
	s.Charts = []chart{{
		Kind: "rate", Title: "Pairs per second", Run: -1,
		Summary: summary(runs, styles, "pairs/s", func(r Run) string { return thousands(r.PerSec) + " on average" }),
		Table:   overTime("Pairs per second", perRun(runs, styles, perSecond)...),
	}}
	return s
}

// faintNote says why lines are faint, if some are.
func faintNote(runs []Run) string {
	for i := range runs {
		if !isMedian(runs, i) {
			return " Of an implementation's runs, the one with the median is drawn in full and the others are faint, in all charts."
		}
	}
	return ""
}

// percentiles covers whole runs, so it includes runs without samples.
func percentiles(runs []Run, styles []style) section {
	s := section{ID: "percentiles", Title: "Latency by percentile",
		Note: "The time within which the given share was granted, or released. 90 %, 99 % and 99.9 % are equally far apart on the axis below; " +
			"a line ends at the slowest."}
	for _, c := range []struct {
		kind, title string
		of          func(Run) Quantiles
	}{{"acquire", "Acquisition", acquired}, {"release", "Release", released}} {
		t := percentileTable(c.title, runs, styles, c.of)
		if len(t.Rows) == 0 {
			continue
		}
		s.Charts = append(s.Charts, chart{
			Kind: c.kind, Title: c.title, Run: -1, Latency: true, Table: t,
			// Two figures per run are enough for a listener; the table has the
			// rest.
			Summary: summary(runs, styles, "latency", func(r Run) string {
				p50, _ := c.of(r).at(50)
				p99, _ := c.of(r).at(99)
				return "p50 " + known(p50) + ", p99 " + known(p99)
			}),
		})
	}
	if len(s.Charts) == 0 {
		s.Note, s.Empty = "", "No latency was measured."
	}
	return s
}

// percentileTable leaves out rows that no run knows: an earlier result has few.
func percentileTable(title string, runs []Run, styles []style, of func(Run) Quantiles) *table {
	t := &table{Caption: title + ": latency by percentile", Head: runHeads("percentile", styles)}
	for _, p := range percentileRows {
		row, some := []cell{text(strconv.FormatFloat(p, 'f', -1, 64) + " %")}, false
		for _, r := range runs {
			d, ok := of(r).at(p)
			if !ok {
				row = append(row, text(unknown))
				continue
			}
			row, some = append(row, text(latency(d))), true
		}
		if some {
			t.row(row...)
		}
	}
	return t
}

// latencies has a picture for each of three quantiles. In a single picture the
// largest would flatten the others, and three lines for each run would be too
// many to follow.
func latencies(runs []Run, styles []style) section {
	s := section{ID: "latency", Title: "Acquisition latency over time",
		Note: "Of the acquisitions that ended within each interval. A gap is an interval in which none did."}
	if !sampled(runs) {
		s.Note, s.Empty = "", noSamples
		return s
	}
	for _, c := range []struct {
		kind, title string
		percentile  float64
		of          func(Sample) time.Duration
	}{
		{"p50", "Half of them took at most (p50)", 50, func(s Sample) time.Duration { return s.P50 }},
		{"p99", "99 of 100 took at most (p99)", 99, func(s Sample) time.Duration { return s.P99 }},
		{"max", "The slowest took (max)", 100, func(s Sample) time.Duration { return s.Max }},
	} {
		s.Charts = append(s.Charts, chart{
			Kind: c.kind, Title: c.title, Run: -1, Latency: true,
			Table: overTime(c.title, perRun(runs, styles, func(s Sample) string { return known(c.of(s)) })...),
			Summary: summary(runs, styles, c.kind, func(r Run) string {
				d, _ := r.Acquire.at(c.percentile)
				return known(d) + " over the whole run"
			}),
		})
	}
	return s
}

// outcomes has a picture for each run: a common one would need a line for each
// pair of run and outcome.
func outcomes(runs []Run, styles []style) section {
	s := section{ID: "outcomes", Title: "Outcomes of attempts",
		Note: "Held: another client had the lock. No quorum: too few masters could be asked. Expired: a quorum granted, but too late."}
	all := []map[string]int64{}
	for _, r := range runs {
		all = append(all, r.Outcomes)
	}
	names := outcomeNames(all...)
	if len(names) == 0 {
		s.Note, s.Empty = "", "No attempt ended."
		return s
	}
	s.Table = outcomeTable(runs, styles, names)
	for i, r := range runs {
		in := outcomeNames(outcomesOf(r.Series)...)
		if len(in) == 0 {
			continue
		}
		var columns []column
		for _, name := range in {
			columns = append(columns, column{text(outcomeTitle(name)), r.Series, func(s Sample) string {
				return digits(float64(rate(s.Outcomes[name], s.Length)))
			}})
		}
		title := "Attempts per second: " + styles[i].Name
		s.Charts = append(s.Charts, chart{
			Kind: "outcomes", Title: title, Run: i, Table: overTime(title, columns...),
			Summary: "Attempts per second by outcome of " + styles[i].Name + "; totals are in the table of outcomes.",
		})
	}
	return s
}

// outcomeTable shows the usual outcomes even if they did not occur: it is worth
// knowing that nothing failed.
func outcomeTable(runs []Run, styles []style, names []string) *table {
	for i, name := range outcomeOrder {
		if !slices.Contains(names, name) {
			names = slices.Insert(names, min(i, len(names)), name)
		}
	}
	t := &table{Caption: "Outcomes of attempts, and their share", Head: runHeads("outcome", styles)}
	for _, name := range names {
		row := []cell{text(outcomeTitle(name))}
		for _, r := range runs {
			var sum int64
			for _, n := range r.Outcomes {
				sum += n
			}
			c := text(whole(r.Outcomes[name]))
			if r.Outcomes[name] > 0 && sum > 0 {
				c.Note = digits(100*float64(r.Outcomes[name])/float64(sum)) + " %"
			}
			row = append(row, c)
		}
		t.row(row...)
	}
	return t
}

// mostCauses bounds what a server can add to the page by inventing errors.
const mostCauses = 40

// causes lists errors as reported, the most frequent first. Equals have a fixed
// order, so that two pages can be compared.
func causes(runs []Run, styles []style) section {
	s := section{ID: "errors", Title: "Errors by cause",
		Note: "A missing quorum counts each node that caused it, so there may be more causes than attempts."}
	sums := map[string]int64{}
	for _, r := range runs {
		for cause, n := range r.Errors {
			sums[cause] += n
		}
	}
	if len(sums) == 0 {
		s.Note, s.Empty = "", "There was no error."
		return s
	}
	order := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	s.Table = &table{Caption: "Errors by cause", Head: runHeads("cause", styles)}
	for _, cause := range order[:min(len(order), mostCauses)] {
		row := []cell{{Text: clip(cause, 300), Class: "long"}}
		for _, r := range runs {
			row = append(row, text(whole(r.Errors[cause])))
		}
		s.Table.row(row...)
	}
	if more := len(order) - mostCauses; more > 0 {
		s.Table.Caption += fmt.Sprintf(": the %d most frequent, %d more are left out", mostCauses, more)
	}
	return s
}

// nodeName returns the number, as faults use it, and the address if it is
// known.
func nodeName(r Run, i int) string {
	name := fmt.Sprintf("node %d", i)
	if i < len(r.Nodes) && r.Nodes[i].Addr != "" {
		name += ", " + clip(r.Nodes[i].Addr, 60)
	}
	return name
}

// nodes has a picture for each run, for the same reason as outcomes.
func nodes(runs []Run, styles []style) section {
	s := section{ID: "nodes", Title: "Time to reply of each node",
		Note:  "As the client had measured and smoothed it at that time. Nodes count from 0, as in the names of faults.",
		Table: nodeTable(runs, styles)}
	for i, r := range runs {
		in := nodesIn(r.Series)
		if in == 0 {
			continue
		}
		var columns []column
		for k := range in {
			columns = append(columns, column{text(nodeName(r, k)), r.Series,
				func(s Sample) string { return known(s.replyTime(k)) }})
		}
		title := "Time to reply: " + styles[i].Name
		s.Charts = append(s.Charts, chart{
			Kind: "nodes", Title: title, Run: i, Latency: true,
			Table:   overTime(title, columns...),
			Summary: fmt.Sprintf("Time to reply of %s in %s; the last ones are in the table of nodes.", count(in, "node"), styles[i].Name),
		})
	}
	if s.Table == nil && len(s.Charts) == 0 {
		s.Note, s.Empty = "", "Nothing is known about the nodes."
	}
	return s
}

// nodeTable shows the nodes' state at the end, or is nil if no run knows any. A
// row's heading has the address if it is the same in all runs.
func nodeTable(runs []Run, styles []style) *table {
	t := &table{Caption: "Time to reply, product and state of each node at the end of each run", Head: runHeads("node", styles)}
	most := 0
	for _, r := range runs {
		most = max(most, len(r.Nodes))
	}
	for k := range most {
		row, names := []cell{{Class: "long"}}, []string{}
		for _, r := range runs {
			if k >= len(r.Nodes) {
				row = append(row, text(unknown))
				continue
			}
			n := r.Nodes[k]
			names = append(names, nodeName(r, k))
			row = append(row, cell{Text: known(n.ReplyTime),
				Note: clip(strings.TrimSpace(n.Product+" "+n.Version+" "+n.State), 60)})
		}
		row[0].Text = fmt.Sprintf("node %d", k)
		if len(slices.Compact(names)) == 1 {
			row[0].Text = names[0]
		}
		t.row(row...)
	}
	if most == 0 {
		return nil
	}
	return t
}

// faults lists exactly, and without overlaps, what the bands in the pictures
// show.
func faults(runs []Run, styles []style) section {
	s := section{ID: "faults", Title: "Faults",
		Note: "What was done to servers while they were measured. Charts over time show it as hatched bands."}
	t := &table{Caption: "Faults, from the start of measuring", Head: []cell{text("fault"), text("run"), text("from"), text("until")}}
	for i, r := range runs {
		for _, f := range r.Faults {
			t.row(text(faultName(f)), cell{Text: styles[i].Name, Style: &styles[i]},
				text(seconds(f.At)), text(seconds(f.until())))
		}
	}
	if len(t.Rows) == 0 {
		s.Note, s.Empty = "", "No fault was injected."
		return s
	}
	s.Table = t
	return s
}

// summary describes a chart in words: the result of each run. Screen readers
// read it in one go, so it is bounded.
func summary(runs []Run, styles []style, what string, of func(Run) string) string {
	text := "Lines of " + what
	for i, r := range runs {
		text += "; " + styles[i].Name + ": " + of(r)
	}
	return clip(text, 1000) + "."
}
