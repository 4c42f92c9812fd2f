package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sockets returns both ends of a connection over a real socket. The network may
// be "tls": then our end is as Dial makes it, and theirs sends no tickets.
func sockets(t testing.TB, network string) (ours, theirs net.Conn) {
	t.Helper()
	if network == "tls" {
		ours, theirs = sockets(t, "tcp")
		certs := newCertificates(t)
		quiet := certs.Server()
		quiet.SessionTicketsDisabled = true
		return shakeTLS(t, certs, quiet, ours, theirs)
	}
	addr := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "conn") // t.TempDir is too long for the name of a socket
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		addr = filepath.Join(dir, "s")
	}
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer l.Close()
	ours, err = net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	theirs, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// shakeTLS adds TLS to both ends, to ours as Dial does, and completes the
// handshake.
func shakeTLS(t testing.TB, certs *redistest.Certificates, server *tls.Config, ours, theirs net.Conn) (*tls.Conn, *tls.Conn) {
	t.Helper()
	cfg := Config{Endpoint: Endpoint{Addr: "node.test:6379", TLS: certs.Client()}}
	their := tls.Server(theirs, server)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { assert.NoError(t, their.Handshake()) })
	our, err := cfg.secure(t.Context(), ours, configTLS(t, &cfg))
	require.NoError(t, err)
	return our, their
}

// With a send buffer of 8 KiB and a peer that does not read, most of the data
// goes through the backlog. Then the peer reads while more is sent.
func TestPartialWrites(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			ours, theirs := sockets(t, network)
			require.NoError(t, ours.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(8<<10))
			c := adopt(t, ours, 32<<20)
			sent := sendNumbers(t, c, 3<<20)
			assert.Positive(t, c.output.pending.Load(), "else nothing is tested")

			got := make([]byte, 2*len(sent))
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := io.ReadFull(theirs, got)
				assert.NoError(t, err)
			})
			sent = append(sent, sendNumbers(t, c, 3<<20)...)
			wg.Wait()
			assert.True(t, string(sent) == string(got))
			eventually(t, func() bool { return c.output.pending.Load() == 0 })

			// The last bytes may still be in transit: the acknowledgement comes
			// when the kernel gets to it.
			require.NoError(t, ours.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(1<<20))
			require.NoError(t, c.Send([]byte("direct again")))
			assert.Zero(t, c.output.pending.Load())
		})
	}
}

// R8: Break aborts the connection, over TLS too; Close does not.
func TestBreakAborts(t *testing.T) {
	for _, c := range []struct {
		network string
		end     func(c *Conn)
		want    error
	}{
		{"tcp", func(c *Conn) { c.Break(errTest) }, syscall.ECONNRESET},
		{"tls", func(c *Conn) { c.Break(errTest) }, syscall.ECONNRESET},
		{"tcp", func(c *Conn) { c.Close() }, io.EOF},
		{"tls", func(c *Conn) { c.Close() }, io.EOF},
	} {
		t.Run(fmt.Sprint(c.network, " ", c.want), func(t *testing.T) {
			ours, theirs := sockets(t, c.network)
			conn := adopt(t, ours, 0)
			require.NoError(t, conn.Send([]byte("x")))
			eventually(t, func() bool { return conn.output.pending.Load() == 0 })
			c.end(conn)
			var err error
			for err == nil {
				_, err = below(theirs).Read(make([]byte, 1<<10))
			}
			assert.ErrorIs(t, err, c.want)
		})
	}
}

// The window of a stopped node is full, and the writer waits in tls.Conn.Write.
func TestBreakFreesATLSWriter(t *testing.T) {
	ours, _ := sockets(t, "tls")
	c := adopt(t, ours, 64<<20)
	for range 400 {
		require.NoError(t, c.Send(make([]byte, 64<<10)))
	}
	var before int64
	eventually(t, func() bool { // until no more bytes move
		now := c.output.pending.Load()
		defer func() { before = now; time.Sleep(20 * time.Millisecond) }()
		return now == before
	})
	require.Positive(t, before, "else nothing is tested")

	filled := make(chan error)
	go func() { filled <- c.Fill() }()
	atOnce(t, "Break", func() {
		c.Break(errTest)
		assert.ErrorIs(t, <-filled, errTest)
		c.output.writer.Wait()
	})
}

