package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/internal/redistest"
)

// A sleeper is a process that does nothing, in an environment of its own.
type sleeper struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func sleeps(t testing.TB, environ ...string) *sleeper {
	t.Helper()
	s := &sleeper{exec.Command("sleep", "1000"), make(chan struct{})}
	s.cmd.Env = append([]string{}, environ...) // nil would be ours
	require.NoError(t, redistest.Spawn(s.cmd))
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	pid := s.cmd.Process.Pid
	require.Eventually(t, func() bool { // it executes its program soon
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && strings.HasPrefix(string(arguments), "sleep\x00") && newHunt().executed(fmt.Sprintf("/proc/%d", pid))
	}, patience, time.Millisecond)
	return s
}

// lives tells whether it is neither gone nor about to be.
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
		require.FailNow(t, "it lives")
	}
}

func TestKillStraysKillsTheMarkedOnly(t *testing.T) {
	t.Parallel()
	id, other := newID(), newID()
	var dead, alive []*sleeper
	for _, environ := range [][]string{
		{"REDLOCK_RUN=" + id}, {"REDLOCK_RUN=" + other + "," + id}, {"REDLOCK_RUN=" + id + "," + other}, {"A=1", "REDLOCK_RUN=" + id, "B=2"},
	} {
		dead = append(dead, sleeps(t, environ...))
	}
	stopped := sleeps(t, "REDLOCK_RUN="+id)
	require.NoError(t, redistest.StopProcess(stopped.cmd.Process))
	for _, environ := range [][]string{
		{}, {"A=1"}, {"REDLOCK_RUN=" + other}, {"REDLOCK_RUN=" + id + "0"}, {"REDLOCK_RUN=" + id[1:]}, {"A=" + id}, {"MY_REDLOCK_RUN=" + id}, {"REDLOCK_RUN="},
	} {
		alive = append(alive, sleeps(t, environ...))
	}
	for _, none := range []string{"", "0", other[1:]} {
		killStrays(none)
	}
	for _, s := range append(dead, alive...) {
		require.True(t, s.lives(), s.cmd.Env)
	}
	killStrays(id)
	for _, s := range append(dead, stopped) {
		s.requireDead(t)
	}
	for _, s := range alive {
		require.True(t, s.lives(), s.cmd.Env)
	}
}

// Who turns up with a number that the round was past is found by the next one. Here that is a process which takes on the mark
// when one with a greater number is about to be shot.
func TestKillGoesInRounds(t *testing.T) {
	t.Parallel()
	id := newID()
	late := exec.Command("sh", "-c", `read line; REDLOCK_RUN=$1 exec sleep 1000`, "sh", id)
	start, err := late.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, redistest.Spawn(late))
	t.Cleanup(func() { _ = late.Process.Kill() })
	stray := sleeps(t, "REDLOCK_RUN="+id)
	if stray.cmd.Process.Pid < late.Process.Pid {
		t.Skip("the numbers have begun anew between the two")
	}
	h := newHunt()
	h.deadline = time.Now().Add(patience)
	began := false
	h.open = func(pid, flags int) (int, error) {
		// The following round may meet the stray once more: it was shot, but has not had the processor since, so it is not
		// dead yet. That round has shot the other one before, which has the mark no more then.
		if pid == stray.cmd.Process.Pid && !began {
			began = true
			_ = start.Close()
			eventually(t, "it does not take the mark", func() bool { return newHunt().marked(late.Process.Pid, id) == wanted })
		}
		return unix.PidfdOpen(pid, flags)
	}
	h.kill(id)
	stray.requireDead(t)
	require.Equal(t, 137, await(t, late))
}

// Those in the groups have got the signals already, and some programs take a second one for impatience.
func TestAskStraysAsksThoseOutsideOfTheGroups(t *testing.T) {
	t.Parallel()
	id := newID()
	first, second, stray, stranger := sleeps(t, "REDLOCK_RUN="+id), sleeps(t, "REDLOCK_RUN="+id), sleeps(t, "REDLOCK_RUN="+id), sleeps(t)
	askStrays(id, []int{first.cmd.Process.Pid, second.cmd.Process.Pid}, time.Minute, syscall.SIGTERM, syscall.SIGCONT) // each leads a group
	stray.requireDead(t)
	for _, s := range []*sleeper{first, second, stranger} {
		require.True(t, s.lives())
	}
}

