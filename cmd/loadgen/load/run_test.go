package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/internal/redistest"
	records "github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// measure runs the command and reads its JSON.
func measure(t *testing.T, open opener, wantCode int, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := runWith(open, append([]string{"-q", "-o", "json"}, args...), &stdout, &stderr, nil)
	require.Equal(t, wantCode, code, &stderr)
	var r result
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.Equal(t, 1, r.Schema)
	return r
}

// servers gives the flags for real servers, or skips the test.
func servers(t *testing.T, n int) (nodes []*redistest.Server, flag string) {
	t.Helper()
	nodes = redistest.Servers(t, n)
	opened(t, redlock.Config{}, redistest.URLs(nodes)...)
	return nodes, "--nodes=" + strings.Join(redistest.URLs(nodes), ",")
}

// opened opens the deployment of real servers.
func opened(t *testing.T, config redlock.Config, urls ...string) {
	t.Helper()
	config.Nodes = redlock.Nodes(urls...)
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
}

// For runs of a number of acquisitions, which may be slow on a busy machine,
// and in which no vote may be late.
const (
	untilDone = "-d5m"
	patient   = "--node-timeout=30s"
)

// awhile is for runs about what happens in a time of any length: long enough
// that a machine which stalls at the start leaves some of it.
const awhile = "-d1s"

func TestEveryImplementationOnSpawnedServers(t *testing.T) {
	redistest.Require(t)
	r := measure(t, openSystem, exitGood, "-n500", untilDone, patient, "--warmup=20ms", "--spawn=3", "-c8", "--runs=2", "--impl="+strings.Join((&flags{}).implementations(), ","))
	var order []string
	for _, run := range r.Runs {
		order = append(order, run.Impl)
		require.Equal(t, "spawned", run.Backend)
		require.Equal(t, 3, run.N)
		require.Len(t, run.Nodes, 3)
		require.NotEmpty(t, run.Nodes[2].Server)
		require.Regexp(t, `^\d+\.\d+`, run.Nodes[2].Version)
		require.Equal(t, 8, run.Clients)
		require.EqualValues(t, 500, run.Pairs)
		require.InDelta(t, float64(run.Pairs)/run.DurationS, run.PairsPerS, 1)
		for _, q := range []quantiles{run.AcquireUS, run.ReleaseUS} {
			require.Positive(t, q.P50)
			require.True(t, slices.IsSorted([]float64{q.P50, q.P90, q.P99, q.P999, q.Max}), q)
		}
		require.GreaterOrEqual(t, run.Outcomes.Granted, run.Pairs)
		require.Positive(t, run.CPUUSPerPair)
		require.Zero(t, run.Violations)
	}
	require.Equal(t, slices.Repeat((&flags{}).implementations(), 2), order, "they take turns")
}

func TestEmbedded(t *testing.T) {
	r := measure(t, openSystem, exitGood, "--embedded", "--spawn=3", "-n10", "--warmup=0s", "-c2", "--impl=redlock,rueidis")
	for _, run := range r.Runs {
		require.Equal(t, "embedded", run.Backend)
		require.EqualValues(t, 10, run.Outcomes.Granted)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitGood, Run([]string{"--embedded", "--spawn=1", "-n1", "--warmup=0s"}, &stdout, &stderr, nil))
	require.Contains(t, stdout.String(), "in this process")
	require.Contains(t, stderr.String(), "1 embedded node")
}

