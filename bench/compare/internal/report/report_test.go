package report

import (
	"encoding/xml"
	"image/color"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
)

// small is data made up for these tests; see what the names of the cases say.
func small(t *testing.T) *Data {
	t.Helper()
	file, err := os.Open("testdata/small.json")
	require.NoError(t, err)
	defer file.Close()
	d, err := Read(file)
	require.NoError(t, err)
	return d
}

func markdown(t *testing.T, d *Data) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, d.WriteMarkdown(&b))
	return b.String()
}

var (
	busy = Case{Healthy, "tcp", 5, 128}
	lone = Case{Healthy, "tcp", 1, 1}
)

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	d := small(t)
	// 120,000 by 10,000 and 100,000 by 10,000; the ratio of the medians would
	// have no spread.
	assert.Equal(t, Spread{11, 10, 12, 2}, d.gain(throughput, busy, compare.Ours, compare.Default))
	assert.Equal(t, Spread{11, 11, 11, 2}, d.gain(p99, busy, compare.Ours, compare.Default), "a cost is turned round")
	assert.Equal(t, Spread{25, 25, 25, 2}, d.gain(clientCPU, busy, compare.Ours, compare.Default))
	assert.Equal(t, 1, d.gain(throughput, lone, compare.Ours, "redislock").Count, "a round without a result gives no ratio")
	assert.False(t, d.gain(throughput, busy, compare.Ours, "nobody").Known())
	assert.False(t, d.gain(throughput, busy, compare.Ours, "").Known())
}

// A second run replaces a case as a whole, all its peers and rounds, and the
// report names it.
func TestReplace(t *testing.T) {
	d, again := small(t), small(t)
	again.Samples = slices.DeleteFunc(again.Samples, func(s Sample) bool { return s.Case != busy || s.Peer != compare.Ours })
	require.NotEmpty(t, again.Samples)
	for i := range again.Samples {
		again.Samples[i].Round += 10
	}
	before := d.gain(throughput, lone, compare.Ours, compare.Default)
	require.NoError(t, d.Replace(again))
	assert.Len(t, d.windows(busy, compare.Ours), len(again.Samples))
	assert.Contains(t, d.windows(busy, compare.Ours), 10)
	assert.NotContains(t, d.windows(busy, compare.Ours), 0)
	assert.Empty(t, d.windows(busy, compare.Default), "no ratio between two runs")
	assert.Equal(t, before, d.gain(throughput, lone, compare.Ours, compare.Default))
	assert.Contains(t, markdown(t, d), busy.String()+" (healthy)")

	again.Settings.Rounds++
	assert.ErrorContains(t, d.Replace(again), "in another way")
	assert.NotContains(t, markdown(t, small(t)), "measured again")
}

// A window that failed may have figures, but of another situation than its
// case.
func TestFiguresOfAFailureAreNotUsed(t *testing.T) {
	d := small(t)
	for i := range d.Samples {
		if s := &d.Samples[i]; s.Case == busy && s.Peer == compare.Ours && s.Round == 0 {
			s.Failure = "the master was not stopped"
		}
	}
	assert.Equal(t, Spread{10, 10, 10, 1}, d.gain(throughput, busy, compare.Ours, compare.Default))
	assert.Equal(t, 1, d.gain(p99, busy, compare.Ours, compare.Default).Count)
	assert.Equal(t, 1, d.level(throughput, side{busy, compare.Ours}).Count)
	assert.Contains(t, d.troubleTable(), "the master was not stopped")
}

func TestNothingMeasuredIsNoRatio(t *testing.T) {
	d := small(t)
	stopped := busy
	stopped.Kind = Stopped
	s := d.gain(throughput, stopped, compare.Ours, compare.Redsync)
	assert.True(t, math.IsInf(s.Median, 1), "it completed no pair")
	assert.Equal(t, "∞", s.String())
	assert.False(t, d.gain(p99, stopped, compare.Ours, compare.Redsync).Known(), "no pair, no latency")
	assert.False(t, d.level(serversCPU, side{lone, "redislock"}).Known(), "its window says that they are not known")
}

func TestQuotient(t *testing.T) {
	for _, c := range []struct{ a, b, trifle, want float64 }{
		{6, 3, 0, 2},
		{0, 3, 0, 0},
		{3, 0, 0, math.Inf(1)},
		{0, 0, 0, math.NaN()},
		{2, 0.001, 0.05, math.Inf(1)}, // theirs by ours, which is as good as nothing
		{0.001, 2, 0.05, 0},
		{0.001, 0.04, 0.05, 1}, // both have none
		{4, 2, 0.05, 2},
	} {
		got := quotient(c.a, c.b, c.trifle)
		if math.IsNaN(c.want) {
			assert.True(t, math.IsNaN(got), "%v", c)
			continue
		}
		assert.Equal(t, c.want, got, "%v", c)
	}
}

