//go:build unix

package load

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

func TestFaultIsRead(t *testing.T) {
	var f fault
	require.NoError(t, f.UnmarshalText([]byte("3s:stop:2:1.5s")))
	require.Equal(t, fault{3 * time.Second, "stop", 2, 1500 * time.Millisecond}, f)
	require.Equal(t, "3s:stop:2:1.5s", f.String())
	for _, bad := range []string{"", "3s:stop:2", "3s:stop:2:1s:", "3:stop:2:1s", "3s:drop:2:1s", "3s:stop:-1:1s", "3s:stop:x:1s", "-1s:stop:2:1s", "3s:stop:2:0s", "3s:stop:2:1us", "3s:stop:2:-1s"} {
		require.ErrorIs(t, f.UnmarshalText([]byte(bad)), errFault, bad)
	}
}

func TestFaultsThatCannotBe(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "")
	t.Setenv("SECRET", "s3cret")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"AT:KIND:NODE:FOR", []string{"--fault=3s:drop:2:1s"}},
		{"started here", []string{"--fault=1s:stop:0:1s", "--embedded"}},
		{"started here", []string{"--fault=1s:stop:0:1s", "--nodes=redis://127.0.0.1:1"}},
		{"numbered from 0 to 4", []string{"--fault=1s:stop:5:1s"}},
		{"after the run's end", []string{"--fault=10s:stop:0:1s"}},
		{"hit one node", []string{"--fault=1s:stop:0:2s", "--fault=2s:kill:0:1s"}},
		{"forgets --user", []string{"--fault=1s:kill:0:1s", "--user=me", "--password-env=SECRET"}},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, Run(c.args, &stdout, &stderr, nil), "%q: %s", c.args, &stderr)
		require.Contains(t, stderr.String(), c.says)
	}
	// In-process servers replace real ones unless the flags need real ones.
	t.Setenv("PATH", t.TempDir())
	t.Setenv("REDMUX_SERVER", "")
	t.Setenv("REDMUX_SERVERS", "")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, Run([]string{"--fault=1s:stop:0:1s"}, &stdout, &stderr, nil))
	require.Contains(t, stderr.String(), "--fault needs real servers")
	require.Equal(t, exitUsage, Run([]string{"--network=tcp"}, &stdout, &stderr, nil))
	require.Contains(t, stderr.String(), "--network needs real servers")
}

// Each kind keeps the only node from voting for its time, in each run, and
// afterwards everything is as before.
func TestFaultsOfEachKind(t *testing.T) {
	redistest.Require(t)
	t.Setenv("SECRET", "s3cret")
	for _, c := range []struct{ kind, cause string }{
		{"stop", "answer"}, {"pause", "answer"}, {"kill", "refused"}, {"refuse", "no such file"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel() // each has its own server
			var stdout, stderr bytes.Buffer
			// A second before the fault, one with it, and two after it, in
			// which it may end late. The vote timeout is set, because its
			// default grows with the reply times of a busy machine's servers.
			args := []string{"-ojson", "--spawn=1", "-c2", "-r200", "-d4s", "--node-timeout=50ms", "--warmup=0s", "--password-env=SECRET", "--fault=1s:" + c.kind + ":0:1s", "--runs=2"}
			require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil), &stderr)
			var r result
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
			require.Len(t, r.Runs, 2)
			for _, run := range r.Runs {
				require.Len(t, run.Faults, 1)
				f := run.Faults[0]
				require.Equal(t, c.kind, f.Kind)
				require.GreaterOrEqual(t, f.AtS, 1.0)
				require.GreaterOrEqual(t, f.LengthS, 1.0)
				require.Positive(t, run.Pairs)
				require.Positive(t, run.Outcomes.NoQuorum)
				require.Contains(t, strings.Join(sortedCauses(run.Errors), "\n"), c.cause)
			}
			require.Equal(t, 2, strings.Count(stderr.String(), c.kind+" of node 0 for 1s"))
			require.Equal(t, 2, strings.Count(stderr.String(), c.kind+" of node 0 is over"))
		})
	}
}

// A fault of one node of three is marked in the text; it costs no quorum.
func TestFaultInTheText(t *testing.T) {
	redistest.Require(t)
	var stdout, stderr bytes.Buffer
	args := []string{"-q", "--spawn=3", "-c2", "-r200", "-d4s", "--warmup=0s", "--fault=500ms:stop:1:100ms", "--fault=2s:stop:2:100ms"}
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil), &stderr)
	require.Regexp(t, `run 1: fault: after \d\.\d+s stop of node 1 for \d\.\d+s\nrun 1: fault: after \d\.\d+s stop of node 2 for \d\.\d+s\n`, stdout.String())
}

// Faults end with their run.
func TestFaultEndsWithItsRun(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	for _, kind := range []string{"stop", "kill", "pause", "refuse"} {
		r := measure(t, openSystem, exitGood, "--spawn=3", "-c2", "-r100", "-n100", "-d1h", "--warmup=0s", "--runs=2", "--fault=0s:"+kind+":0:1h", "--fault=1m:stop:1:1h").Runs
		require.Len(t, r, 2)
		for _, run := range r {
			require.Len(t, run.Faults, 1, "the other one never came")
			require.Less(t, run.Faults[0].LengthS, 600.0)
		}
	}
}