// If no server is installed, the command still works, and the first result is not
// full of errors: a few callers do not make in-process servers too slow to vote.
// Flags that need real servers say so.
func TestFallsBackToEmbedded(t *testing.T) {
	for _, name := range []string{"REDMUX_SERVER", "REDMUX_SERVERS"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitGood, Run([]string{"-q", "-n200", "--warmup=0s"}, &stdout, io.Discard, nil))
	first, rest, _ := strings.Cut(stdout.String(), "\n")
	require.Contains(t, first, "redis-server and valkey-server are not on PATH")
	require.Contains(t, first, "4 callers by default and not 64, since they are slow")
	require.Contains(t, rest, "4 callers in a closed loop")
	require.Equal(t, 3, measure(t, openSystem, exitGood, "-c3", "-n10", "--warmup=0s").Runs[0].Clients, "an explicit number is kept")
	require.Equal(t, embeddedCallers, measure(t, openSystem, exitGood, "--embedded", "-n10", "--warmup=0s").Runs[0].Clients)

	require.Equal(t, exitFailed, Run([]string{"--server=no-such-server", "-n1"}, io.Discard, &stderr, nil))
	require.Equal(t, 1, strings.Count(stderr.String(), "no-such-server"), "one reason for all")
	for _, flag := range []string{"--fault=1s:stop:0:1s", "--network=tcp"} {
		name, _, _ := strings.Cut(flag, "=")
		require.Equal(t, exitUsage, Run([]string{flag}, io.Discard, &stderr, nil))
		require.Contains(t, stderr.String(), name+" needs real servers")
	}
}

// Scripts read these names.
func TestJSONSchema(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitGood, runWith((&fakeLocker{ttl: time.Hour}).opens, []string{"-q", "--embedded", "--spawn=1", "-n3", "--warmup=0s", "-o", "json"}, &stdout, &stderr, nil))
	var got struct {
		Schema float64
		Runs   []map[string]any
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &got))
	keys := func(v any) string { return strings.Join(slices.Sorted(maps.Keys(v.(map[string]any))), " ") }
	run := got.Runs[0]
	require.EqualValues(t, 1, got.Schema)
	require.Equal(t, "acquire_us allocs_per_pair backend bytes_per_pair clients cpu_us_per_pair duration_s errors impl loop n nodes outcomes pairs pairs_per_s release_us violations work", keys(run))
	require.Equal(t, map[string]any{"ttl": "10s", "hold": "0s"}, run["work"])
	require.Equal(t, "max p50 p90 p99 p999", keys(run["acquire_us"]))
	require.Equal(t, "max p50 p90 p99 p999", keys(run["release_us"]))
	require.Equal(t, "cancelled error expired granted held noquorum", keys(run["outcomes"]))
	require.Equal(t, "addr server version", keys(run["nodes"].([]any)[0]))
	require.Empty(t, keys(run["errors"]))
}

func TestOpsCountsAcquisitions(t *testing.T) {
	var tries atomic.Int64
	f := &fakeLocker{ttl: time.Hour, try: func() error {
		runtime.Gosched() // so that several callers take the last ones at once
		if tries.Add(1)%3 != 0 {
			return redlock.ErrHeld
		}
		return nil
	}}
	r := measure(t, f.opens, exitGood, "--embedded", "--spawn=1", "--warmup=0s", "-c7", "-n1000").Runs[0]
	require.EqualValues(t, 1000, r.Outcomes.Granted)
	require.EqualValues(t, 1000, r.Pairs)
	require.InDelta(t, 2000, r.Outcomes.Held, 20)
}

// A lock that is granted to two callers at once is detected; a new grant after
// the end of a lock is no violation.
func TestViolations(t *testing.T) {
	args := []string{"--embedded", "--spawn=1", "--warmup=0s", "-n100", "-c4", "--keys=1", "--hold=1ms"}
	r := measure(t, (&fakeLocker{ttl: time.Hour}).opens, exitViolated, args...)
	require.Positive(t, r.Runs[0].Violations)

	// In the warm-up, too.
	measure(t, (&fakeLocker{ttl: time.Hour}).opens, exitViolated, append(args, "--warmup=1s", "-n1")...)

	// With validities of no length there is never a holder.
	r = measure(t, (&fakeLocker{}).opens, exitGood, args...)
	require.Zero(t, r.Runs[0].Violations)
}

func TestNothingGranted(t *testing.T) {
	for _, impl := range []string{"redlock", "rueidis"} {
		r := measure(t, openSystem, exitFailed, "--nodes=redis://127.0.0.1:1", awhile, "--warmup=0s", "-c2", "--impl="+impl)
		require.Zero(t, r.Runs[0].Pairs)
		require.Positive(t, r.Runs[0].Outcomes.NoQuorum)
		require.Equal(t, r.Runs[0].Outcomes.NoQuorum, r.Runs[0].Errors["connection refused"])
	}
}

