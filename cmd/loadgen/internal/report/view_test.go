package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFigures(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1000: "1.00 µs", 1234: "1.23 µs", 12_345: "12.3 µs", 999_499: "999 µs", 999_500: "1.00 ms",
		1_500_000: "1.50 ms", 12_345_000_000: "12.3 s", 5_000_000_000_000: "5,000 s",
	} {
		require.Equal(t, want, latency(d))
	}
	require.Equal(t, unknown, known(0))
	for x, want := range map[float64]string{
		0: "0", 0.0123456: "0.0123", 0.00001234: "1.2e-05", 1.234: "1.23", 9.996: "10.0", 12.34: "12.3", 99.96: "100", 1234.5: "1,235",
		1e9: "1,000,000,000", -1234: "−1,234", math.NaN(): unknown, math.Inf(-1): unknown,
	} {
		require.Equal(t, want, digits(x))
	}
	require.Equal(t, unknown, thousands(math.NaN()))
	require.Equal(t, "2.5 s", seconds(2_500*time.Millisecond))
	require.Equal(t, "1 run, 2 runs", count(1, "run")+", "+count(2, "run"))
	require.Equal(t, "a b� …", clip("a\nb\xff\tc", 5))
	require.Equal(t, "äöü", clip("äöü", 3))
}

func TestNumbersOfChartsAreJSON(t *testing.T) {
	b, err := json.Marshal([]num{1, 1234567, 0.1234567, num(math.Inf(1)), gap(), micros(0), micros(1500), rate(5, 0), rate(5, 2*time.Second)})
	require.NoError(t, err)
	require.Equal(t, "[1,1234570,0.123457,null,null,null,1.5,null,2.5]", string(b))
}

func TestQuantileIsOfAPointCloseBy(t *testing.T) {
	q := Quantiles{[]float64{0, 50, 90, 99.1, 99.9, 100}, []time.Duration{1, 50, 90, 991, 999, 1000}}
	for percentile, want := range map[float64]time.Duration{0: 1, 50: 50, 90: 90, 99: 991, 99.9: 999, 100: 1000, 75: -1, 95: -1, 99.99: -1} {
		d, ok := q.at(percentile)
		require.Equal(t, want >= 0, ok, percentile)
		if ok {
			require.Equal(t, want, d, percentile)
		}
	}
	_, ok := Quantiles{}.at(50)
	require.False(t, ok)
	broken := Quantiles{[]float64{math.NaN(), -1, 50, 40, 60, 101, 70}, []time.Duration{1, 2, 3, 4, -5}}
	require.Equal(t, []point{{50, 3}}, broken.points(), "what makes no sense is left out")
}

func TestCurveEndsAtOneInN(t *testing.T) {
	q := Quantiles{[]float64{0, 50, 90, 99, 99.9, 100}, []time.Duration{1000, 2000, 3000, 4000, 5000, 6000}}
	for n, want := range map[int64]curve{
		1000:    {X: []num{1, 2, 10, 100, 1000}, Y: []num{1, 2, 3, 4, 6}},
		50:      {X: []num{1, 2, 10, 50}, Y: []num{1, 2, 3, 6}},
		100_000: {X: []num{1, 2, 10, 100, 1000, 100_000}, Y: []num{1, 2, 3, 4, 5, 6}},
		0:       {X: []num{1, 2, 10, 100, 1000, 2000}, Y: []num{1, 2, 3, 4, 5, 6}},
	} {
		c := newCurve(q, n)
		require.Len(t, c.X, len(want.X), n)
		for i := range want.X {
			require.InEpsilon(t, float64(want.X[i]), float64(c.X[i]), 1e-9, n)
		}
		require.Equal(t, want.Y, c.Y, n)
	}
	require.Empty(t, newCurve(Quantiles{[]float64{50}, []time.Duration{0}}, 10).X, "a logarithmic axis has no zero")
}

