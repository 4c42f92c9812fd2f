package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/supervise"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// patience bounds the wait for what takes milliseconds on an idle machine.
const patience = 30 * time.Second

// longest is the MaxTTL of the tests, unless they set another. A lock with so
// long a TTL does not end on a busy machine.
const longest = 24 * time.Hour

var buildDir string

func TestMain(m *testing.M) {
	supervise.GuardMain() // of a command that a test runs without the program
	os.Exit(func() int {
		var err error
		if buildDir, err = os.MkdirTemp("", "redlock"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(buildDir)
		// The variables of the user's shell must not affect the tests.
		for _, setting := range os.Environ() {
			if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "REDLOCK_") {
				os.Unsetenv(name)
			}
		}
		os.Setenv("REDLOCK_MAX_TTL", longest.String())
		// A stopped group whose wrapper dies gets HUP and CONT from the kernel.
		// Under nohup the tests would hand on that HUP is ignored, and the group
		// would go on. What is listened to here is at its default in commands.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		return m.Run()
	}())
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "redlock")
	args := []string{"build", "-o", path}
	if redistest.Raceful {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	if err != nil {
		err = errors.New(string(out))
	}
	return path, err
})

// binary returns the path of the program, built once, with the race detector if
// the tests have it. Then it skips the test with -short.
func binary(t *testing.T) string {
	t.Helper()
	if redistest.Raceful && testing.Short() {
		t.Skip("skipped: under the race detector each start of the program takes long; -short leaves that out")
	}
	path, err := build()
	require.NoError(t, err)
	return path
}

// program prepares to run the program as a process of its own, which is killed
// with the test.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	return cmd
}

// A result is what a process left.
type result struct {
	code           int // as a shell has it
	stdout, stderr string
}

// finish runs a prepared process to its end.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	cmd.Stderr = &stderr
	require.NoError(t, redistest.Spawn(cmd))
	return result{await(t, cmd), stdout.String(), stderr.String()}
}

// await waits for a process that was started, and returns its exit code as a
// shell has it.
func await(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-ended
		require.FailNow(t, "it does not end", "%s", cmd.Args)
	}
	return stateCode(cmd.ProcessState)
}

// within runs the program inside of the test, without a process.
func within(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(args, strings.NewReader(""), &stdout, &stderr, make(chan os.Signal, 1))
	return result{code, stdout.String(), stderr.String()}
}

// growing runs a command with longer and longer times until it does what is
// asked for, since no single time is long enough for a busy machine and short
// enough for a test. It is for times that a command waits out in any case; what
// ends by an event gets patience.
func growing(from time.Duration, done func(result) bool, command func(time string) result) (r result) {
	for wait := from; wait < patience; wait *= 3 {
		if r = command(wait.String()); done(r) {
			break
		}
	}
	return r
}

// saying is for growing: standard error has a text.
func saying(text string) func(result) bool {
	return func(r result) bool { return strings.Contains(r.stderr, text) }
}

// asJSON runs the program, requires an exit code, and decodes what it prints.
func asJSON[T any](t *testing.T, code int, args ...string) (printed T) {
	t.Helper()
	got := within(append([]string{args[0], "--json"}, args[1:]...)...)
	require.Equal(t, code, got.code, got)
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &printed), got.stdout)
	return printed
}

// masters starts n servers, opens their deployment, and returns them with the
// flag that names them.
func masters(t *testing.T, n int, options ...redistest.Option) (servers []*redistest.Server, nodes string) {
	t.Helper()
	return mastersWith(t, redlock.Config{MaxTTL: longest}, n, options...)
}

// mastersWith is masters with a MaxTTL, a prefix or a user of their own.
func mastersWith(t *testing.T, config redlock.Config, n int, options ...redistest.Option) (servers []*redistest.Server, nodes string) {
	t.Helper()
	servers, nodes = unopened(t, n, options...)
	config.Nodes = redlock.Nodes(redistest.URLs(servers)...)
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	return servers, nodes
}

// unopened starts n servers that belong to no deployment.
func unopened(t *testing.T, n int, options ...redistest.Option) (servers []*redistest.Server, nodes string) {
	t.Helper()
	servers = redistest.Servers(t, n, options...)
	return servers, "--nodes=" + strings.Join(redistest.URLs(servers), ",")
}

// client returns a client of the library.
func client(t *testing.T, servers []*redistest.Server) *redlock.Client {
	t.Helper()
	c := opened(t, servers)
	t.Cleanup(func() { shut(c) })
	return c
}

// opened returns a client that the test must shut. It waits long for votes: by
// default a short TTL allows them only 5 ms, which a busy machine may exceed.
func opened(t *testing.T, servers []*redistest.Server) *redlock.Client {
	t.Helper()
	c, err := redlock.New(t.Context(), redlock.Config{
		Nodes: redlock.Nodes(redistest.URLs(servers)...), NodeTimeout: patience, MaxTTL: longest,
	})
	require.NoError(t, err)
	return c
}

// forgetful is for tests of nodes in memory, which do not lose locks that
// matter.
func forgetful(c *redlock.Config) { c.MaxTTL, c.Forgetful = 0, true }

// A lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex // guards the following
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// state is the state of the resource by the masters.
func state(t *testing.T, c *redlock.Client) admin.LockState {
	t.Helper()
	all, err := admin.Inspect(context.Background(), c, "r")
	require.NoError(t, err)
	return all.State
}

// eventually waits for what comes soon.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not within %v: %s", patience, what)
	}
}

// stateCode is the exit code as a shell has it.
func stateCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}

// lying returns a node in memory that answers commands by a hook, and its URL.
func lying(t *testing.T, hook redistest.Hook) (node *redistest.Node, url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	node = redistest.NewNode(redistest.NodeConfig{})
	t.Cleanup(func() { _ = node.Close() })
	node.Serve(listener)
	node.Handle(hook)
	return node, "redis://" + listener.Addr().String()
}
