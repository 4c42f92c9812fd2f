//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
	"github.com/stretchr/testify/require"
)

// elects prepares "redlock elect FLAGS r -- command".
func elects(t *testing.T, nodes string, flags []string, command ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{"elect", nodes}, flags...)
	return program(t, append(append(args, "r", "--"), command...)...)
}

// leads is a command that appends its term to a file, and works until it is
// stopped.
func leads(path string) []string {
	return shell(`trap 'echo over >> $1; exit 5' TERM; echo $REDLOCK_FENCE >> $1; while :; do sleep 0.01; done`, path)
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Fields(string(text))
}

// One candidate runs its command. When it is interrupted, its command ends
// before the other's begins, with a higher term.
func TestElectRunsOneCommand(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	path := filepath.Join(t.TempDir(), "terms")
	first := spawned(t, elects(t, nodes, []string{"--owner=a"}, leads(path)...))
	eventually(t, "no leader", func() bool { return len(lines(t, path)) == 1 })
	second := spawned(t, elects(t, nodes, nil, leads(path)...))
	third := spawned(t, elects(t, nodes, nil, leads(path)...))
	time.Sleep(300 * time.Millisecond)
	found, err := admin.Inspect(t.Context(), c, "r")
	require.NoError(t, err)
	require.Equal(t, "a", found.Owner)
	require.Len(t, lines(t, path), 1)
	require.NoError(t, third.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, await(t, third), "it was waiting")
	require.Len(t, lines(t, path), 1)

	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, await(t, first), "the command's exit code")
	eventually(t, "no second leader", func() bool { return len(lines(t, path)) == 3 })
	found, err = admin.Inspect(t.Context(), c, "r")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(found.Owner, ":"+strconv.Itoa(second.Process.Pid)), found.Owner)
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, await(t, second))
	said := lines(t, path)
	require.Equal(t, []string{"over", "over"}, []string{said[1], said[3]})
	require.Less(t, number64(t, said[0]), number64(t, said[2]))
	require.Equal(t, admin.StateFree, state(t, c))
}

// A signal that comes between the election and the start of the command is not
// lost: the relay has no command yet to pass it to, so the command must not
// start.
func TestElectSignalBetweenTheElectionAndTheStart(t *testing.T) {
	t.Parallel()
	servers, _ := masters(t, 3)
	hold, err := client(t, servers).Lock("r").TryHold(t.Context(), redlock.HoldOptions{TTL: time.Minute})
	require.NoError(t, err)
	never := filepath.Join(t.TempDir(), "never")
	path, err := look("touch")
	require.NoError(t, err)
	signals := make(chan os.Signal, 1)
	r := startRelay(signals)
	defer r.end()
	r.pass(syscall.SIGTERM)
	ctx, cancel := context.WithCancel(hold.Context())
	cancel() // as Election.Run does, whose context is the relay's
	term := electedTerm{
		electCommand: &electCommand{lifetime: lifetime{time.Minute}, Command: []string{"touch", never}, Name: "r", KillAfter: time.Second},
		process:      &process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, signals: signals}, relay: r, path: path,
	}
	require.ErrorIs(t, term.lead(ctx, 1), context.Canceled)
	require.False(t, exists(never))
}

// Each term of a candidate is judged by its own end, not by that of the one
// before. A loss counts although a signal has ended the candidacy: the command
// may have worked unlocked.
func TestElectJudgesTheLatestTerm_R12(t *testing.T) {
	ended := func() *electedTerm {
		r := startRelay(nil)
		t.Cleanup(r.end)
		return &electedTerm{ended: true, relay: r, process: &process{stderr: os.Stderr}}
	}
	lost := election.TermInfo{Cause: redlock.ErrLost}

	term := ended()
	term.over(lost)
	require.False(t, term.ended, "the candidate waits for its next term")
	term.ended = true
	term.over(election.TermInfo{Term: 2})
	require.Equal(t, exitOK, exitCode(term.verdict(nil)), "of the term before")

	term = ended()
	term.relay.pass(syscall.SIGTERM)
	term.over(lost)
	require.Equal(t, exitLost, exitCode(term.verdict(context.Canceled)), "the signal is no excuse")
}

func number64(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// A command that ends by itself ends the candidacy, with its exit code.
func TestElectEndsWithItsCommand(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	for _, code := range []int{0, 7} {
		r := finish(t, elects(t, nodes, nil, shell("exit "+strconv.Itoa(code))...))
		require.Equal(t, result{code: code}, r)
		require.Equal(t, admin.StateFree, state(t, c))
	}
	r := finish(t, elects(t, nodes, nil, "no such command"))
	require.Equal(t, exitNotFound, r.code)
	r = finish(t, elects(t, nodes, nil))
	require.Equal(t, exitUsage, r.code)
	require.Equal(t, admin.StateFree, state(t, c))
}

// So does one whose masters fall silent: its command is stopped while the lock
// may still be its own.
func TestElectAfterSilence(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "terms")
	elect := spawned(t, elects(t, nodes, []string{"--ttl=3s"}, leads(path)...))
	eventually(t, "no leader", func() bool { return len(lines(t, path)) == 1 })
	for _, s := range servers {
		require.NoError(t, s.Stop())
	}
	eventually(t, "it goes on", func() bool { return len(lines(t, path)) == 2 })
	for _, s := range servers {
		require.NoError(t, s.Continue())
	}
	eventually(t, "no leader", func() bool { return len(lines(t, path)) == 3 })
	require.NoError(t, elect.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, await(t, elect))
}
