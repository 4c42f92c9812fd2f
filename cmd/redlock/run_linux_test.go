package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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
	// deep has a child of its own group tick, runs leave from within a script,
	// and waits.
	"deep": `trap '' TERM; sh "$1/tick" "$1" member & sh "$1/leave" "$1"; while test -d "$1"; do sleep 0.02; done`,
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

// run starts "redlock run FLAGS r -- sh -c SCRIPT" with the folder, the program
// and the flag that names the masters as its arguments. Messages go to a file,
// and not to a pipe that a stray could keep open.
func (j *job) run(nodes string, flags []string, script string) *exec.Cmd {
	j.t.Helper()
	stderr, err := os.Create(filepath.Join(j.dir, "stderr"))
	require.NoError(j.t, err)
	defer stderr.Close()
	cmd := runs(j.t, nodes, flags, shell(script, j.dir, binary(j.t), nodes)...)
	cmd.Stderr = stderr
	return spawned(j.t, cmd)
}

// said requires a text among the messages of the run.
func (j *job) said(text string) {
	j.t.Helper()
	messages, err := os.ReadFile(filepath.Join(j.dir, "stderr"))
	require.NoError(j.t, err)
	require.Contains(j.t, string(messages), text)
}

func (j *job) appears(name string) {
	j.t.Helper()
	appears(j.t, filepath.Join(j.dir, name))
}

// pid returns the pid that a process of the job has written.
func (j *job) pid(name string) (pid int) {
	j.t.Helper()
	j.appears(name)
	return pidIn(j.t, filepath.Join(j.dir, name))
}

// left waits until the processes that leave the group are at work outside of it.
func (j *job) left() {
	j.t.Helper()
	for _, name := range leavers {
		j.pid(name + ".pid")
	}
	j.lastTick(leavers...)
	still := j.pid("still")
	eventually(j.t, "it does not stop", func() bool { return strings.Contains(processState(still), ") T ") })
}

// lastTick is the latest time in files that ticking commands write. It waits
// until each has a line.
func (j *job) lastTick(names ...string) (latest time.Time) {
	j.t.Helper()
	for _, name := range names {
		eventually(j.t, name+" does not tick", func() bool {
			data, err := os.ReadFile(filepath.Join(j.dir, name))
			lines := strings.Split(string(data), "\n")
			if err != nil || len(lines) < 2 {
				return false
			}
			ns, err := strconv.ParseInt(lines[len(lines)-2], 10, 64)
			if last := time.Unix(0, ns); err == nil && last.After(latest) {
				latest = last
			}
			return err == nil
		})
	}
	return latest
}

// requireStill asserts that nothing ticks any more, and that nothing has since
// the end. A tick that was being written when its writer was killed counts by
// its time.
func (j *job) requireStill(end time.Time) {
	j.t.Helper()
	now, all := time.Now(), append([]string{"member"}, leavers...)
	time.Sleep(100 * time.Millisecond)
	require.False(j.t, j.lastTick(all...).After(now), "something goes on")
	require.Less(j.t, j.lastTick(all...), end, "it worked unlocked")
}

// requireDead waits until no process of the job is left.
func (j *job) requireDead() {
	j.t.Helper()
	eventually(j.t, "a process lives", func() bool { return len(j.living()) == 0 })
}

// requireNotWokenUp asserts that what was stopped was killed, not continued.
func (j *job) requireNotWokenUp() {
	j.t.Helper()
	require.False(j.t, exists(filepath.Join(j.dir, "went-on")))
}

// living returns the processes that have the folder in their arguments, but for
// the program's own.
func (j *job) living() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(j.t, err)
	for _, path := range all {
		arguments, _ := os.ReadFile(path)
		ours := bytes.Contains(arguments, []byte(j.dir)) && !bytes.HasPrefix(arguments, []byte(binary(j.t)))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && ours {
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
	do(t, servers, "SET", "r", "another's")
}

// If the lock cannot be renewed, the command and the strays are dead within its
// validity. It runs alone: beside other tests a hunt may take longer than the
// time that is reserved for it (package supervise).
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
	j.requireStill(stopped.Add(ttl - ttl/100 + late()))
	j.requireDead()
	j.said("stopping the command")
}

// A stopped wrapper does not renew. The guard ends the command and the strays in
// time, and the wrapper reports it when it is continued. It runs alone, too.
func TestRunWithAStoppedWrapperCatchesStrays_R15(t *testing.T) {
	redistest.Alone(t)
	_, nodes := masters(t, 3)
	j := newJob(t)
	const ttl = 10 * time.Second
	cmd := j.run(nodes, []string{"--ttl", ttl.String()}, `sh "$1/deep" "$1"; true`)
	j.left()
	require.NoError(t, redistest.StopProcess(cmd.Process))
	stopped := time.Now()
	time.Sleep(time.Until(stopped.Add(ttl))) // the last renewal before the stop has run out
	j.requireStill(stopped.Add(ttl - ttl/100))
	j.requireDead()
	j.requireNotWokenUp()
	require.NoError(t, redistest.ContinueProcess(cmd.Process))
	require.Equal(t, exitLost, await(t, cmd))
}