// If nothing is granted in the warm-up, the run ends long before its time.
func TestNothingGrantedInTheWarmup(t *testing.T) {
	var stdout, stderr bytes.Buffer
	start := time.Now()
	code := Run([]string{"--nodes=redis://127.0.0.1:1", "-d1h", "--warmup=1s", "-c2"}, &stdout, &stderr, nil)
	require.Equal(t, exitFailed, code)
	require.Less(t, time.Since(start), time.Hour)
	require.Contains(t, stderr.String(), "run 1: nothing was granted in the warm-up")
	require.Contains(t, stdout.String(), "× connection refused")

	// Locks held by other clients are no failure.
	r := measure(t, (&fakeLocker{try: func() error { return redlock.ErrHeld }}).opens, exitGood, "--embedded", "--spawn=1", awhile, "--warmup=20ms", "-c2")
	require.Positive(t, r.Runs[0].Outcomes.Held)
	// If every attempt comes too late, that is one.
	measure(t, (&fakeLocker{try: func() error { return redlock.ErrExpired }}).opens, exitFailed, "--embedded", "--spawn=1", awhile, "--warmup=0s", "-c2")
}

// A client that cannot be closed in time does not spoil the measurement.
func TestCloseThatFails(t *testing.T) {
	r := measure(t, (&fakeLocker{ttl: time.Hour, closing: context.DeadlineExceeded}).opens, exitGood, "--embedded", "--spawn=1", "-n5", "--warmup=0s", "--runs=2")
	require.Len(t, r.Runs, 2)
	require.EqualValues(t, 5, r.Runs[0].Pairs)
	require.EqualValues(t, 1, r.Runs[0].Errors["closed with releases still on their way"])
}

func TestContextsEnd(t *testing.T) {
	f := &fakeLocker{deaf: redlock.ErrHeld}
	args := []string{"--embedded", "--spawn=1", "--warmup=0s", awhile, "-c2"}
	r := measure(t, f.opens, exitGood, append(args, "--cancel-after=5ms")...).Runs[0]
	require.Positive(t, r.Outcomes.Cancelled)
	require.Zero(t, r.Outcomes.Held)

	// The end of a wait is not a cancellation: the resource is held.
	r = measure(t, f.opens, exitGood, append(args, "--wait=5ms")...).Runs[0]
	require.Positive(t, r.Outcomes.Held)
	require.Zero(t, r.Outcomes.Cancelled)

	// The end of the run ends a long wait, which is then no outcome.
	r = measure(t, f.opens, exitGood, append(args, "--wait=1h")...).Runs[0]
	require.Equal(t, outcomeCounts{}, r.Outcomes)
}

func TestReleaseThatFails(t *testing.T) {
	for err, cause := range map[error]string{redlock.ErrNotHeld: "lost before its release", errors.New("broken"): "broken"} {
		r := measure(t, (&fakeLocker{ttl: time.Hour, releases: err}).opens, exitGood, "--embedded", "--spawn=1", "--warmup=0s", "-n5").Runs[0]
		require.EqualValues(t, 5, r.Outcomes.Granted)
		require.Zero(t, r.Pairs)
		require.EqualValues(t, 5, r.Errors[cause])
	}
}

// R27: the password goes to the nodes and nowhere else.
func TestPassword(t *testing.T) {
	redistest.Require(t)
	t.Setenv("SECRET", "s3cret")
	var stdout, stderr bytes.Buffer
	args := []string{"--password-env=SECRET", "--spawn=1", "-n10", "--warmup=0s", "--impl=redlock,rueidis", "-ojson"}
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil), &stderr)
	require.NotContains(t, stdout.String()+stderr.String(), "s3cret")
	require.Equal(t, 2, strings.Count(stdout.String(), `"granted": 10`))
	for _, user := range []string{"--user=alice", "--user=default"} {
		for _, backend := range []string{"--spawn=1", "--embedded"} {
			measure(t, openSystem, exitGood, args[0], user, backend, "-n10", "--warmup=0s")
		}
	}

	t.Setenv("SECRET", "wr0ng")
	nodes := redistest.Servers(t, 1, redistest.Password("s3cret"))
	opened(t, redlock.Config{}, redistest.URLs(nodes)...)
	bare := strings.Replace(nodes[0].URL(), ":s3cret@", "", 1)
	stdout.Reset()
	stderr.Reset()
	args = []string{"--password-env=SECRET", "--nodes=" + bare, awhile, "--warmup=0s", "--impl=redlock,rueidis"}
	require.Equal(t, exitFailed, Run(args, &stdout, &stderr, nil))
	require.Contains(t, stdout.String(), "WRONGPASS")
	require.NotContains(t, stdout.String()+stderr.String(), "wr0ng")
}