// The better baseline is another one for another figure.
func TestTheBetterOfTwo(t *testing.T) {
	d := small(t)
	assert.Equal(t, compare.Default, d.baseline(throughput, busy))
	assert.Equal(t, compare.DefaultAll, d.baseline(p99, busy), "its p99 is lower")
	assert.Equal(t, compare.DefaultAll, d.baseline(throughput, lone))
	assert.Empty(t, d.baseline(throughput, Case{Healthy, "unix", 5, 1}))

	one := *d
	one.Samples = nil
	for _, s := range d.Samples {
		if s.Peer != compare.Default {
			one.Samples = append(one.Samples, s)
		}
	}
	assert.Equal(t, compare.DefaultAll, one.baseline(throughput, busy), "there is only one")
}

// The best peer is another one for another figure, and never one of ours or one
// that completed nothing.
func TestTheBestPeer(t *testing.T) {
	d := small(t)
	name, reached := d.best(throughput, busy)
	assert.Equal(t, compare.Tuned, name)
	assert.Equal(t, 27500.0, reached.Median)
	assert.Regexp(t, `\| N = 5 \| 128 callers \|\n.*\n\| TCP, all masters up \| 4, rueidis-tuned \|\n\| TCP, one master stopped \| 21.6 .*, rueidis \|`, d.headline())
	stopped := busy
	stopped.Kind = Stopped
	d.Samples = slices.DeleteFunc(d.Samples, func(s Sample) bool { return s.Case == stopped && s.Peer == compare.Default })
	name, _ = d.best(throughput, stopped)
	assert.Empty(t, name, "redsync completed no pair")
	assert.Equal(t, "no peer has any", d.overBestCell(throughput, stopped))
	nowhere := busy
	nowhere.Network = "tls"
	assert.Equal(t, absent, d.overBestCell(throughput, nowhere))

	for i := range d.Samples {
		if s := &d.Samples[i]; s.Case == busy && s.Peer == compare.DefaultAll {
			s.P99 = time.Millisecond // and the fewest pairs
		}
	}
	name, _ = d.best(p99, busy)
	assert.Equal(t, compare.DefaultAll, name, "less is better")
	name, _ = d.best(throughput, busy)
	assert.Equal(t, compare.Tuned, name)
	assert.Regexp(t, `\| TCP, N = 5, 128 callers \| 110,000 \| 27,500, rueidis-tuned \| 4, rueidis-tuned \| 0\.\d+, rueidis-all \|`, d.bestTable())
}

func TestVerdict(t *testing.T) {
	assert.Equal(t, "yes: 11 (10–12), wanted ≥ 11", verdict(Spread{11, 10, 12, 2}, 11, false))
	assert.Equal(t, "**no**: 10.9 (10–12), wanted ≥ 11", verdict(Spread{10.9, 10, 12, 2}, 11, false))
	assert.Equal(t, "yes: 0.25, wanted ≤ 0.25", verdict(Spread{0.25, 0.25, 0.25, 3}, 0.25, true))
	assert.Equal(t, "**no**: 0.30 (0.20–0.40), wanted ≤ 0.25", verdict(Spread{0.3, 0.2, 0.4, 3}, 0.25, true))
	assert.Equal(t, "not measured (≥ 11)", verdict(Spread{}, 11, false))
}

// Against whom a target is judged: each figure from the made-up data, computed
// by hand.
func TestTargetsAreJudgedOnTheRightFigures(t *testing.T) {
	table := small(t).targetTable()
	for _, want := range []string{
		`\| throughput × the best peer's \|.*\| yes: 4, wanted ≥ 3 \|`, // rueidis-tuned, not rueidis or redsync
		`over TLS: throughput × the best peer's \| not measured \(≥ 1.50\) \| – \| not measured \(≥ 4\) \| – \|`,
		`p99, lower than the best peer's by \| not measured \(≥ 1\) \| – \| 3.33 \| – \|`, // again rueidis-tuned, by its 5 ms
		`client CPU .* \| not measured \(≥ 1\) \| – \| 5 \| – \|`,
		`throughput × rueidis, default options \|.*\| 11 \(10–12\) \|`,
		`\| allocations .* \| yes: < 0.001 \(< 0.001–0.001\), wanted ≤ 0.050 \|`,
		`stopped: throughput, .* \| yes: 0.98, wanted ≥ 0.95 \|`,
		`stopped: acquire p99, .* \| yes: 1.20, wanted ≤ 1.50 \|`,
		`without a grant .* \| yes: 8 \(7–9\), wanted ≤ 100 \|`,
	} {
		assert.Regexp(t, want, table)
	}
}

