package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/loadgen/internal/report"
	"github.com/redmux/redmux/internal/redistest"
	records "github.com/redmux/redmux/proof/history"
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

// talking reports its nodes, as redlock's client does.
type talking struct{ *fakeLocker }

func (talking) Nodes() []redlock.NodeStatus {
	return []redlock.NodeStatus{
		{Addr: "a:1", State: "up", Debts: 3, ReplyTime: time.Millisecond},
		{Addr: "b:1", State: "down", Debts: 4, ReplyTime: time.Second},
	}
}

func (l talking) opens(*flags, string, []string) (System, error) { return Drive[fakeLease](l), nil }

func readStats(t *testing.T, name string) (lines []statsLine) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, raw := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var keys map[string]any
		require.NoError(t, json.Unmarshal(raw, &keys))
		require.Equal(t, "debts fds goroutines heap_bytes in_flight nodes t", strings.Join(slices.Sorted(maps.Keys(keys)), " "))
		var l statsLine
		require.NoError(t, json.Unmarshal(raw, &l))
		lines = append(lines, l)
	}
	return lines
}

// A line a second, the warm-up included, and one at the end of each phase.
func TestStats(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stats")
	before := records.Monotonic()
	measure(t, talking{&fakeLocker{ttl: time.Hour}}.opens, exitGood, "--embedded", "--spawn=2", "-c2", "--hold=10ms", "--warmup=20ms", "-d2500ms", "--stats", name)
	lines := readStats(t, name)
	require.GreaterOrEqual(t, len(lines), 3)
	last := before
	for _, l := range lines {
		require.Greater(t, l.T, last)
		last = l.T
		require.Positive(t, l.Goroutines)
		require.Positive(t, l.HeapBytes)
		require.Equal(t, 7, l.Debts)
		require.Equal(t, []nodeState{{"a:1", "up"}, {"b:1", "down"}}, l.Nodes)
		if _, err := os.Stat("/proc/self/fd"); err == nil {
			require.Positive(t, l.FDs)
		}
	}
	require.LessOrEqual(t, last, records.Monotonic())
	require.Zero(t, lines[len(lines)-1].InFlight)
}

func TestStatsOfRealNodes(t *testing.T) {
	_, nodes := servers(t, 3)
	for impl, state := range map[string]string{"redlock": "up", "rueidis": ""} {
		name := filepath.Join(t.TempDir(), "stats")
		measure(t, openSystem, exitGood, nodes, "-c2", "--warmup=0s", "-n100", untilDone, patient, "--impl", impl, "--stats", name)
		lines := readStats(t, name)
		for _, n := range lines[len(lines)-1].Nodes {
			require.Equal(t, state, n.State)
			require.NotEmpty(t, n.Addr)
		}
	}
}

// A call is in flight while it runs, and not while its lock is held.
func TestInFlight(t *testing.T) {
	f, err := parse([]string{"-c3"}, os.Stdout)
	require.NoError(t, err)
	p := newPhase(f, newClock(), nil, []string{"a", "b", "c"}, make([]int64, 3))
	defer p.halt()
	locker := &fakeLocker{ttl: time.Hour}
	c := newCaller(locker, p, 1)
	locker.try = func() error {
		require.EqualValues(t, 1, p.inFlight())
		return redlock.ErrHeld
	}
	c.attempt(0)
	require.Zero(t, p.inFlight())
}

// line is what checkhistory reads.
type line struct {
	T        int64  `json:"t"`
	Client   int    `json:"client"`
	Resource string `json:"resource"`
	Attempt  int64  `json:"attempt"`
	Event    event  `json:"ev"`
	Token    string `json:"token"`
	Until    int64  `json:"until"`
}

func readHistory(t *testing.T, name string) (lines []line) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		var l line
		require.NoError(t, json.Unmarshal(s.Bytes(), &l), s.Text())
		lines = append(lines, l)
	}
	return lines
}

