//go:build linux && !redmux_portable

package conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// polling reads for all connections of a poller, as a group does, until the
// test ends. It passes on what each connection received.
type polling struct {
	*Poller
	conns    []*Conn
	received []chan []byte
	room     atomic.Int64 // events that reported room
	ends     []chan error
	stop     atomic.Bool
	done     chan struct{}
}

// startPolling starts with the given connections; their IDs are their indices.
func startPolling(t testing.TB, conns ...*Conn) *polling {
	t.Helper()
	p := &polling{Poller: startPoller(t, len(conns)), conns: conns, done: make(chan struct{})}
	for i, c := range conns {
		require.True(t, p.Add(c, i))
		p.received = append(p.received, make(chan []byte, 1<<16))
		p.ends = append(p.ends, make(chan error, 1))
	}
	go p.run()
	t.Cleanup(func() {
		p.stop.Store(true)
		p.Kick()
		<-p.done
	})
	return p
}

func (p *polling) run() {
	defer close(p.done)
	for !p.stop.Load() {
		events, _, err := p.Wait()
		if err != nil {
			return
		}
		for _, e := range events {
			c := p.conns[e.ID]
			if e.Writable {
				p.room.Add(1)
				p.Resume(c)
			}
			if !e.Readable {
				continue
			}
			text, err := readAll(c)
			if len(text) > 0 {
				p.received[e.ID] <- text
			}
			if err != nil {
				p.Remove(c)
				p.ends[e.ID] <- err
			}
		}
	}
}

// narrow returns a connection with a kernel buffer of a few KiB, so that most
// of what is sent waits in the backlog.
func narrow(t testing.TB, network string, backlog int) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := sockets(t, network)
	require.NoError(t, below(ours).(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(8<<10))
	return adopt(t, ours, backlog), theirs
}

// A node that does not read for a while: Send never waits, and the other node
// of the same poller is served meanwhile. What the node finally reads, slowly
// and while more is sent, is what was sent.
func TestPolledPartialWrites(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "tls"} {
		t.Run(network, func(t *testing.T) {
			c, theirs := narrow(t, network, 32<<20)
			ours, echo := sockets(t, network)
			other := adopt(t, ours, 0)
			p := startPolling(t, c, other)

			var sent []byte
			atOnce(t, "Send", func() { sent = sendNumbers(t, c, 3<<20) })
			require.Positive(t, c.output.pending.Load(), "else nothing is tested")
			roundTrips(t, other, echo, p.received[1], 200)

			var got bytes.Buffer
			var wg sync.WaitGroup
			wg.Go(func() { assert.NoError(t, readSlowly(&got, theirs, 6<<20)) })
			sent = append(sent, sendNumbers(t, c, 3<<20)...)
			roundTrips(t, other, echo, p.received[1], 200)
			wg.Wait()
			assert.True(t, bytes.Equal(sent, got.Bytes()), "%d bytes of %d", got.Len(), len(sent))
			eventually(t, func() bool { return c.output.pending.Load() == 0 })
			assert.Positive(t, p.room.Load())

			// While no writer waits for room, no event reports room, though the
			// peer makes some with each read.
			before := p.room.Load()
			for range 50 {
				eventually(t, func() bool { return unsentBytes(c) == 0 }) // acknowledgements arrive when the kernel gets to them
				require.NoError(t, c.Send([]byte("direct again")))
				_, err := io.ReadFull(theirs, make([]byte, len("direct again")))
				require.NoError(t, err)
			}
			assert.Zero(t, c.output.pending.Load())
			roundTrips(t, other, echo, p.received[1], 1) // so that the poller has looked since then
			assert.Equal(t, before, p.room.Load())
		})
	}
}

// unsentBytes returns how many bytes the kernel holds that the peer has not
// received.
func unsentBytes(c *Conn) int {
	var n int32
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(c.polled.socket.Load().fd), syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	return int(n)
}

