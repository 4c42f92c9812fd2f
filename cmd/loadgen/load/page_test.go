package load

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/loadgen/internal/report"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The page shows a run, and of an earlier run what its JSON contains.
func TestPage(t *testing.T) {
	f := &flags{Clients: 2, Rate: 500, Duration: time.Second, earlier: &result{Runs: []runResult{
		{Impl: "redlock", Backend: "remote", N: 5, Clients: 9, DurationS: 2.5, Pairs: 100, AcquireUS: quantiles{1, 2, 3, 4, 5}},
	}}}
	l := newLatency()
	l.record(time.Millisecond)
	s := &session{flags: f, title: "loadgen -c2", result: result{Runs: []runResult{{
		Impl: "redlock", Backend: "spawned", Clients: 2, DurationS: 1, Pairs: 7, PairsPerS: 7, Outcomes: outcomeCounts{Granted: 7, Error: 2}, Violations: 3, Late: 4, NotBegun: 5,
		Errors: map[string]int64{"LOADING": 2}, AllocsPerPair: 1, BytesPerPair: 2, CPUUSPerPair: 3,
		Nodes: []nodeResult{{"a:1", "redis", "7.0.15"}, {"b:1", "", ""}}, states: talking{}.Nodes(),
		Faults:   []faultResult{{AtS: 0.5, LengthS: 0.25, Kind: "stop", Node: 1}},
		acquired: l, released: newLatency(),
		samples: []sample{{at: time.Second, length: time.Second, pairs: 7, p99: time.Millisecond, outcomes: tally{granted: 7}, replyTimes: []time.Duration{1, 2}}},
	}}}}
	p := s.page()
	require.Equal(t, "loadgen -c2", p.Title)
	require.Equal(t, "spawned", p.Backend)
	require.Equal(t, "open, 500/s", p.Loop)
	require.WithinDuration(t, time.Now(), p.Made, time.Minute)
	require.Len(t, p.Runs, 2)
	require.Equal(t, []string{"The earlier runs were made otherwise: 5 remote nodes, 9 callers, closed loop; these: 0 spawned nodes, 2 callers, closed loop."}, p.Remarks)
	s.result.Interrupted = true
	require.Contains(t, s.page().Remarks, interruptedRemark)

	earlier, now := p.Runs[0], p.Runs[1]
	require.True(t, earlier.Earlier)
	require.Equal(t, 2500*time.Millisecond, earlier.Duration)
	require.Equal(t, report.Quantiles{Percentiles: []float64{50, 90, 99, 99.9, 100}, Latencies: []time.Duration{1000, 2000, 3000, 4000, 5000}}, earlier.Acquire)
	require.Empty(t, earlier.Series)

	require.False(t, now.Earlier)
	require.EqualValues(t, 7, now.Pairs)
	require.EqualValues(t, 3, now.Violations)
	require.EqualValues(t, 4, now.Late)
	require.EqualValues(t, 5, now.NotBegun)
	require.Equal(t, map[string]int64{"granted": 7, "held": 0, "noquorum": 0, "expired": 0, "cancelled": 0, "error": 2}, now.Outcomes)
	require.InDelta(t, float64(time.Millisecond), float64(now.Acquire.Latencies[0]), 1e4)
	require.Empty(t, now.Release.Percentiles)
	require.Equal(t, []report.Fault{{At: 500 * time.Millisecond, Length: 250 * time.Millisecond, Kind: "stop", Node: 1}}, now.Faults)
	require.Equal(t, report.Node{Addr: "a:1", Product: "redis", Version: "7.0.15", State: "up", ReplyTime: time.Millisecond}, now.Nodes[0])
	require.Equal(t, "down", now.Nodes[1].State)
	require.EqualValues(t, 7, now.Series[0].Outcomes["granted"])
	require.Len(t, now.Series[0].ReplyTimes, 2)
}

func TestPercentilesAscend(t *testing.T) {
	require.Empty(t, percentilesOf(0))
	for _, n := range []int64{1, 2, 1000, 1e9} {
		all := percentilesOf(n)
		require.EqualValues(t, 100, all[len(all)-1])
		for i := 1; i < len(all); i++ {
			require.Greater(t, all[i], all[i-1])
		}
	}
	require.Less(t, len(percentilesOf(1e12)), 400)

	// The page shows the same p99 as the JSON.
	l := newLatency()
	for i := range 100_000 {
		l.record(time.Duration(i) * time.Microsecond)
	}
	q, page := l.quantiles(), pageQuantiles(l, quantiles{})
	for p, want := range map[float64]float64{50: q.P50, 90: q.P90, 99: q.P99, 99.9: q.P999, 100: q.Max} {
		i := slices.Index(page.Percentiles, p)
		require.GreaterOrEqual(t, i, 0, p)
		require.InDelta(t, want*1e3, float64(page.Latencies[i]), 1, p)
	}
}