// A history contains every attempt from start to end, and its locks exclude
// each other.
func TestHistory(t *testing.T) {
	_, nodes := servers(t, 3)
	for _, impl := range (&flags{}).implementations() {
		t.Run(impl, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "history")
			before := records.Monotonic()
			// The timeouts are for a busy machine: an unanswered release ends
			// differently.
			r := measure(t, openSystem, exitGood, nodes, "-n200", untilDone, patient, "--warmup=0s", "-c6", "--keys=2", "--wait=1s", "--hold=exp:100us", "--impl="+impl, "--history", name).Runs[0]
			after := records.Monotonic()
			lines := readHistory(t, name)

			type attempt struct {
				client int
				number int64
			}
			attempts := map[attempt][]line{}
			clients := map[int]int64{}
			for _, l := range lines {
				key := attempt{l.Client, l.Attempt}
				attempts[key] = append(attempts[key], l)
				require.GreaterOrEqual(t, l.T, max(clients[l.Client], before), "each client's lines are in order")
				require.LessOrEqual(t, l.T, after)
				clients[l.Client] = l.T
			}
			require.Len(t, clients, 6)
			tokens := map[string]bool{}
			for _, a := range attempts {
				var events []event
				for _, l := range a {
					events = append(events, l.Event)
				}
				require.Equal(t, evStart, events[0])
				if len(events) == 2 {
					require.Contains(t, []event{evHeld, evCancel}, events[1])
					continue
				}
				require.Equal(t, []event{evStart, evGrant, evRelease, evReleased}, events)
				grant := a[1]
				require.Equal(t, grant.Token, a[2].Token)
				if grant.Client%2 == 0 {
					require.Regexp(t, "^[0-9a-f]{16}$", grant.Token)
					require.False(t, tokens[grant.Token], "R3: every attempt has its own token")
					tokens[grant.Token] = true
				} else {
					require.Empty(t, grant.Token, "so that it can be handed over")
				}
				// R4: at most the TTL less the drift and the time until the
				// grant, which may be long on a busy machine.
				left := time.Duration(grant.Until - grant.T)
				require.LessOrEqual(t, left, 9898*time.Millisecond)
				require.Greater(t, left, 4898*time.Millisecond)
			}
			require.NotEmpty(t, tokens)
			require.EqualValues(t, 200, r.Outcomes.Granted)
			require.Equal(t, 200, judged(t, name).Grants)
		})
	}
}

func TestHistoryLine(t *testing.T) {
	h := &history{clock: clock{offset: 1000}}
	line := h.append(nil, entry{at: 5, client: 3, resource: "k\"\\\n\xff1", attempt: 17, event: evHeld})
	require.Equal(t, `{"t":1005,"client":3,"resource":"k\"\\\u000a\\xff1","attempt":17,"ev":"held"}`+"\n", string(line))
	lease := fakeLease{}
	line = h.append(nil, entry{at: 5, resource: "k1", attempt: 1, event: evGrant, token: &lease.token, until: 9})
	require.Equal(t, `{"t":1005,"client":0,"resource":"k1","attempt":1,"ev":"grant","token":"ea49aa9f6f6cf2d5","until":1009}`+"\n", string(line))
}

// A referee dates what it is told, and counts locks that exclude each other and
// are valid at one time.
func TestReferee(t *testing.T) {
	type told struct {
		at     time.Duration
		client int
		event  event
		until  time.Duration
		form   records.Form
	}
	const s = time.Second
	for _, c := range []struct {
		name string
		told []told
		want int64
	}{
		{"two at one time", []told{{s, 1, evGrant, 10 * s, ""}, {2 * s, 2, evGrant, 12 * s, ""}}, 1},
		{"the first was released", []told{{s, 1, evGrant, 10 * s, ""}, {2 * s, 1, evRelease, 10 * s, ""}, {3 * s, 2, evGrant, 12 * s, ""}}, 0},
		{"the validity of the first is over", []told{{s, 1, evGrant, 10 * s, ""}, {11 * s, 2, evGrant, 20 * s, ""}}, 0},
		{"the second was paused past its own validity", []told{{s, 1, evGrant, 30 * s, ""}, {11 * s, 2, evGrant, 10 * s, ""}}, 0},
		{"two readers", []told{{s, 1, evGrant, 10 * s, records.ReadForm}, {2 * s, 2, evGrant, 12 * s, records.ReadForm}}, 0},
		{"a writer under a reader", []told{{s, 1, evGrant, 10 * s, records.ReadForm}, {2 * s, 2, evGrant, 12 * s, records.WriteForm}}, 1},
		{"two permits of two", []told{{s, 1, evGrant, 10 * s, records.PermitForm}, {2 * s, 2, evGrant, 12 * s, records.PermitForm}}, 0},
		{"three permits of two", []told{{s, 1, evGrant, 10 * s, records.PermitForm}, {2 * s, 2, evGrant, 12 * s, records.PermitForm},
			{3 * s, 3, evGrant, 12 * s, records.PermitForm}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := phase{referees: make([]referee, 1)}
			for _, e := range c.told {
				now := clock{base: time.Now().Add(-e.at)}
				p.referees[0].add(now, records.Event{Client: e.client, Resource: "r", Attempt: 1, Ev: e.event, Until: int64(e.until), Form: e.form, Permits: 2})
			}
			require.Equal(t, c.want, p.violated())
		})
	}
}

// There is a referee for each resource that callers share, up to a bound.
func TestReferees(t *testing.T) {
	require.Empty(t, newReferees(&flags{}))
	require.Len(t, newReferees(&flags{Keys: 7}), 7)
	require.Len(t, newReferees(&flags{Keys: 1e6}), mostReferees)
}
