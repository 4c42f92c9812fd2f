//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock/admin"
)

// noting is a hook that appends a line: its own word, the term and the outcome.
func noting(word, path string) string {
	return fmt.Sprintf(`echo %s:$REDLOCK_RESOURCE:$REDLOCK_FENCE:$REDLOCK_OUTCOME >> %s`, word, path)
}

// noted returns the lines, with the terms counted from 1 on.
func noted(t *testing.T, path string) (all []string) {
	t.Helper()
	var terms []string
	for _, line := range lines(t, path) {
		parts := strings.Split(line, ":")
		if !slices.Contains(terms, parts[2]) {
			require.True(t, len(terms) == 0 || number64(t, parts[2]) > number64(t, terms[len(terms)-1]), "%v, %s", terms, line)
			terms = append(terms, parts[2])
		}
		parts[2] = strconv.Itoa(1 + slices.Index(terms, parts[2]))
		all = append(all, strings.Join(parts, ":"))
	}
	return all
}

// notes is a command that does the same, and works until it is stopped.
func notes(path string) []string {
	return shell(`trap 'exit 5' TERM; `+noting("works", "$1")+`; while :; do sleep 0.01; done`, path)
}

// The hooks run before and after the command, with its term: after a signal, an
// end of the command's own and a loss. The lock is ours until the second has
// ended, unless it is lost.
func TestHooksOfATerm(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	path := filepath.Join(t.TempDir(), "notes")
	flags := []string{"--ttl=3s", "--on-elected", noting("elected", path), "--on-lost", "sleep 0.2; " + noting("lost", path)}
	last := func() string { all := noted(t, path); return all[len(all)-1] }

	require.Equal(t, result{code: 7}, finish(t, elects(t, nodes, flags, shell(noting("works", path)+"; exit 7")...)))
	require.Equal(t, []string{"elected:r:1:", "works:r:1:", "lost:r:1:done"}, noted(t, path))

	elect := spawned(t, elects(t, nodes, flags, notes(path)...))
	eventually(t, "no leader", func() bool { return len(noted(t, path)) == 5 })
	for _, s := range servers {
		require.NoError(t, s.Stop())
	}
	eventually(t, "it goes on", func() bool { return len(noted(t, path)) == 6 })
	require.Equal(t, "lost:r:2:lost", last())
	for _, s := range servers {
		require.NoError(t, s.Continue())
	}
	eventually(t, "no leader", func() bool { return strings.HasPrefix(last(), "works:") && len(noted(t, path)) == 8 })
	require.NoError(t, elect.Process.Signal(syscall.SIGTERM))
	for len(noted(t, path)) == 8 { // the command ends, and the hook takes a while
		require.Equal(t, admin.StateHeld, state(t, c))
		time.Sleep(10 * time.Millisecond)
	}
	require.Equal(t, 5, await(t, elect))
	require.True(t, strings.HasSuffix(last(), ":interrupted"), last())
	require.Equal(t, admin.StateFree, state(t, c))
}

// A first hook that fails or hangs ends its term: the command is not started,
// the second hook runs, and another candidate may lead.
func TestAHookThatFailsEndsTheTerm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, hook, timeout, says string }{
		{"fails", "exit 3", "1h", "--on-elected: exit code 3; the command is not started"},
		{"hangs", "trap '' TERM; sleep 60", "4s", "--hook-timeout was reached; stopping the command"}, // until then it has noted that it runs
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, nodes := masters(t, 3)
			path := filepath.Join(t.TempDir(), "notes")
			var stderr lockedBuffer
			cmd := elects(t, nodes, []string{
				"--hook-timeout=" + c.timeout, "--kill-after=100ms", "--on-elected", noting("elected", path) + "; " + c.hook, "--on-lost", noting("lost", path),
			}, notes(path)...)
			cmd.Stderr = &stderr
			elect := spawned(t, cmd)
			eventually(t, "it does not campaign again", func() bool { return len(noted(t, path)) == 4 })
			require.Equal(t, []string{"elected:r:1:", "lost:r:1:failed", "elected:r:2:", "lost:r:2:failed"}, noted(t, path))
			require.Contains(t, stderr.String(), c.says)
			other := spawned(t, elects(t, nodes, nil, notes(path)...))
			eventually(t, "no other leads", func() bool { return strings.Contains(strings.Join(noted(t, path), " "), "works:") })
			require.NoError(t, elect.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 143, await(t, elect))
			require.NoError(t, other.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 5, await(t, other))
		})
	}
}