// The loop around the locks allocates nothing, so all counted allocations are
// theirs.
func TestTheLoopAllocatesNothing(t *testing.T) {
	f, err := parse([]string{"-c1"}, os.Stdout)
	require.NoError(t, err)
	for _, withHistory := range []bool{false, true} {
		var h *history
		if withHistory {
			h, err = createHistory(t.TempDir()+"/h", newClock())
			require.NoError(t, err)
		}
		p := newPhase(f, newClock(), h, []string{"r"}, make([]int64, 1))
		c := newCaller(&fakeLocker{ttl: time.Hour}, p, 0)
		c.attempt(c.clock.now())
		allocs := testing.AllocsPerRun(1000, func() { c.attempt(c.clock.now()) })
		if withHistory {
			require.LessOrEqual(t, allocs, 3.0, "the token of each line") // the token needs an allocation only then
		} else {
			require.Zero(t, allocs)
		}
		p.halt()
		require.NoError(t, h.close())
	}
}

// If a run is shorter than the retries of its attempts, it has no outcomes. It
// has failed all the same if its nodes are down.
func TestRunShorterThanWait(t *testing.T) {
	args := []string{"--embedded", "--spawn=1", "--warmup=0s", awhile, "-c2", "--wait=1h"}
	down := measure(t, (&fakeLocker{deaf: redlock.ErrNoQuorum}).opens, exitFailed, args...).Runs[0]
	require.Zero(t, down.Outcomes)
	require.EqualValues(t, 2, down.Cut)
	require.Equal(t, map[string]int64{cutWithoutQuorum: 2}, down.Errors)

	held := measure(t, (&fakeLocker{deaf: redlock.ErrHeld}).opens, exitGood, args...).Runs[0]
	require.EqualValues(t, 2, held.Cut)
	require.Empty(t, held.Errors)
}

// fakeLocker grants every lock, or returns what try returns.
type fakeLocker struct {
	ttl time.Duration // of the validity, whatever the requested TTL
	try func() error
	// deaf makes an attempt end only with its context, and with the context's
	// error joined to this one.
	deaf error
	// releases and closing are what releases and Close return.
	releases, closing error
}

type fakeLease struct {
	until time.Time
	token redlock.Token
	err   error
}

func (l fakeLease) Release(context.Context) error { return l.err }
func (l fakeLease) Until() time.Time              { return l.until }
func (l fakeLease) Token() redlock.Token          { return l.token }

func (f *fakeLocker) TryAcquire(ctx context.Context, _ string, _ time.Duration) (fakeLease, error) {
	if f.deaf != nil {
		<-ctx.Done()
		return fakeLease{}, errors.Join(ctx.Err(), f.deaf)
	}
	if f.try != nil {
		if err := f.try(); err != nil {
			return fakeLease{}, err
		}
	}
	return fakeLease{until: time.Now().Add(f.ttl), err: f.releases}, nil
}

func (f *fakeLocker) Acquire(ctx context.Context, resource string, ttl time.Duration) (fakeLease, error) {
	return f.TryAcquire(ctx, resource, ttl)
}

func (f *fakeLocker) Close(context.Context) error { return f.closing }

// opens makes the command use the fake under any name.
func (f *fakeLocker) opens(*flags, string, []string) (System, error) {
	return Drive[fakeLease](f), nil
}

var _ bench.Locker[fakeLease] = (*fakeLocker)(nil)

// interrupting is a fake whose first attempt interrupts the command.
func interrupting(signals chan<- os.Signal) *fakeLocker {
	var once sync.Once
	return &fakeLocker{ttl: time.Hour, try: func() error {
		once.Do(func() { signals <- syscall.SIGINT })
		return nil
	}}
}

