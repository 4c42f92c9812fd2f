package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestServerRestartsEmptyOnItsAddresses(t *testing.T) {
	redistest.NoLeaks(t)
	s := redistest.Servers(t, 1, redistest.OverTCP, redistest.OverUnix, redistest.Password("pw"))[0]
	pid, addr := s.PID(), s.TCPAddr()
	require.Equal(t, "redis://:pw@"+addr, s.URL())
	require.Contains(t, s.UnixURL(), "unix://:pw@/")
	_, err := s.Do("SET", "k", "v")
	require.NoError(t, err)

	require.NoError(t, s.Kill())
	_, err = net.Dial("tcp", addr)
	require.Error(t, err)
	require.NoError(t, s.Restart())
	require.NotEqual(t, pid, s.PID())
	require.Equal(t, addr, s.TCPAddr())
	v, err := s.Do("DBSIZE")
	require.NoError(t, err)
	require.EqualValues(t, 0, v)

	_, err = s.Do("CONFIG", "SET", "requirepass", "other")
	require.NoError(t, err)
	_, err = s.Do("PING")
	require.ErrorContains(t, err, "WRONGPASS")
	s.Authenticate("", "other")
	_, err = s.Do("PING")
	require.NoError(t, err)
}

// A fault may be healed, and change the folder, while the server is being
// closed. Nothing of it stays.
func TestCloseBesideAChangeOfItsFolder(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	for range 20 {
		s, err := redistest.Start(redistest.Options{Unix: true})
		require.NoError(t, err)
		u, err := url.Parse(s.UnixURL())
		require.NoError(t, err)
		one, other := u.Path, u.Path+".off"
		began, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			close(began)
			for os.Rename(one, other) == nil || os.WriteFile(other, nil, 0o600) == nil {
				one, other = other, one
			}
		}()
		<-began
		require.NoError(t, s.Close())
		<-ended
		require.NoDirExists(t, filepath.Dir(u.Path))
		require.NoDirExists(t, filepath.Dir(u.Path)+".gone")
	}
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	redistest.NoLeaks(t)
	if _, ok := redistest.Find(); !ok {
		redistest.Servers(t, 1) // skips
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := redistest.StartN(2, redistest.Options{Args: []string{"--no-such-option", "1"}})
	require.ErrorContains(t, err, "no-such-option")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the folders are removed")
}

func TestServerWaitsForItsPort(t *testing.T) {
	redistest.NoLeaks(t)
	s := redistest.Servers(t, 1, redistest.OverTCP)[0]
	require.NoError(t, s.Kill())
	l, err := net.Listen("tcp", s.TCPAddr())
	require.NoError(t, err)
	// The node that took the port answers like a server, and must not be taken
	// for it.
	stranger := redistest.NewNode(redistest.NodeConfig{})
	stranger.Serve(l)
	time.AfterFunc(100*time.Millisecond, func() { stranger.Close() })
	require.NoError(t, s.Restart())
	v, err := s.Do("INFO", "server")
	require.NoError(t, err)
	require.Contains(t, v, fmt.Sprintf("process_id:%d\r\n", s.PID()))
}

// TestServerOutlivesTheThreadThatAskedForIt: a goroutine that ends while locked
// to its thread ends the thread, and with it a child that the thread forked.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	redistest.NoLeaks(t)
	if _, ok := redistest.Find(); !ok {
		redistest.Servers(t, 1) // skips
	}
	var s *redistest.Server
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		s, err = redistest.Start(redistest.Options{})
	}()
	<-done
	require.NoError(t, err)
	defer s.Close()
	time.Sleep(50 * time.Millisecond)
	_, err = s.Do("PING")
	require.NoError(t, err)
}

