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

	"github.com/redmux/redmux/internal/redistest"
)

// A sleeper is a process that does nothing, with an environment of its own.
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

// endedBy waits for a process and returns the signal that ended it.
func endedBy(t *testing.T, cmd *exec.Cmd) syscall.Signal {
	t.Helper()
	_ = cmd.Wait()
	return cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

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

// patientHunt returns a hunt that a busy machine does not end early.
func patientHunt() *hunt {
	h := newHunt()
	h.deadline = time.Now().Add(patience)
	return h
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
	eventually(t, "a hunt takes too long", func() bool { return killStrays(id) })
	for _, s := range append(dead, stopped) {
		s.requireDead(t)
	}
	for _, s := range alive {
		require.True(t, s.lives(), s.cmd.Env)
	}
}

// A process that turns up with a number that the round has passed is found by
// the next round. Here it takes on the mark when a process with a greater number
// is about to be killed.
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
	h := patientHunt()
	began := false
	h.open = func(pid, flags int) (int, error) {
		// The next round may meet the stray again: it was killed, but is not dead
		// until it gets the processor. By then the other one is dead.
		if pid == stray.cmd.Process.Pid && !began {
			began = true
			_ = start.Close()
			eventually(t, "it does not take the mark", func() bool { return newHunt().marked(late.Process.Pid, id) == wanted })
		}
		return unix.PidfdOpen(pid, flags)
	}
	h.kill(id)
	stray.requireDead(t)
	require.Equal(t, syscall.SIGKILL, endedBy(t, late))
}

// A quiet round is believed only if no process was created since it began, or
// those that were are no strays, and created none.
func TestAQuietRoundIsNotBelievedByItself(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		newest        []int // as /proc says, one question after another
		stray         int
		none, certain bool
	}{
		{"none was created", []int{100}, 0, true, true},
		{"some, no strays", []int{104, 104}, 0, true, true},
		{"a stray", []int{104, 104}, 103, false, true},
		{"a stray, while the others were looked at", []int{104, 106, 106}, 106, false, true},
		{"the numbers began again", []int{7}, 0, true, false},
		{"/proc does not say", []int{0}, 0, true, false},
	} {
		h := patientHunt()
		h.proc = t.TempDir()
		for pid := 90; pid < 110; pid++ {
			require.NoError(t, os.Mkdir(filepath.Join(h.proc, strconv.Itoa(pid)), 0o755))
		}
		asked := 0
		h.newest = func() int { asked++; return test.newest[asked-1] }
		h.open = func(pid, _ int) (int, error) {
			require.Equal(t, test.stray, pid)
			return 0, unix.ESRCH
		}
		none, certain := h.chase(100, func(pid int) sight {
			require.Greater(t, pid, 100, "older ones were seen by the round")
			if pid == test.stray {
				return wanted
			}
			return innocent
		}, syscall.SIGKILL)
		require.Equal(t, test.none, none, test.name)
		require.Equal(t, test.certain, certain, test.name)
	}
	h := newHunt()
	before := h.newest()
	child := sleeps(t)
	require.Less(t, before, h.newest(), "the numbers of processes have begun again, or /proc does not say")
	require.LessOrEqual(t, child.cmd.Process.Pid, h.newest())
}

// A process that executes a program while it is looked at is looked at again.
func TestAChaseLooksAgain(t *testing.T) {
	t.Parallel()
	h := patientHunt()
	h.proc = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(h.proc, "101"), 0o755))
	h.newest = func() int { return 101 }
	h.open = func(int, int) (int, error) { return 0, unix.ESRCH }
	looks := 0
	none, certain := h.chase(100, func(int) sight {
		if looks++; looks < 3 {
			return unsettled
		}
		return wanted
	}, syscall.SIGKILL)
	require.False(t, none)
	require.True(t, certain)
	require.Equal(t, 3, looks)
}

