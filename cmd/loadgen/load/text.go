package load

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeText prints the result for human readers.
func (r result) writeText(w io.Writer, f *flags, remark string) error {
	out := &strings.Builder{}
	if len(r.Runs) > 0 {
		if remark != "" {
			fmt.Fprintln(out, remark)
		}
		fmt.Fprintf(out, "%s\n%s\n%s\n", describeNodes(r.Runs[0]), describeWork(f), describeLoop(f))
		if r.Interrupted {
			fmt.Fprintln(out, interruptedRemark)
		}
		writeTables(out, r.Runs)
		writeErrors(out, r.Runs)
		writeFaults(out, r.Runs)
		writeRatios(out, f.Impl, r.Runs)
		writeComparison(out, f, r)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// describeNodes says what was measured: "5 spawned nodes: redis 7.0.15".
func describeNodes(r runResult) string {
	var kinds []string
	for _, n := range r.Nodes {
		kind := strings.TrimSpace(n.Server + " " + n.Version)
		if kind == "" {
			kind = "one that did not answer"
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return fmt.Sprintf("%s: %s", count(r.N, r.Backend+" node"), strings.Join(kinds, ", "))
}

// describeWork says what the callers did, so that a saved result can be
// understood and repeated without its command line.
func describeWork(f *flags) string {
	what := "each its own resource"
	if f.Keys > 0 {
		what = count(f.Keys, "resource") + " for all"
		if f.Kind.several > 0 {
			what = fmt.Sprintf("%d of %s at once", f.Kind.several, what)
		}
		if f.Dist.exponent > 0 {
			what += " (" + f.Dist.String() + ")"
		}
	}
	if f.Kind.rw || f.Kind.fair || f.Kind.permits > 0 {
		what += ", " + f.Kind.String()
	}
	s := fmt.Sprintf("%s in a closed loop, %s, TTL %v", count(f.Clients, "caller"), what, f.TTL)
	if f.Rate > 0 {
		s = fmt.Sprintf("%s in an open loop of %s attempts/s, %s, TTL %v", count(f.Clients, "caller"), plain(f.Rate), what, f.TTL)
	}
	if f.Hold.mean > 0 {
		s += fmt.Sprintf(", held for %v", f.Hold.mean)
		if f.Hold.random {
			s += " on average"
		}
	}
	if f.Wait > 0 {
		s += fmt.Sprintf(", tries for %v", f.Wait)
	}
	if f.CancelAfter > 0 {
		s += fmt.Sprintf(", cancelled after %v", f.CancelAfter)
	}
	if f.MaxTTL > 0 {
		s += fmt.Sprintf(", at most %v", f.MaxTTL)
	}
	if f.Keys > 1 || f.Hold.random {
		s += fmt.Sprintf(", seed %d", f.Seed)
	}
	return s
}

// describeLoop says from when latencies count, since figures of the two kinds
// of loop cannot be compared.
func describeLoop(f *flags) string {
	if f.Rate > 0 {
		return "Open loop: latencies count from the intended start of each attempt, so waiting for a free caller is in them. Attempts that were not granted have none."
	}
	return "Closed loop: each caller begins an attempt when its last one is over, so work that would have queued up meanwhile is not in the latencies; --rate makes an open loop. Attempts that were not granted have none."
}

// writeTables prints throughput, latencies and outcomes in separate tables: a
// single line per run would be wider than a terminal.
func writeTables(out io.Writer, runs []runResult) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }

	row("\nrun", "implementation", "pairs/s", "CPU µs/pair", "allocs/pair", "bytes/pair")
	for i, r := range runs {
		ok := somePair(r)
		row(fmt.Sprint(i+1), r.Impl, thousands(r.PairsPerS), known(ok, r.CPUUSPerPair), known(ok, r.AllocsPerPair), known(ok, r.BytesPerPair))
	}
	t.Flush()
	row("\nrun", "latency in µs", "p50", "p90", "p99", "p99.9", "max")
	for i, r := range runs {
		for _, l := range []struct {
			name string
			ok   bool
			quantiles
		}{{"acquire", someGrant(r), r.AcquireUS}, {"release", somePair(r), r.ReleaseUS}} {
			row(fmt.Sprint(i+1), r.Impl+" "+l.name, known(l.ok, l.P50), known(l.ok, l.P90), known(l.ok, l.P99), known(l.ok, l.P999), known(l.ok, l.Max))
		}
	}
	t.Flush()
	row("\nrun", "outcomes", "granted", "held", "no quorum", "expired", "cancelled", "error", "violations")
	for i, r := range runs {
		o := r.Outcomes
		row(fmt.Sprint(i+1), r.Impl, fmt.Sprint(o.Granted), fmt.Sprint(o.Held), fmt.Sprint(o.NoQuorum),
			fmt.Sprint(o.Expired), fmt.Sprint(o.Cancelled), fmt.Sprint(o.Error), fmt.Sprint(r.Violations))
	}
	t.Flush()
}

// writeErrors lists why attempts and releases failed. A missing quorum counts
// each node that caused it, so the numbers may exceed those of the attempts.
func writeErrors(out io.Writer, runs []runResult) {
	for i, r := range runs {
		for _, cause := range sortedCauses(r.Errors) {
			fmt.Fprintf(out, "\nrun %d: %d × %s", i+1, r.Errors[cause], cause)
		}
		if len(r.Errors) > 0 {
			fmt.Fprintln(out)
		}
	}
}

// writeFaults lists the faults of the servers, and what an open loop did not do
// in time.
func writeFaults(out io.Writer, runs []runResult) {
	for i, r := range runs {
		for _, f := range r.Faults {
			fmt.Fprintf(out, "\nrun %d: fault: after %.3fs %s of node %d for %.3fs", i+1, f.AtS, f.Kind, f.Node, f.LengthS)
		}
		if r.Late+r.NotBegun > 0 {
			fmt.Fprintf(out, "\nrun %d: of the attempts of the open loop %d began more than %v late", i+1, r.Late, lateness)
			if r.NotBegun > 0 {
				fmt.Fprintf(out, ", %d not at all, so no latency counts these", r.NotBegun)
			}
			fmt.Fprint(out, ": the callers were busy, or the machine was")
		}
		for _, f := range r.FaultsNotMade {
			fmt.Fprintf(out, "\nrun %d: --fault %s was not made: the run was over before", i+1, f)
		}
		if len(r.Faults)+len(r.FaultsNotMade) > 0 || r.Late+r.NotBegun > 0 {
			fmt.Fprintln(out)
		}
	}
}

// sortedCauses puts the most frequent first. Equals have a fixed order, so that
// two results can be compared line by line.
func sortedCauses(errors map[string]int64) []string {
	var names []string
	for name := range errors {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(errors[b], errors[a]), strings.Compare(a, b))
	})
	return names
}

