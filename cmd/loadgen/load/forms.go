package load

import (
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
)

// writeCSV prints one row per run, under a row of names. Scripts read them: new
// columns go to the end, and none is renamed. Names are those of the JSON
// result, joined with "_" where it nests (docs/cli.md).
func (r result) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	header := []string{"impl", "backend", "n", "clients", "loop", "rate", "duration_s", "pairs"}
	out.Write(append(header, columnNames()...))
	for _, run := range r.Runs {
		row := []string{run.Impl, run.Backend, strconv.Itoa(run.N), strconv.Itoa(run.Clients), run.Loop, plain(run.Rate), plain(run.DurationS), strconv.FormatInt(run.Pairs, 10)}
		for _, m := range runMetrics {
			row = append(row, plain(m.figure(run)))
		}
		out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// plain formats a figure with all its digits and without an exponent.
func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// writeBench prints each run as a line of Go's benchmark format, so that
// benchstat compares two files of them:
// https://go.dev/design/14313-benchmark-format. Unlike in most benchmarks, many
// callers run operations at once: ns/op is the time of the run divided by its
// pairs.
func (r result) writeBench(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "goos: %s\ngoarch: %s\npkg: github.com/redmux/redmux/cmd/loadgen\n", runtime.GOOS, runtime.GOARCH)
	fmt.Fprintln(out, "Unit pairs/s better=higher")
	for _, run := range r.Runs {
		if run.Pairs == 0 {
			continue // 0 ns/op would be the best figure of all
		}
		fmt.Fprintf(out, "BenchmarkAcquireRelease/impl=%s/backend=%s/nodes=%d/callers=%d/loop=%s", run.Impl, run.Backend, run.N, run.Clients, run.Loop)
		if run.Rate > 0 {
			fmt.Fprintf(out, "/rate=%s", plain(run.Rate))
		}
		fmt.Fprintf(out, "-%d\t%d", runtime.GOMAXPROCS(0), run.Pairs)
		figures := []benchFigure{
			{per(run.DurationS*1e9, run.Pairs), "ns/op"},
			{run.PairsPerS, "pairs/s"},
			{run.AcquireUS.P50 * 1e3, "acquire-p50-ns"},
			{run.AcquireUS.P99 * 1e3, "acquire-p99-ns"},
			{run.ReleaseUS.P50 * 1e3, "release-p50-ns"},
			{run.ReleaseUS.P99 * 1e3, "release-p99-ns"},
			{run.CPUUSPerPair * 1e3, "cpu-ns/op"},
			{run.BytesPerPair, "B/op"},
			{run.AllocsPerPair, "allocs/op"},
		}
		if run.Loop == "open" {
			figures = append(figures, benchFigure{float64(run.Late), "late"}, benchFigure{float64(run.NotBegun), "not-begun"})
		}
		for _, f := range figures {
			fmt.Fprintf(out, "\t%s %s", plain(f.value), f.unit)
		}
		fmt.Fprintln(out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

type benchFigure struct {
	value float64
	unit  string
}
