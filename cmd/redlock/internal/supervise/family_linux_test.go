package supervise

import (
	"bytes"
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
	"golang.org/x/sys/unix"
)

// lives reports whether it is neither dead nor about to die.
func (s *sleeper) lives() bool {
	select {
	case <-s.ended:
		return false
	case <-time.After(100 * time.Millisecond):
		return true
	}
}

func (s *sleeper) requireDead(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		require.FailNow(t, "it is still alive")
	}
}

// process is the sleeper as /proc shows it.
func (s *sleeper) process(t *testing.T) process {
	t.Helper()
	p, ok := look(s.cmd.Process.Pid)
	require.True(t, ok)
	return p
}

// shellIn runs a script of a shell with a folder as its argument, and waits until
// files are there, which have the numbers of processes.
func shellIn(t *testing.T, dir, script string, files ...string) (pids []int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script, "sh", dir)
	require.NoError(t, own.start(func() (int, error) {
		err := cmd.Start()
		return cmd.Process.Pid, err
	}))
	require.NoError(t, cmd.Wait())
	own.forget(cmd.Process.Pid)
	for _, name := range files {
		eventually(t, "no "+name, func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return false
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err == nil {
				pids = append(pids, pid)
			}
			return err == nil
		})
	}
	return pids
}

// strays are processes that left their parent in several ways, each of which
// writes its number: a daemon that has forked twice and has no environment, one
// that is stopped, and one whose parent ends only when it is killed.
const strays = `
env -i PATH="$PATH" setsid sh -c 'sh -c "echo \$\$ >\"\$1/daemon\"; exec sleep 1000" sh "$1" &' sh "$1"
setsid sh -c 'echo $$ >"$1/stopped"; kill -STOP $$; touch "$1/went-on"; exec sleep 1000' sh "$1" &
setsid sh -c 'sh -c "echo \$\$ >\"\$1/late\"; exec sleep 1000" sh "$1"; true' sh "$1" & `

// A process that another one waits for keeps its end for that one, even if it
// ends at once; the end of an orphan is taken in.
func TestOnlyOrphansAreReaped(t *testing.T) {
	var o offspring
	path, err := exec.LookPath("false")
	require.NoError(t, err)
	start := func() (int, error) {
		process, err := os.StartProcess(path, []string{"false"}, &os.ProcAttr{})
		if err != nil {
			return 0, err
		}
		defer process.Release()
		return process.Pid, nil
	}
	ours := 0
	require.NoError(t, o.start(func() (pid int, err error) {
		ours, err = start()
		return ours, err
	}))
	orphan, err := start()
	require.NoError(t, err)
	for _, pid := range []int{ours, orphan} {
		eventually(t, "it does not end", func() bool { p, ok := look(pid); return ok && p.dead })
		o.reap(pid)
	}
	p, ok := look(ours)
	require.True(t, ok && p.dead)
	_, ok = look(orphan)
	require.False(t, ok)
	var status syscall.WaitStatus
	_, err = syscall.Wait4(ours, &status, 0, nil)
	require.NoError(t, err)
	require.Equal(t, 1, status.ExitStatus())
	o.forget(ours)
	require.Empty(t, o.pids)
	require.Error(t, o.start(func() (int, error) { return 0, os.ErrNotExist }))
	require.Empty(t, o.pids)
	o.reap(os.Getpid()) // none of our children
}