// A process that tidies up when it is asked to end starts others for that, with
// the mark and with higher numbers; these are not asked.
func TestAskStraysLeavesWhatIsStartedToTidyUp(t *testing.T) {
	t.Parallel()
	id := newID()
	first := sleeps(t, "REDLOCK_RUN="+id)
	h := newHunt()
	var tidies *sleeper
	var asked []int
	h.open = func(pid, flags int) (int, error) {
		asked = append(asked, pid)
		if tidies == nil && pid == first.cmd.Process.Pid {
			tidies = sleeps(t, "REDLOCK_RUN="+id)
			eventually(t, "it does not take the mark", func() bool { return newHunt().marked(tidies.cmd.Process.Pid, id) == wanted })
		}
		return unix.PidfdOpen(pid, flags)
	}
	h.ask(func(pid int) sight { return h.marked(pid, id) }, syscall.SIGTERM)
	first.requireDead(t)
	require.Equal(t, []int{first.cmd.Process.Pid}, asked)
	require.True(t, tidies.lives())
}

// To read another's environment may take as long as a disk does, and the command is to be dead in time all the same (R13).
func TestAHuntThatHangsIsNotWaitedFor_R13(t *testing.T) {
	t.Parallel()
	hangs, returned := make(chan struct{}), make(chan struct{})
	defer close(hangs)
	go func() {
		withPatience(time.Millisecond, func(*hunt) { <-hangs })
		close(returned)
	}()
	select {
	case <-returned:
	case <-time.After(30 * time.Second):
		t.Fatal("it waits")
	}
}

// A kernel or a sandbox without descriptors of processes.
func TestKillStraysWithoutPidfd(t *testing.T) {
	t.Parallel()
	for _, err := range []error{unix.ENOSYS, unix.EPERM, unix.EMFILE} {
		id := newID()
		stray, stranger := sleeps(t, "REDLOCK_RUN="+id), sleeps(t)
		h := newHunt()
		h.open = func(int, int) (int, error) { return -1, err }
		h.kill(id)
		stray.requireDead(t)
		require.True(t, stranger.lives())
	}
}

// A number that another process has got, between the look and the shot, is not shot at.
func TestANumberThatChangedHands(t *testing.T) {
	t.Parallel()
	id := newID()
	stray, heir := sleeps(t, "REDLOCK_RUN="+id), sleeps(t)
	for _, open := range []func(int, int) (int, error){
		// The one that was seen is gone by the time that its number is opened.
		func(int, int) (int, error) { return -1, unix.ESRCH },
		// Its heir is opened, and looked at again.
		func(pid, flags int) (int, error) {
			stray.cmd.Process.Kill()
			<-stray.ended
			return unix.PidfdOpen(heir.cmd.Process.Pid, flags)
		},
	} {
		h := newHunt()
		h.open = open
		h.shoot(stray.cmd.Process.Pid, func() bool { return h.marked(stray.cmd.Process.Pid, id) == wanted }, []syscall.Signal{syscall.SIGKILL})
		require.True(t, heir.lives())
	}
}

// The guard kills all of its group, and nobody else, and lives on. It is played by a second process of the test's.
func TestKillGroupButUs(t *testing.T) {
	const played = "PLAYS_THE_GUARD"
	if os.Getenv(played) == "" {
		guard := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		guard.Env = append(os.Environ(), played+"=1")
		var out bytes.Buffer
		guard.Stdout = &out
		require.NoError(t, redistest.Spawn(guard)) // it leads a group
		require.Equal(t, 0, await(t, guard), out.String())
		require.Contains(t, out.String(), "PASS: "+t.Name())
		return
	}
	require.Equal(t, os.Getpid(), unix.Getpgrp()) // else it would be somebody's group
	other := sleeps(t)
	member := exec.Command("sleep", "1000")
	require.NoError(t, member.Start())
	defer member.Process.Kill()
	killGroupButUs()
	require.Equal(t, 137, await(t, member))
	require.True(t, other.lives())
}

// Of a huge environment the beginning is looked at, where a command has its mark.
func TestHugeEnvironments(t *testing.T) {
	t.Parallel()
	id := newID()
	var huge []string
	for i := range 12 {
		huge = append(huge, fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 100<<10)))
	}
	first := sleeps(t, append([]string{"REDLOCK_RUN=" + id}, huge...)...)
	last := sleeps(t, append(huge, "REDLOCK_RUN="+id)...)
	read, err := readSome(fmt.Sprintf("/proc/%d/environ", last.cmd.Process.Pid), nil)
	require.NoError(t, err)
	require.Len(t, read, mostEnviron)
	killStrays(id)
	first.requireDead(t)
	require.True(t, last.lives())
}