// A second hook that hangs is killed with all that it started, and one that
// fails is reported. Neither changes the exit code.
func TestASecondHookThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	r := finish(t, elects(t, nodes, []string{"--hook-timeout=300ms", "--on-lost", "trap '' TERM; sleep 60 & wait; sleep 60"}, shell("exit 7")...))
	require.Equal(t, result{code: 7, stderr: "redlock: --on-lost was killed after 300ms\n"}, r)
	r = finish(t, elects(t, nodes, []string{"--on-lost", "echo out; kill -9 $$"}, shell("exit 7")...))
	require.Equal(t, result{code: 7, stdout: "out\n", stderr: "redlock: --on-lost: exit code 137\n"}, r)
	require.Equal(t, exitUsage, within("elect", nodes, "--hook-timeout=0", "r", "--", "true").code)
}

// A signal during the first hook ends it, and the command is not started.
func TestASignalDuringTheFirstHook(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "notes")
	elect := spawned(t, elects(t, nodes, []string{"--on-elected", noting("elected", path) + "; sleep 60", "--on-lost", noting("lost", path)}, notes(path)...))
	eventually(t, "no leader", func() bool { return len(noted(t, path)) == 1 })
	require.NoError(t, elect.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, await(t, elect))
	require.Equal(t, []string{"elected:r:1:", "lost:r:1:interrupted"}, noted(t, path))
}

// ask asks a candidate on its socket, and returns the status and the answer.
func ask(t *testing.T, socket, path string) (status int, a standingAnswer) {
	t.Helper()
	over := http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	r, err := over.Get("http://candidate" + path)
	require.NoError(t, err)
	defer r.Body.Close()
	require.NoError(t, json.NewDecoder(r.Body).Decode(&a))
	return r.StatusCode, a
}

// Of two candidates, the probe of one says yes. When it is interrupted it says
// no at once, even if its command takes its time.
func TestProbesOfTwoCandidates(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	path := filepath.Join(dir, "notes")
	begin := func(name string) (*exec.Cmd, string) {
		socket := filepath.Join(dir, name)
		elect := spawned(t, elects(t, nodes, []string{"--owner=" + name, "--listen=unix:" + socket},
			shell(`trap 'while test -e $1; do sleep 0.01; done; exit 5' TERM; : > $1; while :; do sleep 0.01; done`, path)...))
		eventually(t, "no process listens", func() bool {
			c, err := net.Dial("unix", socket) // the socket is there a moment before that
			return err == nil && c.Close() == nil
		})
		return elect, socket
	}
	leads := func(socket string) bool { status, a := ask(t, socket, "/leader"); return status == 200 && a.Leads }
	a, ofA := begin("a")
	eventually(t, "a does not lead", func() bool { return leads(ofA) && exists(path) })
	b, ofB := begin("b")
	eventually(t, "b does not know a", func() bool { _, says := ask(t, ofB, "/leader"); return says.Leader.Owner == "a" })
	require.False(t, leads(ofB))
	status, says := ask(t, ofB, "/healthz")
	require.Equal(t, []any{200, true, 3}, []any{status, says.Healthy, says.NodesUp})

	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	eventually(t, "a still says yes", func() bool { return !leads(ofA) })
	require.False(t, leads(ofB), "the command of a works on")
	require.NoError(t, exec.Command("rm", path).Run())
	require.Equal(t, 5, await(t, a))
	require.False(t, exists(ofA))
	eventually(t, "b does not lead", func() bool { return leads(ofB) })

	for _, s := range servers {
		require.NoError(t, s.Kill())
	}
	eventually(t, "b finds itself healthy", func() bool { status, _ := ask(t, ofB, "/healthz"); return status == 503 })
	require.NoError(t, exec.Command("rm", "-f", path).Run())
	require.NoError(t, b.Process.Signal(syscall.SIGTERM))
	await(t, b)
}