// A replacement server requires the password, too.
func TestKilledServerWantsItsPassword(t *testing.T) {
	redistest.Require(t)
	f := &flags{Spawn: new(int), password: "s3cret"}
	*f.Spawn = 1
	target, err := spawn(f)
	require.NoError(t, err)
	defer target.close()
	s := target.servers[0]
	heal, err := killServer(s, f, 0)
	require.NoError(t, err)
	require.NoError(t, heal(false))
	require.NoError(t, target.settle(t.Context()))
	s.Authenticate("", "")
	_, err = s.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")
}

// After a run with a fault, all names that it had locked are free.
func TestSettle(t *testing.T) {
	redistest.Require(t)
	f, err := parse([]string{"--spawn=2"}, os.Stdout)
	require.NoError(t, err)
	target, err := spawn(f)
	require.NoError(t, err)
	defer target.close()
	_, err = target.servers[1].Do("SET", "k", "v")
	require.NoError(t, err)
	require.NoError(t, target.settle(t.Context()))
	require.Zero(t, keys(t, target.servers[1]))
}

// Redlock keeps out a node that comes back empty. Servers that were started here
// count at once, in each run and with any TTL.
func TestMaxTTL(t *testing.T) {
	redistest.Require(t)
	for _, args := range [][]string{{"--ttl=1s"}, {"--ttl=1m"}, {"--ttl=1s", "--max-ttl=1h"}} {
		args = append(args, "--spawn=1", "-c2", "-r200", "--warmup=0s", "--node-timeout=100ms", "--runs=2", "--fault=1s:kill:0:10ms")
		shows := func(r runResult) bool { return r.Pairs > 0 && r.Errors[redlock.ErrQuarantined.Error()] > 0 }
		requireWithin(t, []string{"3s", "12s"}, shows, args...)
	}
	r := measure(t, openSystem, exitGood, "--embedded", "--spawn=3", "-n10", "--warmup=0s").Runs[0]
	require.EqualValues(t, 10, r.Outcomes.Granted)

	remote := redistest.Servers(t, 1)[0].URL()
	begun := time.Now()
	measure(t, openSystem, exitGood, "--nodes="+remote, "--max-ttl=3s", "--ttl=1s", "-n10", "--warmup=0s")
	require.Less(t, time.Since(begun), 20*time.Second, "it was just started, and is waited for")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, Run([]string{"--nodes=" + remote, "--ttl=31s"}, &stdout, &stderr, nil))
	require.Contains(t, stderr.String(), "give the --max-ttl of all clients")
}

// With a short MaxTTL the node that came back empty counts again within the run.
func TestQuarantineEnds(t *testing.T) {
	redistest.Require(t)
	shows := func(r runResult) bool {
		return r.Errors[redlock.ErrQuarantined.Error()] > 0 && r.Pairs > 300 // a second's before the fault are 200
	}
	requireWithin(t, []string{"6s", "24s"}, shows, "--spawn=1", "-c2", "-r200", "--warmup=0s", "--node-timeout=100ms",
		"--ttl=1s", "--max-ttl=1s", "--fault=1s:kill:0:10ms")
}

// requireWithin measures for longer and longer until all runs show what they
// should: a busy machine takes long to start a server.
func requireWithin(t *testing.T, times []string, shows func(runResult) bool, args ...string) {
	t.Helper()
	var r result
	for _, long := range times {
		r = measure(t, openSystem, exitGood, append(slices.Clone(args), "-d", long)...)
		if !slices.ContainsFunc(r.Runs, func(run runResult) bool { return !shows(run) }) {
			return
		}
	}
	require.FailNow(t, "a run does not show what it should", "%v: %+v", args, r.Runs)
}

// Whatever is stopped, an interrupt ends the command and all that it started.
func TestInterruptUnderAFault(t *testing.T) {
	redistest.Require(t)
	dir, err := os.MkdirTemp("", "lg") // a short name, for the sockets in it
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	cmd := command(t, "-d1m", "--warmup=0s", "--spawn=2", "-c2", "-ojson", "--fault=0s:stop:0:50s", "--fault=0s:stop:1:50s")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	stdout := startUntil(t, cmd, "stop of node 1 for 50s")
	interrupted(t, cmd, stdout)
	require.Contains(t, stdout.String(), `"interrupted": true`)
	require.Empty(t, entries(t, dir))

	// A second interrupt does not wait for servers that are stopped or
	// restarting.
	for _, kind := range []string{"stop", "kill", "refuse"} {
		cmd := command(t, "-d1m", "--warmup=0s", "--spawn=2", "-c2", "--fault=0s:"+kind+":0:50s", "--fault=0s:"+kind+":1:50s")
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		startUntil(t, cmd, kind+" of node 1 for 50s")
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		cmd.Process.Signal(syscall.SIGTERM) // it may have exited already
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, exitInterrupted, exit.ExitCode(), kind)
		require.Empty(t, entries(t, dir), kind)
	}
}

// If -n ended a run before its fault, the result says that there was no fault.
func TestFaultThatWasNotMade(t *testing.T) {
	redistest.Require(t)
	for _, form := range []string{"json", "text"} {
		var stdout, stderr bytes.Buffer
		args := []string{"-o", form, "--spawn=1", "-c1", "-n5", "-d1h", "--warmup=0s", "--fault=59m:stop:0:1s"}
		require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil), &stderr)
		require.Contains(t, stderr.String(), "--fault 59m0s:stop:0:1s was not made")
		if form == "text" {
			require.Contains(t, stdout.String(), "run 1: --fault 59m0s:stop:0:1s was not made")
			continue
		}
		var r result
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
		require.Empty(t, r.Runs[0].Faults)
		require.Equal(t, []string{"59m0s:stop:0:1s"}, r.Runs[0].FaultsNotMade)
	}
}
