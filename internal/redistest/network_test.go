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

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
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

func TestNetworkBuffersAndTakesLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		n.At("a").Latency(3*time.Millisecond, 5*time.Millisecond)
		start := time.Now()
		client, server := connect(t, n)
		require.Equal(t, 8*time.Millisecond, time.Since(start), "a dial takes one round trip")

		start = time.Now()
		send(t, client, "ping")
		require.Zero(t, time.Since(start), "Write does not wait for the reader")
		receive(t, server, "ping")
		require.Equal(t, 3*time.Millisecond, time.Since(start))
		send(t, server, "pong")
		receive(t, client, "pong")
		require.Equal(t, 8*time.Millisecond, time.Since(start))
	})
}

func TestNetworkKeepsOrderWhenLatencyFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, server := connect(t, n)
		n.At("a").Latency(time.Second, 0)
		send(t, client, "first")
		n.At("a").Latency(0, 0)
		send(t, client, "second")
		require.NoError(t, client.Close())
		start := time.Now()
		receive(t, server, "firstsecond")
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, readError(server), io.EOF)
	})
}

// The end of a connection travels behind its bytes, so the node's end may be
// open when the client's is closed.
func TestNetworkCountsBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, server := connect(t, n)
		link := n.At("a")
		require.Equal(t, [2]int{1, 1}, [2]int{link.Conns(), link.Dialed()})
		require.NoError(t, client.Close())
		require.Equal(t, [2]int{1, 0}, [2]int{link.Conns(), link.Dialed()})
		require.NoError(t, server.Close())
		require.Equal(t, [2]int{0, 0}, [2]int{link.Conns(), link.Dialed()})
	})
}

func TestNetworkPauseHoldsBytesAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, server := connect(t, n)
		n.At("a").Pause(redistest.Up)
		send(t, client, "late")
		require.NoError(t, client.(interface{ Abort() error }).Abort())

		require.NoError(t, server.SetReadDeadline(time.Now().Add(time.Hour)))
		require.ErrorIs(t, readError(server), os.ErrDeadlineExceeded)
		require.NoError(t, server.SetReadDeadline(time.Time{}))

		n.At("a").Resume(redistest.Up)
		receive(t, server, "late")
		require.ErrorIs(t, readError(server), syscall.ECONNRESET, "behind the bytes, not before them")
	})
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

func TestNetworkWindowOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		n.At("a").Window(redistest.Up, 4)
		client, server := connect(t, n)
		go client.Write([]byte("123456789"))
		receive(t, server, "123456789")
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

func TestNetworkReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, server := connect(t, n)
		send(t, client, "arrived")
		n.At("a").Pause(redistest.Both)
		send(t, client, "under way")
		n.At("a").Reset()
		receive(t, server, "arrived")
		require.ErrorIs(t, readError(server), syscall.ECONNRESET)
		require.ErrorIs(t, readError(client), syscall.ECONNRESET)
		_, err := client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
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

func TestNetworkCut(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int64
		got  string
	}{{"at once", 0, ""}, {"inside", 3, "abc"}, {"at the end", 6, "abcdef"}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := redistest.NewNetwork()
				n.At("a").CutOnce(redistest.Up, tt.n)
				client, server := connect(t, n)
				send(t, client, "abcdef")
				receive(t, server, tt.got)
				require.ErrorIs(t, readError(server), syscall.ECONNRESET)
				require.ErrorIs(t, readError(client), syscall.ECONNRESET)

				client, server = connect(t, n)
				send(t, client, "abcdef")
				receive(t, server, "abcdef")
			})
		})
	}
}

func TestNetworkDripAndChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		n.At("a").Drip(redistest.Down, time.Millisecond)
		client, server := connect(t, n)
		start := time.Now()
		send(t, server, "12345")
		receive(t, client, "12345")
		require.Equal(t, 5*time.Millisecond, time.Since(start))

		n.At("a").Drip(redistest.Down, 0)
		n.At("a").Chunk(redistest.Down, 2)
		send(t, server, "12345")
		read, err := client.Read(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 2, read)
	})
}

func TestNetworkHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, server := connect(t, n)
		n.At("a").HalfOpen()
		require.ErrorIs(t, readError(server), syscall.ECONNRESET)
		for range 3 {
			send(t, client, "into the void")
		}
		client.SetReadDeadline(time.Now().Add(time.Hour))
		require.ErrorIs(t, readError(client), os.ErrDeadlineExceeded)
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

func TestNetworkCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := redistest.NewNetwork()
		client, _ := connect(t, n)
		l := n.Listen("b")
		done := make(chan error, 2)
		go func() { _, err := l.Accept(); done <- err }()
		go func() { done <- readError(client) }()
		synctest.Wait()
		n.Close()
		<-done
		<-done
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
