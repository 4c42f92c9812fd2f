//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// In a folder such as /tmp any user may have put a link where a token or an
// outcome is written: it would replace or empty a file of ours.
func TestFilesAreNotOpenedThroughAnotherUsersLink_R27(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	const other = 65534
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	precious, link, folder, chain := filepath.Join(dir, "precious"), filepath.Join(dir, "link"), filepath.Join(dir, "folder"), filepath.Join(dir, "chain")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	require.NoError(t, os.Symlink(precious, link))
	require.NoError(t, os.Symlink("real", folder))
	require.NoError(t, os.Symlink("real/../link", chain)) // our own
	for _, path := range []string{link, folder} {
		require.NoError(t, os.Lchown(path, other, other))
	}
	for _, path := range []string{link, chain, filepath.Join(folder, "token"), folder + "/../precious"} {
		for _, args := range [][]string{
			{"acquire", nodes, "-n", "--token-file=" + path, "r"},
			{"extend", nodes, "--token-file=" + path, "r"},
			{"release", nodes, "--token-file=" + path, "r"},
			{"run", nodes, "-n", "--outcome=" + path, "r", "--", "true"},
		} {
			r := within(args...)
			require.Equal(t, exitUsage, r.code, "%q: %s", args, r.stderr)
			require.Contains(t, r.stderr, "a link that belongs to another user", "%q", args)
		}
	}
	text, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
	for _, path := range []string{precious, "/dev/stdin", "/dev/fd/0", filepath.Join(dir, "missing"), "missing/too", ".", ".."} {
		_, err := ownPath(path)
		require.NoError(t, err, path)
	}
}

// A link that is put there after the path was looked at is not followed either.
func TestALinkThatIsPutThereMeanwhileIsNotFollowed_R27(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	dir := t.TempDir()
	precious, path := filepath.Join(dir, "precious"), filepath.Join(dir, "path")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(file, nil, 0o600)
			_ = os.Rename(file, path)
			_ = os.Symlink(precious, link)
			_ = os.Lchown(link, 65534, 65534)
			_ = os.Rename(link, path)
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	foreign := 0
	for begun := time.Now(); time.Since(begun) < time.Second; {
		file, err := openOwn(path, os.O_RDONLY, 0)
		if err != nil {
			foreign++
			continue
		}
		text, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Empty(t, string(text))
	}
	require.NotZero(t, foreign)
}

func TestALinkThatLeadsToItselfEnds(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink("loop", loop))
	_, err := ownPath(loop)
	require.NoError(t, err)
}
