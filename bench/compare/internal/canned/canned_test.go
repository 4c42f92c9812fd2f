package canned

import (
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// TestMain lets Start start this test binary as the servers' process.
func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

var networks = []string{"tcp", "unix"}

// start starts servers for the time of a test.
func start(t testing.TB, n int, network string) *Servers {
	t.Helper()
	s, err := Start(n, network)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.Len(t, s.URLs(), n)
	return s
}

// dial connects to an endpoint as a stranger who knows no client.
func dial(t testing.TB, raw string) net.Conn {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	network, addr := "tcp", u.Host
	if u.Scheme == "unix" {
		network, addr = "unix", u.Path
	}
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn
}

func TestCloseEndsTheProcess(t *testing.T) {
	for _, network := range networks {
		s, err := Start(3, network)
		require.NoError(t, err)
		require.Len(t, s.PIDs(), 1, "one process serves all")
		pid := s.PIDs()[0]
		require.NotEqual(t, os.Getpid(), pid)
		require.NoError(t, syscall.Kill(pid, 0))
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "a second Close is harmless")
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
		_, err = os.Stat(s.dir)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// A parent that is killed closes nothing by itself, but the kernel closes its end of the pipe, which is all this does.
func TestTheProcessEndsWithItsParent(t *testing.T) {
	s, err := Start(1, "unix")
	require.NoError(t, err)
	require.NoError(t, s.stdin.Close())
	require.NoError(t, s.process.Wait())
	_, err = os.Stat(s.dir)
	require.ErrorIs(t, err, fs.ErrNotExist, "it cleans up behind itself")
}

// A process that was killed is reported, and its folder is removed nonetheless.
func TestCloseReportsAProcessThatDied(t *testing.T) {
	s, err := Start(1, "unix")
	require.NoError(t, err)
	require.NoError(t, s.process.Process.Kill())
	require.Error(t, s.Close())
	_, err = os.Stat(s.dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestStartRefuses(t *testing.T) {
	for _, c := range []struct {
		n       int
		network string
	}{{0, "tcp"}, {-1, "unix"}, {maxServers + 1, "tcp"}, {1, ""}, {1, "udp"}} {
		_, err := Start(c.n, c.network)
		require.Error(t, err, c)
	}
	// A main that forgets Main must not become a bomb.
	t.Setenv(jobVariable, "{}")
	_, err := Start(1, "tcp")
	require.ErrorContains(t, err, "canned.Main")
}

// Whatever a stranger sends, his connection ends, what he sent before is answered, and the others go on.
func TestGarbageEndsItsConnectionOnly(t *testing.T) {
	s := start(t, 1, "tcp")
	good := dial(t, s.URLs()[0])
	const ping = "*1\r\n$4\r\nPING\r\n"
	for _, garbage := range []string{
		"GET / HTTP/1.1\r\n\r\n", "PING\r\n", "*0\r\n", "*-1\r\n", "+OK\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*2\r\n$3\r\nGET\r\n_\r\n",
		"*1\r\n$999999999\r\n", "*99999999\r\n", "*x\r\n", "\x16\x03\x01\x00", "*1\r\n*1\r\n*1\r\n$1\r\nx\r\n", "*1\r\n$4\r\nPINGxx",
	} {
		bad := dial(t, s.URLs()[0])
		_, err := bad.Write([]byte(ping + garbage))
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", readAll(t, bad), "%q", garbage)

		_, err = good.Write([]byte(ping))
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", read(t, good, 7), "%q", garbage)
	}
}

// A command that comes byte by byte is one command, and a burst is answered in order, with one write.
func TestCutsAndBursts(t *testing.T) {
	s := start(t, 1, "unix")
	conn := dial(t, s.URLs()[0])
	set := resp.AppendCommand(nil, "set", "key", "token", "NX", "PX", "10000")
	for i := range set {
		_, err := conn.Write(set[i : i+1])
		require.NoError(t, err)
	}
	require.Equal(t, "+OK\r\n", read(t, conn, 5))

	burst, want := []byte(nil), ""
	for range 1000 {
		burst = append(burst, set...)
		burst = resp.AppendCommand(burst, "EVALSHA", "digest", "2", "a", "b", "x", "y")
		burst = resp.AppendCommand(burst, "PING")
		want += "+OK\r\n*2\r\n:1\r\n:1\r\n+PONG\r\n"
	}
	go conn.Write(burst)
	require.Equal(t, want, read(t, conn, len(want)))

	_, err := conn.Write(resp.AppendCommand(resp.AppendCommand(nil, "QUIT"), "PING"))
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", readAll(t, conn), "nothing behind QUIT is answered")
}

// The endpoints are different masters to whoever asks them.
func TestEndpointsDiffer(t *testing.T) {
	s := start(t, 5, "tcp")
	seen := map[string]bool{}
	for _, u := range s.URLs() {
		conn := dial(t, u)
		_, err := conn.Write(resp.AppendCommand(resp.AppendCommand(nil, "INFO", "server"), "QUIT"))
		require.NoError(t, err)
		for line := range strings.Lines(readAll(t, conn)) {
			if strings.HasPrefix(line, "run_id:") {
				seen[line] = true
			}
		}
	}
	require.Len(t, seen, 5)
}