// TestServerDiesWithItsParent runs this test binary again, as a parent that is
// killed.
func TestServerDiesWithItsParent(t *testing.T) {
	if os.Getenv("REDISTEST_PARENT") != "" {
		s, err := redistest.Start(redistest.Options{})
		if err == nil {
			fmt.Println(s.URL())
			time.Sleep(time.Minute)
		}
		os.Exit(1)
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped: only Linux ends a child with its parent")
	}
	if _, ok := redistest.Find(); !ok {
		redistest.Servers(t, 1) // skips
	}
	own, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(own, "-test.run=^TestServerDiesWithItsParent$")
	dir := t.TempDir()
	parent.Env = append(os.Environ(), "REDISTEST_PARENT=1", "TMPDIR="+dir)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	socket := strings.TrimPrefix(strings.TrimSpace(line), "unix://")
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			send(t, conn, "SHUTDOWN NOSAVE\r\n") // leaves no process behind
		}
		conn.Close()
	})
	require.NoError(t, parent.Process.Kill())
	parent.Wait()
	conn.SetDeadline(time.Now().Add(patience))
	err = readError(conn) // EOF or reset
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestServersSaysWhyItSkips(t *testing.T) {
	t.Setenv("REDMUX_SERVER", filepath.Join(t.TempDir(), "none"))
	for value, want := range map[string]string{"": "skip: ", "1": "fatal: "} {
		t.Setenv("REDMUX_REQUIRE_SERVERS", value)
		var tb fakeTB
		func() {
			defer func() { recover() }()
			redistest.Servers(&tb, 5)
		}()
		require.Contains(t, tb.said, want)
		require.Contains(t, tb.said, "REDMUX_SERVER")
	}
}

// fakeTB records how a test ended.
type fakeTB struct {
	testing.TB
	said string
}

func (tb *fakeTB) Helper() {}

func (tb *fakeTB) Skipf(format string, args ...any) {
	tb.said = "skip: " + fmt.Sprintf(format, args...)
	panic(tb.said)
}

func (tb *fakeTB) Fatalf(format string, args ...any) {
	tb.said = "fatal: " + fmt.Sprintf(format, args...)
	panic(tb.said)
}

// wrapper writes a script that becomes the server, like those of
// testdata/fetch.sh, and adds an option by which it can be recognized.
func wrapper(t *testing.T, server, name, maxclients string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	script := "#!/bin/sh\nexec '" + server + "' \"$@\" --maxclients " + maxclients + "\n"
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

func TestGroupsMixServersInTurn(t *testing.T) {
	redistest.NoLeaks(t)
	redistest.Require(t)
	server, _ := redistest.Find()
	server, err := exec.LookPath(server)
	require.NoError(t, err)
	a, b := wrapper(t, server, "a", "101"), wrapper(t, server, "b", "102")
	t.Setenv("REDMUX_SERVERS", a+string(filepath.ListSeparator)+string(filepath.ListSeparator)+b)
	t.Setenv("REDMUX_SERVER", "")

	limit := func(s *redistest.Server) any {
		all, err := s.Do("CONFIG", "GET", "maxclients")
		require.NoError(t, err)
		return all.([]any)[1]
	}
	var limits []any
	for _, s := range redistest.Servers(t, 5) {
		limits = append(limits, limit(s))
	}
	require.Equal(t, []any{"101", "102", "101", "102", "101"}, limits)

	// A single server runs the first program, unless REDMUX_SERVER names
	// another. A group ignores REDMUX_SERVER.
	path, ok := redistest.Find()
	require.True(t, ok)
	require.Equal(t, a, path)
	t.Setenv("REDMUX_SERVER", b)
	path, ok = redistest.Find()
	require.True(t, ok)
	require.Equal(t, b, path)
	require.Equal(t, "101", limit(redistest.Servers(t, 1)[0]))
	// The servers of a group of one kind are what a single one is without a group.
	for _, s := range redistest.Servers(t, 2, redistest.OfOneKind) {
		require.Equal(t, "102", limit(s))
	}
	// A Path has precedence over both.
	require.Equal(t, "102", limit(redistest.Servers(t, 1, func(o *redistest.Options) { o.Path = b })[0]))

	t.Setenv("REDMUX_SERVERS", a+string(filepath.ListSeparator)+filepath.Join(t.TempDir(), "gone"))
	_, err = redistest.StartN(1, redistest.Options{})
	require.ErrorContains(t, err, "REDMUX_SERVERS", "not even one that is there")
	require.ErrorContains(t, err, "gone")
}