func TestThinKeepsSumsAndSpikes(t *testing.T) {
	var all []Sample
	for i := range 100 {
		all = append(all, Sample{At: time.Duration(i + 1), Length: 1, Pairs: 2, P50: 1, Outcomes: map[string]int64{"held": 1}})
	}
	all[57].Max, all[58].P99, all[59].ReplyTimes = 1000, 900, []time.Duration{0, 7}
	thinned := thin(all, 7)
	require.LessOrEqual(t, len(thinned), 7)
	var sum Sample
	for _, s := range thinned {
		sum.Pairs, sum.Length, sum.Max, sum.P99 = sum.Pairs+s.Pairs, sum.Length+s.Length, max(sum.Max, s.Max), max(sum.P99, s.P99)
	}
	require.Equal(t, Sample{Pairs: 200, Length: 100, Max: 1000, P99: 900}, sum)
	require.Equal(t, Sample{At: 2, Length: 2, Pairs: 4, P50: 1, Outcomes: map[string]int64{"held": 2}}, thin(all, 50)[0])
	require.Equal(t, 2, nodesIn(thinned))
	require.Equal(t, all, thin(all, 100))
	require.Equal(t, map[string]int64{"held": 1}, all[0].Outcomes, "the samples themselves stay as they were")
}

func TestTableOverTimeJoinsRuns(t *testing.T) {
	pairs := func(s Sample) string { return fmt.Sprint(s.Pairs) }
	second := func(at time.Duration, pairs int64) Sample { return Sample{At: at, Length: time.Second, Pairs: pairs} }
	a := []Sample{second(1001*time.Millisecond, 1), second(1999*time.Millisecond, 2), second(3*time.Second, 3)}
	b := []Sample{second(time.Second, 4), second(2500*time.Millisecond, 5)}
	got := overTime("x", column{text("a"), a, pairs}, column{text("b"), b, pairs})
	var rows []string
	for _, row := range got.Rows {
		rows = append(rows, row[0].Text+":"+row[1].Text+":"+row[2].Text)
	}
	require.Equal(t, []string{"1 s:1:4", "2 s:2:", "2.5 s::5", "3 s:3:"}, rows)
	long := overTime("x", column{text("a"), make([]Sample, 200), pairs})
	require.Contains(t, long.Caption, "up to 4 samples")
}

func TestRatiosSayWhichWayIsBetter(t *testing.T) {
	for _, c := range []struct {
		x        float64
		moreGood bool
		note     string
		class    string
	}{
		{1, true, "× 1.00", ""}, {1.04, true, "× 1.04", ""}, {2, true, "× 2.00 ▲", "better"}, {2, false, "× 2.00 △", "worse"},
		{0.5, true, "× 0.5 ▽", "worse"}, {0.5, false, "× 0.5 ▼", "better"},
	} {
		note, class := ratio(c.x, c.moreGood)
		require.Equal(t, c.note+c.class, note+class)
	}
	runs := []Run{{Impl: "a", PerSec: 0}, {Impl: "b", PerSec: 5}}
	row := metrics[0].row(runs, styles(runs))
	require.Equal(t, []string{"pairs/s", "0", "5", ""}, []string{row[0].Text, row[1].Text, row[2].Text, row[2].Note}, "there is no ratio to nothing")
	require.Equal(t, []int{0, 100}, []int{row[1].Bar.Percent, row[2].Bar.Percent})
}

func TestRunsAreToldApart(t *testing.T) {
	got := styles([]Run{{Impl: "redlock", Number: 1}, {Impl: "rueidis", Number: 1}, {Impl: "redlock", Number: 2}, {Impl: "redlock", Number: 1, Earlier: true}, {}})
	require.Equal(t, []style{{"redlock #1", 0, 0, false}, {"rueidis #1", 1, 1, false}, {"redlock #2", 0, 2, true}, {"redlock #1 (earlier)", 2, 3, false}, {"run #0", 3, 4, false}}, got)
}

