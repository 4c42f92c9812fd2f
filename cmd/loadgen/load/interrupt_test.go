//go:build unix

package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// command builds the program once and returns a command that runs it.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	return exec.Command(path, args...)
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "loadgen")
	return path, exec.Command("go", "build", "-o", path, "..").Run()
})

var buildDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if buildDir, err = os.MkdirTemp("", "loadgen"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(buildDir)
		return m.Run()
	}())
}

// start starts the command and waits until its first run has begun.
func start(t *testing.T, cmd *exec.Cmd) (stdout *bytes.Buffer) {
	t.Helper()
	return startUntil(t, cmd, "run 1 of 1")
}

// startUntil starts the command and waits until it prints a text.
func startUntil(t *testing.T, cmd *exec.Cmd, said string) (stdout *bytes.Buffer) {
	t.Helper()
	stdout = &bytes.Buffer{}
	cmd.Stdout = stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	for s := bufio.NewScanner(stderr); s.Scan(); {
		if strings.Contains(s.Text(), said) {
			go func() {
				for s.Scan() {
				}
			}()
			return stdout
		}
	}
	t.Fatal("it ended too soon")
	return nil
}

// patience is how long a busy machine may take for what is immediate on an idle
// one. It is less than the interrupted command would take by itself.
const patience = 30 * time.Second

func interrupted(t *testing.T, cmd *exec.Cmd, stdout *bytes.Buffer) runResult {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	at := time.Now()
	err := cmd.Wait()
	require.Less(t, time.Since(at), patience)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitInterrupted, exit.ExitCode())
	var r result
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	return r.Runs[0]
}

// An interrupt stops the callers, releases what they hold and prints the
// result.
func TestInterruptReleasesWhatIsHeld(t *testing.T) {
	servers := redistest.Servers(t, 3)
	opened(t, redlock.Config{MaxTTL: 2 * time.Hour}, redistest.URLs(servers)...)
	nodes := "--nodes=" + strings.Join(redistest.URLs(servers), ",")
	for _, impl := range []string{"redlock", "rueidis"} {
		cmd := command(t, nodes, "-d1m", patient, "--warmup=0s", "-c4", "--hold=1h", "--ttl=2h", "--max-ttl=2h", "-ojson", "--impl="+impl)
		stdout := start(t, cmd)
		require.Eventually(t, func() bool { return keys(t, servers[0]) == 4 }, patience, time.Millisecond)
		r := interrupted(t, cmd, stdout)
		require.EqualValues(t, 4, r.Pairs)
		for _, s := range servers {
			// A release counts with a quorum. The slower nodes have the command
			// too, or they would keep the key for hours.
			require.Eventually(t, func() bool { return keys(t, s) == 0 }, patience, time.Millisecond)
		}
	}
}

// keys counts the keys of a server, except those of the deployment.
func keys(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	all, err := s.Do("DBSIZE")
	require.NoError(t, err)
	own, err := s.Do("EXISTS", "redlock:seal", "redlock:fence")
	require.NoError(t, err)
	return all.(int64) - own.(int64)
}

// Whenever the interrupts come, and even if the output is not read, no folder
// stays behind.
func TestNothingIsLeftBehind(t *testing.T) {
	redistest.Require(t)
	dir, err := os.MkdirTemp("", "lg")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	started := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd
	}
	var exit *exec.ExitError
	// Two equal signals might be merged into one.
	for _, pair := range [][2]syscall.Signal{{syscall.SIGINT, syscall.SIGTERM}, {syscall.SIGHUP, syscall.SIGINT}} {
		cmd := started(command(t, "-d1m", "--spawn=2", "-c2"))
		// The first folder exists, the servers do not.
		require.Eventually(t, func() bool { return len(entries(t, dir)) > 0 }, patience, time.Millisecond)
		require.NoError(t, cmd.Process.Signal(pair[0]))
		cmd.Process.Signal(pair[1])
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, exitInterrupted, exit.ExitCode())
		require.Empty(t, entries(t, dir), pair)
	}

	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	cmd := command(t, "-n1", "--warmup=0s", "--spawn=2", "-c2")
	cmd.Stdout, cmd.Stderr = w, w
	require.ErrorAs(t, started(cmd).Wait(), &exit)
	require.NoError(t, w.Close())
	require.Equal(t, exitFailed, exit.ExitCode(), "the result could not be written")
	require.Empty(t, entries(t, dir))
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	return all
}

