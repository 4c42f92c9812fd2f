package load

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/resp"
)

// printed returns what the command prints in a format.
func printed(t *testing.T, form string, args ...string) string {
	t.Helper()
	var stdout bytes.Buffer
	args = append([]string{"-q", "--embedded", "--spawn=3", "--warmup=0s", "-n10", "-c2", "-o", form}, args...)
	require.Equal(t, exitGood, runWith((&fakeLocker{ttl: time.Hour}).opens, args, &stdout, io.Discard, nil))
	return stdout.String()
}

// Scripts read these names.
func TestCSV(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(printed(t, "csv", "--runs=2", "--impl=redlock,rueidis"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, "impl backend n clients loop rate duration_s pairs pairs_per_s acquire_p50_us acquire_p90_us acquire_p99_us acquire_p999_us acquire_max_us "+
		"release_p50_us release_p90_us release_p99_us release_p999_us release_max_us "+
		"allocs_per_pair bytes_per_pair cpu_us_per_pair granted held noquorum expired cancelled error violations late not_begun", strings.Join(rows[0], " "))
	require.Equal(t, []string{"redlock", "embedded", "3", "2", "closed", "0"}, rows[1][:6])
	require.Equal(t, "rueidis", rows[2][0])
	for _, row := range rows[1:] {
		require.Equal(t, "10", row[7])
		require.Equal(t, "10", row[22])
		for _, cell := range row[5:] {
			_, err := strconv.ParseFloat(cell, 64)
			require.NoError(t, err)
			require.NotContains(t, cell, "e")
		}
	}
}

// The format is go.dev/design/14313-benchmark-format: a name, a number of
// iterations, and pairs of a value and a unit.
func TestGoBenchmarkFormat(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(printed(t, "bench", "--rate=1e5", "--runs=2")), "\n")
	require.Contains(t, lines, "pkg: github.com/redmux/redmux/cmd/loadgen")
	form := regexp.MustCompile(`^BenchmarkAcquireRelease(/[a-z]+=[a-z0-9]+)+-\d+\t10(\t\d+(\.\d+)? [^\s]+)+$`)
	var results []string
	for _, l := range lines {
		if strings.HasPrefix(l, "Benchmark") {
			require.Regexp(t, form, l)
			results = append(results, l)
		} else {
			require.Regexp(t, `^(\w+: |Unit )`, l)
		}
	}
	require.Len(t, results, 2)
	require.Contains(t, results[0], "/impl=redlock/backend=embedded/nodes=3/callers=2/loop=open/rate=100000-")
	for _, unit := range []string{"ns/op", "pairs/s", "acquire-p99-ns", "B/op", "allocs/op", "late", "not-begun"} {
		require.Contains(t, results[0]+"\t", " "+unit+"\t")
	}
	require.NotContains(t, printed(t, "bench"), "late", "a closed loop has no time to be late for")
}

// A run without a pair has no time per operation and no latency; zeros would be
// the best figures of all.
func TestNoFiguresOfARunWithoutAPair(t *testing.T) {
	var b strings.Builder
	nothing := result{Runs: []runResult{{Impl: "redlock", Loop: "closed"}}}
	require.NoError(t, nothing.writeBench(&b))
	require.NotContains(t, b.String(), "Benchmark")
	b.Reset()
	writeTables(&b, nothing.Runs)
	require.Equal(t, 13, strings.Count(b.String(), "–"))
	require.NotContains(t, b.String(), "0.00")
	require.Empty(t, pageQuantiles(latency{}, quantiles{}).Percentiles)
}

// A latency after a long stall is not cut to something shorter.
func TestLongLatency(t *testing.T) {
	l := newLatency()
	l.record(10 * time.Minute)
	require.InEpsilon(t, 600e6, l.quantiles().Max, 0.01)
	l.record(2 * longest) // counted as the longest
	require.InEpsilon(t, float64(longest.Microseconds()), l.quantiles().Max, 0.01)
}

// The text names the kind of loop.
func TestTextOfLoops(t *testing.T) {
	closed := printed(t, "text", "--runs=2")
	require.Contains(t, closed, "2 callers in a closed loop")
	require.Contains(t, closed, "Closed loop: ")
	// A single caller, since the fake grants every lock: two callers on one key
	// would be a violation.
	open := printed(t, "text", "-c1", "-r100000", "--keys=3", "--dist=zipf:1.5")
	require.Contains(t, open, "1 caller in an open loop of 100000 attempts/s, 3 resources for all (zipf:1.5)")
	require.Contains(t, open, "Open loop: latencies count from the intended start")
}