// Processes in the groups have the signals already, and some programs take a
// second one for impatience.
func TestAskStraysAsksThoseOutsideOfTheGroups(t *testing.T) {
	t.Parallel()
	id := newID()
	first, second, stray, stranger := sleeps(t, "REDLOCK_RUN="+id), sleeps(t, "REDLOCK_RUN="+id), sleeps(t, "REDLOCK_RUN="+id), sleeps(t)
	groups := []int{first.cmd.Process.Pid, second.cmd.Process.Pid} // each leads one
	eventually(t, "it is still alive", func() bool {               // a hunt may take too long
		askStrays(id, groups, time.Minute, syscall.SIGTERM, syscall.SIGCONT)
		return !stray.lives()
	})
	for _, s := range []*sleeper{first, second, stranger} {
		require.True(t, s.lives())
	}
}

// A process that tidies up when it is asked to end starts others for that, with
// the mark and with higher numbers. These are not asked.
func TestAskStraysLeavesWhatIsStartedToTidyUp(t *testing.T) {
	t.Parallel()
	id := newID()
	first := sleeps(t, "REDLOCK_RUN="+id)
	h := patientHunt()
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

// To read the environment of a process may take as long as a disk does. The
// command must be dead in time all the same (R13).
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

// A kernel or a sandbox without pidfds.
func TestKillStraysWithoutPidfd(t *testing.T) {
	t.Parallel()
	for _, err := range []error{unix.ENOSYS, unix.EPERM, unix.EMFILE} {
		id := newID()
		stray, stranger := sleeps(t, "REDLOCK_RUN="+id), sleeps(t)
		h := patientHunt()
		h.open = func(int, int) (int, error) { return -1, err }
		h.kill(id)
		stray.requireDead(t)
		require.True(t, stranger.lives())
	}
}

// A number that another process has got since the look is not signaled.
func TestANumberThatChangedHands(t *testing.T) {
	t.Parallel()
	id := newID()
	stray, heir := sleeps(t, "REDLOCK_RUN="+id), sleeps(t)
	for _, open := range []func(int, int) (int, error){
		// The process that was seen is gone when its number is opened.
		func(int, int) (int, error) { return -1, unix.ESRCH },
		// Another process has the number, is opened, and is looked at again.
		func(pid, flags int) (int, error) {
			stray.cmd.Process.Kill()
			<-stray.ended
			return unix.PidfdOpen(heir.cmd.Process.Pid, flags)
		},
	} {
		h := newHunt()
		h.open = open
		h.signal(stray.cmd.Process.Pid, func() bool { return h.marked(stray.cmd.Process.Pid, id) == wanted }, []syscall.Signal{syscall.SIGKILL})
		require.True(t, heir.lives())
	}
}

// The guard kills the rest of its group, nothing else, and lives on. A second
// process of the test plays the guard.
func TestKillGroupButUs(t *testing.T) {
	const played = "PLAYS_THE_GUARD"
	if os.Getenv(played) == "" {
		guard := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		guard.Env = append(os.Environ(), played+"=1")
		var out bytes.Buffer
		guard.Stdout = &out
		require.NoError(t, redistest.Spawn(guard)) // it leads a group
		require.NoError(t, guard.Wait(), out.String())
		require.Contains(t, out.String(), "PASS: "+t.Name())
		return
	}
	require.Equal(t, os.Getpid(), unix.Getpgrp()) // otherwise it would be the wrong group
	other := sleeps(t)
	member := exec.Command("sleep", "1000")
	require.NoError(t, member.Start())
	defer member.Process.Kill()
	ended := make(chan syscall.Signal, 1)
	go func() { ended <- endedBy(t, member) }()
	eventually(t, "it is still alive", func() bool { // a round may take too long
		killGroupButUs()
		return len(ended) > 0
	})
	require.Equal(t, syscall.SIGKILL, <-ended)
	require.True(t, other.lives())
}

// The beginning of a huge environment is searched; a command has its mark there.
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
	eventually(t, "a hunt takes too long", func() bool { return killStrays(id) })
	first.requireDead(t)
	require.True(t, last.lives())
}

// While it executes a program, a process has no environment for a moment, and
// must not be taken for one without a mark. A shell with a large environment
// executes itself again and again, and must never look innocent.
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

// What /proc shows of a process between two programs, and on kernels that tell
// less.
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

// Zombies do not keep a hunt going, nor do processes that have cleared their
// environment.
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
	require.Equal(t, innocent, h.marked(2, id), "a kernel thread, or another process")
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

// The cost of a round is taken from the margin of limits.go.
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