// No zombies gather below a guard while its command works, and the command's end
// is not taken for one of theirs.
func TestAGuardTakesInOrphans(t *testing.T) {
	t.Parallel()
	g := guards(t)
	dir := t.TempDir()
	starts(t, g, `i=0; while [ $i -lt 50 ]; do (sleep 0.01 &); i=$((i+1)); done; touch "$1/left"; while ! [ -e "$1/end" ]; do sleep 0.02; done; exit 7`, dir)
	eventually(t, "it does not leave them", func() bool { _, err := os.Stat(filepath.Join(dir, "left")); return err == nil })
	eventually(t, "orphans stay", func() bool {
		left := 0
		for _, p := range processes() {
			if p.parent == g.group {
				left++
			}
		}
		return left == 1 // the command
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	require.Equal(t, report{wordEnded, 7}, hears(t, g))
}

// A guard whose wrapper is gone kills all that its command has started.
func TestAGuardAloneKillsAllDescendants(t *testing.T) {
	t.Parallel()
	g := guards(t)
	dir := t.TempDir()
	starts(t, g, strays+`touch "$1/left"; exec sleep 1000`, dir)
	pids := shellIn(t, dir, "", "daemon", "stopped", "late")
	require.Len(t, pids, 3)
	eventually(t, "it does not stop", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pids[1]))
		return bytes.Contains(stat, []byte(") T "))
	})
	require.NoError(t, g.orders.Close())
	require.Equal(t, report{wordEnded, codeSignal + int(syscall.SIGKILL)}, hears(t, g))
	for range g.reports { // until it has ended
	}
	for _, pid := range pids {
		_, ok := look(pid)
		require.False(t, ok, "the guard takes in their ends, too")
	}
	require.NoFileExists(t, filepath.Join(dir, "went-on"))
}

// Processes in the groups have the signals already, and some programs take a
// second one for impatience. What a process starts to tidy up is not asked.
func TestAskStraysAsksThoseOutsideOfTheGroups(t *testing.T) {
	t.Parallel()
	g := guards(t)
	dir := t.TempDir()
	const counts = `trap 'echo >>"$1/$2"' TERM; touch "$1/$2"; while test -d "$1"; do sleep 0.01; done`
	const tidies = `trap 'setsid sh "$1/counts" "$1" tidy & exit' TERM; touch "$1/stray"; while test -d "$1"; do sleep 0.01; done`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "counts"), []byte(counts), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tidies"), []byte(tidies), 0o600))
	pid := starts(t, g, `setsid sh "$1/tidies" "$1" & exec sh "$1/counts" "$1" member`, dir)
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return -1
		}
		return info.Size()
	}
	eventually(t, "they do not begin", func() bool { return size("member") == 0 && size("stray") == 0 })
	askStrays(g.group, []int{g.group, pid}, time.Minute, syscall.SIGTERM, syscall.SIGCONT)
	eventually(t, "the stray is not asked", func() bool { return size("tidy") == 0 })
	time.Sleep(100 * time.Millisecond)
	require.Zero(t, size("member"))
	require.Zero(t, size("tidy"))
	require.NoError(t, g.orders.Close())
}

// A kernel or a sandbox without pidfds.
func TestSignalWithoutPidfd(t *testing.T) {
	t.Parallel()
	for _, err := range []error{unix.ENOSYS, unix.EPERM, unix.EMFILE} {
		s := sleeps(t)
		s.process(t).signal(func(int, int) (int, error) { return -1, err }, []syscall.Signal{syscall.SIGKILL})
		s.requireDead(t)
	}
}

// A number that another process has got since the look is not signaled.
func TestANumberThatChangedHands(t *testing.T) {
	t.Parallel()
	heir := sleeps(t)
	for _, open := range []func(int, int) (int, error){
		// The process that was seen is gone when its number is opened.
		func(int, int) (int, error) { return -1, unix.ESRCH },
		// Another process has the number.
		unix.PidfdOpen,
	} {
		seen := heir.process(t)
		seen.started += "0"
		seen.signal(open, []syscall.Signal{syscall.SIGKILL})
		require.True(t, heir.lives())
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 12 34 1 0 -1 4194560 84 0 0 0 0 0 0 0 20 0 1 0 1143 5529600 512"
	for _, c := range []struct {
		stat string
		want process
		ok   bool
	}{
		{"7 (sh) S" + rest, process{pid: 7, parent: 12, group: 34, started: "1143"}, true},
		{"7 (a) 0 (b) 0) T" + rest, process{pid: 7, parent: 12, group: 34, started: "1143"}, true},
		{"7 (sh) Z" + rest, process{pid: 7, parent: 12, group: 34, started: "1143", dead: true}, true},
		{"7 (sh) S 12 34", process{}, false},
		{"7 (sh", process{}, false},
		{"", process{}, false},
	} {
		p, ok := parseStat(7, []byte(c.stat))
		require.Equal(t, c.ok, ok, c.stat)
		require.Equal(t, c.want, p, c.stat)
	}
	_, ok := look(1 << 30)
	require.False(t, ok)
}
