//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// runs prepares "redlock run FLAGS r -- command".
func runs(t *testing.T, nodes string, flags []string, command ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{"run", nodes}, flags...)
	return program(t, append(append(args, "r", "--"), command...)...)
}

// shell is a command for runs.
func shell(script string, args ...string) []string {
	return append([]string{"sh", "-c", script, "sh"}, args...)
}

// spawned starts a prepared process, which is killed with the test.
func spawned(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	require.NoError(t, redistest.Spawn(cmd))
	return cmd
}

// appears waits for a file that a command writes.
func appears(t *testing.T, path string) {
	t.Helper()
	eventually(t, "no "+filepath.Base(path), func() bool { return exists(path) })
}

func TestRunPassesOnExitCodes(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	for _, test := range []struct {
		name    string
		command []string
		code    int
	}{
		{"success", shell("exit 0"), 0},
		{"failure", shell("exit 7"), 7},
		{"one of ours", shell("exit 75"), 75},
		{"terminated", shell("kill -TERM $$"), 143},
		{"killed", shell("kill -KILL $$"), 137},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := finish(t, runs(t, nodes, []string{"-n"}, test.command...))
			require.Equal(t, result{code: test.code}, r)
			require.Equal(t, admin.StateFree, state(t, c), "it is released")
		})
	}
	r := finish(t, runs(t, nodes, nil, shell(`sleep 1000 >/dev/null 2>&1 & echo $!`)...))
	pid, err := strconv.Atoi(strings.TrimSpace(r.stdout))
	require.NoError(t, err, r)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "what a command leaves in the background lives on")
}

// A command that cannot be run is an error before anything is locked.
func TestRunOfWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	plain, broken := filepath.Join(dir, "plain"), filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	require.NoError(t, os.WriteFile(broken, []byte("#!/there/is/no/such/interpreter\n"), 0o755))
	for _, test := range []struct {
		command string
		code    int
		late    bool // only the start shows it
	}{
		{"there-is-no-such-command", exitNotFound, false},
		{filepath.Join(dir, "nothing"), exitNotFound, false},
		{plain, exitNotExecutable, false},
		{dir, exitNotExecutable, false},
		{broken, exitNotFound, true},
	} {
		r := finish(t, runs(t, nodes, nil, test.command))
		require.Equal(t, test.code, r.code, r.stderr)
		require.NotEmpty(t, r.stderr)
		if !test.late {
			// Even without masters.
			r = finish(t, runs(t, "--nodes=unix:///nowhere", nil, test.command))
			require.Equal(t, test.code, r.code, r.stderr)
		}
	}
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

// Names of files and of resources are bytes. A command must not work on another
// file, or under another lock, since they are no UTF-8.
func TestWhatIsNotUTF8ReachesCommandAndMastersAsItIs_R19(t *testing.T) {
	t.Parallel()
	const odd = "caf\xe9 \xff\x80"
	servers, nodes := mastersWith(t, redlock.Config{MaxTTL: longest, Prefix: odd + ":"}, 3)
	dir := t.TempDir()
	file, other := filepath.Join(dir, odd), filepath.Join(dir, strings.ToValidUTF8(odd, "\ufffd"))
	for _, command := range []string{"run", "elect"} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.WriteFile(other, nil, 0o600))
		r := finish(t, program(t, append([]string{command, nodes, "--prefix=" + odd + ":", odd, "--"},
			shell(`rm "$1" && printf %s "$REDLOCK_RESOURCE"`, file)...)...))
		require.Equal(t, result{stdout: odd}, r)
		require.False(t, exists(file), "it worked on the file that was named")
		require.True(t, exists(other))
	}
	require.Equal(t, exitOK, within("acquire", nodes, "-n", "--prefix="+odd+":", odd).code)
	var there int64
	for _, s := range servers {
		exists, err := s.Do("EXISTS", odd+":"+odd)
		require.NoError(t, err)
		there += exists.(int64)
	}
	require.GreaterOrEqual(t, there, int64(2), "a quorum: the command does not wait for the third")
}

