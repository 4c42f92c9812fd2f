//go:build unix

package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/report"
)

// page writes the table.
func page(w io.Writer, f *flags, samples []sample) error {
	samples = slices.Clone(samples)
	slices.SortStableFunc(samples, func(a, b sample) int {
		return cmp.Or(a.Load-b.Load, a.Callers-b.Callers, slices.Index(f.Peers, a.Peer)-slices.Index(f.Peers, b.Peer))
	})
	t := report.Table{Head: []string{"overload", "callers", "", "windows", "pairs/s", "failed", "p99, ms"}}
	for len(samples) > 0 {
		first, n := samples[0], 1
		for n < len(samples) && samples[n].isLike(first) {
			n++
		}
		t.Rows = append(t.Rows, row(samples[:n]))
		samples = samples[n:]
	}
	_, err := fmt.Fprintf(w, `# Under overload

Written by `+"`make overload`"+`. A client and %d redis-servers over TCP share %d CPUs with loops that only take CPU, each in a session of
its own: 2, 5 or 10 for each CPU. Closed loop, every caller with a resource of its own, TTL %v, one try. The implementations
take turns, with windows of %v. "Pairs" are acquired and released; "failed" are the calls that ended otherwise, of all
windows. Pairs and p99 (of an acquisition) are medians, with the least and the greatest window.

%s`, masters, runtime.NumCPU(), ttl, f.Window, t)
	return err
}

// isLike reports whether both are of the same case and implementation.
func (s sample) isLike(t sample) bool {
	return s.Load == t.Load && s.Callers == t.Callers && s.Peer == t.Peer
}

// row has what came of one case of one implementation.
func row(windows []sample) []string {
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
	return []string{
		fmt.Sprintf("%d ×", c.Load), fmt.Sprint(c.Callers), c.Peer, fmt.Sprint(len(windows)),
		report.SpreadOf(rates).String(), share, report.SpreadOf(tails).String(),
	}
}