// Between two programs a process has no environment for a while, and all the same it is not one that has none. A shell with a
// large environment executes itself again and again; whoever looks meanwhile is not to take it for innocent once.
func TestAProcessIsMarkedWhileItExecutes(t *testing.T) {
	t.Parallel()
	id := newID()
	cmd := exec.Command("sh", "-c", `n=$((n+1)); test $n -lt 300 && exec sh -c "$0" "$0"; exec sleep 1000`)
	cmd.Args = append(cmd.Args, cmd.Args[2])
	cmd.Env = []string{"REDLOCK_RUN=" + id, "PATH=" + os.Getenv("PATH"), "n=0"}
	for i := range 12 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 100<<10)))
	}
	require.NoError(t, redistest.Spawn(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	h, pid := newHunt(), cmd.Process.Pid
	eventually(t, "it does not begin", func() bool { return h.marked(pid, id) == wanted })
	seen := map[sight]int{}
	for slept := false; !slept; {
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		require.NoError(t, err)
		slept = strings.HasPrefix(string(arguments), "sleep\x00")
		seen[h.marked(pid, id)]++
	}
	require.Zero(t, seen[innocent], seen)
	if seen[unsettled] == 0 { // with a single processor, say
		t.Skip("it was never met between two programs")
	}
}

// What /proc has shown of processes between two programs, and what it shows where the kernel tells less.
func TestExecuted(t *testing.T) {
	t.Parallel()
	const (
		knows = "1 (a) 0 (b) 0) S 1 1 1 0 -1 4194560 84 0 0 0 0 0 0 0 20 0 1 0 1143 5529600 512 18446744073709551615 94 95 140 0 0"
		not   = "1 (a) 0 (b) 0) S 1 1 1 0 -1 4194560 84 0 0 0 0 0 0 0 20 0 1 0 1143 5529600 512 18446744073709551615 0 0 140 0 0"
	)
	for _, test := range []struct {
		stat, self, arguments string
		want                  sight
	}{
		{knows, knows, "sleep\x001000\x00", innocent},
		{knows, knows, "", innocent},
		{not, knows, "sleep\x001000\x00", unsettled}, // the environment is being filled in
		{not, knows, "", unsettled},
		{not, not, "sleep\x001000\x00", innocent},
		{not, not, "", unsettled},
		{"", "", "sleep\x00", innocent},
		{"1 (a", "1 (a)", "", unsettled},
	} {
		h := newHunt()
		h.proc = t.TempDir()
		for name, text := range map[string]string{"7/environ": "", "7/stat": test.stat, "7/cmdline": test.arguments, "self/stat": test.self} {
			path := filepath.Join(h.proc, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		require.NoError(t, os.Symlink("/bin/sleep", filepath.Join(h.proc, "7/exe")))
		require.Equal(t, test.want, h.marked(7, newID()), test)
	}
}

// The dead that nobody has waited for keep nobody busy, and those who have cleared their environment are not in the midst of
// anything.
func TestZombiesAndTheNaked(t *testing.T) {
	t.Parallel()
	id := newID()
	zombie := exec.Command("true")
	zombie.Env = []string{"REDLOCK_RUN=" + id}
	require.NoError(t, redistest.Spawn(zombie))
	defer zombie.Wait()
	h, pid := newHunt(), zombie.Process.Pid
	eventually(t, "it does not end", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(state), ") Z ")
	})
	require.Equal(t, innocent, h.marked(pid, id))
	require.Equal(t, innocent, h.marked(sleeps(t).cmd.Process.Pid, id))
	require.Equal(t, innocent, h.marked(2, id), "a kernel thread, or whoever that is")
	require.Equal(t, unsettled, h.marked(1<<30, id), "it has gone since it was listed")
}

func TestHuntWithoutProc(t *testing.T) {
	t.Parallel()
	for _, proc := range []string{t.TempDir(), "/nowhere"} {
		id := newID()
		stray := sleeps(t, "REDLOCK_RUN="+id)
		h := newHunt()
		h.proc = proc
		h.kill(id)
		require.True(t, stray.lives())
	}
}

// What a round costs is taken from the margin that limits.go keeps.
func BenchmarkRoundAmongStrangers(b *testing.B) {
	for range 500 {
		sleeps(b, os.Environ()...)
	}
	id := newID()
	b.Run("round", func(b *testing.B) {
		for b.Loop() {
			h := newHunt()
			h.round(func(pid int) sight { return h.marked(pid, id) }, syscall.SIGKILL)
		}
	})
	b.Run("hunt", func(b *testing.B) {
		longest := time.Duration(0)
		for b.Loop() {
			start := time.Now()
			newHunt().kill(id)
			longest = max(longest, time.Since(start))
		}
		b.ReportMetric(float64(longest)/1e6, "longest-ms")
	})
}