// roundTrips sends words that the peer echoes. If the node had to wait for the
// other one, whose peer reads nothing, it would not be served at all.
func roundTrips(t testing.TB, c *Conn, theirs net.Conn, received <-chan []byte, n int) {
	t.Helper()
	for i := range n {
		word := fmt.Appendf(nil, "+%d\r\n", i)
		require.NoError(t, c.Send(word))
		b := make([]byte, len(word))
		_, err := io.ReadFull(theirs, b)
		require.NoError(t, err)
		_, err = theirs.Write(b)
		require.NoError(t, err)
		select {
		case text := <-received:
			require.Equal(t, fmt.Sprint(i), string(text))
		case <-time.After(patience):
			t.Fatal("the other connection is not served")
		}
	}
}

// readSlowly reads in pieces of many sizes, with pauses.
func readSlowly(to *bytes.Buffer, from io.Reader, total int) error {
	piece := make([]byte, 64<<10)
	for to.Len() < total {
		n, err := from.Read(piece[:1+rand.IntN(len(piece))])
		to.Write(piece[:n])
		if err != nil {
			return err
		}
		if rand.IntN(8) == 0 {
			time.Sleep(rand.N(time.Millisecond))
		}
	}
	return nil
}

// While there is a backlog, the socket may have room again before the writer
// knows. What is sent then still stands behind the backlog.
func TestPolledSendStaysBehindTheBacklog_R16(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "tls"} {
		c, theirs := narrow(t, network, 32<<20)
		p := startPoller(t, 2)
		require.True(t, p.Add(c, 0))
		sent := sendNumbers(t, c, 1<<20)
		eventually(t, func() bool { return p.full.Load() == 1 }) // the writer waits
		const more = 64 << 10
		got, b := make(chan []byte), make([]byte, len(sent)+more)
		go func() {
			n, _ := io.ReadFull(theirs, b)
			got <- b[:n]
		}()
		eventually(t, func() bool { return unsentBytes(c) == 0 })
		sent = append(sent, sendNumbers(t, c, more)...)
		var done atomic.Bool
		var polls sync.WaitGroup
		polls.Go(func() {
			for !done.Load() {
				events, _, err := p.Wait()
				assert.NoError(t, err)
				for range events {
					p.Resume(c)
				}
			}
		})
		eventually(t, func() bool { return c.output.pending.Load() == 0 })
		done.Store(true)
		p.Kick()
		polls.Wait()
		require.True(t, bytes.Equal(sent, <-got), network)
	}
}

// One batch may exceed the bound, however many records TLS makes of it, and
// also if the end of the batch before is still in the backlog: neither means
// that the node does not read (R26). That the whole of it stays there does.
func TestPolledBatchAboveTheBound_R26(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "tls"} {
		t.Run(network, func(t *testing.T) {
			const bound = 64 << 10
			c, theirs := narrow(t, network, bound)
			p := startPolling(t, c)
			for _, left := range []bool{false, true} {
				var sent []byte
				send := func(n int) {
					batch := blob(n)
					sent = append(sent, batch...)
					require.NoError(t, c.Send(batch))
				}
				for left && c.output.pending.Load() == 0 {
					send(1 << 10)
				}
				send(1 << 20)
				got := make([]byte, len(sent))
				_, err := io.ReadFull(theirs, got)
				require.NoError(t, err)
				require.True(t, bytes.Equal(sent, got))
				eventually(t, func() bool { return c.output.pending.Load() == 0 })
			}
			// More than what the peer's kernel takes, whose buffer has grown.
			require.NoError(t, c.Send(make([]byte, 16<<20)))
			require.ErrorIs(t, c.Send(make([]byte, 1)), ErrStalled)
			freed(t, p, c, ErrStalled)
		})
	}
}

// freed checks that a connection ends for the reader and the writer, and that
// Close then does not wait.
func freed(t testing.TB, p *polling, c *Conn, want error) {
	t.Helper()
	select {
	case err := <-p.ends[0]:
		if want != nil {
			assert.ErrorIs(t, err, want)
		}
	case <-time.After(patience):
		t.Fatal("the poller got no event of the end")
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.output.writer.Wait()
		assert.NoError(t, c.Close())
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("the writer was not freed")
	}
}

