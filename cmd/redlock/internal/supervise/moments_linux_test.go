package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
)

// The tests of this file are about the moment between two steps: between two
// looks at a process, between a renewal and the order that tells the guard,
// between the end of a command and the report of it.

// fakeProc puts a folder in place of /proc, with processes that have nothing but
// an environment. It returns their numbers in the order in which the folder
// lists them.
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

// Each process that is found has started another, with a number that the round
// has passed. The hunt goes on until two rounds find nothing.
func TestAHuntGoesOnWhileStraysTurnUp_R13(t *testing.T) {
	h, id := newHunt(), newID()
	h.deadline = time.Now().Add(patience)
	pids := fakeProc(t, h, 10)
	next := len(pids) - 1
	setEnviron(t, h, pids[next], MarkVariable+"="+id)
	h.open = func(pid, _ int) (int, error) {
		require.Equal(t, pids[next], pid)
		setEnviron(t, h, pid, "A=1")
		if next--; next >= 0 {
			setEnviron(t, h, pids[next], MarkVariable+"="+id)
		}
		return -1, unix.ESRCH
	}
	h.kill(id)
	require.Equal(t, -1, next, "a stray was left")
}

// A guard that is not reading is told the new end of the validity at the next
// look.
func TestAGuardThatCouldNotBeToldIsToldAgain_R13(t *testing.T) {
	t.Parallel()
	hold := held(t, time.Hour)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	g := &Guard{orders: write}
	for g.order("command 1") { // until the pipe is full
	}
	s := &supervision{hold: hold, guard: g, limits: newLimits(0, time.Hour)}
	s.left()
	buffer := make([]byte, 1<<20)
	var all bytes.Buffer // on a busy machine an order may fail although the pipe has room
	for told := false; !told; {
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
	require.Greater(t, until.Sub(clock.Now()), 50*time.Minute)
}

// A command that ended when the validity was over, or nearly, may have been
// killed by the guard, or have worked unlocked.
func TestACommandThatEndsWithTheValidityIsLost_R15(t *testing.T) {
	t.Parallel()
	hold := held(t, time.Minute)
	for _, margin := range []time.Duration{time.Second, time.Hour} {
		left := sleeps(t) // it leads a group, which stands for the command's
		pid := left.cmd.Process.Pid
		var stderr output
		s := &supervision{
			stderr: &stderr, hold: hold, limits: limits{margin: margin},
			guard: &Guard{id: newID(), group: pid}, child: &child{pid: pid, code: 3}, told: hold.Until(), named: true, hunt: killStrays,
		}
		s.buryGroup()
		require.Equal(t, Ending{Code: 3, Lost: margin == time.Hour}, s.end)
		if !s.end.Lost {
			require.True(t, left.lives())
			continue
		}
		left.requireDead(t)
		eventually(t, "it does not say why", func() bool { return stderr.contains("the lock was over, or nearly") })
	}
}

// On a busy machine a hunt may end before it has found everything. Hunts go on,
// while the validity lasts and after it, so that no exit code is returned while
// strays live.
func TestHuntsGoOnWhileStraysLive_R13(t *testing.T) {
	t.Parallel()
	hold := held(t, time.Minute)
	for name, c := range map[string]struct {
		margin  time.Duration
		goneBy  int // the hunt that finds them all
		hunts   int
		warning bool
	}{
		"at once":                          {time.Second, 1, 1, false},
		"by the third":                     {time.Second, 3, 3, false},
		"never":                            {time.Second, mostHunts + 1, mostHunts, true},
		"by the third, after the validity": {time.Hour, 3, 3, false},
	} {
		pid := sleeps(t).cmd.Process.Pid // the command's group
		var stderr output
		hunts := 0
		s := &supervision{
			stderr: &stderr, hold: hold, limits: limits{margin: c.margin}, termed: time.Now(),
			guard: &Guard{group: pid}, child: &child{pid: pid}, told: hold.Until(), named: true,
			hunt: func(string) bool { hunts++; return hunts == c.goneBy },
		}
		s.buryGroup()
		require.Equal(t, c.hunts, hunts, name)
		if c.warning {
			eventually(t, name, func() bool { return stderr.contains("may go on") })
		} else {
			require.False(t, stderr.contains("may go on"), name)
		}
	}
}
