package redistest_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// connect returns both ends of a connection to "a".
func connect(t *testing.T, n *redistest.Network) (client, server net.Conn) {
	t.Helper()
	l := n.Listen("a")
	defer l.Close()
	client, err := n.Dial(t.Context(), "tcp", "a")
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	n, err := c.Write([]byte(s))
	require.NoError(t, err)
	require.Equal(t, len(s), n)
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, want, string(b))
}

func readError(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

// What both ends see of each fault. The client has sent "abcdef", of which the
// server has read nothing yet; it waits for what it expects.
func TestNetworkFaults(t *testing.T) {
	const forever = time.Hour
	for name, c := range map[string]struct {
		before     func(l *redistest.Link)
		does       func(l *redistest.Link, client net.Conn)
		got        string // by the server
		end, after error  // of the server, and of the client
		took       time.Duration
	}{
		"latency":     {before: func(l *redistest.Link) { l.Latency(3*time.Millisecond, 0) }, got: "abcdef", took: 3 * time.Millisecond},
		"it falls":    {before: func(l *redistest.Link) { l.Latency(time.Second, 0) }, does: func(l *redistest.Link, client net.Conn) { l.Latency(0, 0); client.Close() }, got: "abcdef", end: io.EOF, after: net.ErrClosed, took: time.Second},
		"drip":        {before: func(l *redistest.Link) { l.Drip(redistest.Up, time.Millisecond) }, got: "abcdef", took: 6 * time.Millisecond},
		"cut at once": {before: func(l *redistest.Link) { l.CutOnce(redistest.Up, 0) }, end: syscall.ECONNRESET, after: syscall.ECONNRESET},
		"cut inside":  {before: func(l *redistest.Link) { l.CutOnce(redistest.Up, 3) }, got: "abc", end: syscall.ECONNRESET, after: syscall.ECONNRESET},
		"cut behind":  {before: func(l *redistest.Link) { l.CutOnce(redistest.Up, 6) }, got: "abcdef", end: syscall.ECONNRESET, after: syscall.ECONNRESET},
		"reset":       {does: func(l *redistest.Link, _ net.Conn) { l.Reset() }, got: "abcdef", end: syscall.ECONNRESET, after: syscall.ECONNRESET},
		"reset under way": {before: func(l *redistest.Link) { l.Pause(redistest.Both) }, does: func(l *redistest.Link, _ net.Conn) { l.Reset() },
			end: syscall.ECONNRESET, after: syscall.ECONNRESET},
		"half open": {does: func(l *redistest.Link, client net.Conn) { l.HalfOpen(); _, _ = client.Write([]byte("into the void")) }, got: "abcdef", end: syscall.ECONNRESET, after: os.ErrDeadlineExceeded},
		"paused, aborted and resumed": {before: func(l *redistest.Link) { l.Pause(redistest.Up) }, does: func(l *redistest.Link, client net.Conn) {
			_ = client.(interface{ Abort() error }).Abort()
			time.AfterFunc(time.Second, func() { l.Resume(redistest.Up) })
		}, got: "abcdef", end: syscall.ECONNRESET, after: net.ErrClosed, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := redistest.NewNetwork()
				client, server := connect(t, n)
				if c.before != nil {
					c.before(n.At("a"))
				}
				start := time.Now()
				send(t, client, "abcdef")
				synctest.Wait()
				if c.does != nil {
					c.does(n.At("a"), client)
				}
				receive(t, server, c.got)
				if c.end != nil {
					require.ErrorIs(t, readError(server), c.end)
				}
				require.Equal(t, c.took, time.Since(start))
				if c.after != nil {
					_ = client.SetReadDeadline(time.Now().Add(forever))
					require.ErrorIs(t, readError(client), c.after)
				}
			})
		})
	}
}

// An abort discards what has not arrived, if the network loses it; so does the
// end of a connection with unread bytes. A plain end loses nothing.
func TestNetworkAbortsLose(t *testing.T) {
	abort := func(c net.Conn) { _ = c.(interface{ Abort() error }).Abort() }
	plain := func(c net.Conn) { _ = c.Close() }
	for name, tt := range map[string]struct {
		lossy, unread bool
		end           func(net.Conn)
		want          string
		err           error
	}{
		"an abort":                            {true, false, abort, "arrived", syscall.ECONNRESET},
		"an abort that loses nothing":         {false, false, abort, "arrivedlate", syscall.ECONNRESET},
		"a plain end":                         {true, false, plain, "arrivedlate", io.EOF},
		"an end with unread bytes":            {true, true, plain, "arrived", syscall.ECONNRESET},
		"unread bytes, where nothing is lost": {false, true, plain, "arrivedlate", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := redistest.NewNetwork()
				client, server := connect(t, n)
				n.At("a").AbortsLose(tt.lossy)
				send(t, client, "arrived")
				if tt.unread {
					send(t, server, "unread")
				}
				synctest.Wait()
				n.At("a").Latency(time.Second, time.Second)
				send(t, client, "late")
				tt.end(client)
				start := time.Now()
				receive(t, server, tt.want)
				require.ErrorIs(t, readError(server), tt.err)
				require.Equal(t, time.Second, time.Since(start), "the end travels as bytes do")
			})
		})
	}
}