// The samples of a run add up to it, including the last, shorter interval.
func TestSamples(t *testing.T) {
	f := &fakeLocker{ttl: time.Hour}
	s := &session{flags: &flags{}, clock: newClock(), progress: newProgress(io.Discard, true)}
	var err error
	s.flags, err = parse([]string{"-c3", "-d1030ms", "--hold=1ms"}, io.Discard)
	require.NoError(t, err)
	s.resources, s.attempts = numbered("r", 3), make([]int64, 3)
	sys, err := talking{f}.opens(nil, "", nil)
	require.NoError(t, err)
	r, err := s.observe(t.Context(), sys, &target{}, s.newPhase(), "title")
	require.NoError(t, err)
	require.NotEmpty(t, r.samples)
	var pairs int64
	var outcomes tally
	var at time.Duration
	for _, x := range r.samples {
		pairs += x.pairs
		for o, n := range x.outcomes {
			outcomes[o] += n
		}
		at += x.length
		require.Equal(t, at, x.at)
		require.LessOrEqual(t, x.p50, x.p99)
		require.Equal(t, []time.Duration{time.Millisecond, time.Second}, x.replyTimes)
	}
	require.Equal(t, r.Pairs, pairs)
	require.Equal(t, r.Outcomes, countsOf(outcomes))
	require.Positive(t, pairs)
	require.Len(t, r.states, 2)
}

func TestShortLastSample(t *testing.T) {
	s := &sampler{interval: time.Second}
	s.add(sample{at: time.Second, length: time.Second, pairs: 5, p99: 7, max: 8, outcomes: tally{granted: 5}})
	s.add(sample{at: 1400 * time.Millisecond, length: 400 * time.Millisecond, pairs: 1, p99: 10, max: 10, outcomes: tally{granted: 1, held: 2}})
	require.Equal(t, []sample{{at: 1400 * time.Millisecond, length: 1400 * time.Millisecond, pairs: 6, p99: 7, max: 10, outcomes: tally{granted: 6, held: 2}}}, s.samples)
	_, total, ok := s.latest()
	require.True(t, ok)
	require.Equal(t, tally{granted: 6, held: 2}, total)
}

func TestSampleInterval(t *testing.T) {
	for run, want := range map[time.Duration]time.Duration{
		time.Millisecond: 100 * time.Millisecond, 10 * time.Second: 100 * time.Millisecond, 30 * time.Second: 300 * time.Millisecond,
		time.Hour: time.Second, 10 * time.Hour: 10 * time.Second,
	} {
		require.Equal(t, want, sampleInterval(run), run)
	}
}

// R27: the page shows the command line without credentials.
func TestTitleHasNoCredentials(t *testing.T) {
	for arg, want := range map[string]string{
		"-c2":                                "-c2",
		"--nodes=redis://me:s3cret@a:1/2":    "--nodes=redis://a:1/2",
		"redis://a:1,rediss://:s3@cret@b:2":  "redis://a:1,rediss://b:2",
		"unix://me:s3cret@/tmp/s,redis://h":  "unix:///tmp/s,redis://h",
		"--nodes=redis://a:1,unix:///tmp/@s": "--nodes=redis://a:1,unix:///tmp/@s",
	} {
		require.Equal(t, "loadgen "+want, titleOf([]string{arg}))
	}
}

func TestHTML(t *testing.T) {
	nodes := redistest.Servers(t, 1, redistest.Password("s3cret"))
	opened(t, redlock.Config{}, redistest.URLs(nodes)...)
	name := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("old "), 1e6), 0o600))
	measure(t, openSystem, exitGood, "--nodes="+nodes[0].URL(), "-n100", "-c2", "--warmup=0s", "--impl=redlock,rueidis", "--html", name)
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(page[:100]), "<!")
	require.Contains(t, string(page), "rueidis")
	require.NotContains(t, string(page), "s3cret")
	require.NotContains(t, string(page), "(earlier)")
	require.NotContains(t, string(page), "old old", "what was there is gone to the end")

	// With --compare the earlier runs are shown, too.
	measure(t, openSystem, exitGood, "--nodes="+nodes[0].URL(), "-n100", "-c1", "--warmup=0s", "--compare", earlierResult(t), "--html", name)
	page, err = os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(page), "(earlier)")
}

// Without a run, an existing page is kept, and no empty file is created.
func TestHTMLWithoutARun(t *testing.T) {
	dir := t.TempDir()
	kept, fresh := filepath.Join(dir, "kept"), filepath.Join(dir, "fresh")
	require.NoError(t, os.WriteFile(kept, []byte("old"), 0o600))
	for _, name := range []string{kept, fresh} {
		signals := make(chan os.Signal)
		var once sync.Once
		f := &fakeLocker{ttl: time.Hour, try: func() error {
			once.Do(func() { signals <- syscall.SIGINT })
			return nil
		}}
		args := []string{"-q", "--embedded", "--spawn=1", "--warmup=1m", "-c1", "--html", name}
		require.Equal(t, exitInterrupted, runWith(f.opens, args, io.Discard, io.Discard, signals))
	}
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	require.NoFileExists(t, fresh)

	args := []string{"-q", "--embedded", "--spawn=1", "--warmup=0s", "-n1"}
	require.Equal(t, exitFailed, Run(append(args, "--html", dir), io.Discard, io.Discard, nil))
	if _, err := os.Stat("/dev/full"); err == nil {
		require.Equal(t, exitFailed, Run(append(args, "--html=/dev/full"), io.Discard, io.Discard, nil))
	}
}
