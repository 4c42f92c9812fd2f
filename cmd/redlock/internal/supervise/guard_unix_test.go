//go:build unix

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/internal/redistest"
)

// watched runs watch with a pipe as its input, in which something stands already.
func watched(t *testing.T, before string) (orders *os.File, why <-chan string) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	_, err = write.WriteString(before)
	require.NoError(t, err)
	ended := make(chan string, 1)
	go func() {
		defer read.Close()
		ended <- new(ward).watch(read)
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

func TestGuardActsWhenItsWrapperIsGone(t *testing.T) {
	redistest.NoLeaks(t)
	for _, before := range []string{"", clock.Now().Add(time.Hour).String() + "\n", "123"} {
		orders, why := watched(t, before)
		require.NoError(t, orders.Close())
		require.Equal(t, "redlock is gone", said(t, why))
	}
}

func TestGuardActsAtTheEndOfTheValidity(t *testing.T) {
	at := time.Now() // the last order counts
	_, why := watched(t, fmt.Sprintf("%v\n%v\n", clock.Now().Add(300*time.Millisecond), clock.Now().Add(200*time.Millisecond)))
	require.Contains(t, said(t, why), "validity is over")
	require.GreaterOrEqual(t, time.Since(at), 195*time.Millisecond)
}

// One of the clocks is enough (R4).
func TestGuardActsByTheClockThatSaysLeast_R4(t *testing.T) {
	for _, until := range []clock.Moment{
		{Wall: clock.Now().Add(-time.Second).Wall, Boot: clock.Now().Add(time.Hour).Boot},
		{Wall: clock.Now().Add(time.Hour).Wall, Boot: clock.Now().Add(-time.Second).Boot},
	} {
		_, why := watched(t, until.String()+"\n")
		require.Contains(t, said(t, why), "validity is over")
	}
}

// A guard that was stopped reads what was written meanwhile before it acts.
func TestGuardReadsBeforeItJudges(t *testing.T) {
	past := clock.Now().Add(-time.Second).String() + "\n"
	orders, ended := watched(t, strings.Repeat(past, 100)+clock.Now().Add(time.Hour).String()+"\n")
	select {
	case why := <-ended:
		require.FailNow(t, "it killed for an order that no longer held", why)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, orders.Close())
	require.Equal(t, "redlock is gone", said(t, ended))
}

func TestGuardThatDoesNotUnderstand(t *testing.T) {
	for _, nonsense := range []string{"\n", "soon\n", "1\n", "1 2 3\n", "start\n", "start x\n", "start -1\n", "start 999999999\n", "start 1\n{"} {
		_, why := watched(t, nonsense)
		require.Contains(t, said(t, why), "does not understand")
	}
	_, why := watched(t, strings.Repeat("1", 300))
	said(t, why)
}

// A guard that is started by hand does not kill the group that it is in.
func TestGuardByHand(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `"$1" "$2" 3 4 </dev/null; echo $?`, "sh", program, guardArgument)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "1\n", string(out))
}

// A guard that does not read delays nothing, and is told again.
func TestTellingAGuardThatIsStopped(t *testing.T) {
	g := guards(t)
	require.NoError(t, redistest.StopProcess(g.cmd.Process))
	told := 0
	for g.tell(clock.Now().Add(time.Hour)) {
		told++
		require.Less(t, told, 1_000_000)
	}
	require.NoError(t, redistest.ContinueProcess(g.cmd.Process))
	eventually(t, "it is not told", func() bool { return g.tell(clock.Now().Add(time.Hour)) })
	select {
	case <-g.reports:
		require.FailNow(t, "it was told part of a line")
	case <-time.After(100 * time.Millisecond):
	}
}