// fakes returns an implementation, and what it was opened with.
func fakes(name string, most int) (Implementation, *[]Settings) {
	opened := &[]Settings{}
	return Implementation{Name: name, About: "a fake", MostNodes: most, Open: func(s Settings) (System, error) {
		*opened = append(*opened, s)
		return Drive[fakeLease](&fakeLocker{ttl: time.Hour}), nil
	}}, opened
}

// What a program adds can be named beside what is here, and takes its turn.
func TestOtherImplementations(t *testing.T) {
	other, opened := fakes("other", 0)
	var stdout, stderr bytes.Buffer
	args := []string{"--embedded", "--spawn=2", "-n3", "--warmup=0s", "--runs=2", "--impl=redlock,other", "-ocsv", "-q", "--node-timeout=9s", "--user=u", "--password-env=REDMUX_TEST_PASSWORD"}
	t.Setenv("REDMUX_TEST_PASSWORD", "secret")
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil, other), &stderr)
	require.Regexp(t, `(?s)^impl,.*\nredlock,.*\nother,.*\nredlock,.*\nother,`, stdout.String())
	require.Len(t, *opened, 2)
	s := (*opened)[0]
	require.Len(t, s.URLs, 2)
	require.Equal(t, []string{"u", "secret"}, []string{s.Username, s.Password})
	require.Equal(t, 9*time.Second, s.NodeTimeout)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", s, s, s), "secret")

	stdout.Reset()
	require.Equal(t, exitGood, Run([]string{"--help"}, &stdout, io.Discard, nil, other))
	require.Contains(t, stdout.String(), "a fake")
}

func TestImplementationsThatDoNotFit(t *testing.T) {
	lone, _ := fakes("lone", 1)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--impl=redsync"}, "bench/compare"},
		{[]string{"--impl=lone", "--spawn=3"}, "at most 1 node"},
		{[]string{"--impl=lone", "--nodes=redis://a,redis://b"}, "at most 1 node"},
		{[]string{"--kind=fair", "--keys=1", "--impl=lone", "--spawn=1"}, "only --impl redlock"},
		{[]string{"--instances=0"}, "--instances 0"},
		{[]string{"--instances=3", "-c2"}, "--instances 3"},
		{[]string{"--network=tcp", "--embedded"}, "--network"},
		{[]string{"--network=udp"}, "udp"},
	} {
		var others []Implementation
		if c.says != "bench/compare" {
			others = append(others, lone)
		}
		_, err := parse(c.args, io.Discard, others...)
		require.ErrorAs(t, err, new(usageError), "%q", c.args)
		require.ErrorContains(t, err, c.says, "%q", c.args)
	}
}

// Each instance has callers and is closed.
func TestInstances(t *testing.T) {
	other, opened := fakes("other", 0)
	var stdout, stderr bytes.Buffer
	args := []string{"--embedded", "--spawn=1", "-n30", "--warmup=0s", "--impl=other", "-c6", "--instances=3", "-ojson", "-q", "--hold=1ms"}
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil, other), &stderr)
	require.Len(t, *opened, 3)
	require.Contains(t, stdout.String(), `"instances": 3`)

	var d driver[fakeLease]
	for range 3 {
		d.join(Drive[fakeLease](&fakeLocker{closing: context.DeadlineExceeded}))
	}
	require.ErrorContains(t, d.close(t.Context()), "deadline")
	require.Len(t, d.lockers, 3)
}

// Callers reach started servers by each network.
func TestNetworks(t *testing.T) {
	for _, network := range []string{"unix", "tcp", "tls"} {
		r := measure(t, openSystem, exitGood, "--spawn=3", "--network="+network, "-n20", untilDone, patient, "--warmup=0s", "-c2", "--impl=redlock,rueidis")
		require.Len(t, r.Runs, 2)
		for _, run := range r.Runs {
			require.EqualValues(t, 20, run.Pairs, network)
		}
		require.Equal(t, network != "unix", r.Runs[0].Work.Network == network)
	}
}

