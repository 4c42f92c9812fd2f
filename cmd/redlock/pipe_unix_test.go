//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/redlock/admin"
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
		{"--help"}, {"help", "run"}, {"version"}, {"completion", "bash"}, {"doctor", "--list"},
		{"status", nodes, "r"}, {"status", nodes, "--watch", "--json", "r"}, {"nodes", nodes, "--observe=0"},
		{"doctor", nodes, "--observe=0"}, {"acquire", nodes, "r"}, {"acquire", nodes, "--json", "r"},
		{"release", nodes, "--force", "--yes", "r"},
	} {
		require.Equal(t, result{code: exitPipe}, withoutReader(t, args...), args)
	}
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

// A signal ends a command that waits for a person to type a token, or for the
// other end of a pipe: there is no lock yet.
func TestASignalEndsWhatCannotGoOn(t *testing.T) {
	toRead, toWrite := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(toRead, 0o600))
	require.NoError(t, unix.Mkfifo(toWrite, 0o600))
	for _, args := range [][]string{
		{"release", "--token-file=-", "r"}, {"extend", "--token-file=-", "r"}, {"release", "--token-file", toRead, "r"},
		{"run", "--outcome", toWrite, "r", "--", "true"},
	} {
		silent, end := io.Pipe()
		signals, code := make(chan os.Signal), make(chan int, 1)
		go func() { code <- run(args, silent, io.Discard, io.Discard, signals) }()
		ignored := time.After(patience)
		select {
		case signals <- syscall.SIGTERM:
		case <-ignored:
			require.Fail(t, "the signal is ignored", args)
		}
		select {
		case got := <-code:
			require.Equal(t, signalCode(syscall.SIGTERM), got, args)
		case <-ignored:
			require.Fail(t, "it goes on", args)
		}
		require.NoError(t, end.Close())
	}
	for _, fifo := range []string{toRead, toWrite} { // ends the goroutines that were left behind
		other, err := os.OpenFile(fifo, os.O_RDWR, 0)
		require.NoError(t, err)
		defer other.Close()
	}
}