func TestRunGivesTheCommandItsEnvironment(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	cmd := runs(t, nodes, []string{"--ttl=20s"}, shell(`echo "$REDLOCK_RESOURCE"; echo "$REDLOCK_UNTIL"; echo "$OTHER"`)...)
	cmd.Env = append(os.Environ(), "OTHER=kept")
	before := time.Now()
	r := finish(t, cmd)
	require.Equal(t, 0, r.code, r.stderr)
	lines := strings.Split(r.stdout, "\n")
	require.Len(t, lines, 4)
	require.Equal(t, "r", lines[0])
	require.Equal(t, "kept", lines[2])
	until, err := time.Parse(time.RFC3339Nano, lines[1])
	require.NoError(t, err)
	require.Greater(t, until, before.Add(15*time.Second))
	require.Less(t, until, time.Now().Add(20*time.Second))
}

// With a fencing number, it is there too, and higher in each run, also of those
// for several resources; a run within another sees the variables of its own run,
// and inherits no number.
func TestRunFenced(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	var numbers []uint64
	for _, more := range [][]string{nil, {"--also=s"}, {"--also=s", "--also=u"}, nil} {
		r := finish(t, runs(t, nodes, append(more, "--fenced"), shell(`echo "$REDLOCK_FENCE"`)...))
		require.Equal(t, 0, r.code, r.stderr)
		number, err := strconv.ParseUint(strings.TrimSpace(r.stdout), 10, 64)
		require.NoError(t, err)
		numbers = append(numbers, number)
	}
	require.IsIncreasing(t, numbers)
	r := finish(t, runs(t, nodes, []string{"--fenced"}, binary(t), "run", nodes, "inner", "--", "env"))
	require.Equal(t, 0, r.code, r.stderr)
	require.NotContains(t, r.stdout, "REDLOCK_FENCE")
	require.Contains(t, r.stdout, "REDLOCK_RESOURCE=inner\n")
	require.Equal(t, 1, strings.Count(r.stdout, "REDLOCK_RESOURCE="))
	require.Equal(t, 1, strings.Count(r.stdout, "REDLOCK_UNTIL="))
	r = finish(t, runs(t, nodes, []string{"--fenced", "--forgetful"}, "true"))
	require.Equal(t, exitUsage, r.code, r.stderr)
}

// A standard error that nothing reads does not let a command work on.
func TestRunWhoseMessagesNobodyReads(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	require.NoError(t, write.SetWriteDeadline(time.Now().Add(time.Second)))
	for err == nil { // until it is full
		_, err = write.Write(make([]byte, 4096))
	}
	cmd := runs(t, nodes, []string{"--max-hold=300ms", "--kill-after=100ms"}, shell("trap '' TERM; while :; do sleep 0.02; done")...)
	cmd.Stderr = write
	spawned(t, cmd)
	require.Equal(t, exitTooLong, await(t, cmd))
}

// Every byte of standard input and output is the command's own.
func TestRunLeavesInputAndOutputAlone(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	data := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(data)
	cmd := runs(t, nodes, nil, "cat")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(data), &out
	r := finish(t, cmd)
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, sha256.Sum256(data), sha256.Sum256(out.Bytes()))

	r = finish(t, runs(t, nodes, nil, shell("echo out; echo err >&2")...))
	require.Equal(t, result{0, "out\n", "err\n"}, r)
}