// R8: Break discards what the peer has not received, and the peer gets an RST.
// With Shutdown and Close the peer receives what was written before the end.
func TestPolledBreakAborts(t *testing.T) {
	word := bytes.Repeat([]byte("x"), 1000)
	for _, tt := range []struct {
		name    string
		network string
		end     func(c *Conn)
		want    error
	}{
		{"Break", "tcp", func(c *Conn) { c.Break(errTest) }, syscall.ECONNRESET},
		{"Break, Close", "tcp", func(c *Conn) { c.Break(errTest); c.Close() }, syscall.ECONNRESET},
		{"Break", "unix", func(c *Conn) { c.Break(errTest) }, io.EOF},
		{"Shutdown", "tcp", func(c *Conn) { c.Shutdown() }, io.EOF},
		{"Shutdown, Break", "tcp", func(c *Conn) { c.Shutdown(); c.Break(errTest) }, io.EOF},
		{"Close", "tcp", func(c *Conn) { c.Close() }, io.EOF},
		{"Close", "unix", func(c *Conn) { c.Close() }, io.EOF},
		{"Break", "tls", func(c *Conn) { c.Break(errTest) }, syscall.ECONNRESET},
		{"Close", "tls", func(c *Conn) { c.Close() }, io.EOF},
	} {
		t.Run(tt.network+"/"+tt.name, func(t *testing.T) {
			c, theirs := add(t, startPoller(t, 1), tt.network, 0, 0)
			require.NoError(t, c.Send(word))
			tt.end(c)
			_ = theirs.SetReadDeadline(time.Now().Add(patience))
			got, err := io.ReadAll(theirs)
			if tt.want == io.EOF {
				require.NoError(t, err)
				assert.Len(t, got, len(word), "what was written before the end arrives")
				return
			}
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

// What an abort discards is really gone: a peer with a full window, like that
// of a stopped server, later finds no more than its kernel already had (R8).
func TestPolledBreakThrowsAway(t *testing.T) {
	ours, theirs := sockets(t, "tcp")
	require.NoError(t, theirs.(*net.TCPConn).SetReadBuffer(4<<10))
	require.NoError(t, ours.(*net.TCPConn).SetWriteBuffer(1<<20))
	c := adopt(t, ours, 32<<20)
	p := startPolling(t, c)
	stuff(t, c)
	c.Break(errTest)
	freed(t, p, c, errTest)
	_ = theirs.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(theirs)
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Less(t, len(got), 512<<10, "what our kernel still held has arrived")
}

// The number of a closed descriptor may soon belong to another file, and a lock
// command must never go there. Connections are used by several goroutines while
// they end, and afterwards, while others open and close files all the time and
// check their contents.
func TestDescriptorNumbersAreNotUsedAfterTheirEnd(t *testing.T) {
	files := redistest.OpenFiles()
	var stop atomic.Bool
	var strangers, owners sync.WaitGroup
	looked := new(atomic.Int64)
	for range 3 {
		strangers.Go(func() {
			for !stop.Load() && stranger(t) {
				looked.Add(1)
			}
		})
	}
	var ended atomic.Int64
	const enough = 20
	until := time.Now().Add(700 * time.Millisecond)
	for range 3 {
		owners.Go(func() {
			for !t.Failed() && (time.Now().Before(until) || ended.Load() <= enough || looked.Load() == 0) {
				useToTheEnd(t)
				ended.Add(1)
			}
		})
	}
	owners.Wait()
	stop.Store(true)
	strangers.Wait()
	t.Logf("%d connections ended, other files were checked %d times", ended.Load(), looked.Load())
	assert.Greater(t, ended.Load(), int64(enough))
	assert.Positive(t, looked.Load())
	eventually(t, func() bool { return redistest.OpenFiles() <= files })
}

// lockCommand must never appear in another file.
var lockCommand = resp.AppendCommand(nil, "SET", "resource", "token", "NX", "PX", "10000")

// stranger opens files of its own for a moment, and reports whether only its
// own data was written to them.
func stranger(t testing.TB) bool {
	// Several files, so that descriptor numbers are reused as soon as they are
	// free.
	type pipe struct{ r, w *os.File }
	var pipes []pipe
	defer func() {
		for _, p := range pipes {
			p.r.Close()
			p.w.Close()
		}
	}()
	for range 4 {
		r, w, err := os.Pipe()
		if !assert.NoError(t, err) {
			return false
		}
		pipes = append(pipes, pipe{r, w})
	}
	time.Sleep(rand.N(300 * time.Microsecond))
	for _, p := range pipes {
		_, _ = p.w.Write([]byte("mine"))
		b := make([]byte, 1<<10)
		n, err := p.r.Read(b)
		if !assert.NoError(t, err) || !assert.Equal(t, "mine", string(b[:n]), "foreign bytes") {
			return false
		}
	}
	return true
}

// useToTheEnd is the life of one polled connection that several goroutines use
// until after it was closed.
func useToTheEnd(t testing.TB) {
	p, err := NewPoller(1 + rand.IntN(2))
	if !assert.NoError(t, err) {
		return
	}
	ours, theirs := sockets(t, []string{"tcp", "unix", "tls"}[rand.IntN(3)])
	c := newConn(newLink(ours), "a:1", secrets{}, resp.Limits{}, 1<<20)
	assert.NoError(t, c.opened())
	if !assert.True(t, p.Add(c, 0)) {
		return
	}
	closed := make(chan struct{})
	var users sync.WaitGroup
	use := func(f func()) {
		users.Go(func() {
			for after := 0; after < 20; { // the last 20 calls come after the close
				f()
				time.Sleep(rand.N(20 * time.Microsecond)) // let the owner run
				select {
				case <-closed:
					after++
				default:
				}
			}
		})
	}
	use(func() { _ = c.Send(lockCommand) })
	use(func() { c.Unread() })
	users.Go(func() { _, _ = io.Copy(io.Discard, theirs) })
	users.Go(func() {
		time.Sleep(rand.N(300 * time.Microsecond))
		switch rand.IntN(3) {
		case 0:
			c.Break(errTest)
		case 1:
			_ = c.Shutdown()
		case 2:
			reset(theirs)
		}
	})
	for err = nil; err == nil; { // own the read side
		var events []Event
		if events, _, err = p.Wait(); err == nil && len(events) > 0 {
			if events[0].Writable {
				p.Resume(c)
			}
			_, err = p.Fill(c)
		}
	}
	p.Remove(c)
	assert.NoError(t, c.Close())
	close(closed)
	users.Wait()
	_ = theirs.Close()
	assert.NoError(t, p.Close())
}

// If the kernel refuses to abort, as it does for this socket of another kind,
// an event still reports the end. Otherwise no reader would notice that the
// connection is broken.
func TestBreakWhereAbortIsRefused(t *testing.T) {
	p := startPoller(t, 2)
	ours, theirs := sockets(t, "unix")
	c := adopt(t, ours, 0)
	require.True(t, p.Add(c, 0))
	c.polled.socket.Load().tcp = true
	c.Break(errors.New("for a test"))
	require.Equal(t, []Event{{ID: 0, Readable: true}}, wait(t, p))
	_, err := p.Fill(c)
	require.Error(t, err)
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A process that is started meanwhile does not inherit the sockets.
func TestDescriptorsAreClosedOnExec(t *testing.T) {
	p := startPoller(t, 2)
	ours, _ := sockets(t, "unix")
	c := adopt(t, ours, 0)
	require.True(t, p.Add(c, 0))
	for what, fd := range map[string]int{"socket": c.polled.socket.Load().fd, "epoll": p.fd, "kicker": p.kicker} {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		require.Zero(t, errno)
		require.NotZero(t, flags&syscall.FD_CLOEXEC, what)
	}
}
