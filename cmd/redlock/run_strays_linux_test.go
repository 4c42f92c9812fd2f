package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/admin"
)

// A job is a folder with scripts that leave the command's process group in
// several ways, and with the files that they write. Each of its processes has
// the folder in its arguments, by which the test finds it.
type job struct {
	t   *testing.T
	dir string
}

// scripts are what the processes of a job run. Each gets the folder as its first
// argument, and ends when the folder is gone.
var scripts = map[string]string{
	// tick writes the time to the file that its second argument names, and its
	// pid. It ignores TERM.
	"tick": `trap '' TERM
echo $$ >"$1/$2.pid.new"; mv "$1/$2.pid.new" "$1/$2.pid"
while test -d "$1"; do date +%s%N >>"$1/$2"; sleep 0.005; done`,
	// leave starts what leaves: a group of timeout, a session whose first process
	// has ended, a daemon that has cleared its environment, and one that is stopped.
	"leave": `timeout 1h sh "$1/tick" "$1" timeout &
(env -i PATH="$PATH" setsid sh -c 'sh "$1/tick" "$1" daemon &' sh "$1" &)
(setsid sh -c 'sh "$1/tick" "$1" setsid &' sh "$1" &)
setsid sh -c 'trap "" TERM; echo $$ >"$1/still.new"; mv "$1/still.new" "$1/still"; kill -STOP $$; touch "$1/went-on"; while test -d "$1"; do sleep 0.02; done' sh "$1" &`,
	// deep runs leave from within a script, and waits.
	"deep": `trap '' TERM; sh "$1/leave" "$1"; while test -d "$1"; do sleep 0.02; done`,
	"wait": `while test -d "$1"; do sleep 0.02; done`,
	// chain starts the next link and ends. It is a script, since shells limit the
	// depth of functions.
	"chain": `trap "" TERM; test -d "$1" || exit 0; echo >>"$1/links"; sh "$1/chain" "$1" & exit 0`,
}

// leavers are those of them that write the time.
var leavers = []string{"timeout", "setsid", "daemon"}

func newJob(t *testing.T) *job {
	t.Helper()
	for _, tool := range []string{"timeout", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs ", tool)
		}
	}
	j := &job{t, t.TempDir()}
	for name, script := range scripts {
		j.write(name, script)
	}
	t.Cleanup(func() {
		for _, pid := range j.living() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return j
}

func (j *job) write(name, text string) {
	j.t.Helper()
	require.NoError(j.t, os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o644))
}

// run starts "redlock run FLAGS r -- sh -c SCRIPT" with the folder as $1.
func (j *job) run(nodes string, flags []string, script string) *exec.Cmd {
	j.t.Helper()
	cmd := runs(j.t, nodes, flags, shell(script, j.dir)...)
	return spawned(j.t, cmd) // without a pipe that a stray could keep open
}

func (j *job) appears(name string) {
	j.t.Helper()
	appears(j.t, filepath.Join(j.dir, name))
}

// pid returns the pid that a process of the job has written.
func (j *job) pid(name string) (pid int) {
	j.t.Helper()
	j.appears(name)
	data, err := os.ReadFile(filepath.Join(j.dir, name))
	require.NoError(j.t, err)
	_, err = fmt.Sscan(string(data), &pid)
	require.NoError(j.t, err)
	return pid
}

// left waits until the processes that leave the group are at work outside of it.
func (j *job) left() {
	j.t.Helper()
	for _, name := range leavers {
		j.pid(name + ".pid")
	}
	j.lastTick()
	still := j.pid("still")
	eventually(j.t, "it does not stop", func() bool { return strings.Contains(processState(still), ") T ") })
}

// lastTick is when the latest tick was written.
func (j *job) lastTick() time.Time {
	j.t.Helper()
	return lastTick(j.t, j.dir, leavers...)
}

// requireStill asserts that nothing ticks any more.
func (j *job) requireStill() {
	j.t.Helper()
	requireStill(j.t, j.dir, leavers...)
}

// requireDead waits until no process of the job is left.
func (j *job) requireDead() {
	j.t.Helper()
	eventually(j.t, "a process lives", func() bool { return len(j.living()) == 0 })
}