// After an interrupt in the warm-up there is nothing to print: an existing page is
// kept, and no empty file is created.
func TestInterruptInTheWarmup(t *testing.T) {
	dir := t.TempDir()
	kept, fresh := filepath.Join(dir, "kept"), filepath.Join(dir, "fresh")
	require.NoError(t, os.WriteFile(kept, []byte("old"), 0o600))
	for _, name := range []string{kept, fresh} {
		signals := make(chan os.Signal)
		var stdout, stderr bytes.Buffer
		code := runWith(interrupting(signals).opens, []string{"--embedded", "--spawn=1", "--warmup=1m", "-c1", "-ojson", "--html", name}, &stdout, &stderr, signals)
		require.Equal(t, exitInterrupted, code)
		var r result
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
		require.Empty(t, r.Runs)
		require.NotContains(t, stderr.String(), "run 1")
	}
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	require.NoFileExists(t, fresh)
}

// A second interrupt does not wait for anything.
func TestInterruptTwiceLeavesAtOnce(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	entered := make(chan struct{}, 1)
	f := &fakeLocker{try: func() error {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-stuck
		return redlock.ErrHeld
	}}
	signals := make(chan os.Signal)
	code := make(chan int)
	go func() {
		var out bytes.Buffer
		code <- runWith(f.opens, []string{"-q", "--embedded", "--spawn=1", "--warmup=0s", "-c1"}, &out, &out, signals)
	}()
	<-entered
	signals <- syscall.SIGINT
	select {
	case <-code:
		t.Fatal("the first interrupt waits for callers")
	case signals <- syscall.SIGINT:
	}
	require.Equal(t, exitInterrupted, <-code)
}

func TestFaultIsRead(t *testing.T) {
	var f fault
	require.NoError(t, f.UnmarshalText([]byte("3s:stop:2:1.5s")))
	require.Equal(t, fault{3 * time.Second, "stop", 2, 1500 * time.Millisecond}, f)
	require.Equal(t, "3s:stop:2:1.5s", f.String())
	for _, bad := range []string{"", "3s:stop:2", "3s:stop:2:1s:", "3:stop:2:1s", "3s:drop:2:1s", "3s:stop:-1:1s", "3s:stop:x:1s", "-1s:stop:2:1s", "3s:stop:2:0s", "3s:stop:2:1us", "3s:stop:2:-1s"} {
		require.ErrorIs(t, f.UnmarshalText([]byte(bad)), errFault, bad)
	}
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

// A replacement server requires the password, too. After a run with a fault, all
// names that it had locked are free.
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
	_, err = s.Do("SET", "k", "v")
	require.NoError(t, err)
	require.NoError(t, target.settle(t.Context()))
	require.Zero(t, keys(t, s))
	s.Authenticate("", "")
	_, err = s.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")
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

// A fault is marked in the text, and costs no quorum of three. If -n ended a run
// before its fault, the result says that there was no fault.
func TestFaultsInTheResult(t *testing.T) {
	redistest.Require(t)
	var stdout, stderr bytes.Buffer
	args := []string{"-q", "--spawn=3", "-c2", "-r200", "-d4s", "--warmup=0s", "--fault=500ms:stop:1:100ms", "--fault=2s:stop:2:100ms"}
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil), &stderr)
	require.Regexp(t, `run 1: fault: after \d\.\d+s stop of node 1 for \d\.\d+s\nrun 1: fault: after \d\.\d+s stop of node 2 for \d\.\d+s\n`, stdout.String())
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