func TestOutcomesInOrder(t *testing.T) {
	require.Equal(t, []string{"granted", "noquorum", "error", "a", "b"},
		outcomeNames(map[string]int64{"b": 1, "error": 1, "held": 0}, map[string]int64{"a": 1, "granted": 7, "noquorum": 1}))
	runs := []Run{{Outcomes: map[string]int64{"granted": 3, "zzz": 1}}}
	var rows []string
	for _, row := range outcomeTable(runs, styles(runs), []string{"granted", "zzz"}).Rows {
		rows = append(rows, row[0].Text+" "+row[1].Text+" "+row[1].Note)
	}
	require.Equal(t, []string{"granted 3 75.0 %", "held 0 ", "no quorum 0 ", "expired 0 ", "cancelled 0 ", "error 0 ", "zzz 1 25.0 %"}, rows)
}

func TestPageSaysWhatWasMeasured(t *testing.T) {
	p := examplePage()
	p.Runs[1].Violations = 2
	page := written(t, p)
	for _, want := range []string{
		"Mutual exclusion was violated in rueidis #1: 2 times.", "<strong>spawned</strong>", "Servers that loadgen started on its own machine",
		"<strong>closed</strong>", "<strong>5 × redis 7.0.15</strong>", "<strong>redlock, rueidis</strong> <span>4 runs</span>", "stop node 2", "22 November 2026, 03:30:00 UTC",
	} {
		require.Contains(t, page, want)
	}
	p.Backend, p.Loop, p.Runs = "embedded", "open, 5000/s", append(p.Runs, Run{Impl: "redlock", Number: 1, Earlier: true})
	page = written(t, p)
	for _, want := range []string{"no servers", "counts from the intended start", "4 runs, and 1 read from an earlier result", "redlock #1 (earlier)"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, written(t, examplePage()), "violated in")
}

func TestCausesAreBounded(t *testing.T) {
	errors := map[string]int64{"often": 100}
	for i := range 1000 {
		errors[fmt.Sprintf("invented %d %s", i, strings.Repeat("x", 10_000))] = 1
	}
	runs := []Run{{Impl: "redlock", Errors: errors}}
	s := causes(runs, styles(runs))
	require.Len(t, s.Table.Rows, mostCauses)
	require.Equal(t, "often", s.Table.Rows[0][0].Text, "the most frequent comes first")
	require.Contains(t, s.Table.Caption, "961 more are left out")
	require.Less(t, len(written(t, Page{Runs: runs})), 200_000)
}

// TestChartsHaveTablesAndWords is for readers who do not see the pictures.
func TestChartsHaveTablesAndWords(t *testing.T) {
	for _, s := range newView(examplePage()).Sections {
		for _, c := range s.Charts {
			require.NotEmpty(t, c.Title, s.ID)
			require.NotEmpty(t, c.Summary, c.Title)
			require.NotEmpty(t, c.Table.Rows, c.Title)
		}
	}
}

func TestNodesAreNamedByAddressWhereRunsAgree(t *testing.T) {
	runs := []Run{
		{Impl: "a", Nodes: []Node{{Addr: "x:1", Product: "redis", Version: "8", State: "up", ReplyTime: 1000}, {Addr: "y:1"}, {Addr: "z:1"}}},
		{Impl: "b", Nodes: []Node{{Addr: "x:1"}, {Addr: "y:2"}}},
	}
	var rows []string
	for _, row := range nodeTable(runs, styles(runs)).Rows {
		rows = append(rows, row[0].Text+"|"+row[1].Text+"|"+row[1].Note+"|"+row[2].Text)
	}
	require.Equal(t, []string{"node 0, x:1|1.00 µs|redis 8 up|–", "node 1|–||–", "node 2, z:1|–||–"}, rows)
	require.Nil(t, nodeTable([]Run{{}}, styles([]Run{{}})))
}