// overslept starts a goroutine that sleeps. What it returns is by how much that
// woke late at most: for so long the machine may have kept any process waiting.
func overslept(t *testing.T) func() time.Duration {
	const nap = 5 * time.Millisecond
	var most atomic.Int64
	go func() {
		for t.Context().Err() == nil {
			begun := time.Now()
			time.Sleep(nap)
			most.Store(max(most.Load(), int64(time.Since(begun)-nap)))
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}

// Whatever ends a run before its command is done, nothing of what the command
// has started is left: not in its group, and not outside of it.
func TestWhateverEndsARunItsStraysEnd_R13(t *testing.T) {
	t.Parallel()
	const deep = pidWritten + `sh "$1/deep" "$1"; true`
	kill := func(_ *job, cmd *exec.Cmd, _ []*redistest.Server) { _ = cmd.Process.Kill() }
	lost := func(j *job, _ *exec.Cmd, servers []*redistest.Server) { takeAway(j.t, servers) }
	for name, test := range map[string]struct {
		flags  []string
		script string
		end    func(j *job, cmd *exec.Cmd, servers []*redistest.Server)
		code   int
		says   string
		asks   bool // those who are stopped are continued
	}{
		"the wrapper is killed":                      {nil, deep, kill, 137, "", false},
		"the wrapper of a stopped command is killed": {nil, `sh "$1/leave" "$1"; ` + pidWritten + `kill -STOP $$; touch "$1/went-on"`, kill, 137, "", false},
		// The guard leads the group. The wrapper has the strays for children then.
		"the guard is killed": {nil, deep, func(j *job, _ *exec.Cmd, _ []*redistest.Server) {
			require.NoError(j.t, syscall.Kill(groupOf(j.t, j.dir), syscall.SIGKILL))
		}, 137, "the guard has died", false},
		// A guard that is stopped with its group goes on, and guards: the command
		// does not go on.
		"the wrapper is killed after its guard was stopped": {nil, deep, func(j *job, cmd *exec.Cmd, _ []*redistest.Server) {
			group := groupOf(j.t, j.dir)
			require.NoError(j.t, syscall.Kill(-group, syscall.SIGSTOP))
			eventually(j.t, "the guard stays stopped", func() bool { return strings.Contains(processState(group), ") S ") })
			require.Contains(j.t, processState(j.pid("pid")), ") T ")
			require.NoError(j.t, cmd.Process.Kill())
		}, 137, "", false},
		"it takes too long":      {[]string{"--max-hold=5s", "--kill-after=100ms"}, deep, func(*job, *exec.Cmd, []*redistest.Server) {}, exitTooLong, "", true},
		"the lock is taken away": {[]string{"--ttl=6s", "--kill-after=100ms"}, deep, lost, exitLost, "it is not ours any more", true},
		"a run within":           {[]string{"--ttl=6s", "--kill-after=100ms"}, `trap '' TERM; ` + pidWritten + `"$2" run "$3" inner -- sh "$1/deep" "$1"; sh "$1/wait" "$1"`, lost, exitLost, "", true},
		"a run within that is over": {[]string{"--ttl=6s", "--kill-after=100ms"},
			`"$2" run "$3" inner -- sh "$1/leave" "$1"; ` + pidWritten + `sh "$1/wait" "$1"`, lost, exitLost, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, nodes := masters(t, 3)
			j := newJob(t)
			cmd := j.run(nodes, test.flags, test.script)
			if test.code != exitTooLong {
				j.left()
				j.pid("pid")
			}
			test.end(j, cmd, servers)
			require.Equal(t, test.code, await(t, cmd))
			j.requireDead()
			j.said(test.says)
			if !test.asks {
				j.requireNotWokenUp()
			}
			if test.says == "the guard has died" {
				require.Equal(t, admin.StateFree, state(t, client(t, servers)))
			}
		})
	}
}

// A command that handles TERM has time to clean up. Strays are asked to end too,
// even if they are stopped. What the command leaves, in its group and outside of
// it, is killed when the command has ended.
func TestStraysOfALostLockAreAskedFirst(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	j.write("tidy", `trap 'touch "$1/tidied"; exit' TERM; echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; kill -STOP $$
while test -d "$1"; do sleep 0.02; done`)
	cmd := j.run(nodes, []string{"--ttl=15s", "--kill-after=4s"}, `trap : TERM; setsid sh "$1/tidy" "$1" & sh "$1/tick" "$1" member & sh "$1/leave" "$1"
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
// by itself is left alone, in its group and outside of it.
func TestRunLeavesStraysOfACommandThatEndedAlone(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	j := newJob(t)
	j.write("stray", `trap 'touch "$1/asked"' TERM INT USR1; echo $$ >"$1/stray.pid.new"; mv "$1/stray.pid.new" "$1/stray.pid"
while test -d "$1"; do sleep 0.02; done`)
	cmd := j.run(nodes, nil, `(trap '' USR1; exec sh "$1/tick" "$1" behind) & trap 'touch "$1/USR1"' USR1; trap 'exit 9' TERM
setsid sh "$1/stray" "$1" & while test -d "$1"; do sleep 0.02; done`)
	left := []int{j.pid("stray.pid"), j.pid("behind.pid")}
	require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
	j.appears("USR1")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 9, await(t, cmd))
	require.Equal(t, admin.StateFree, state(t, c))
	time.Sleep(100 * time.Millisecond)
	// Now and then, a child of its own has not executed its program yet.
	slices.Sort(left)
	eventually(t, "others live, or it does not", func() bool { return slices.Equal(left, slices.Sorted(slices.Values(j.living()))) })
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

// If the wrapper cannot act and the guard is killed, the kernel kills the command,
// but not what that has started.
func TestRunThatIsKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, nil, pidWritten+`exec sleep 1000`)
	j.pid("pid")
	group := groupOf(t, j.dir)
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
	_, url := lying(t, func(_ int, args []string) ([]byte, bool) {
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
	err := run.Run(&p, &deployment{Nodes: []string{url}, Forgetful: true, Timeout: patience})
	var exit *exitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitOK, exit.code)
	require.True(t, seen.Load(), "no release was seen")
	require.False(t, guarded.Load())
}

// If everything is stopped, guard included, what is continued too late is
// killed before it can do anything.
func TestRunThatIsContinuedTooLateIsKilled_R15(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	j := newJob(t)
	const ttl = 3 * time.Second // so that a busy machine stops all of them before the lock is lost for another reason
	cmd := j.run(nodes, []string{"--ttl", ttl.String()}, pidWritten+`while :; do date +%s%N >>"$1/ticks"; done`)
	j.lastTick("ticks")
	group := groupOf(t, j.dir)
	require.NoError(t, redistest.StopProcess(cmd.Process))
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	time.Sleep(ttl)
	require.True(t, alive(group), "it was killed while everything was stopped")
	last := j.lastTick("ticks")
	require.NoError(t, redistest.ContinueProcess(cmd.Process))
	require.Equal(t, exitLost, await(t, cmd))
	eventually(t, "the group is there", func() bool { return !alive(group) })
	require.Equal(t, last, j.lastTick("ticks"), "it went on")
}

// As process 1, which the entry point of a container is, redlock takes in the
// ends of what its command has left, and of what others in the container have.
// The command's exit code stays its own.
func TestAsProcessOneNoZombiesStay(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no namespace of processes: %v", err)
	}
	_, nodes := masters(t, 3)
	const leaves = `i=0; while [ $i -lt 50 ]; do (sleep 0.05 &); i=$((i+1)); done; n=0
while sleep 0.05; do z=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z "); n=$((n+1))
[ $z -eq 0 ] && ! pgrep -x sleep >/dev/null && break; [ $n -gt 200 ] && break; done; echo "$(cat /proc/1/comm) $z"; exit 7`
	for _, command := range []string{"run", "elect"} {
		cmd := exec.Command("unshare", "-pf", "--mount-proc", "sh", "-c", `(sleep 2 &); exec "$0" "$@"`, binary(t), command, nodes, "r"+command, "--", "sh", "-c", leaves)
		cmd.Env = os.Environ()
		r := finish(t, cmd)
		require.Equal(t, 7, r.code, r.stderr)
		require.Equal(t, "redlock 0", strings.TrimSpace(r.stdout))
	}
}

// What redlock was started to ignore or to block, the command ignores and blocks,
// and nothing else: otherwise "yes | head" would never end.
func TestRunPassesIgnoredSignalsOn(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	const show = `grep -E "Sig(Ign|Blk)" /proc/self/status`
	for _, ignored := range []string{"HUP TSTP TTOU", "INT", ""} {
		const script = `test -z "$1" || trap '' $1; ` + show + `; exec "$2" run "$3" r -- sh -c "$4"`
		cmd := exec.Command("sh", "-c", script, "sh", ignored, binary(t), nodes, show)
		r := finish(t, cmd)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.Len(t, lines, 4, r.stderr)
		require.Equal(t, lines[:2], lines[2:], ignored)
	}
}

// The command of a later term ignores no more signals than that of the first.
func TestElectStartsEachTermAlike(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "ignored")
	// A run within this process ignores it from then on, and it is inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	elect := spawned(t, elects(t, nodes, []string{"--ttl=3s"}, shell(
		`trap 'exit 5' TERM; sed -n 's/^SigIgn:[^0-9a-f]*//p' /proc/$$/status >> $1; while :; do sleep 0.01; done`, path)...))
	eventually(t, "no leader", func() bool { return len(lines(t, path)) == 1 })
	do(t, servers, "DEL", "r")
	eventually(t, "no second term", func() bool { return len(lines(t, path)) == 2 })
	require.NoError(t, elect.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, await(t, elect))
	var ignored [2]uint64
	for i, mask := range lines(t, path) {
		var err error
		ignored[i], err = strconv.ParseUint(mask, 16, 64)
		require.NoError(t, err)
	}
	require.Zero(t, ignored[1]&^ignored[0], "%x", ignored)
}
