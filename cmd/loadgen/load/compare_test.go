package load

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		text         string
		earlier, now float64
		missed       bool
	}{
		{"p99>+10%", 100, 111, true},
		{"p99>+10%", 100, 110, false},
		{"p99>+10%", 100, 50, false},
		{"p99 > 10%", 100, 111, true},
		{"pairs_per_s<-5%", 100, 94, true},
		{"pairs_per_s<-5%", 100, 95, false},
		{"pairs_per_s<-5%", 100, 200, false},
		{"p50>-10%", 100, 95, true}, // a required gain
		{"p50>-10%", 100, 85, false},
		{"error>+0%", 0, 0, false},
		{"error>+0%", 0, 1, true},
		{"allocs_per_pair>+1000000%", 0, 1, true}, // from zero to something is infinite
	} {
		var x condition
		require.NoError(t, x.UnmarshalText([]byte(c.text)), c.text)
		require.Equal(t, c.missed, x.missed(change(c.earlier, c.now)), "%s: %v to %v", c.text, c.earlier, c.now)
	}
	for _, bad := range []string{"", "p99", "p99>", "p99>10", "p98>+10%", "p99=10%", "p99>+1e9%", "p99>+NaN%", "P99>+10%"} {
		require.Error(t, new(condition).UnmarshalText([]byte(bad)), bad)
	}
	require.True(t, math.IsInf(change(0, 1), 1))
}

// earlierResult writes the result of a run of ten grants to a file.
func earlierResult(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"-q", "-ojson", "--embedded", "--spawn=1", "--warmup=0s", "-n10"}, args...)
	require.Equal(t, exitGood, runWith((&fakeLocker{ttl: time.Hour}).opens, args, &stdout, &stderr, nil), &stderr)
	name := filepath.Join(t.TempDir(), "earlier.json")
	require.NoError(t, os.WriteFile(name, stdout.Bytes(), 0o600))
	return name
}

func TestFailIf(t *testing.T) {
	earlier := earlierResult(t, "-c2")
	f := &fakeLocker{ttl: time.Hour}
	now := func(args ...string) (code int, out, errors string) {
		var stdout, stderr bytes.Buffer
		code = runWith(f.opens, append([]string{"--embedded", "--spawn=1", "--warmup=0s", "-n20", "-c2", "--compare", earlier}, args...), &stdout, &stderr, nil)
		return code, stdout.String(), stderr.String()
	}
	code, out, _ := now()
	require.Equal(t, exitGood, code)
	require.Contains(t, out, "against "+earlier)
	require.NotContains(t, out, "made otherwise")

	code, out, _ = now("--fail-if=granted>+100%", "--fail-if", "granted<-50%")
	require.Equal(t, exitGood, code)
	require.Contains(t, out, "not granted>+100%")

	code, out, errors := now("--fail-if=violations>+0%", "--fail-if=granted>+99%")
	require.Equal(t, exitMissed, code)
	require.Contains(t, out, "MISSED granted>+99%")
	require.Contains(t, errors, "granted was 10.0 and is 20.0 (+100.0%), granted>+99%")

	code, out, _ = now("--fail-if=granted>+99%", "-ojson")
	require.Equal(t, exitMissed, code)
	require.Contains(t, out, `"missed": true`)

	_, out, _ = now("-c3")
	require.Contains(t, out, "made otherwise: 1 embedded node, 2 callers, closed loop; these: 1 embedded node, 3 callers, closed loop")

	// A run that failed is not merely slower.
	f.try = func() error { return os.ErrInvalid }
	code, _, _ = now(awhile, "--fail-if=granted<-1%")
	require.Equal(t, exitFailed, code)
}