// requireNotWokenUp asserts that the stopped process was killed, not continued.
func (j *job) requireNotWokenUp() {
	j.t.Helper()
	require.False(j.t, exists(filepath.Join(j.dir, "went-on")))
}

// living returns the processes that have the folder in their arguments, except
// wrappers and guards.
func (j *job) living() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(j.t, err)
	for _, path := range all {
		arguments, _ := os.ReadFile(path)
		if !bytes.Contains(arguments, []byte(j.dir)) || bytes.HasPrefix(arguments, []byte(buildDir)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processState is what /proc says of a process, or nothing.
func processState(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return string(data)
}

// takeAway gives the lock to another client, so it is lost at once.
func takeAway(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		_, err := s.Do("SET", "r", "another's")
		require.NoError(t, err)
	}
}

// If the lock cannot be renewed, the strays are dead within its validity too.
// It runs alone: beside other tests a hunt may take longer than the time that
// is reserved for it (package supervise).
func TestRunOfALostLockCatchesStrays_R13(t *testing.T) {
	redistest.Alone(t)
	servers, nodes := masters(t, 3)
	j := newJob(t)
	const ttl = 10 * time.Second
	cmd := j.run(nodes, []string{"--ttl", ttl.String(), "--kill-after=300ms"}, `sh "$1/deep" "$1"; true`)
	j.left()
	for _, s := range servers {
		require.NoError(t, s.Stop())
	}
	stopped, late := time.Now(), overslept(t)
	require.Equal(t, exitLost, await(t, cmd))
	j.requireStill()
	require.Less(t, j.lastTick(), stopped.Add(ttl-ttl/100+late()), "it worked unlocked")
	j.requireDead()
}

// The guard kills the strays if the wrapper is killed …
func TestRunThatIsKilledCatchesStrays(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, nil, `sh "$1/deep" "$1"; true`)
	j.left()
	require.NoError(t, cmd.Process.Kill())
	require.Equal(t, 137, await(t, cmd))
	j.requireDead()
	j.requireNotWokenUp()
}

// … and if it is stopped.
func TestRunWithAStoppedWrapperCatchesStrays_R15(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	const ttl = 10 * time.Second
	cmd := j.run(nodes, []string{"--ttl", ttl.String()}, `sh "$1/deep" "$1"; true`)
	j.left()
	require.NoError(t, redistest.StopProcess(cmd.Process))
	stopped := time.Now()
	time.Sleep(time.Until(stopped.Add(ttl))) // the last renewal before the stop has run out
	j.requireStill()
	require.Less(t, j.lastTick(), stopped.Add(ttl-ttl/100), "it worked unlocked")
	j.requireDead()
	j.requireNotWokenUp()
	require.NoError(t, redistest.ContinueProcess(cmd.Process))
	require.Equal(t, exitLost, await(t, cmd))
}

// If the guard is killed, the wrapper has the strays for children, and kills them
// before it releases the lock.
func TestRunWhoseGuardDiesCatchesStrays_R13(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, nil, `echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; sh "$1/deep" "$1"; true`)
	j.left()
	require.NoError(t, syscall.Kill(groupOf(t, j.dir), syscall.SIGKILL))
	require.Equal(t, 137, await(t, cmd))
	j.requireDead()
	j.requireNotWokenUp()
}

// A guard that is stopped with its group goes on, and guards: the command does
// not.
func TestRunContinuesAGuardThatWasStopped_R13(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, nil, `echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; sh "$1/deep" "$1"; true`)
	j.left()
	group := groupOf(t, j.dir)
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	eventually(t, "the guard stays stopped", func() bool { return strings.Contains(processState(group), ") S ") })
	require.Contains(t, processState(j.pid("pid")), ") T ")
	require.NoError(t, cmd.Process.Kill())
	require.Equal(t, 137, await(t, cmd))
	j.requireDead()
}

func TestRunThatTakesTooLongCatchesStrays(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, []string{"--max-hold=5s", "--kill-after=100ms"}, `sh "$1/deep" "$1"; true`)
	require.Equal(t, exitTooLong, await(t, cmd))
	j.requireDead()
}