func TestRunWhereTheLockIsHeld(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	lock, err := client(t, servers).TryAcquire(context.Background(), "r", time.Hour)
	require.NoError(t, err)
	never := filepath.Join(t.TempDir(), "never")
	for _, flags := range []string{"-n", "-w TIME", "-w 0s"} {
		const says = `redlock: resource "r" is held`
		r := growing(time.Second, saying(says), func(wait string) result {
			return finish(t, runs(t, nodes, strings.Fields(strings.ReplaceAll(flags, "TIME", wait)), "touch", never))
		})
		require.Equal(t, result{exitHeld, "", r.stderr}, r, flags)
		require.Contains(t, r.stderr, says, flags)
	}
	r := finish(t, runs(t, nodes, []string{"-nq", "-E", "3"}, "touch", never))
	require.Equal(t, result{code: 3}, r)

	cmd := runs(t, nodes, []string{"-w", "1m"}, "echo", "mine")
	var out bytes.Buffer
	cmd.Stdout = &out
	spawned(t, cmd)
	time.Sleep(200 * time.Millisecond) // if it is not waiting yet, the test still passes
	require.NoError(t, lock.Release(context.Background()))
	require.Equal(t, 0, await(t, cmd))
	require.Equal(t, "mine\n", out.String())
	require.False(t, exists(never))
}

// A lock that was gone before its release is reported by the exit code,
// although no renewal was due: the command may have worked unlocked.
func TestRunWhoseLockWasGoneBeforeItsRelease_R9(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	for _, code := range []int{0, 7} {
		dir := t.TempDir()
		cmd := runs(t, nodes, []string{"--ttl=1h"},
			shell(`touch "$1/ready"; while ! test -e "$1/end"; do sleep 0.02; done; exit $2`, dir, strconv.Itoa(code))...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		spawned(t, cmd)
		appears(t, filepath.Join(dir, "ready"))
		for _, s := range servers {
			// The SET of the slowest master may come after the grant.
			eventually(t, "the key is on every node", func() bool {
				n, err := s.Do("DEL", "r")
				require.NoError(t, err)
				return n == int64(1)
			})
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o644))
		require.Equal(t, exitLost, await(t, cmd), stderr.String())
		require.Contains(t, stderr.String(), "the lock was gone before it was released")
	}
}

// With --verbose a wait is reported, with the holder. A signal ends the wait, and
// no key is left.
func TestRunThatWaitsSaysSo_R31(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	lock := takenBy(t, c, servers, "r")
	waits := func() *exec.Cmd {
		cmd := runs(t, nodes, []string{"-v"}, "true")
		stderr := &lockedBuffer{}
		cmd.Stderr = stderr
		spawned(t, cmd)
		eventually(t, "it does not say so", func() bool {
			return strings.Contains(stderr.String(), `redlock: waiting: resource "r" is held by `+lock.Token().Fingerprint())
		})
		return cmd
	}
	patient, interrupted := waits(), waits()
	require.NoError(t, interrupted.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, await(t, interrupted))
	require.NoError(t, lock.Release(context.Background()))
	require.Equal(t, 0, await(t, patient))
	require.Equal(t, admin.StateFree, state(t, c))
}

