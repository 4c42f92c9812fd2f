package conn

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errTest = errors.New("because of the test")

// pair is a connection past its handshake, and the peer's end of it.
func pair(t testing.TB, backlog int) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	return adopt(t, ours, backlog), theirs
}

func adopt(t testing.TB, nc net.Conn, backlog int) *Conn {
	t.Helper()
	c := newConn(newLink(nc), "a:1", secrets{login: login{password: "hunter2"}}, resp.Limits{}, backlog)
	require.NoError(t, c.opened())
	t.Cleanup(func() { c.Close() })
	return c
}

// R28: Close returns when the writer has ended, however late its Write notices.
func TestCloseWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, peer := net.Pipe()
		defer peer.Close()
		c := adopt(t, &odd{Conn: ours, write: func(p []byte) (int, error) {
			n, err := ours.Write(p)
			time.Sleep(time.Second)
			return n, err
		}}, 0)
		require.NoError(t, c.Send([]byte("x")))
		synctest.Wait()
		start := time.Now()
		c.Break(errTest)
		assert.Zero(t, time.Since(start), "Break does not wait")
		require.NoError(t, c.Close())
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// R26: memory per node is bounded.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, 1000)
		defer peer.Close()
		require.NoError(t, c.Send(make([]byte, 600)))
		synctest.Wait() // the writer has taken them, and waits
		require.NoError(t, c.Send(make([]byte, 400)))
		assert.ErrorIs(t, c.Send(make([]byte, 1)), ErrStalled)
		assert.ErrorIs(t, c.Fill(), ErrStalled)
	})
}

// Written bytes free their room, even while the rest of the piece is being
// written.
func TestBacklogShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, 3*maxPiece)
		defer peer.Close()
		require.NoError(t, c.Send(make([]byte, 3*maxPiece)))
		_, err := io.ReadFull(peer, make([]byte, maxPiece))
		require.NoError(t, err)
		synctest.Wait()
		assert.EqualValues(t, 2*maxPiece, c.output.pending.Load())
		require.NoError(t, c.Send(make([]byte, maxPiece)))
		go io.Copy(io.Discard, peer)
		synctest.Wait()
		assert.Zero(t, c.output.pending.Load())
		assert.NoError(t, c.Err())
	})
}

// sendNumbers sends total bytes in pieces of many sizes, all from one buffer.
func sendNumbers(t testing.TB, c *Conn, total int) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	sent := make([]byte, total)
	for i := range sent {
		sent[i] = byte(i >> 8 * (i & 1)) // low and high bytes alternate
	}
	scratch := make([]byte, 100<<10)
	for p := sent; len(p) > 0; {
		n := copy(scratch[:1+random.IntN(len(scratch))], p)
		require.NoError(t, c.Send(scratch[:n]))
		clear(scratch[:n])
		p = p[n:]
	}
	return sent
}

// R16: votes received before an anomaly appears stand.
func TestNextAfterBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, 0)
		defer peer.Close()
		go peer.Write([]byte("+OK\r\n:1\r\n?\r\n+OK\r\n"))
		require.NoError(t, c.Fill())
		c.Break(errTest)
		v, ok, err := c.Next()
		assert.True(t, ok && err == nil && v.IsOK())
		v, ok, err = c.Next()
		assert.True(t, ok && err == nil && v.Type() == resp.Integer)
		_, ok, err = c.Next()
		assert.False(t, ok)
		assert.ErrorIs(t, err, errTest, "the first cause wins over the parse error")
	})
}

// R16: an unsolicited reply ends the connection.
func TestExchangeBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		each   error
		want   error
	}{
		"surplus":         {"+PONG\r\n+PONG\r\n", nil, ErrProtocol},
		"half a surplus":  {"+PONG\r\n+", nil, ErrProtocol},
		"push":            {">1\r\n+x\r\n+PONG\r\n", nil, ErrProtocol},
		"attributes":      {"|1\r\n+a\r\n+b\r\n+PONG\r\n", nil, ErrProtocol},
		"verdict of each": {"+PONG\r\n", errTest, errTest},
		"no answer":       {"+PO", nil, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := (&script{answers: map[string]string{"PING": c.answer}}).connect(t, Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := conn.Exchange(ctx, resp.AppendCommand(nil, "PING"), 1, func(int, resp.Value) error { return c.each })
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.ErrorIs(t, err, c.want)
				assert.Equal(t, err, conn.Err())
				assert.Equal(t, "exchange", e.Op)
			})
		})
	}
}

func TestExchangeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTest)
		c := (&script{}).connect(t, Config{})
		err := c.Exchange(ctx, resp.AppendCommand(nil, "PING"), 1, func(int, resp.Value) error { return nil })
		assert.ErrorIs(t, err, errTest)
		assert.ErrorIs(t, c.Err(), errTest)

		// The context ends at the moment of the last reply: the returned error
		// must match the state of the connection either way.
		ctx, cancel = context.WithCancelCause(t.Context())
		c = (&script{}).connect(t, Config{})
		err = c.Exchange(ctx, resp.AppendCommand(nil, "PING"), 1, func(int, resp.Value) error { cancel(errTest); return nil })
		synctest.Wait()
		assert.ErrorIs(t, err, errTest)
		assert.Equal(t, err, c.Err())
	})
}

// odd is a net.Conn with the Read and Write that a test gives it.
type odd struct {
	net.Conn
	read  func(p []byte) (int, error)
	write func(p []byte) (int, error)
}

func (o *odd) Read(p []byte) (int, error) {
	if o.read != nil {
		return o.read(p)
	}
	return o.Conn.Read(p)
}

func (o *odd) Write(p []byte) (int, error) {
	if o.write != nil {
		return o.write(p)
	}
	return o.Conn.Write(p)
}

func TestFillLosesPatience(t *testing.T) {
	ours, _ := net.Pipe()
	reads := 0
	c := adopt(t, &odd{Conn: ours, read: func([]byte) (int, error) { reads++; return 0, nil }}, 0)
	assert.ErrorIs(t, c.Fill(), io.ErrNoProgress)
	assert.Equal(t, maxEmptyReads, reads)
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

// The last reply may come before the writer has returned from its Write. A
// poller takes a connection only if nothing is left to write.
func TestExchangeEndsWhenItIsWritten(t *testing.T) {
	ours, theirs := sockets(t, "tcp")
	go answer(theirs)
	c := adopt(t, &odd{Conn: ours, write: func(p []byte) (int, error) {
		n, err := ours.Write(p)
		time.Sleep(20 * time.Millisecond)
		return n, err
	}}, 0)
	accept := func(int, resp.Value) error { return nil }
	for range 3 {
		require.NoError(t, c.Exchange(t.Context(), []byte("PING\r\n"), 1, accept))
		assert.Zero(t, c.output.pending.Load())
	}
}

// A write that failed during the handshake is never finished; its error is
// reported when the handshake is over.
func TestExchangeDoesNotWaitForAWriteThatFailed(t *testing.T) {
	ours, theirs := sockets(t, "tcp")
	c := newConn(newLink(&odd{Conn: ours, write: func([]byte) (int, error) { return 0, errTest }}), "a:1", secrets{}, resp.Limits{}, 0)
	defer c.Close()
	_, err := theirs.Write([]byte("+OK\r\n"))
	require.NoError(t, err)
	atOnce(t, "Exchange", func() {
		require.NoError(t, c.Exchange(t.Context(), []byte("PING\r\n"), 1, func(int, resp.Value) error { return nil }))
	})
	require.True(t, errors.Is(c.opened(), errTest))
}