func TestRatioIsOfMedians(t *testing.T) {
	runs := func(rates ...float64) (all []runResult) {
		for _, r := range rates {
			all = append(all, runResult{PairsPerS: r})
		}
		return all
	}
	rate := func(r runResult) float64 { return r.PairsPerS }
	require.Equal(t, "3.00 (1.50–4.00)", ratio(runs(30, 40, 20), runs(20, 10, 10), rate))
	require.Equal(t, "1.25 (1.00–1.50)", ratio(runs(10, 15), runs(10, 10), rate))
	require.Equal(t, "?", ratio(runs(10), runs(0), rate))
}

func TestThousands(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 123456.7: "123,457", 1e9: "1,000,000,000"} {
		require.Equal(t, want, thousands(x))
	}
}

func TestText(t *testing.T) {
	f := &flags{Clients: 3, Keys: 1, TTL: time.Second, Impl: []string{"redlock", "rueidis"}, Hold: hold{time.Millisecond, true}, Wait: time.Minute, CancelAfter: time.Hour, Seed: 17}
	node := nodeResult{"a:1", "valkey", "9.1.2"}
	r := result{Runs: []runResult{
		{Impl: "redlock", Backend: "remote", N: 2, Nodes: []nodeResult{node, node}, PairsPerS: 20_000, AcquireUS: quantiles{1.234, 12.34, 123.4, 1234, 12345}, Outcomes: outcomeCounts{Granted: 7, Held: 8}},
		{Impl: "rueidis", Backend: "remote", N: 2, Nodes: []nodeResult{node, {}}, PairsPerS: 10_000, Errors: map[string]int64{"rare": 1, "often": 5}, Violations: 9},
	}}
	var b strings.Builder
	require.NoError(t, r.writeText(&b, f, "a remark"))
	for _, want := range []string{
		"2 remote nodes: valkey 9.1.2\n", "3 callers in a closed loop, 1 resource for all, TTL 1s, held for 1ms on average, tries for 1m0s, cancelled after 1h0m0s, seed 17\n", "a remark\n",
		"20,000", "1.23  12.3  123   1234  12345", "run 2: 5 × often\nrun 2: 1 × rare\n", "redlock to rueidis: pairs/s × 2.00 (2.00–2.00)",
	} {
		require.Contains(t, b.String(), want)
	}
	b.Reset()
	require.NoError(t, result{}.writeText(&b, f, ""), "interrupted before the first run")
	require.Empty(t, b.String())
}

// told returns what progress reports about a run.
func told(t *testing.T, p *progress) string {
	t.Helper()
	var b bytes.Buffer
	p.w = &b
	f, err := parse([]string{"-c2", "-d2s", "--hold=1ms"}, io.Discard)
	require.NoError(t, err)
	s := &session{flags: f, clock: newClock(), progress: p, resources: numbered("r", 2), attempts: make([]int64, 2)}
	n := 0
	sys := Drive[fakeLease](&fakeLocker{ttl: time.Hour, try: func() error {
		if n++; n%2 == 0 {
			return redlock.ErrHeld
		}
		return nil
	}})
	f.Clients = 1 // n is per caller
	_, err = s.observe(t.Context(), sys, &target{}, s.newPhase(), "the title")
	require.NoError(t, err)
	return b.String()
}

// Without a terminal, lines follow each other and have no escapes.
func TestProgressInALog(t *testing.T) {
	out := told(t, &progress{interval: 50 * time.Millisecond})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, "loadgen: the title", lines[0])
	require.Greater(t, len(lines), 2)
	require.Regexp(t, `^loadgen:  +\d+\.\ds  [\d,]+ pairs/s  p99 [\d.]+µ?m?s  granted [\d,]+ held [\d,]+$`, lines[len(lines)-1])
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\r")
}

// On a terminal one line is overwritten. It is dim, never wider than the
// terminal, and gone at the end.
func TestProgressOnATerminal(t *testing.T) {
	out := told(t, &progress{interval: 50 * time.Millisecond, live: true, dim: true, width: func() int { return 12 }})
	title, rest, ok := strings.Cut(out, "\n")
	require.True(t, ok)
	require.Equal(t, clearLine+"loadgen: the title", title)
	lines := strings.Split(rest, clearLine)
	require.Greater(t, len(lines), 3)
	require.Empty(t, lines[0])
	require.Empty(t, lines[len(lines)-1])
	for _, l := range lines[1 : len(lines)-1] {
		text, ok := strings.CutPrefix(l, "\x1b[2m")
		require.True(t, ok, "%q", l)
		text, ok = strings.CutSuffix(text, "\x1b[0m")
		require.True(t, ok, "%q", l)
		require.Len(t, []rune(text), 11, "also the shortest, of a machine that has done nothing yet, is wider")
	}
}

