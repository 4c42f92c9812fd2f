//go:build unix

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock/admin"
)

// closing runs the program by a shell with a redirection such as >&-.
func closing(t *testing.T, redirection string, args ...string) result {
	t.Helper()
	return finish(t, exec.Command("sh", append([]string{"-c", `"$0" "$@" ` + redirection, binary(t)}, args...)...))
}

// A lock whose token has nowhere to go would stay for its TTL, and no process
// could release it. To throw a token away, one says so.
func TestAcquireWithoutAStandardOutput_R7(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	for _, args := range [][]string{{"acquire", nodes, "-n", "r"}, {"acquire", nodes, "-n", "--json", "r"}} {
		r := closing(t, ">&-", args...)
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, "standard output is closed")
		require.Equal(t, admin.StateFree, state(t, c))
	}
	path := t.TempDir() + "/token"
	require.Equal(t, result{}, closing(t, ">&-", "acquire", nodes, "-n", "--token-file="+path, "r"))
	require.Equal(t, result{}, closing(t, ">&- <&- 2>&-", "extend", nodes, "--token-file="+path, "r"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `"$0" "$@" >&-`, binary(t), "extend", nodes, "r")
	cmd.Env = append(os.Environ(), tokenVariable+"="+string(text))
	require.Equal(t, exitUsage, finish(t, cmd).code)
	require.Equal(t, result{}, closing(t, ">&- <&- 2>&-", "release", nodes, "--token-file="+path, "r"))
	require.Equal(t, result{}, closing(t, ">/dev/null", "acquire", nodes, "-n", "r"))
	require.Equal(t, admin.StateHeld, state(t, c))
}

// The other commands work as with /dev/null in the place of what is closed.
func TestCommandsWithoutStandardStreams(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	path := t.TempDir() + "/ran"
	for _, args := range [][]string{
		{"status", nodes, "r"}, {"nodes", nodes, "--observe=0"}, {"doctor", nodes, "--observe=0"}, {"version"}, {"--help"},
		{"run", nodes, "-n", "r", "--", "sh", "-c", `cat; echo out; echo err >&2; : >"$0"`, path}, {"init", nodes},
		{"elect", nodes, "r", "--", "sh", "-c", `cat; echo out; echo err >&2; rm "$0"`, path},
	} {
		require.Equal(t, result{}, closing(t, ">&- <&- 2>&-", args...), "%q", args)
	}
	require.False(t, exists(path))
	r := closing(t, "<&-", "release", nodes, "--token-file=-", "r")
	require.Equal(t, exitUsage, r.code, r.stderr)
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}