// Callers share resources as the kind says, and the referee and the history know
// how: several resources at once, the numbers of fenced locks, readers and
// writers, permits, and the places of those that wait for a fair lock.
func TestKinds(t *testing.T) {
	const plain, read, write, permit, fair = records.PlainForm, records.ReadForm, records.WriteForm, records.PermitForm, records.FairForm
	for _, c := range []struct {
		kind   string
		grants int // of each resource, in 100 pairs
		forms  []records.Form
		tight  bool // it would be wrong if one believed that each lock held more
	}{
		{"multi:3", 300, []records.Form{plain}, false}, {"fenced", 100, []records.Form{plain}, false}, {"fair", 100, []records.Form{fair}, false},
		{"rw:50", 100, []records.Form{read, write}, true}, {"rw:100", 100, []records.Form{read}, true},
		{"rw:0", 100, []records.Form{write}, false}, {"permits:2", 100, []records.Form{permit}, true},
	} {
		t.Run(c.kind, func(t *testing.T) {
			name := t.TempDir() + "/h"
			keys := "--keys=2"
			if c.kind == "multi:3" {
				keys = "--keys=5"
			}
			r := measure(t, openSystem, exitGood, "--spawn=3", "--kind="+c.kind, keys, "-c4", "--wait=1m", "-n100", untilDone, patient, "--warmup=0s", "--hold=200us", "--history", name).Runs[0]
			require.Zero(t, r.Violations)
			require.EqualValues(t, 100, r.Pairs)
			require.Equal(t, c.kind, r.Work.Kind)
			x := judged(t, name)
			require.Equal(t, c.grants, x.Grants)
			require.ElementsMatch(t, c.forms, slices.Collect(maps.Keys(x.Forms)))
			require.Equal(t, c.kind == "fenced", x.Numbers == 100)
			require.Equal(t, c.kind == "fair", x.Queued > 0)
			if c.tight {
				var x records.Exclusion
				for e, err := range records.Merge(records.DefaultDisorder, records.Open(name)) {
					require.NoError(t, err)
					if e.Form = write; e.Permits > 0 {
						e.Form, e.Permits = permit, 1
					}
					x.Add(e)
				}
				require.NotEmpty(t, x.Violations())
			}
		})
	}
	// By the steepest law, which chooses none but the first, there are several
	// resources all the same.
	r := measure(t, openSystem, exitGood, "--spawn=3", "--kind=multi:3", "--keys=5", "--dist=zipf:100", "-c1", "-n10", untilDone, patient, "--warmup=0s").Runs[0]
	require.EqualValues(t, 10, r.Pairs)
}

// judged is what checkhistory finds.
func judged(t *testing.T, name string) *records.Exclusion {
	t.Helper()
	var x records.Exclusion
	for e, err := range records.Merge(records.DefaultDisorder, records.Open(name)) {
		require.NoError(t, err)
		x.Add(e)
	}
	require.Empty(t, x.Violations())
	return &x
}

func TestKindFlag(t *testing.T) {
	for _, bad := range [][]string{
		{"--kind=multi"}, {"--kind=multi:1", "--keys=5"}, {"--kind=multi:65", "--keys=99"}, {"--kind=fair:2"}, {"--kind=plain:1"},
		{"--kind=rw"}, {"--kind=rw:101"}, {"--kind=rw:-1"}, {"--kind=permits"}, {"--kind=permits:0"}, {"--kind=permits:1025"},
		{"--kind=rw:5", "--impl=rueidis"}, {"--kind=multi:3"}, {"--kind=multi:3", "--keys=2"}, {"--kind=multi:2", "--keys=2", "--impl=rueidis"},
	} {
		_, err := parse(bad, nil)
		require.Error(t, err, "%q", bad)
	}
	f, err := parse([]string{"--kind=multi:3", "--keys=10"}, nil)
	require.NoError(t, err)
	require.Equal(t, "multi:3", f.Kind.String())
	require.Contains(t, describeWork(f), "3 of 10 resources for all at once")
	for _, kind := range []string{"plain", "fenced", "fair", "rw:0", "rw:90", "permits:5"} {
		f, err := parse([]string{"--kind=" + kind, "--keys=3"}, nil)
		require.NoError(t, err)
		require.Equal(t, kind, f.Kind.String())
		require.Equal(t, kind != "plain" && kind != "fenced", strings.Contains(describeWork(f), "3 resources for all, "+kind))
	}
}
