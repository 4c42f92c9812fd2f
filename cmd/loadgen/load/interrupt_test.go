//go:build unix

package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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

// Servers that were started end with the command, and their folders are
// removed.
func TestInterruptEndsSpawnedServers(t *testing.T) {
	redistest.Require(t)
	dir, err := os.MkdirTemp("", "lg") // a short name, for the sockets in it
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	cmd := command(t, "-d1m", "--warmup=0s", "--spawn=2", "-c2", "-ojson")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	stdout := start(t, cmd)
	r := interrupted(t, cmd, stdout)
	require.Equal(t, "spawned", r.Backend)
	for _, n := range r.Nodes {
		require.True(t, strings.HasPrefix(n.Addr, dir), n.Addr)
	}
	require.Empty(t, entries(t, dir))
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

// After an interrupt in the warm-up there is nothing to print.
func TestInterruptInTheWarmup(t *testing.T) {
	signals := make(chan os.Signal)
	var once sync.Once
	f := &fakeLocker{ttl: time.Hour, try: func() error {
		once.Do(func() { signals <- syscall.SIGINT })
		return nil
	}}
	var stdout, stderr bytes.Buffer
	code := runWith(f.opens, []string{"--embedded", "--spawn=1", "--warmup=1m", "-c1", "-ojson"}, &stdout, &stderr, signals)
	require.Equal(t, exitInterrupted, code)
	var r result
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.Empty(t, r.Runs)
	require.NotContains(t, stderr.String(), "run 1")
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
