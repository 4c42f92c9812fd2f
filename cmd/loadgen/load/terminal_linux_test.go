package load

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal of 50 columns.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { ours.Close() })
	fd := int(ours.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 50}))
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return ours, theirs
}

// The command itself on a terminal: the live line, and NO_COLOR.
func TestLiveLine(t *testing.T) {
	for env, dim := range map[string]bool{"NO_COLOR=": true, "NO_COLOR=1": false} {
		ours, theirs := terminal(t)
		cmd := command(t, "--embedded", "--spawn=1", "-d1s", "--warmup=0s", "-c2", "-r100")
		cmd.Env = append(os.Environ(), "TERM=xterm", env)
		cmd.Stderr = theirs
		require.NoError(t, cmd.Start())
		require.NoError(t, theirs.Close())
		all, _ := io.ReadAll(ours) // EIO once the last writer is gone
		require.NoError(t, cmd.Wait())
		out := string(all)
		require.Equal(t, dim, strings.Contains(out, "\x1b[2m"), "%q", out)
		lines := strings.Split(out, clearLine)
		require.Greater(t, len(lines), 3)
		require.Contains(t, out, "pairs/s")
		require.Contains(t, out, "p99 ")
		require.True(t, strings.HasSuffix(out, clearLine), "the line is taken away at the end: %q", out)
	}
}