// writeRatios compares the first implementation with each of the others.
func writeRatios(out io.Writer, impls []string, runs []runResult) {
	for _, other := range impls[min(1, len(impls)):] {
		a, b := runsOf(runs, impls[0]), runsOf(runs, other)
		if len(a) == 0 || len(b) == 0 {
			continue // interrupted before that run
		}
		fmt.Fprintf(out, "\n%s to %s: pairs/s × %s, acquire p50 × %s, p99 × %s, CPU per pair × %s", impls[0], other,
			ratio(a, b, func(r runResult) float64 { return r.PairsPerS }),
			ratio(a, b, func(r runResult) float64 { return r.AcquireUS.P50 }),
			ratio(a, b, func(r runResult) float64 { return r.AcquireUS.P99 }),
			ratio(a, b, func(r runResult) float64 { return r.CPUUSPerPair }))
	}
	if len(impls) > 1 {
		fmt.Fprintln(out, "\n(ratios of the medians; in brackets the least and the greatest among the pairs of neighbouring runs)")
	}
}

// runsOf returns the runs of one implementation, in order.
func runsOf(runs []runResult, impl string) (of []runResult) {
	for _, r := range runs {
		if r.Impl == impl {
			of = append(of, r)
		}
	}
	return of
}

// ratio returns the ratio of the medians of one figure, and the spread of the
// ratios of runs that were close in time, which changes of the machine affect
// less.
func ratio(a, b []runResult, figure func(runResult) float64) string {
	x, y := figures(a, figure), figures(b, figure)
	if slices.Contains(x, 0) || slices.Contains(y, 0) {
		return "?" // a run without a pair
	}
	least, greatest := math.Inf(1), math.Inf(-1)
	for i := range min(len(x), len(y)) {
		least, greatest = min(least, x[i]/y[i]), max(greatest, x[i]/y[i])
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(x)/median(y), least, greatest)
}

func figures(runs []runResult, figure func(runResult) float64) (all []float64) {
	for _, r := range runs {
		all = append(all, figure(r))
	}
	return all
}

// median returns the middle value, or the mean of the two in the middle.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// count formats a number of things, with the right plural.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// number formats small figures with a digit or two after the point: a
// measurement of this kind has three significant digits.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// known formats a dash if there is no figure: a latency of 0 would be the best.
func known(ok bool, x float64) string {
	if !ok {
		return "–"
	}
	return number(x)
}

// thousands formats a whole number with commas.
func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
