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
	t := report.Table{Head: []string{"kind", "by", "callers", "grants/s", "wait p50, ms", "p99, ms", "longest, ms", "commands per grant"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, r.cells())
	}
	_, err := fmt.Fprintf(w, `# Kinds of lock, on one resource

Written by %s. %d clients, each with connections of its own, as processes have, take one resource in a loop,
hold it for %v and release it, with TTL %v. They and %d redis-servers over TCP share %d CPUs. The contestants of a kind
take turns, with windows of %v. Figures are medians of %d windows, with the least and the greatest. Waits that the end
of a window cut short are among them. Commands are those of all masters together, with those that scripts call.

No other library that can be run here has these kinds on several masters. So each is measured beside what is done
without it: a fair lock beside waiting in no order, a lock of readers and writers beside one that all exclude each
other by, a permit beside one of as many locks, chosen at random. redsync asks again after 50 to 250 ms.

%s`, "`make kinds`", f.Clients, f.Hold, f.TTL, f.Masters, runtime.NumCPU(), f.For, f.Rounds, t)
	return err
}

func (r row) cells() []string {
	columns := make([][]float64, 5)
	for _, w := range r.rounds {
		for i, x := range []float64{w.Grants, milliseconds(w.P50), milliseconds(w.P99), milliseconds(w.Longest), w.Commands} {
			columns[i] = append(columns[i], x)
		}
	}
	cells := []string{r.kind, r.contestant, r.class}
	for _, values := range columns {
		cells = append(cells, report.SpreadOf(values).String())
	}
	return cells
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