// The outcome of a run goes to a file, for programs.
func TestRunWritesItsOutcome(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "outcome")
	elsewhere := ""
	outcomeOf := func(code int, flags []string, command ...string) (o outcome) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte("what was there before\n"), 0o644))
		r := finish(t, runs(t, cmp.Or(elsewhere, nodes), append(flags, "--outcome="+path), command...))
		require.Equal(t, code, r.code, r.stderr)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(data, []byte("\n")))
		require.NoError(t, json.Unmarshal(data, &o), "%s", data)
		require.Equal(t, code, o.ExitCode)
		require.Equal(t, "r", o.Resource)
		return o
	}
	o := outcomeOf(0, nil, "true")
	require.Equal(t, "done", o.Outcome)
	require.Equal(t, 0, *o.CommandExitCode)
	require.Positive(t, *o.WaitedMS)
	require.GreaterOrEqual(t, *o.RanMS, 0.0)

	// An exit code of the command that is also one of ours is not mistaken for
	// it.
	o = outcomeOf(exitLost, nil, shell("exit 70")...)
	require.Equal(t, "done", o.Outcome)
	require.Equal(t, exitLost, *o.CommandExitCode)
	require.Empty(t, o.Error)

	o = outcomeOf(exitTooLong, []string{"--max-hold=300ms"}, "sleep", "1000")
	require.Equal(t, "max_hold", o.Outcome)
	require.Equal(t, 143, *o.CommandExitCode)
	require.Equal(t, "not_found", outcomeOf(exitNotFound, nil, "/nowhere/at/all").Outcome)
	require.Equal(t, "invalid", outcomeOf(exitUsage, []string{"--ttl=2h", "--max-ttl=1h"}, "true").Outcome)
	elsewhere = "--nodes=unix:///nowhere"
	require.Equal(t, "no_quorum", outcomeOf(exitNoQuorum, []string{"-n"}, "true").Outcome)
	elsewhere = ""

	lock := takenBy(t, client(t, servers), servers, "r")
	o = outcomeOf(3, []string{"-n", "-E", "3"}, "true")
	require.Equal(t, "held", o.Outcome)
	require.Nil(t, o.CommandExitCode)
	require.Equal(t, lock.Token().Fingerprint(), o.Holder)
	require.Greater(t, *o.HolderTTLMS, 60_000.0)

	r := finish(t, runs(t, nodes, []string{"-nq", "--outcome=/dev/stderr"}, "true"))
	require.Equal(t, exitHeld, r.code)
	require.Contains(t, r.stderr, `"outcome":"held"`)
	require.NoError(t, lock.Release(context.Background()))
	r = finish(t, runs(t, nodes, []string{"--outcome=/nowhere/at/all"}, "true"))
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `--outcome "/nowhere/at/all": no such file`)
}

func TestRunKeepsTheLockForMinHold(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	r := finish(t, runs(t, nodes, []string{"--min-hold=20s"}, "true"))
	require.Equal(t, 0, r.code, r.stderr)
	all, err := admin.Inspect(context.Background(), c, "r")
	require.NoError(t, err)
	require.Equal(t, admin.StateHeld, all.State)
	require.LessOrEqual(t, all.TTL, 21*time.Second, "and no longer")
	r = finish(t, runs(t, nodes, []string{"-n"}, "true"))
	require.Equal(t, exitHeld, r.code)
}

func TestRunStopsACommandAfterMaxHold(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	r := finish(t, runs(t, nodes, []string{"--max-hold=300ms"}, "sleep", "1000"))
	require.Equal(t, exitTooLong, r.code)
	require.Contains(t, r.stderr, "--max-hold was reached")
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
	// A command that ignores TERM is killed.
	r = finish(t, runs(t, nodes, []string{"--max-hold=300ms", "--kill-after=100ms"}, shell("trap '' TERM; sleep 1000 & wait; sleep 1000")...))
	require.Equal(t, exitTooLong, r.code)
}

// The command gets the signals of its wrapper and is waited for; then the lock
// is released.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	dir := t.TempDir()
	const script = `cd "$1"
for s in INT HUP QUIT USR1 USR2 WINCH; do trap "touch $s" $s; done
trap 'touch TERM; exit 9' TERM
touch ready
while :; do sleep 0.02; done`
	cmd := spawned(t, runs(t, nodes, nil, shell(script, dir)...))
	appears(t, filepath.Join(dir, "ready"))
	for _, s := range []struct {
		name   string
		signal syscall.Signal
	}{
		{"INT", syscall.SIGINT}, {"HUP", syscall.SIGHUP}, {"QUIT", syscall.SIGQUIT}, {"USR1", syscall.SIGUSR1},
		{"USR2", syscall.SIGUSR2}, {"WINCH", syscall.SIGWINCH},
	} {
		if signal.Ignored(s.signal) {
			continue // as under nohup; what we start inherits it
		}
		require.NoError(t, cmd.Process.Signal(s.signal))
		appears(t, filepath.Join(dir, s.name))
	}
	require.Equal(t, admin.StateHeld, state(t, c))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 9, await(t, cmd))
	require.True(t, exists(filepath.Join(dir, "TERM")))
	require.Equal(t, admin.StateFree, state(t, c))
}