// A run without a grant has no latency: its zero must not count as a gain.
func TestFailIfMissesWhatHasNoFigure(t *testing.T) {
	now := func(f *fakeLocker, args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		args = append([]string{"--embedded", "--spawn=1", "--warmup=0s", "-d100ms", "--compare", earlierResult(t)}, args...)
		return runWith(f.opens, args, &stdout, &stderr, nil), stdout.String(), stderr.String()
	}
	f := &fakeLocker{ttl: time.Hour, try: func() error { return redlock.ErrHeld }}
	for _, metric := range []string{"p99", "release_max", "allocs_per_pair"} {
		code, out, errors := now(f, "--fail-if="+metric+">+10%")
		require.Equal(t, exitMissed, code, metric)
		require.Contains(t, out, "MISSED")
		require.Contains(t, errors, "(no figure)")
	}
	x := compare(&flags{Impl: []string{"redlock"}, earlier: &result{Runs: []runResult{{Impl: "redlock", PairsPerS: -math.MaxFloat64}}},
		FailIf: []condition{{metric: runMetrics[0]}}}, []runResult{{Impl: "redlock", PairsPerS: 1}})
	require.True(t, x[len(x)-1].Missed, "what cannot be computed")

	code, _, _ := now(f, "--fail-if=error>+0%")
	require.Equal(t, exitGood, code, "that can be judged: there was none")
}

func TestOtherwise(t *testing.T) {
	run := runResult{Backend: "spawned", N: 5, Clients: 2, Loop: "closed", DurationS: 10}
	longer, alike := run, run
	longer.DurationS, alike.DurationS = 30.1, 10.2
	f := &flags{earlier: &result{Runs: []runResult{run}}, FailIf: make([]condition, 1)}
	require.NoError(t, f.FailIf[0].UnmarshalText([]byte("p99>+10%")))
	require.Empty(t, otherwise(f, []runResult{longer}), "a latency is the same in any time")
	require.NoError(t, f.FailIf[0].UnmarshalText([]byte("held>+10%")))
	require.Empty(t, otherwise(f, []runResult{alike}))
	require.Empty(t, otherwise(f, nil))
	require.Contains(t, otherwise(f, []runResult{longer}), "closed loop, 10s; these: 5 spawned nodes, 2 callers, closed loop, 30.1s")

	// The work of the callers is compared if both results contain it.
	with, alone := run, run
	with.Work, alone.Work = (&flags{TTL: time.Second, Hold: hold{5 * time.Millisecond, true}, Keys: 100, Dist: dist{1.1}, Wait: time.Minute}).work(), (&flags{TTL: time.Second}).work()
	require.Empty(t, otherwise(f, []runResult{with}), "the earlier result does not tell")
	f.earlier.Runs[0] = alone
	require.Empty(t, otherwise(f, []runResult{alone}))
	require.Contains(t, otherwise(f, []runResult{with}), "closed loop, TTL 1s, hold 0s; these: 5 spawned nodes, 2 callers, closed loop, TTL 1s, hold exp:5ms, 100 keys zipf:1.1, wait 1m0s")

	// Scripts read another form than text, so the warning goes to standard
	// error.
	var stdout, stderr bytes.Buffer
	args := []string{"-ojson", "--embedded", "--spawn=1", "--warmup=0s", "-n10", "-c3", "--compare", earlierResult(t, "-c2")}
	require.Equal(t, exitGood, runWith((&fakeLocker{ttl: time.Hour}).opens, args, &stdout, &stderr, nil))
	require.Contains(t, stderr.String(), "made otherwise")
}

func TestCompareRefusesWhatItCannotJudge(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--fail-if needs --compare", []string{"--fail-if=p99>+10%"}},
		{"no metric", []string{"--compare", earlierResult(t), "--fail-if=p98>+10%"}},
		{"no such file", []string{"--compare", filepath.Join(dir, "none")}},
		{"no result", []string{"--compare", file("text", "pairs 5")}},
		{"schema 7", []string{"--compare", file("newer", `{"schema":7}`)}},
		{"in which nothing was granted", []string{"--compare", file("failed", `{"schema":1,"runs":[{"impl":"redlock","outcomes":{"error":3}}]}`)}},
		{"no run of rueidis", []string{"--compare", earlierResult(t), "--impl=redlock,rueidis"}},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, Run(c.args, &stdout, &stderr, nil), c.says)
		require.Contains(t, stderr.String(), c.says)
	}
}
