package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests in this file examine the moment between two steps of a connection's
// life.

// closings counts how often a connection was closed. A count of open
// descriptors would not do: the garbage collector closes a forgotten one at
// some point.
type closings struct {
	net.Conn
	count atomic.Int32
}

func (c *closings) Close() error {
	c.count.Add(1)
	return c.Conn.Close()
}

// Dial closes what NetDial returned if a later step fails, whichever it is.
func TestDialThatFailsClosesItsConnection_R28(t *testing.T) {
	certs := newCertificates(t)
	overTLS := func(c *tls.Config) Config { return Config{Endpoint: Endpoint{TLS: c}} }
	refusing := func(cfg Config) Config {
		cfg.Admit = func(*Server) error { return errTest }
		return cfg
	}
	noHello := map[string]string{"HELLO": "-ERR unknown command 'HELLO'\r\n"}
	for name, c := range map[string]struct {
		cfg    Config
		secure bool // the node speaks TLS
		node   *script
		dials  int32
	}{
		"no TLS":               {overTLS(certs.client()), false, &script{greet: "-ERR max number of clients reached\r\n"}, 1},
		"no TLS, and hung up":  {overTLS(certs.client()), false, &script{greet: "HTTP/1.1 400 Bad Request\r\n\r\n", hangUp: true}, 1},
		"unknown authority":    {overTLS(&tls.Config{}), true, &script{}, 1},
		"silent instead of it": {overTLS(certs.client()), false, &script{}, 1},
		"refused over TLS":     {refusing(overTLS(certs.client())), true, &script{}, 1},
		"refused":              {refusing(Config{}), false, &script{}, 1},
		"no RESP":              {Config{}, false, &script{greet: "HTTP/1.1 400 Bad Request\r\n\r\n"}, 1},
		"silent":               {Config{}, false, &script{answers: map[string]string{"HELLO": ""}}, 1},
		"a surplus byte":       {Config{}, false, &script{answers: map[string]string{"INFO memory": defaults["INFO memory"] + "+"}}, 1},
		"RESP2, then refused":  {refusing(Config{}), false, &script{answers: noHello}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := redistest.NewNetwork()
				l := network.Listen("node.test:1")
				defer network.Close()
				c.node.conns = make([][]string, 1)
				go func() {
					for theirs, err := l.Accept(); err == nil; theirs, err = l.Accept() {
						if c.secure {
							theirs = tls.Server(theirs, certs.server())
						}
						go c.node.serve(theirs, 0)
					}
				}()
				var dialed []*closings
				c.cfg.Addr = "node.test:1"
				c.cfg.NetDial = func(ctx context.Context, name, addr string) (net.Conn, error) {
					nc, err := network.Dial(ctx, name, addr)
					dialed = append(dialed, &closings{Conn: nc})
					return dialed[len(dialed)-1], err
				}
				_, err := Dial(t.Context(), c.cfg)
				require.Error(t, err)
				require.Len(t, dialed, int(c.dials))
				for i, nc := range dialed {
					require.EqualValues(t, 1, nc.count.Load(), "connection %d", i)
				}
			})
		})
	}
}

// plaintext serves connections as a node without TLS does: it answers PING, and
// takes anything else for the beginning of a line.
func plaintext(l net.Listener) { greeting(l, "+PONG\r\n") }

// greeting is plaintext with another answer to PING.
func greeting(l net.Listener, pong string) {
	for nc, err := l.Accept(); err == nil; nc, err = l.Accept() {
		go func() {
			defer nc.Close()
			first := make([]byte, 64)
			if n, _ := nc.Read(first); n > 0 && first[0] == 'P' {
				_, _ = io.WriteString(nc, pong)
			}
			_, _ = io.Copy(io.Discard, nc)
		}()
	}
}