// pidWritten is the beginning of a script that writes its pid to a file of its
// folder.
const pidWritten = `echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; `

// pidIn reads a pid.
func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = fmt.Sscan(string(data), &pid)
	require.NoError(t, err)
	return pid
}

// groupOf is the process group of a command that wrote its pid.
func groupOf(t *testing.T, dir string) int {
	t.Helper()
	group, err := syscall.Getpgid(pidIn(t, filepath.Join(dir, "pid")))
	require.NoError(t, err)
	return group
}

// alive reports whether a process group has any process.
func alive(group int) bool { return syscall.Kill(-group, 0) == nil }

// If the lock is lost before the command begins, the command is not started.
func TestRunThatLosesItsLockBeforeTheStart_R15(t *testing.T) {
	t.Parallel()
	servers, _ := masters(t, 3)
	locker := client(t, servers)
	hold, err := locker.Lock("r").TryHold(context.Background(), redlock.HoldOptions{TTL: time.Second})
	require.NoError(t, err)
	do(t, servers, "SET", "r", "another's")
	<-hold.Context().Done()
	never := filepath.Join(t.TempDir(), "never")
	c := &runCommand{Command: []string{"touch", never}, Resource: "r", lifetime: lifetime{time.Second}}
	p := &process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, signals: make(chan os.Signal, 64)}
	path, err := look("touch")
	require.NoError(t, err)
	guard, err := startGuard(p)
	require.NoError(t, err)
	defer guard.End()
	end, err := c.supervise(p, new(deployment), locker, hold, path, guard)
	require.Equal(t, exitLost, exitCode(c.verdict(p, hold, end, err)))
	require.False(t, exists(never))
}

// If the guard dies while redlock waits for the lock, the command is not started
// and the lock is released.
func TestRunWhoseGuardDiesBeforeTheCommand(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	lock, err := c.TryAcquire(context.Background(), "r", time.Hour)
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
		return len(out) == 0 || out[0] == 'Z' // a zombie can still be signaled
	})
	require.NoError(t, lock.Release(context.Background()))
	require.Equal(t, exitFailed, await(t, cmd), stderr.String())
	require.Contains(t, stderr.String(), "the guard") // has died, or does not answer if it was not ready yet
	require.False(t, exists(never))
	require.Equal(t, admin.StateFree, state(t, c))
}

// redlock run --also locks all resources, or none, and says which one is in the
// way.
func TestRunWithSeveralResources(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	dir := t.TempDir()
	begun, end, file := filepath.Join(dir, "begun"), filepath.Join(dir, "end"), filepath.Join(dir, "outcome")
	script := shell(`printf %s "$REDLOCK_RESOURCE" >"$1.part"; mv "$1.part" "$1"; while test ! -e "$2"; do sleep 0.01; done`, begun, end)
	run := spawned(t, runs(t, nodes, []string{"-n", "--also=s,1", "--also=u", "--outcome=" + file}, script...))
	appears(t, begun)
	text, err := os.ReadFile(begun)
	require.NoError(t, err)
	require.Equal(t, "r, s,1, u", string(text))
	for _, resource := range []string{"r", "s,1", "u"} {
		found, err := admin.Inspect(t.Context(), c, resource)
		require.NoError(t, err)
		require.Equal(t, admin.StateHeld, found.State)
	}
	refused := within("run", nodes, "-n", "--also=u", "v", "--", "true")
	require.Equal(t, exitHeld, refused.code)
	require.Contains(t, refused.stderr, `resource "u" is held by `)
	require.Equal(t, exitHeld, within("acquire", nodes, "-n", "s,1").code)
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.NoError(t, run.Wait())
	for _, resource := range []string{"r", "s,1", "u", "v"} {
		eventually(t, resource+" is released", func() bool {
			found, err := admin.Inspect(t.Context(), c, resource)
			return err == nil && found.State == admin.StateFree
		})
	}
	outcome, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(outcome), `"resource":"r, s,1, u","resources":["r","s,1","u"],"outcome":"done"`)
}
