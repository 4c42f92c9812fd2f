//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An address that is taken is found before the masters are asked. A socket that
// a dead process has left is none.
func TestListenOnAnAddressThatIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	taken := listener.Addr().String()
	r := within("elect", "--nodes=redis://127.0.0.1:1", "--listen="+taken, "r", "--", "true")
	require.Equal(t, result{code: exitUsage, stderr: "redlock: --listen \"" + taken + "\": address already in use\n"}, r)
	for _, address := range []string{"nonsense", "127.0.0.1:99999", "unix:/no/such/folder/s"} {
		r = within("elect", "--nodes=redis://127.0.0.1:1", "--listen="+address, "r", "--", "true")
		require.Equal(t, exitUsage, r.code, r)
		require.Contains(t, r.stderr, `--listen "`+address+`": `)
	}

	r = within("elect", "--nodes=redis://127.0.0.1:1", "--listen=unix:", "r", "--", "true")
	require.Equal(t, result{code: exitUsage, stderr: "redlock: --listen unix: names no socket\n"}, r)

	path := filepath.Join(t.TempDir(), "s")
	first, err := listenOn("unix:" + path)
	require.NoError(t, err)
	_, err = listenOn("unix:" + path)
	require.ErrorContains(t, err, "address already in use")
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, first.Close())
	require.True(t, exists(path), "as a killed process leaves it")
	second, err := listenOn("unix:" + path)
	require.NoError(t, err)
	require.NoError(t, second.Close())

	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err = listenOn("unix:" + path)
	require.Error(t, err)
	require.True(t, exists(path))
}

// A socket is not taken away from a candidate that has just made it, and does
// not listen yet: candidates on one path take turns. Where they cannot, nothing
// is removed.
func TestTwoCandidatesOnOneSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	unlock, locked := lockFolder(filepath.Dir(path))
	require.True(t, locked)
	first, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.CloseOnExec(first)
	defer func() { _ = unix.Close(first) }()
	require.NoError(t, unix.Bind(first, &unix.SockaddrUnix{Name: path}))
	second := make(chan error, 1)
	go func() {
		_, err := listenOn("unix:" + path)
		second <- err
	}()
	select {
	case err := <-second:
		require.ErrorContains(t, err, "address already in use", "it gave up")
		second <- err
	case <-time.After(lockTakes / 4): // without turns, it is done by now
	}
	require.NoError(t, unix.Listen(first, 1))
	unlock()
	require.ErrorContains(t, <-second, "address already in use")
	c, err := net.Dial("unix", path)
	require.NoError(t, err, "it leads to the first")
	require.NoError(t, c.Close())

	require.NoError(t, unix.Close(first)) // as when its process is killed
	first = -1
	unlock, locked = lockFolder(filepath.Dir(path))
	require.True(t, locked)
	_, err = listenOn("unix:" + path)
	require.ErrorContains(t, err, "address already in use")
	require.True(t, exists(path))
	unlock()
	third, err := listenOn("unix:" + path)
	require.NoError(t, err)
	require.NoError(t, third.Close())
}

// Of many candidates that find one abandoned socket, one gets it, and the path
// leads to that one.
func TestManyCandidatesOnAnAbandonedSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 20 {
		left, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Bind(left, &unix.SockaddrUnix{Name: path}))
		require.NoError(t, unix.Close(left))
		got := make(chan net.Listener)
		for range 8 {
			go func() {
				l, err := listenOn("unix:" + path)
				if err != nil {
					l = nil
				}
				got <- l
			}()
		}
		var winner net.Listener
		for range 8 {
			if l := <-got; l != nil {
				require.Nil(t, winner, "two listen")
				winner = l
			}
		}
		require.NotNil(t, winner)
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, winner.Close())
		require.False(t, exists(path))
	}
}