// The number of a group whose guard has died is not reused: signals would go to
// the wrong group.
func TestTheNumberOfAGroupIsKept(t *testing.T) {
	g := guards(t)
	require.NoError(t, syscall.Kill(g.group, syscall.SIGKILL))
	select {
	case <-g.reports:
	case <-time.After(patience):
		require.FailNow(t, "it is not noticed")
	}
	eventually(t, "the orders are still read", func() bool { return !g.tell(clock.Now()) }) // its pipes close in any order
	require.NoError(t, syscall.Kill(g.group, 0), "it is a zombie")
	g.End()
	g.End()
	require.ErrorIs(t, syscall.Kill(g.group, 0), syscall.ESRCH)
}

// guards starts a guard.
func guards(t *testing.T) *Guard {
	t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	g, err := StartGuard(null, null, null)
	require.NoError(t, err)
	t.Cleanup(g.End)
	return g
}

// starts has a guard start a shell's script.
func starts(t *testing.T, g *Guard, script string, args ...string) (pid int) {
	t.Helper()
	path, err := exec.LookPath("sh")
	require.NoError(t, err)
	pid, err = g.start(path, append([]string{"sh", "-c", script, "sh"}, args...), append(os.Environ(), "BYTES=\xfe"))
	require.NoError(t, err)
	return pid
}

// hears waits for the next report of a guard.
func hears(t *testing.T, g *Guard) report {
	t.Helper()
	select {
	case r := <-g.reports:
		return r
	case <-time.After(patience):
		require.FailNow(t, "the guard reports nothing")
		return report{}
	}
}

// The guard starts the command with any bytes as arguments and environment, and
// reports what becomes of it.
func TestGuardReports(t *testing.T) {
	g := guards(t)
	pid := starts(t, g, `test "$1$BYTES" = "$(printf '\377\376')" || exit 1; kill -STOP $$; exit 7`, "\xff")
	require.Equal(t, report{wordStopped, int(syscall.SIGSTOP)}, hears(t, g))
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	require.Equal(t, report{wordEnded, 7}, hears(t, g))
	g = guards(t)
	pid = starts(t, g, `sleep 1000`)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	require.Equal(t, report{wordEnded, codeSignal + int(syscall.SIGTERM)}, hears(t, g))
	_, err := guards(t).start("/nowhere/program", []string{"program"}, nil)
	var start *StartError
	require.ErrorAs(t, err, &start)
	require.ErrorIs(t, err, os.ErrNotExist)
	g = guards(t)
	require.NoError(t, g.cmd.Process.Kill())
	_, err = g.start("/bin/sh", nil, nil)
	require.ErrorIs(t, err, errGuardDied)
}

// Stopping is called once, before a command that takes too long hears of it, and
// not for a command that ends by itself.
func TestStoppingComesBeforeTheSignal_R15(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asked")
	var stopping []bool
	command := Command{
		Path: "/bin/sh", Env: os.Environ(), Stderr: new(output), Hold: held(t, time.Minute), TTL: time.Minute, KillAfter: patience,
		Bound: "the bound", Signals: make(chan os.Signal, 1),
		Stopping: func() {
			_, err := os.Stat(path)
			stopping = append(stopping, os.IsNotExist(err))
		},
	}
	command.Args = []string{"sh", "-c", "exit 7"}
	end, err := guards(t).Run(&command)
	require.NoError(t, err)
	require.Equal(t, Ending{Code: 7}, end)
	require.Empty(t, stopping)

	command.MaxHold = 300 * time.Millisecond
	command.Args = []string{"sh", "-c", `trap ': >"$1"; exit 5' TERM; while :; do sleep 0.01; done`, "sh", path}
	end, err = guards(t).Run(&command)
	require.NoError(t, err)
	require.True(t, end.TooLong)
	require.Equal(t, []bool{true}, stopping)
	require.True(t, command.Stderr.(*output).contains("the bound was reached"))

	s := &supervision{
		stderr: new(output), hold: command.Hold, limits: limits{margin: time.Second}, guard: guards(t), pid: sleeps(t).cmd.Process.Pid,
		told: command.Hold.Until(), hunt: func([]int) bool { return true }, stopping: command.Stopping,
	}
	s.unguarded()
	require.Len(t, stopping, 2, "the guard has died, and the command with it")
}