func TestProgressIsLiveOnTerminalsOnly(t *testing.T) {
	for _, w := range []io.Writer{&bytes.Buffer{}, os.Stdin, io.Discard} {
		if f, ok := w.(*os.File); ok && terminalWidth(f) > 0 {
			continue // the test itself runs on a terminal
		}
		p := newProgress(w, false)
		require.False(t, p.live)
		require.Equal(t, plainInterval, p.interval)
	}
}

// --quiet prints only errors.
func TestQuiet(t *testing.T) {
	args := []string{"--embedded", "--spawn=1", "--warmup=0s", "-n1", "-ojson"}
	var stderr bytes.Buffer
	require.Equal(t, exitGood, Run(args, io.Discard, &stderr, nil))
	require.NotEmpty(t, stderr.String())
	stderr.Reset()
	require.Equal(t, exitGood, Run(append(args, "-q"), io.Discard, &stderr, nil))
	require.Empty(t, stderr.String())
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, granted},
		{redlock.ErrHeld, held},
		{fmt.Errorf("x: %w", redlock.ErrHeld), held},
		{errors.Join(context.DeadlineExceeded, redlock.ErrHeld), held},
		{errors.Join(context.Canceled, redlock.ErrHeld), cancelled},
		{&bench.RueidisError{}, noQuorum},
		{redlock.ErrExpired, expired},
		{context.Canceled, cancelled},
		{context.DeadlineExceeded, cancelled},
		{redlock.ErrOverloaded, failed},
		{errors.New("?"), failed},
	} {
		require.Equal(t, c.want, judge(c.err), "%v", c.err)
	}
}

// Each node of a missing quorum is counted once, with the reason why it did not
// vote.
func TestCauses(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	c := causes{}
	c.add(&bench.RueidisError{Causes: []error{
		fmt.Errorf("a:1: %w", refused),
		fmt.Errorf("b:1: %w", &resp.Error{Message: "LOADING Redis is loading the dataset in memory"}),
		fmt.Errorf("c:1: %w", refused),
	}})
	require.Equal(t, causes{"connection refused": 2, "LOADING": 1}, c)

	c = causes{}
	c.add(errors.Join(redlock.ErrNoQuorum, &multiplex.UndecidedError{Nodes: []*multiplex.NodeError{
		{Err: errors.Join(multiplex.ErrDown, refused)},
		{Err: multiplex.ErrDown},
	}}))
	require.Equal(t, causes{"connection refused": 1, multiplex.ErrDown.Error(): 1}, c)
}

func TestCausesAreBounded(t *testing.T) {
	c := causes{}
	for i := range 10 * maxCauses {
		c.add(fmt.Errorf("%d %s", i, strings.Repeat("µ", 1000)))
	}
	require.LessOrEqual(t, len(c), maxCauses+1)
	require.EqualValues(t, 9*maxCauses, c["other"])
	for cause := range c {
		require.LessOrEqual(t, len(cause), maxCause)
		require.True(t, utf8.ValidString(cause), "a letter was cut in two")
	}
}

// A server's text is not written to a terminal unchanged.
func TestServersWordsArePrintable(t *testing.T) {
	c := causes{}
	c.add(&resp.Error{Message: "ERR \x1b]0;title\a no\u009b2J"})
	c.add(&resp.Error{Message: "NO\x1bAUTH needed"})
	c.add(&resp.Error{Message: strings.Repeat("X", 1000) + " y"})
	require.Equal(t, causes{"ERR ]0;title no2J": 1, "NOAUTH": 1, strings.Repeat("X", maxCause): 1}, c)
}

func TestHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h hold
	require.NoError(t, h.UnmarshalText([]byte("5ms")))
	require.Equal(t, 5*time.Millisecond, h.next(random))
	require.NoError(t, h.UnmarshalText([]byte("exp:5ms")))
	var sum time.Duration
	for range 10_000 {
		sum += h.next(random)
	}
	require.InEpsilon(t, 5*time.Millisecond, sum/10_000, 0.05)
	for _, bad := range []string{"", "5", "exp:", "-1ms", "exp:-1ms", "uniform:5ms"} {
		require.Error(t, h.UnmarshalText([]byte(bad)), bad)
	}
}
