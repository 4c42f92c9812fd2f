package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/report"
)

// page writes the table.
func page(w io.Writer, f *flags, rows []row) error {
	t := report.Table{Head: []string{"processes", "held for", "", "grants/s", "limit", "wait p50, ms", "p99, ms", "share of a process, %"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, r.cells())
	}
	_, err := fmt.Fprintf(w, `# One resource that many want

Written by `+"`make hotkey`"+`. %d goroutines lock one resource in a loop, hold it and release it, in one process or divided
among several, with TTL %v. They and %d redis-servers over TCP share %d CPUs. The implementations take turns, with
windows of %v. Figures are medians of %d windows, with the least and the greatest; a share is that of each process in each
window, which is even at 100 by the number of processes.

A hold is a sleep, which lasts longer than it was asked for; "limit" is what one holder after another could reach with
that. `+"`do` is `Client.Do`, `acquire` is `Acquire` and `Release`, `off` the same with `Config.HandOver` off, `rueidis`"+`
the Redlock of package bench with default options, `+"`redsync`"+` that on go-redis. The latter two wait by asking again.

%s`, f.Goroutines, f.TTL, f.Masters, runtime.NumCPU(), f.For, f.Rounds, t)
	return err
}

func (r row) cells() []string {
	var grants, limits, p50, p99, shares []float64
	for _, w := range r.rounds {
		grants = append(grants, w.Grants)
		if w.Held > 0 {
			limits = append(limits, float64(time.Second)/float64(w.Held))
		}
		if w.Grants > 0 {
			p50, p99 = append(p50, milliseconds(w.P50)), append(p99, milliseconds(w.P99))
		}
		for _, s := range w.Shares {
			shares = append(shares, 100*s)
		}
	}
	cells := []string{fmt.Sprint(r.processes), r.hold.String(), r.impl}
	for _, values := range [][]float64{grants, limits, p50, p99, shares} {
		cells = append(cells, report.SpreadOf(values).String())
	}
	return cells
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
