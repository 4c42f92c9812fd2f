package load

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/loadgen/internal/report"
)

// page returns the result for the HTML page, with the earlier runs of --compare
// first.
func (s *session) page() report.Page {
	p := report.Page{Title: s.title, Made: time.Now(), Loop: "closed"}
	if s.flags.Rate > 0 {
		p.Loop = "open, " + plain(s.flags.Rate) + "/s"
	}
	if s.flags.earlier != nil && len(s.result.Runs) > 0 {
		for i, r := range s.flags.earlier.Runs {
			shown := pageRun(r, i+1)
			shown.Earlier = true
			p.Runs = append(p.Runs, shown)
		}
	}
	if s.flags.earlier != nil {
		if text := otherwise(s.flags, s.result.Runs); text != "" {
			p.Remarks = append(p.Remarks, strings.ToUpper(text[:1])+text[1:]+".")
		}
	}
	if s.result.Interrupted {
		p.Remarks = append(p.Remarks, interruptedRemark)
	}
	for i, r := range s.result.Runs {
		p.Backend = r.Backend
		p.Runs = append(p.Runs, pageRun(r, i+1))
	}
	return p
}

// pageRun converts one run. A run from an earlier result has only what its JSON
// contains.
func pageRun(r runResult, number int) report.Run {
	run := report.Run{
		Impl: r.Impl, Number: number, Callers: r.Clients, Late: r.Late, NotBegun: r.NotBegun,
		Duration: seconds(r.DurationS), Pairs: r.Pairs, PerSec: r.PairsPerS,
		Acquire:  pageQuantiles(r.acquired, r.AcquireUS),
		Release:  pageQuantiles(r.released, r.ReleaseUS),
		Outcomes: r.Outcomes.tally().byName(), Errors: r.Errors, Violations: r.Violations,
		AllocsPerPair: r.AllocsPerPair, BytesPerPair: r.BytesPerPair, CPUMicrosPerPair: r.CPUUSPerPair,
	}
	for i, n := range r.Nodes {
		node := report.Node{Addr: n.Addr, Product: n.Server, Version: n.Version}
		if i < len(r.states) {
			node.State, node.ReplyTime = string(r.states[i].State), r.states[i].ReplyTime
			node.Product, node.Version = cmp.Or(node.Product, r.states[i].Server.Product), cmp.Or(node.Version, r.states[i].Server.Version)
		}
		run.Nodes = append(run.Nodes, node)
	}
	for _, f := range r.Faults {
		run.Faults = append(run.Faults, report.Fault{At: seconds(f.AtS), Length: seconds(f.LengthS), Kind: f.Kind, Node: f.Node})
	}
	for _, x := range r.samples {
		run.Series = append(run.Series, report.Sample{
			At: x.at, Length: x.length, Pairs: x.pairs, P50: x.p50, P99: x.p99, Max: x.max,
			Outcomes: x.outcomes.byName(), ReplyTimes: x.replyTimes,
		})
	}
	return run
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// pageQuantiles returns the whole distribution if it is known, and otherwise
// the five quantiles of an earlier result.
func pageQuantiles(l latency, q quantiles) report.Quantiles {
	if l.Histogram == nil {
		if q == (quantiles{}) {
			return report.Quantiles{} // nothing was recorded
		}
		micros := func(x float64) time.Duration { return time.Duration(x * float64(time.Microsecond)) }
		return report.Quantiles{
			Percentiles: []float64{50, 90, 99, 99.9, 100},
			Latencies:   []time.Duration{micros(q.P50), micros(q.P90), micros(q.P99), micros(q.P999), micros(q.Max)},
		}
	}
	var all report.Quantiles
	for _, p := range percentilesOf(l.TotalCount()) {
		all.Percentiles = append(all.Percentiles, p)
		all.Latencies = append(all.Latencies, time.Duration(l.ValueAtPercentile(p)))
	}
	return all
}

// percentilesOf returns the percentiles that n values can tell apart, closer
// together towards 100: eight for each halving of the rest. Those of the JSON
// are among them, so that the page shows the same p99 as the other formats.
func percentilesOf(n int64) (all []float64) {
	if n == 0 {
		return nil
	}
	for left := 100.0; left > 100/float64(n); left /= 2 {
		for i := range 8 {
			all = append(all, 100-left*(1-float64(i)/16))
		}
	}
	all = append(all, 90, 99, 99.9, 100)
	slices.Sort(all)
	return slices.Compact(all)
}

// pageFile is the file of the page. It is opened before anything is measured,
// so that a name that cannot be written is reported in time, and emptied only
// when there is a page to write. A nil pageFile writes nothing.
type pageFile struct{ file *os.File }

func openPage(name string) (*pageFile, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	return &pageFile{file}, nil
}

// write replaces the content of the file by the page, and closes it. A page
// without runs is not written, and leaves no empty file.
func (f *pageFile) write(p report.Page) error {
	if f == nil {
		return nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return errors.Join(err, f.file.Close())
	}
	if len(p.Runs) == 0 {
		err := f.file.Close()
		if info.Mode().IsRegular() && info.Size() == 0 {
			err = errors.Join(err, os.Remove(f.file.Name()))
		}
		return err
	}
	var page bytes.Buffer
	err = report.Write(&page, p)
	if err == nil && info.Mode().IsRegular() {
		err = f.file.Truncate(0)
	}
	if err == nil {
		_, err = f.file.Write(page.Bytes())
	}
	return errors.Join(err, f.file.Close())
}

// credentials precede the last @ of the part of a URL between // and the path.
var credentials = regexp.MustCompile(`//[^/?#]*@`)

// titleOf returns the command line without credentials in URLs (R27).
func titleOf(args []string) string {
	all := []string{"loadgen"}
	for _, arg := range args {
		all = append(all, credentials.ReplaceAllString(arg, "//"))
	}
	return strings.Join(all, " ")
}
