//go:build unix

package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// page writes the table.
func page(w io.Writer, f *flags, samples []sample) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Under overload

Written by `+"`make overload`"+`. A client and %d redis-servers over TCP share %d CPUs with loops that only take CPU, each in a session of
its own: 2, 5 or 10 for each CPU. Closed loop, every caller with a resource of its own, TTL %v, one try. The implementations
take turns, with windows of %v. "Pairs" are acquired and released; "failed" are the calls that ended otherwise, of all
windows. Pairs and p99 (of an acquisition) are medians, with the least and the greatest window.

| overload | callers | | pairs/s | failed | p99, ms |
|---|---|---|---|---|---|
`, masters, runtime.NumCPU(), ttl, f.Window)
	for len(samples) > 0 {
		first := samples[0]
		same := func(s sample) bool {
			return s.Load == first.Load && s.Callers == first.Callers && s.Peer == first.Peer
		}
		row(&b, slices.Collect(filter(samples, same)))
		samples = slices.DeleteFunc(slices.Clone(samples), same)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func filter(all []sample, wanted func(sample) bool) func(func(sample) bool) {
	return func(yield func(sample) bool) {
		for _, s := range all {
			if wanted(s) && !yield(s) {
				return
			}
		}
	}
}

// row writes what came of one case of one implementation.
func row(b *strings.Builder, windows []sample) {
	var rates, tails []float64
	var pairs, failed int64
	for _, s := range windows {
		rates = append(rates, float64(s.Pairs)/s.Elapsed.Seconds())
		tails = append(tails, float64(s.P99)/float64(time.Millisecond))
		pairs += s.Pairs
		for _, n := range s.Errors {
			failed += n
		}
	}
	share := "0"
	if failed > 0 {
		share = fmt.Sprintf("%.2f %% (%d)", 100*float64(failed)/float64(pairs+failed), failed)
	}
	c := windows[0]
	fmt.Fprintf(b, "| %d × | %d | %s | %s | %s | %s |\n", c.Load, c.Callers, c.Peer, spread(rates), share, spread(tails))
}

// spread is the median, and the least and the greatest.
func spread(values []float64) string {
	slices.Sort(values)
	return fmt.Sprintf("%.0f (%.0f–%.0f)", values[len(values)/2], values[0], values[len(values)-1])
}