// Dial closes the connection on which it asks in plaintext, too, and leaves the
// tls.Config of the caller, which all nodes share, as it is.
func TestPlaintextIsTestedOnAConnectionThatIsClosed_R21_R28(t *testing.T) {
	certs := newCertificates(t)
	synctest.Test(t, func(t *testing.T) {
		network := redistest.NewNetwork()
		defer network.Close()
		go plaintext(network.Listen("node.test:1"))
		config := certs.client()
		var dialed []*closings
		cfg := Config{Endpoint: Endpoint{Addr: "node.test:1", TLS: config}}
		cfg.NetDial = func(ctx context.Context, name, addr string) (net.Conn, error) {
			nc, err := network.Dial(ctx, name, addr)
			dialed = append(dialed, &closings{Conn: nc})
			return dialed[len(dialed)-1], err
		}
		_, err := Dial(t.Context(), cfg)
		require.ErrorIs(t, err, errPlaintext)
		require.Empty(t, config.ServerName)
		synctest.Wait()
		require.GreaterOrEqual(t, len(dialed), 2)
		for i, nc := range dialed {
			require.Positive(t, nc.count.Load(), "connection %d", i)
		}
	})
}

// A node that wants a password answers PING in plaintext with an error, and
// what is no Redis with something else.
func TestWhatAnswersPlaintext_R21(t *testing.T) {
	certs := newCertificates(t)
	for answer, is := range map[string]bool{
		"-NOAUTH Authentication required.\r\n": true, "+PONG\r\n": true,
		"HTTP/1.1 400 Bad Request\r\n": false, "$4\r\nPONG\r\n": false, "": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			network := redistest.NewNetwork()
			defer network.Close()
			go greeting(network.Listen("node.test:1"), answer)
			_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: "node.test:1", TLS: certs.client()}, NetDial: network.Dial})
			require.Error(t, err)
			require.Equal(t, is, errors.Is(err, errPlaintext), "%q: %v", answer, err)
		})
	}
}

// Nothing of Dial goes on when it has returned, whatever NetDial does: the test
// for plaintext is over, too.
func TestDialWaitsForItsTestForPlaintext_R28(t *testing.T) {
	certs := newCertificates(t)
	synctest.Test(t, func(t *testing.T) {
		network := redistest.NewNetwork()
		defer network.Close()
		go plaintext(network.Listen("node.test:1"))
		var running, calls atomic.Int32
		cfg := Config{Endpoint: Endpoint{Addr: "node.test:1", TLS: certs.client(), DialTimeout: tlsPatience + 100*time.Millisecond}}
		cfg.NetDial = func(ctx context.Context, name, addr string) (net.Conn, error) {
			running.Add(1)
			defer running.Add(-1)
			if calls.Add(1) > 1 {
				time.Sleep(300 * time.Millisecond) // it does not look at its context
			}
			return network.Dial(ctx, name, addr)
		}
		_, err := Dial(t.Context(), cfg)
		require.Error(t, err)
		require.GreaterOrEqual(t, calls.Load(), int32(2))
		require.Zero(t, running.Load())
	})
}

// The writer is woken for bytes that are already queued. If it were woken
// before, it might find nothing, and sleep beside them.
func TestTheWriterIsWokenForWhatIsQueued_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, 0)
		defer peer.Close()
		synctest.Wait()
		writers := c.output.wake // the writer sleeps on it
		c.output.wake = make(chan struct{}, 1)
		c.mu.Lock() // so nothing can be queued
		go func() { assert.NoError(t, c.Send([]byte("+x\r\n"))) }()
		for c.output.pending.Load() == 0 {
			runtime.Gosched()
		}
		for range 1000 { // let Send get as far as it can
			runtime.Gosched()
			assert.Empty(t, c.output.wake)
		}
		c.mu.Unlock()
		writers <- <-c.output.wake
		got := make([]byte, 4)
		_, err := io.ReadFull(peer, got)
		require.NoError(t, err)
		assert.Equal(t, "+x\r\n", string(got))
	})
}