// Strays are asked to end too, even if they are stopped, and are killed when the
// command has ended.
func TestStraysOfALostLockAreAskedFirst(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	j.write("tidy", `trap 'touch "$1/tidied"; exit' TERM; echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; kill -STOP $$
while test -d "$1"; do sleep 0.02; done`)
	cmd := j.run(nodes, []string{"--ttl=15s", "--kill-after=4s"}, `trap : TERM; setsid sh "$1/tidy" "$1" & sh "$1/leave" "$1"
while test -d "$1" && ! test -e "$1/tidied"; do sleep 0.02; done; exit 9`)
	j.left()
	pid := j.pid("pid")
	eventually(t, "it does not stop", func() bool { return strings.Contains(processState(pid), ") T ") })
	takeAway(t, servers)
	require.Equal(t, exitLost, await(t, cmd))
	require.True(t, exists(filepath.Join(j.dir, "tidied")))
	j.requireDead()
}

// Forwarded signals go to the group only, and what a command leaves when it ends
// by itself is left alone.
func TestRunLeavesStraysOfACommandThatEndedAlone(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	j := newJob(t)
	j.write("stray", `trap 'touch "$1/asked"' TERM INT USR1; echo $$ >"$1/stray.pid.new"; mv "$1/stray.pid.new" "$1/stray.pid"
while test -d "$1"; do sleep 0.02; done`)
	cmd := j.run(nodes, nil, `trap 'touch "$1/USR1"' USR1; trap 'exit 9' TERM; setsid sh "$1/stray" "$1" & while test -d "$1"; do sleep 0.02; done`)
	stray := j.pid("stray.pid")
	require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
	j.appears("USR1")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 9, await(t, cmd))
	require.Equal(t, admin.StateFree, state(t, c))
	time.Sleep(100 * time.Millisecond)
	// Now and then, a child of its own has not executed its program yet.
	eventually(t, "others live, or it does not", func() bool { return slices.Equal([]int{stray}, j.living()) })
	require.False(t, exists(filepath.Join(j.dir, "asked")))
}

// What is no descendant of the command is no stray: neither a child that the
// wrapper had before it became one, nor a process of another parent.
func TestRunOfALostLockLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	plain := exec.Command("sleep", "1000")
	spawned(t, plain)
	t.Cleanup(func() {
		_ = plain.Process.Kill()
		_ = plain.Wait()
	})
	j.write("before", `sh "$1/tick" "$1" before & exec "$2" run --ttl=6s --kill-after=100ms "$3" r -- sh -c 'sh "$1/leave" "$1"; sh "$1/wait" "$1"' sh "$1"`)
	cmd := spawned(t, exec.Command("sh", filepath.Join(j.dir, "before"), j.dir, binary(t), nodes))
	j.left()
	before := j.pid("before.pid")
	takeAway(t, servers)
	require.Equal(t, exitLost, await(t, cmd))
	eventually(t, "a stray lives", func() bool {
		living := slices.DeleteFunc(j.living(), func(pid int) bool { return strings.Contains(processState(pid), "(sleep)") })
		return slices.Equal([]int{before}, living)
	})
	time.Sleep(100 * time.Millisecond)
	for _, pid := range []int{plain.Process.Pid, before} {
		require.Regexp(t, `\) [SR] `, processState(pid), "it is dead")
	}
}

// A chain of processes, each of which starts the next and ends, does not outrun
// the hunt.
func TestRunOfALostLockCatchesChains(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, []string{"--ttl=20s", "--kill-after=0s"},
		`i=0; while test $i -lt 10; do setsid sh "$1/chain" "$1" & i=$((i+1)); done; sh "$1/wait" "$1"`)
	links := func() int64 {
		info, err := os.Stat(filepath.Join(j.dir, "links"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	eventually(t, "they do not run", func() bool { return links() > 100 })
	takeAway(t, servers)
	require.Equal(t, exitLost, await(t, cmd))
	last := links()
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, last, links(), "a chain goes on")
	j.requireDead()
}