// Attempts that an open loop did not start are missing in its latencies, which
// look better for it: the page must warn of that.
func TestAttemptsThatWereNotBegun(t *testing.T) {
	run := Run{Impl: "redlock", Number: 1, Late: 7, NotBegun: 1234}
	v := newView(Page{Remarks: []string{"Beware."}, Runs: []Run{run, {Impl: "rueidis"}}})
	require.Equal(t, []warning{{"Beware.", false},
		{"In redlock #1 1,234 attempts of the open loop were due and had not begun at the end: no latency counts them.", false}}, v.Warnings)
	rows := map[string]string{}
	for _, row := range v.Sections[0].Table.Rows {
		rows[row[0].Text] = row[1].Text + ", " + row[2].Text
	}
	require.Equal(t, "7, 0", rows["attempts begun late"])
	require.Equal(t, "1,234, 0", rows["attempts not begun"])

	// One in a hundred is rare, and no alarm.
	run.NotBegun = 10
	for granted, mild := range map[int64]bool{990: true, 989: false} {
		run.Outcomes = map[string]int64{"granted": granted}
		require.Equal(t, mild, newView(Page{Runs: []Run{run}}).Warnings[0].Mild, granted)
	}
	run.Violations = 1
	require.False(t, newView(Page{Runs: []Run{run}}).Warnings[0].Mild)

	run = Run{Impl: "redlock", Number: 1}
	v = newView(Page{Runs: []Run{run}})
	require.Empty(t, v.Warnings)
	for _, row := range v.Sections[0].Table.Rows {
		require.NotContains(t, row[0].Text, "attempts")
	}
}

// Of the runs of an implementation one is drawn in full: that with the median.
func TestFaint(t *testing.T) {
	var runs []Run
	for _, x := range []float64{5, 1, 3} {
		runs = append(runs, Run{Impl: "a", PerSec: x}, Run{Impl: "b", PerSec: 2 * x})
	}
	runs = append(runs, Run{Impl: "a", PerSec: 9, Earlier: true}, Run{Impl: "c"}, Run{Impl: "d", PerSec: 8}, Run{Impl: "d", PerSec: 7})
	var full []int
	for i, s := range styles(runs) {
		if !s.Faint {
			full = append(full, i)
		}
	}
	require.Equal(t, []int{4, 5, 6, 7, 9}, full)
	require.NotEmpty(t, faintNote(runs))
	require.Empty(t, faintNote(runs[6:8]))
	require.True(t, newChartData(runs, styles(runs)).Runs[0].Faint)
}

// Grants whose releases failed are no pairs, but they have latencies.
func TestCurveOfGrantsWithoutPairs(t *testing.T) {
	q := Quantiles{[]float64{50, 90, 99, 100}, []time.Duration{1000, 2000, 3000, 4000}}
	d := newChartData([]Run{{Pairs: 5, Outcomes: map[string]int64{"granted": 1000}, Acquire: q}}, make([]style, 1))
	require.Equal(t, newCurve(q, 1000), d.Runs[0].Acquire)
}

// The headline is the median over the runs of an implementation, not a single
// run. A figure that no run has is not 0.
func TestHeadlines(t *testing.T) {
	q := func(p50, p99 time.Duration) Quantiles { return Quantiles{[]float64{50, 99}, []time.Duration{p50, p99}} }
	run := func(impl string, number int, perSec float64, p50 time.Duration) Run {
		return Run{Impl: impl, Number: number, PerSec: perSec, Pairs: 1, CPUMicrosPerPair: 2, Acquire: q(p50, 10*p50), Outcomes: map[string]int64{"granted": 9_999, "noquorum": 1}}
	}
	runs := []Run{run("a", 1, 100, 1000), run("b", 1, 50, 2000), run("a", 2, 900, 9000), run("b", 2, 60, 4000), run("a", 3, 200, 2000), {Impl: "a", Earlier: true}}
	got := headlines(runs, styles(runs))
	require.Len(t, got, 3)
	require.Equal(t, headline{"a", "median of 3 runs", 0, []fact{
		{"pairs/s", "200", ""}, {"acquire p50", "2.00 µs", ""}, {"acquire p99", "20.0 µs", ""}, {"CPU µs/pair", "2.00", ""}, {"granted", "99.9 %", ""}}}, got[0])
	require.Equal(t, headline{"b", "median of 2 runs", 1, []fact{
		{"pairs/s", "55", "× 0.275 ▽"}, {"acquire p50", "3.00 µs", "× 1.50 △"}, {"acquire p99", "30.0 µs", "× 1.50 △"}, {"CPU µs/pair", "2.00", "× 1.00"}, {"granted", "99.9 %", ""}}}, got[1])
	require.Equal(t, "a (earlier), 1 run", got[2].Name+", "+got[2].Runs)
	require.Equal(t, fact{"acquire p50", unknown, ""}, got[2].Figures[1])

	page := written(t, examplePage())
	require.Less(t, strings.Index(page, "median of 2 runs"), strings.Index(page, `<dl class="facts">`), "they stand on top")
	require.Empty(t, headlines(nil, nil))
}

