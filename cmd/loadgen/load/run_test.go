package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
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

// Without a server on PATH the command still works.
func TestFallsBackToEmbedded(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("REDMUX_SERVER", "")
	t.Setenv("REDMUX_SERVERS", "")
	r := measure(t, openSystem, exitGood, "--spawn=1", "-n1", "--warmup=0s")
	require.Equal(t, "embedded", r.Runs[0].Backend)

	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, Run([]string{"--server=no-such-server", "-n1"}, &stdout, &stderr, nil))
	require.Equal(t, 1, strings.Count(stderr.String(), "no-such-server"), "one reason for all")
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

func TestContendedOnRealServers(t *testing.T) {
	_, nodes := servers(t, 3)
	for _, wait := range []string{"--wait=0s", "--wait=1s"} {
		r := measure(t, openSystem, exitGood, nodes, "-n300", untilDone, patient, "--warmup=20ms", "-c8", "--keys=2", "--hold=exp:200us", wait, "--impl=redlock,rueidis")
		for _, run := range r.Runs {
			require.Equal(t, "remote", run.Backend)
			require.EqualValues(t, 300, run.Pairs, run.Impl)
			require.Zero(t, run.Violations, run.Impl)
		}
		if wait == "--wait=0s" {
			require.Positive(t, r.Runs[0].Outcomes.Held)
		}
	}
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
	r := measure(t, unclosable{&fakeLocker{ttl: time.Hour}}.opens, exitGood, "--embedded", "--spawn=1", "-n5", "--warmup=0s", "--runs=2")
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
		r := measure(t, lossy{err}.opens, exitGood, "--embedded", "--spawn=1", "--warmup=0s", "-n5").Runs[0]
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
