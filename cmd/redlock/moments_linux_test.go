package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/redlock"
)

// The tests of this file look at the moment between two steps: between two looks at a process, between a renewal and the guard
// that has to know of it, between the end of a command and what is said of that.

// fakeProc is a folder in place of /proc with processes that have an environment and nothing else. It returns their numbers in
// the order in which the folder lists them.
func fakeProc(t *testing.T, h *hunt, processes int) (pids []int) {
	t.Helper()
	h.proc = t.TempDir()
	for i := range processes {
		pid := strconv.Itoa(1000 + i)
		require.NoError(t, os.Mkdir(filepath.Join(h.proc, pid), 0o700))
		setEnviron(t, h, 1000+i, "A=1")
	}
	h.eachProcess(func(pid int) bool {
		pids = append(pids, pid)
		return true
	})
	require.Len(t, pids, processes)
	return pids
}

func setEnviron(t *testing.T, h *hunt, pid int, environ string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(h.proc, strconv.Itoa(pid), "environ"), []byte(environ+"\x00"), 0o600))
}

// Each process that is found has started another one with a number that the round was past: there are as many rounds as that
// takes, and two more.
func TestAHuntGoesOnWhileStraysTurnUp_R13(t *testing.T) {
	h, id := newHunt(), newID()
	h.deadline = time.Now().Add(patience)
	pids := fakeProc(t, h, 10)
	next := len(pids) - 1
	setEnviron(t, h, pids[next], markVariable+"="+id)
	h.open = func(pid, _ int) (int, error) {
		require.Equal(t, pids[next], pid)
		setEnviron(t, h, pid, "A=1")
		if next--; next >= 0 {
			setEnviron(t, h, pids[next], markVariable+"="+id)
		}
		return -1, unix.ESRCH
	}
	h.kill(id)
	require.Equal(t, -1, next, "a stray was left")
}

// A guard that does not read at the moment is told the new end of the validity with the next look.
func TestAGuardThatCouldNotBeToldIsToldAgain_R13(t *testing.T) {
	t.Parallel()
	servers, _ := masters(t, 3)
	hold, err := client(t, servers).TryHold(context.Background(), "r", redlock.HoldOptions{TTL: time.Hour})
	require.NoError(t, err)
	defer hold.Release(context.Background())
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	g := &guard{orders: write}
	for g.order("command 1") { // until the pipe is full
	}
	s := &supervision{hold: hold, guard: g, limits: newLimits(0, time.Hour)}
	s.left()
	buffer := make([]byte, 1<<20)
	var all bytes.Buffer // a busy machine may let an order to a pipe with room fail, and the first look tell it then
	for told := false; !told; { // and then the guard reads
		n, err := read.Read(buffer)
		require.NoError(t, err)
		all.Write(buffer[:n])
		s.left()
		told = s.told.Equal(hold.Until())
	}
	require.NoError(t, write.Close())
	_, err = all.ReadFrom(read)
	require.NoError(t, err)
	lines := bytes.Split(bytes.TrimSpace(all.Bytes()), []byte("\n"))
	until, err := parseUntil(string(lines[len(lines)-1]))
	require.NoError(t, err)
	require.Greater(t, until.sub(now()), 50*time.Minute)
}

// A command that ended when the validity was over, or nearly, may have been killed by the guard, or have worked unlocked.
func TestACommandThatEndsWithTheValidityIsLost_R15(t *testing.T) {
	t.Parallel()
	servers, _ := masters(t, 3)
	hold, err := client(t, servers).TryHold(context.Background(), "r", redlock.HoldOptions{TTL: time.Minute})
	require.NoError(t, err)
	defer hold.Release(context.Background())
	for _, margin := range []time.Duration{time.Second, time.Hour} {
		left := sleeps(t) // in the command's group; it leads one
		pid := left.cmd.Process.Pid
		var stderr bytes.Buffer
		s := &supervision{
			process: &process{stderr: &stderr}, hold: hold, limits: limits{margin: margin},
			guard: &guard{id: newID(), group: pid}, child: &child{pid: pid, code: 3}, told: hold.Until(), named: true, hunt: killStrays,
		}
		s.buryGroup()
		require.Equal(t, ending{code: 3, lost: margin == time.Hour}, s.end)
		if !s.end.lost {
			require.True(t, left.lives())
			continue
		}
		left.requireDead(t)
		require.Contains(t, stderr.String(), "the lock was over, or nearly")
	}
}

// On a busy machine a hunt may end before it has found all. The hunts go on while the validity lasts, so that the exit code is
// not told while they live.
func TestHuntsGoOnWhileTheValidityLasts_R13(t *testing.T) {
	t.Parallel()
	servers, _ := masters(t, 3)
	hold, err := client(t, servers).TryHold(context.Background(), "r", redlock.HoldOptions{TTL: time.Minute})
	require.NoError(t, err)
	defer hold.Release(context.Background())
	for name, c := range map[string]struct {
		margin  time.Duration
		goneBy  int // the hunt that finds them all
		hunts   int
		warning bool
	}{
		"at once":                      {time.Second, 1, 1, false},
		"by the third":                 {time.Second, 3, 3, false},
		"never":                        {time.Second, mostHunts + 1, mostHunts, true},
		"not while the validity lasts": {time.Hour, 3, 1, true},
	} {
		pid := sleeps(t).cmd.Process.Pid // the command's group
		var stderr bytes.Buffer
		hunts := 0
		s := &supervision{
			process: &process{stderr: &stderr}, hold: hold, limits: limits{margin: c.margin}, termed: time.Now(),
			guard: &guard{group: pid}, child: &child{pid: pid}, told: hold.Until(), named: true,
			hunt: func(string) bool { hunts++; return hunts == c.goneBy },
		}
		s.buryGroup()
		require.Equal(t, c.hunts, hunts, name)
		require.Equal(t, c.warning, strings.Contains(stderr.String(), "may go on"), name)
	}
}