// If the window is full and the writer is not in a Write, tls.Conn.Close would
// wait to send its alert.
func TestTheEndOverTLSWaitsForNobody(t *testing.T) {
	for name, end := range map[string]func(c *Conn){
		"Break": func(c *Conn) { c.Break(errTest) },
		"Close": func(c *Conn) { assert.NoError(t, c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := sockets(t, "tls")
			c, ours := adopt(t, client, 0), below(client)
			for n, err := 1, error(nil); n > 0; { // until no more bytes move
				require.NoError(t, ours.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
				n, err = ours.Write(make([]byte, 1<<20)) // below TLS
				require.True(t, err == nil || errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
			}
			require.NoError(t, ours.SetWriteDeadline(time.Time{}))
			atOnce(t, name, func() { end(c) })
		})
	}
}

// R26: the connection tells whether its socket is drained, even while a read
// waits.
func TestUnread(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "tls"} {
		t.Run(network, func(t *testing.T) {
			ours, theirs := sockets(t, network)
			c := adopt(t, ours, 0)
			assert.False(t, c.Unread())
			_, err := theirs.Write([]byte("+OK\r\n"))
			require.NoError(t, err)
			eventually(t, c.Unread)
			assert.True(t, c.Unread(), "looking takes nothing away")
			require.NoError(t, c.Fill())
			assert.False(t, c.Unread())

			filled := make(chan error)
			go func() { filled <- c.Fill() }()
			for range 100 {
				assert.False(t, c.Unread(), "beside a read that waits")
				runtime.Gosched()
			}
			_, err = theirs.Write([]byte("+OK\r\n"))
			require.NoError(t, err)
			require.NoError(t, <-filled)

			_, err = theirs.Write([]byte("+OK\r\n"))
			require.NoError(t, err)
			eventually(t, c.Unread)
			c.Break(nil)
			assert.False(t, c.Unread())
			assert.ErrorIs(t, c.Err(), ErrClosed, "a cause is not needed")
		})
	}
	c, peer := pair(t, 0)
	go peer.Write([]byte("x"))
	assert.False(t, c.Unread(), "it cannot be known")
}

// "ERR max number of clients" is read even if the write failed: on a unix
// socket the peer closes its end before anything was written.
func TestDialReadsWhatTheNodeSaidBeforeItWent(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		ours, theirs := sockets(t, network)
		_, err := theirs.Write([]byte("-ERR max number of clients reached\r\n"))
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		_, err = Dial(t.Context(), Config{
			Endpoint: Endpoint{Network: network, Addr: "a:1"},
			NetDial:  func(context.Context, string, string) (net.Conn, error) { return ours, nil },
		})
		assert.Equal(t, ClassMaxClients, ErrorClass(err), "%s: %v", network, err)
	}
}

// answer answers each read with OK: each command above fits in one read.
func answer(nc net.Conn) {
	var b [1 << 10]byte
	ok := []byte("+OK\r\n")
	for {
		if _, err := nc.Read(b[:]); err != nil {
			return
		}
		if _, err := nc.Write(ok); err != nil {
			return
		}
	}
}

// atOnce checks that f, which must not wait, takes less than a second. On a
// busy machine it allows as much more as a sleeping goroutine is delayed
// meanwhile.
func atOnce(t testing.TB, what string, f func()) {
	t.Helper()
	const nap = 5 * time.Millisecond
	stop, asleep := make(chan struct{}), make(chan time.Duration)
	go func() {
		late := time.Duration(0)
		for {
			start := time.Now()
			select {
			case <-stop:
				asleep <- late
				return
			case <-time.After(nap):
				late = max(late, time.Since(start)-nap)
			}
		}
	}()
	start := time.Now()
	f()
	took := time.Since(start)
	close(stop)
	assert.Less(t, took, time.Second+4*<-asleep, "%s waited for something", what)
}

// patience is how long a test waits for an event. Only a test that waits in
// vain takes so long, so it separates a hang from a busy machine.
const patience = 30 * time.Second

// eventually waits for a condition that another goroutine or the kernel will
// soon make true.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v", patience)
		}
	}
}
