//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

// withoutReader runs the program with a standard output that nothing reads.
func withoutReader(t *testing.T, args ...string) result {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer write.Close()
	require.NoError(t, read.Close())
	cmd := program(t, args...)
	cmd.Stdout = write
	return finish(t, cmd)
}

// A command whose output has no reader any more, as with "| head -1", ends
// without a message, with the exit code of a process that SIGPIPE ended, and
// leaves no lock behind.
func TestAReaderThatIsGoneEndsACommandSilently(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	for _, args := range [][]string{
		{"--help"}, {"help", "run"}, {"version"}, {"man"}, {"completion", "bash"}, {"doctor", "--list"},
		{"status", nodes, "r"}, {"status", nodes, "--watch", "--json", "r"}, {"nodes", nodes, "--observe=0"},
		{"doctor", nodes, "--observe=0"}, {"acquire", nodes, "r"}, {"acquire", nodes, "--json", "r"},
		{"release", nodes, "--force", "--yes", "r"},
	} {
		require.Equal(t, result{code: exitPipe}, withoutReader(t, args...), args)
	}
	require.Equal(t, redlock.StateFree, state(t, client(t, servers)))
}
