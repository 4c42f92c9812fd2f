//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// watched runs watch over what is written to a pipe.
func watched(t *testing.T) (orders *os.File, why <-chan string) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	ended := make(chan string, 1)
	go func() {
		defer read.Close()
		why, _ := watch(read)
		ended <- why
	}()
	t.Cleanup(func() { _ = write.Close() })
	return write, ended
}

func said(t *testing.T, why <-chan string) string {
	t.Helper()
	select {
	case text := <-why:
		return text
	case <-time.After(patience):
		require.FailNow(t, "the guard does nothing")
		return ""
	}
}

func TestGuardActsWhenItsMasterIsGone(t *testing.T) {
	redistest.NoLeaks(t)
	for _, before := range []string{"", now().add(time.Hour).String() + "\n", "123"} {
		orders, why := watched(t)
		_, err := orders.WriteString(before)
		require.NoError(t, err)
		require.NoError(t, orders.Close())
		require.Equal(t, "redlock is gone", said(t, why))
	}
}

func TestGuardActsAtTheEndOfTheValidity(t *testing.T) {
	orders, why := watched(t)
	at := time.Now()
	fmt.Fprintln(orders, now().add(300*time.Millisecond))
	fmt.Fprintln(orders, now().add(200*time.Millisecond)) // what was said last counts
	require.Contains(t, said(t, why), "validity is over")
	require.GreaterOrEqual(t, time.Since(at), 195*time.Millisecond)
}

// Each clock is enough (R4).
func TestGuardActsByTheClockThatSaysLeast_R4(t *testing.T) {
	for _, until := range []moment{
		{now().add(-time.Second).wall, now().add(time.Hour).boot},
		{now().add(time.Hour).wall, now().add(-time.Second).boot},
	} {
		orders, why := watched(t)
		fmt.Fprintln(orders, until)
		require.Contains(t, said(t, why), "validity is over")
	}
}

// A guard that was stopped together with all others reads what was written meanwhile before it judges.
func TestGuardReadsBeforeItJudges(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	for range 100 {
		fmt.Fprintln(write, now().add(-time.Second))
	}
	fmt.Fprintln(write, now().add(time.Hour))
	ended := make(chan string, 1)
	go func() {
		defer read.Close()
		why, _ := watch(read)
		ended <- why
	}()
	select {
	case why := <-ended:
		require.FailNow(t, "it killed for what was not so any more", why)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, write.Close())
	require.Equal(t, "redlock is gone", said(t, ended))
}

func TestGuardThatIsToldNonsense(t *testing.T) {
	for _, nonsense := range []string{"\n", "soon\n", "1\n", "1 2 3\n", "command\n", "command x\n"} {
		orders, why := watched(t)
		_, err := orders.WriteString(nonsense)
		require.NoError(t, err)
		require.Contains(t, said(t, why), "nonsense")
	}
	orders, why := watched(t)
	_, err := orders.WriteString(strings.Repeat("1", 300))
	require.NoError(t, err)
	said(t, why)
}

// Who calls the guard by hand does not kill the group that he is in.
func TestGuardByHand(t *testing.T) {
	cmd := exec.Command("sh", "-c", `"$1" "$2" "$3" </dev/null; echo $?`, "sh", binary(t), guardArgument, newID())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "1\n", string(out))
}

// A guard that does not read keeps nobody waiting, and is told again.
func TestTellingAGuardThatIsStopped(t *testing.T) {
	_, err := build()
	require.NoError(t, err)
	g, err := (*runCommand)(nil).startGuard(&process{stderr: &bytes.Buffer{}})
	require.NoError(t, err)
	defer g.end()
	require.NoError(t, redistest.StopProcess(g.cmd.Process))
	told := 0
	for g.tell(now().add(time.Hour)) {
		told++
		require.Less(t, told, 1_000_000)
	}
	require.NoError(t, redistest.ContinueProcess(g.cmd.Process))
	eventually(t, "it is not told", func() bool { return g.tell(now().add(time.Hour)) })
	select {
	case <-g.died:
		require.FailNow(t, "it was told a part of a line")
	case <-time.After(100 * time.Millisecond):
	}
}

// No other group gets the number of one whose guard has died: signals to it would go there.
func TestTheNumberOfAGroupIsKept(t *testing.T) {
	_, err := build()
	require.NoError(t, err)
	g, err := (*runCommand)(nil).startGuard(&process{stderr: &bytes.Buffer{}})
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(g.group, syscall.SIGKILL))
	select {
	case <-g.died:
	case <-time.After(patience):
		require.FailNow(t, "nobody notices")
	}
	eventually(t, "somebody listens", func() bool { return !g.tell(now()) }) // its ends of pipes close in no order
	require.NoError(t, syscall.Kill(g.group, 0), "it is a zombie")
	g.end()
	g.end()
	require.ErrorIs(t, syscall.Kill(g.group, 0), syscall.ESRCH)
}

func TestGuardKnowsTheCommand(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	fmt.Fprintf(write, "%s\n%s\n%s\n", now().add(time.Hour), guardedCommand+"1234", now().add(2*time.Hour))
	require.NoError(t, write.Close())
	why, command := watch(read)
	require.Equal(t, "redlock is gone", why)
	require.Equal(t, 1234, command)
}

// A guard that died while its master waited for the lock is no reason to run a command without one, and none to keep the lock.
func TestRunWhoseGuardDiesBeforeTheCommand(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	lock, err := c.TryAcquire(context.Background(), "r", time.Minute)
	require.NoError(t, err)
	never := filepath.Join(t.TempDir(), "never")
	if _, err := exec.LookPath("pgrep"); err != nil {
		t.Skip("needs pgrep")
	}
	cmd := runs(t, nodes, nil, "touch", never)
	stderr := &lockedBuffer{}
	cmd.Stderr = stderr
	spawned(t, cmd)
	var guard int
	eventually(t, "no guard", func() bool {
		out, _ := exec.Command("pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
		guard, err = strconv.Atoi(strings.TrimSpace(string(out)))
		return err == nil
	})
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	eventually(t, "it is still there", func() bool {
		out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(guard)).Output()
		return len(out) == 0 || out[0] == 'Z' // who may be sent signals keeps its number
	})
	require.NoError(t, lock.Release(context.Background()))
	require.Equal(t, exitFailed, await(t, cmd), stderr.String())
	require.Contains(t, stderr.String(), "the guard") // has died, or does not answer, if it was not ready yet
	require.False(t, exists(never))
	require.Equal(t, redlock.StateFree, state(t, c))
}