func written(t *testing.T, p Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, p))
	return b.String()
}

// TestPageLoadsNothing checks the text; TestInBrowser checks the requests.
func TestPageLoadsNothing(t *testing.T) {
	for _, p := range []Page{examplePage(), hostilePage(), {}} {
		page := written(t, p)
		require.NotRegexp(t, regexp.MustCompile(`(?i)<[^>]*\b(src|href|srcset|action|data)\s*=\s*["']?\s*(https?:|//)`), page)
		require.NotRegexp(t, regexp.MustCompile(`(?i)url\(|@import|importScripts|XMLHttpRequest|fetch\(|WebSocket|sendBeacon|serviceWorker`), page)
		require.Equal(t, 1, strings.Count(page, `http-equiv="Content-Security-Policy"`))
		require.Less(t, strings.Index(page, "Content-Security-Policy"), strings.Index(page, "<s"), "it binds only what comes after")
	}
}

func TestPolicyNamesBothScripts(t *testing.T) {
	a := newAssets()
	require.Contains(t, a.Policy, "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
	require.NotContains(t, strings.TrimPrefix(a.Policy, "default-src 'none'; style-src 'unsafe-inline'"), "unsafe")
	for _, script := range []string{string(a.UPlot), string(a.Charts)} {
		require.Contains(t, a.Policy, sum(script))
		require.Contains(t, written(t, Page{}), "<script>"+script+"</script>", "the sum is of exactly what stands there")
		require.NotContains(t, strings.ToLower(script), "</script")
	}
	require.Equal(t, "a\nb\n", lines("a\r\nb\n"), "a checkout may have changed the line ends")
}

// TestUPlotIsPinned keeps three places in step: the code, the page's footer and
// the licence, which must accompany the code.
func TestUPlotIsPinned(t *testing.T) {
	page := written(t, Page{})
	require.True(t, strings.HasPrefix(uplotScript, "/*! https://github.com/leeoniya/uPlot (v1.6.32) */"))
	require.Contains(t, page, "uPlot 1.6.32")
	require.Contains(t, page, "Permission is hereby granted, free of charge")
}

func TestHostileTextIsEscaped(t *testing.T) {
	page := written(t, hostilePage())
	for _, tag := range []string{"<script>window", "<img", "onload=window.hacked=1>\"'", "<svg onload"} {
		require.NotContains(t, page, tag)
	}
	require.Equal(t, 3, strings.Count(page, "</script>"))
	require.NotContains(t, page, "\x00")
	require.NotContains(t, page, "\xff")
	require.True(t, strings.HasSuffix(strings.TrimSpace(page), "</html>"))
}

func TestFewDataAreWritten(t *testing.T) {
	for name, p := range fewData() {
		t.Run(name, func(t *testing.T) {
			page := written(t, p)
			require.NotRegexp(t, regexp.MustCompile(`\bNaN\b|Inf\b|<nil>|%!`), page[:strings.Index(page, "<script>")])
		})
	}
}

// onceWriter fails after its first write.
type onceWriter struct {
	bytes.Buffer
	err error
}

func (w *onceWriter) Write(b []byte) (int, error) {
	if w.err != nil || w.Len() > 0 {
		return 0, errors.Join(w.err, io.ErrShortWrite)
	}
	return w.Buffer.Write(b)
}

// A page is written at once, is the same each time, since no order is that of a
// map, and is not changed by it.
func TestWriteIsOneWrite(t *testing.T) {
	w, p := &onceWriter{}, examplePage()
	require.NoError(t, Write(w, p))
	require.Equal(t, written(t, p), w.String())
	require.Equal(t, examplePage(), p)
	full := errors.New("disk is full")
	require.ErrorIs(t, Write(&onceWriter{err: full}, Page{}), full)
}