// What was sent before a break arrives after what is sent over a new
// connection: the late SET of R8.
func TestNetworkBreakIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		n.At("a").Latency(time.Millisecond, 0)
		client, server := connect(t, n)
		send(t, client, "late")
		n.At("a").Break(50 * time.Millisecond)
		require.ErrorIs(t, readError(client), syscall.ECONNRESET, "the client is told at once")
		_, err := client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)

		start := time.Now()
		again, other := connect(t, n)
		send(t, again, "soon")
		receive(t, other, "soon")
		require.Equal(t, 2*time.Millisecond, time.Since(start))
		receive(t, server, "late")
		require.Equal(t, 51*time.Millisecond, time.Since(start))
		require.ErrorIs(t, readError(server), syscall.ECONNRESET)
	})
}

func TestNetworkDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		_, err := n.Dial(t.Context(), "tcp", "nowhere")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Zero(t, n.Conns())

		l := n.Listen("a")
		defer l.Close()
		n.At("a").Refuse(true)
		_, err = n.Dial(t.Context(), "tcp", "a")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		n.At("a").Refuse(false)
		n.At("a").HoldDials(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Dial(ctx, "tcp", "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		go func() {
			time.Sleep(time.Second)
			n.At("a").HoldDials(false)
		}()
		c, err := n.Dial(t.Context(), "tcp", "a")
		require.NoError(t, err)
		c.Close()
	})
}

func TestNetworkDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		n.At("a").Window(redistest.Up, 4)
		client, server := connect(t, n)
		start := time.Now()
		require.NoError(t, client.SetDeadline(start.Add(time.Second)))
		written, err := client.Write([]byte("123456"))
		require.Equal(t, 4, written, "the window is full")
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		var timeout net.Error
		require.ErrorAs(t, readError(client), &timeout)
		require.True(t, timeout.Timeout())

		// A deadline set by another goroutine wakes the reader.
		go func() {
			time.Sleep(time.Second)
			server.SetReadDeadline(time.Now())
		}()
		receive(t, server, "1234")
		require.ErrorIs(t, readError(server), os.ErrDeadlineExceeded)
	})
}

func TestNetworkCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, server := connect(t, n)
		done := make(chan error)
		go func() { done <- readError(client) }()
		synctest.Wait()
		client.Close()
		require.ErrorIs(t, <-done, net.ErrClosed)
		_, err := client.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, readError(server), io.EOF)

		// As with TCP, the first write to a closed peer succeeds and is lost.
		send(t, server, "x")
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		require.Equal(t, 1, n.Conns())
		server.Close()
		require.Zero(t, n.Conns())
	})
}

// TestNetworkLosesNothing changes the settings at random while bytes travel.
func TestNetworkLosesNothing(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			n := redistest.NewNetwork()
			client, server := connect(t, n)
			go disturb(n.At("a"), rand.New(rand.NewPCG(seed, 0)))

			r := rand.New(rand.NewPCG(seed, 1))
			sent := make([]byte, 20_000)
			for i := range sent {
				sent[i] = byte(r.Uint32())
			}
			go func() {
				for rest := sent; len(rest) > 0; {
					k := min(1+r.IntN(300), len(rest))
					client.Write(rest[:k])
					rest = rest[k:]
					time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
				}
				client.Close()
			}()
			got, err := io.ReadAll(server)
			require.NoError(t, err, "seed %d", seed)
			require.True(t, bytes.Equal(sent, got), "seed %d", seed)
		})
	}
}

func disturb(l *redistest.Link, r *rand.Rand) {
	for range 100 {
		time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
		l.Latency(time.Duration(r.IntN(3000))*time.Microsecond, 0)
		l.Drip(redistest.Up, time.Duration(r.IntN(3)/2)*time.Microsecond)
		l.Chunk(redistest.Up, r.IntN(50))
		l.Window(redistest.Up, r.IntN(1000))
		if r.IntN(4) == 0 {
			l.Pause(redistest.Up)
		} else {
			l.Resume(redistest.Up)
		}
	}
	l.Resume(redistest.Up)
}
