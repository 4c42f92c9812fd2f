package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// If the wrapper cannot act and the guard is killed, the kernel kills the command,
// but not what that has started.
func TestRunThatIsKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	dir := t.TempDir()
	cmd := spawned(t, runs(t, nodes, nil, shell(`echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; exec sleep 1000`, dir)...))
	appears(t, filepath.Join(dir, "pid"))
	group := groupOf(t, dir)
	require.NoError(t, redistest.StopProcess(cmd.Process))
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL)) // the guard alone
	require.NoError(t, cmd.Process.Kill())
	require.Equal(t, 137, await(t, cmd))
	eventually(t, "the command is there", func() bool { return !alive(group) })
}

// Without /proc no stray is found, but the group is killed all the same, and at
// once.
func TestRunThatIsKilledWithoutProc_R13(t *testing.T) {
	t.Parallel()
	const hide = `mount -t tmpfs none /proc`
	if out, err := exec.Command("unshare", "-m", "sh", "-c", hide).CombinedOutput(); err != nil {
		t.Skipf("skipped: no namespace of mounts: %v %s", err, out)
	}
	_, nodes := masters(t, 3)
	dir := t.TempDir()
	cmd := exec.Command("unshare", "-m", "sh", "-c", hide+` && exec "$0" run "$1" r -- sh -c 'trap "" TERM; echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; sleep 1000; true' sh "$2"`,
		binary(t), nodes, dir)
	spawned(t, cmd)
	appears(t, filepath.Join(dir, "pid"))
	group := groupOf(t, dir)
	require.NoError(t, cmd.Process.Kill())
	require.Equal(t, 137, await(t, cmd))
	killed := time.Now()
	eventually(t, "the group is there", func() bool { return !alive(group) })
	require.Less(t, time.Since(killed), 5*time.Second)
}

// The guard ends with the command. During the release it would kill what the
// command left running, if redlock were killed or its masters were slow.
func TestGuardIsGoneBeforeTheRelease(t *testing.T) {
	dir := t.TempDir()
	var seen, guarded atomic.Bool
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	node := redistest.NewNode(redistest.NodeConfig{})
	t.Cleanup(func() { _ = node.Close() })
	node.Serve(listener)
	node.Handle(func(_ int, args []string) ([]byte, bool) {
		if args[0] == "EVALSHA" && slices.Contains(args, "job") {
			if group, err := os.ReadFile(filepath.Join(dir, "group")); err == nil {
				pid, _ := strconv.Atoi(strings.TrimSpace(string(group)))
				seen.Store(pid > 1)
				guarded.Store(pid > 1 && syscall.Kill(pid, 0) == nil)
			}
		}
		return nil, false
	})
	p := process{signals: make(chan os.Signal, 1), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, begun: time.Now()}
	run := runCommand{lifetime: lifetime{time.Minute}, KillAfter: time.Second, Resource: "job"}
	run.Command = append([]string{"--"}, shell(`ps -o pgid= $$ >"$1/group"`, dir)...)
	err = run.Run(&p, &deployment{Nodes: []string{"redis://" + listener.Addr().String()}, Forgetful: true, Timeout: patience})
	var exit *exitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitOK, exit.code)
	require.True(t, seen.Load(), "no release was seen")
	require.False(t, guarded.Load())
}