func TestLossesAreFoundAndNothingElse(t *testing.T) {
	d := small(t)
	type found struct{ figure, against string }
	all := map[found]loss{}
	for _, l := range d.losses() {
		if l.Case == lone {
			all[found{l.metric.name, l.theirs}] = l
			continue
		}
		// With 128 callers it is better everywhere but in one figure.
		assert.Equal(t, busy, l.Case)
		assert.Equal(t, found{serversCPU.name, compare.Tuned}, found{l.metric.name, l.theirs})
		assert.Equal(t, Spread{0.8, 0.8, 0.8, 2}, l.gain)
	}
	assert.Contains(t, all, found{throughput.name, compare.DefaultAll})
	assert.True(t, all[found{throughput.name, compare.DefaultAll}].clear(), "in both rounds")
	assert.Contains(t, all, found{throughput.name, compare.Default}, "0.8 and 1.05: the median is below 1")
	assert.False(t, all[found{throughput.name, compare.Default}].clear(), "in one of two rounds only")
	assert.Contains(t, all, found{clientCPU.name, compare.DefaultAll}, "a cost counts too")
	assert.NotContains(t, all, found{clientCPU.name, compare.Default})
	assert.NotContains(t, all, found{mallocs.name, compare.Default}, "both have none")
}

func TestMarkdown(t *testing.T) {
	text := markdown(t, small(t))
	for _, want := range []string{
		"2 January 2026: 2 logical CPUs (GOMAXPROCS 2), A Processor, 4.0 GiB of memory, linux/amd64, kernel 1.2.3, go1.26.0",
		"- Something: for a reason.",
		"| servers | redis 7.0.15 |",
		"one window of 500 ms after a warm-up", "A warm-up lasts 100 ms, and longer until the callers have made 4 pairs each on average (at most 3 s)",
		"| ∞, 0 pairs |", // one master stopped, redsync
		"acquire: timeout: 3",
		"window: redislock: exit status 2 / line second line", // within its cell
		"| one master stopped, TCP, N = 5, 128 callers | redsync | 2 | 2 | 0 |  | 128 |  |",
		"not known on this system",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "<no value>")
	assert.NotContains(t, text, "\n\n\n")
	assert.Regexp(t, `## Where we lose throughput\n\nCases in which redlock made fewer`, text)
	assert.Regexp(t, `## All losses\n\nEvery case .* redlock was worse`, text)
	assert.Regexp(t, `(?s)## Raw medians.*## How it was measured`, text)
	requireWholeTables(t, text)
}

// requireWholeTables checks that every row has as many cells as its head.
func requireWholeTables(t *testing.T, text string) {
	cells := 0
	for line := range strings.Lines(text) {
		switch n := strings.Count(line, "|"); {
		case n == 0:
			cells = 0
		case cells == 0:
			cells = n
		default:
			require.Equal(t, cells, n, "%s", line)
		}
	}
}

// The same data gives the same text, in any order of its samples, and after it
// was written and read again.
func TestMarkdownIsDeterministic(t *testing.T) {
	d := small(t)
	first := markdown(t, d)
	for range 5 {
		rand.Shuffle(len(d.Samples), func(i, j int) { d.Samples[i], d.Samples[j] = d.Samples[j], d.Samples[i] })
		require.Equal(t, first, markdown(t, d))
	}
	var b strings.Builder
	require.NoError(t, d.Write(&b))
	again, err := Read(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.Equal(t, first, markdown(t, again))
}

func TestMarkdownOfLittle(t *testing.T) {
	d := &Data{Settings: Settings{Rounds: 1}}
	text := markdown(t, d)
	assert.Contains(t, text, "Nowhere in what was measured.")
	assert.Contains(t, text, "not measured (≥ 1.60)")
	assert.NotContains(t, text, "NaN")
	var b strings.Builder
	require.NoError(t, d.WriteChart(&b))
}

func TestReadRefusesOtherSchemas(t *testing.T) {
	_, err := Read(strings.NewReader(`{"Schema":99}`))
	require.ErrorContains(t, err, "schema 99")
	_, err = Read(strings.NewReader(`{`))
	require.Error(t, err)
}

func TestChart(t *testing.T) {
	var b strings.Builder
	require.NoError(t, small(t).WriteChart(&b))
	svg := b.String()
	texts := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			texts[string(text)]++
		}
	}
	assert.Equal(t, 2, texts[chartTitle], "the heading, and the picture's title")
	for _, want := range []string{"1", "1,024 callers", compare.Ours, compare.Default} {
		assert.Equal(t, 1, texts[want], want)
	}
	assert.Contains(t, svg, "128 callers, redlock: 4.", "the description")
	assert.Contains(t, svg, "L960,520L0,520Z\" style=\"fill:#FFFFFF\"", "in dark mode the page's background would show")
	assert.Equal(t, 4, strings.Count(svg, "paint-order:stroke"), "a figure for each peer in the chart")
	assert.NotContains(t, svg, "redislock", "it cannot use five masters")
	assert.NotContains(t, svg, "Liberation", "a font that browsers lack")
	assert.NotContains(t, svg, "NaN")
}

func TestEachChartedPeerHasItsOwnColour(t *testing.T) {
	seen, drawn := map[color.RGBA]bool{}, 0
	for _, p := range compare.Peers {
		if charted(p) {
			assert.False(t, seen[colours[p.Name]], p.Name)
			seen[colours[p.Name]] = true
			drawn++
		}
	}
	assert.Equal(t, len(colours), drawn, "a colour of a peer that is not there")
}
