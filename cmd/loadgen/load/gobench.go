package load

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

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
