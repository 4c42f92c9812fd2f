//go:build linux && !redmux_portable

package conn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func startPoller(t testing.TB, n int) *Poller {
	t.Helper()
	p, err := NewPoller(n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// eachSort runs a test over TCP and unix sockets, with a poller for one
// connection and with a poller for several.
func eachSort(t *testing.T, test func(t *testing.T, network string, places int)) {
	eachNetwork(t, []string{"tcp", "unix"}, test)
}

// eachSortAndTLS runs a test over TLS, too.
func eachSortAndTLS(t *testing.T, test func(t *testing.T, network string, places int)) {
	eachNetwork(t, []string{"tcp", "unix", "tls"}, test)
}

func eachNetwork(t *testing.T, networks []string, test func(t *testing.T, network string, places int)) {
	for _, network := range networks {
		for _, places := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/places=%d", network, places), func(t *testing.T) { test(t, network, places) })
		}
	}
}

// add adds a connection over a real socket to the poller and returns it with
// the peer's end.
func add(t testing.TB, p *Poller, network string, id, backlog int) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := sockets(t, network)
	c := adopt(t, ours, backlog)
	require.True(t, p.Add(c, id))
	return c, theirs
}

// wait calls Wait once; it must not take long.
func wait(t testing.TB, p *Poller) []Event {
	t.Helper()
	late := time.AfterFunc(patience, p.Kick)
	events, _, err := p.Wait()
	require.NoError(t, err)
	if !late.Stop() {
		t.Fatalf("nothing happened for %v", patience)
	}
	return events
}

// nothing checks that no event comes within a while.
func nothing(t testing.TB, p *Poller) {
	t.Helper()
	time.AfterFunc(20*time.Millisecond, p.Kick)
	events, _, err := p.Wait()
	require.NoError(t, err)
	require.Empty(t, events)
}

// readAll reads until there is no more, as an event demands. It returns the
// text of the simple strings.
func readAll(c *Conn) (text []byte, err error) {
	for more := true; more && err == nil; {
		more, err = c.fillNow()
		for {
			v, ok, parseErr := c.Next()
			if parseErr != nil {
				return text, parseErr
			}
			if !ok {
				break
			}
			text = append(text, v.Bytes()...)
		}
	}
	return text, err
}

// waited tells whether the events have only just come: reply times depend on
// it.
func TestWaitTellsWhetherItWaited(t *testing.T) {
	eachSort(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		c, theirs := add(t, p, network, 0, 0)
		for _, before := range []bool{true, false, true, false} {
			write := func() { _, _ = theirs.Write([]byte("+x\r\n")) }
			look := p.look
			if before {
				write()
				eventually(t, c.Unread)
			} else { // the poller has looked and found nothing
				var once sync.Once
				p.look = func(fd uintptr) bool {
					found := look(fd)
					once.Do(func() { go write() })
					return found
				}
			}
			events, waited, err := p.Wait()
			p.look = look
			require.NoError(t, err)
			assert.Len(t, events, 1)
			assert.Equal(t, !before, waited)
			_, err = readAll(c)
			require.NoError(t, err)
		}
	})
}

// Each way in which a connection ends is reported as an event, after which
// reads reach the end. The last bytes and the end may share one event.
func TestPollerSeesTheEnd(t *testing.T) {
	const last = "+last words\r\n"
	eachSortAndTLS(t, func(t *testing.T, network string, places int) {
		for _, tt := range []struct {
			name  string
			words string
			end   func(c *Conn, theirs net.Conn)
			want  error
		}{
			{"FIN", "", func(_ *Conn, theirs net.Conn) { theirs.Close() }, io.EOF},
			{"bytes and FIN", last, func(_ *Conn, theirs net.Conn) { theirs.Close() }, io.EOF},
			{"RST", "", func(_ *Conn, theirs net.Conn) { reset(theirs) }, syscall.ECONNRESET},
			{"bytes and RST", last, func(_ *Conn, theirs net.Conn) { reset(theirs) }, syscall.ECONNRESET},
			{"Break", "", func(c *Conn, _ net.Conn) { c.Break(errTest) }, errTest},
			{"bytes and Break", last, func(c *Conn, _ net.Conn) { c.Break(errTest) }, errTest},
			{"Shutdown", "", func(c *Conn, _ net.Conn) { c.Shutdown() }, ErrClosed},
			{"bytes and Shutdown", last, func(c *Conn, _ net.Conn) { c.Shutdown() }, ErrClosed},
		} {
			for _, during := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/during=%v", tt.name, during), func(t *testing.T) {
					if tt.want == syscall.ECONNRESET && network == "unix" {
						tt.want = io.EOF // a unix socket has no RST
					}
					p := startPoller(t, places)
					c, theirs := add(t, p, network, places-1, 0)
					end := func() {
						_, _ = theirs.Write([]byte(tt.words))
						tt.end(c, theirs)
					}
					if during {
						time.AfterFunc(5*time.Millisecond, end)
					} else {
						end()
						time.Sleep(2 * time.Millisecond) // so that all of it is one event
					}
					var text []byte
					var err error
					for err == nil {
						for range wait(t, p) {
							var more []byte
							more, err = readAll(c)
							text = append(text, more...)
						}
					}
					assert.ErrorIs(t, err, tt.want)
					assert.Equal(t, c.Err(), err, "the first cause counts")
					assert.False(t, c.Unread())
					if tt.want == io.EOF && tt.words != "" {
						assert.Equal(t, "last words", string(text))
					}
				})
			}
		}
	})
}

// reset ends a connection with an RST, if the socket has one.
func reset(nc net.Conn) {
	nc = below(nc)
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = nc.Close()
}

func TestKick(t *testing.T) {
	eachSort(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		p.Kick()
		assert.Empty(t, wait(t, p), "without a connection too")
		c, _ := add(t, p, network, 0, 0)
		for range 100 {
			p.Kick() // before
			assert.Empty(t, wait(t, p))
		}
		p.Kick()
		p.Kick()
		assert.Empty(t, wait(t, p))
		nothing(t, p) // both were one

		for range 100 { // during
			kicked := make(chan struct{})
			go func() {
				time.Sleep(rand.N(200 * time.Microsecond))
				p.Kick()
				close(kicked)
			}()
			assert.Empty(t, wait(t, p))
			<-kicked
		}
		p.Remove(c)
		p.Kick()
		assert.Empty(t, wait(t, p), "or with none any more")
		nothing(t, p)
	})
}

// Concurrent kicks lose no event of a connection, and events lose no kick.
func TestKicksAmongEvents(t *testing.T) {
	eachSortAndTLS(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		c, theirs := add(t, p, network, 0, 0)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						p.Kick()
						runtime.Gosched()
					}
				}
			})
		}
		for range 1000 {
			_, err := theirs.Write([]byte("+x\r\n"))
			require.NoError(t, err)
			for text := []byte(nil); len(text) == 0; {
				for range wait(t, p) {
					text, err = readAll(c)
					require.NoError(t, err)
				}
			}
		}
		close(stop)
		wg.Wait()
		for range 100 {
			_, err := theirs.Write([]byte("+x\r\n"))
			require.NoError(t, err)
			p.Kick()
			wait(t, p)
		}
	})
}

// exchangeOnce sends a command to the poller's only connection and reads the
// reply.
func exchangeOnce(t *testing.T, p *Poller, c *Conn, command []byte) {
	if err := c.Send(command); err != nil {
		t.Fatal(err)
	}
	for got := false; !got; {
		events, _, err := p.Wait()
		if err != nil {
			t.Fatal(err)
		}
		for range events {
			if _, err := p.Fill(c); err != nil {
				t.Fatal(err)
			}
			_, got, _ = c.Next()
		}
	}
}

// Connections follow each other in one place, like those of a node that
// connects again and again.
func TestPlaceIsTakenAgain(t *testing.T) {
	eachSort(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		for round := range 20 {
			ours, theirs := sockets(t, network)
			c := adopt(t, ours, 0)
			for i := range 3 {
				_, err := fmt.Fprintf(theirs, "+%d\r\n", round)
				require.NoError(t, err)
				if i == 0 { // there before
					eventually(t, c.Unread)
					require.True(t, p.Add(c, places-1))
				}
				require.Equal(t, []Event{{ID: places - 1, Readable: true}}, wait(t, p))
				text, err := readAll(c)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(round), string(text))
				more, err := p.Fill(c)
				require.False(t, more || err != nil, "to find nothing is no error")
				require.False(t, c.Unread())
			}
			nothing(t, p)
			require.ErrorIs(t, c.Fill(), errPolled, "to wait for the bytes as well would take them from the poller")
			reset(theirs)
			for err := error(nil); err == nil; {
				for range wait(t, p) {
					_, err = readAll(c)
				}
			}
			p.Remove(c)
			require.NoError(t, c.Close())
			p.Kick()
			require.Empty(t, wait(t, p), "nothing of it is left in the poller")
		}
	})
}

// A connection that cannot be polled is refused, and works as before.
func TestAddRefuses(t *testing.T) {
	p := startPoller(t, 1)
	serves := func(t *testing.T, c *Conn, theirs net.Conn) {
		t.Helper()
		go func() { _, _ = theirs.Write([]byte("+by Fill\r\n")) }()
		require.NoError(t, c.Fill())
		v, ok, err := c.Next()
		require.True(t, ok && err == nil)
		assert.Equal(t, "by Fill", string(v.Bytes()))
		require.NoError(t, c.Send([]byte("x")))
		n, err := theirs.Read(make([]byte, 1))
		require.True(t, n == 1 && err == nil)
	}
	certs := newCertificates(t)
	trusting := certs.Client()
	trusting.ServerName = "node.test"
	for name, around := range map[string]func(ours, theirs net.Conn) (net.Conn, net.Conn){
		"TLS that Dial did not make": func(ours, theirs net.Conn) (net.Conn, net.Conn) {
			return tls.Client(ours, trusting), tls.Server(theirs, certs.Server())
		},
		"unknown":                       func(net.Conn, net.Conn) (net.Conn, net.Conn) { return net.Pipe() },
		"a kind of its own on a socket": func(ours, theirs net.Conn) (net.Conn, net.Conn) { return struct{ net.Conn }{ours}, theirs },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := around(sockets(t, "tcp"))
			defer theirs.Close()
			c := adopt(t, ours, 0)
			assert.False(t, p.Add(c, 0))
			serves(t, c, theirs)
		})
	}
	t.Run("backlog", func(t *testing.T) {
		ours, theirs := sockets(t, "tcp")
		require.NoError(t, ours.(*net.TCPConn).SetWriteBuffer(8<<10))
		c := adopt(t, ours, 32<<20)
		sent := sendNumbers(t, c, 4<<20)
		require.Positive(t, c.output.pending.Load(), "else nothing is tested")
		assert.False(t, p.Add(c, 0))
		got := make([]byte, len(sent))
		_, err := io.ReadFull(theirs, got)
		require.NoError(t, err)
		assert.True(t, slices.Equal(sent, got))
		serves(t, c, theirs)
		eventually(t, func() bool { return c.output.pending.Load() == 0 })
		require.True(t, p.Add(c, 0), "now it has none")
		p.Remove(c)
	})
	t.Run("broken", func(t *testing.T) {
		ours, _ := sockets(t, "tcp")
		c := adopt(t, ours, 0)
		c.Break(errTest)
		assert.False(t, p.Add(c, 0))
		assert.ErrorIs(t, c.Fill(), errTest)
	})
	t.Run("poller closed", func(t *testing.T) { // the system refuses at the last step
		closed, err := NewPoller(1)
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		for _, network := range []string{"tcp", "unix"} {
			ours, theirs := sockets(t, network)
			c := adopt(t, ours, 0)
			files := redistest.RestingFiles() // those of earlier tests may still be closing
			assert.False(t, closed.Add(c, 0))
			assert.LessOrEqual(t, redistest.OpenFiles(), files)
			serves(t, c, theirs)
		}
	})
	nothing(t, p)
}

// A connection that breaks while it is being added is added or refused. Either
// way its owner learns the cause, its peer sees the end, and no descriptor is
// left.
func TestAddOfAConnectionThatBreaks(t *testing.T) {
	pollers := []*Poller{startPoller(t, 1), startPoller(t, 2)}
	broken, err := NewPoller(1)
	require.NoError(t, err)
	require.NoError(t, broken.Close())
	files := redistest.OpenFiles()
	added := 0
	for i := range 600 {
		use := pollers[i/6%2]
		if i%3 == 2 {
			use = broken // makes Add undo its work
		}
		ours, theirs := sockets(t, []string{"tcp", "unix", "tls"}[i%5%3])
		theirs = below(theirs)
		c := newConn(newLink(ours), "a:1", secrets{}, resp.Limits{}, 0)
		require.NoError(t, c.opened())
		var wg sync.WaitGroup
		start := make(chan struct{})
		wg.Go(func() {
			<-start
			for range i % 50 { // some instructions earlier or later
				runtime.Gosched()
			}
			if i%4 < 2 {
				c.Break(errTest)
			} else {
				_ = c.Shutdown()
			}
		})
		close(start)
		for range rand.N(50) {
			runtime.Gosched()
		}
		if use.Add(c, 0) {
			added++
			for err = nil; err == nil; {
				for range wait(t, use) {
					_, err = c.fillNow()
				}
			}
			use.Remove(c)
		} else {
			err = c.Fill()
		}
		require.True(t, errors.Is(err, errTest) || errors.Is(err, ErrClosed), "%v", err)
		wg.Wait()
		_ = theirs.SetReadDeadline(time.Now().Add(patience))
		_, err = theirs.Read(make([]byte, 1))
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "the peer: %v", err)
		require.NoError(t, c.Close())
		require.NoError(t, theirs.Close())
	}
	t.Logf("%d were added", added)
	assert.Positive(t, added)
	eventually(t, func() bool { return redistest.OpenFiles() <= files })
}

// R28: in whatever order a connection ends, nothing is left of it.
func TestNothingIsLeftOfAPolledConnection(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), redistest.OpenFiles()
	untilEnd := func(p *Poller, c *Conn) {
		for err := error(nil); err == nil; {
			for range wait(t, p) {
				_, err = readAll(c)
			}
		}
		p.Remove(c)
	}
	orders := map[string]func(p *Poller, c *Conn, theirs net.Conn){
		"Close":                   func(_ *Poller, c *Conn, _ net.Conn) { assert.NoError(t, c.Close()) },
		"Break, Close":            func(_ *Poller, c *Conn, _ net.Conn) { c.Break(errTest); assert.NoError(t, c.Close()) },
		"Remove, Close":           func(p *Poller, c *Conn, _ net.Conn) { p.Remove(c); assert.NoError(t, c.Close()) },
		"Close, Close":            func(_ *Poller, c *Conn, _ net.Conn) { _ = c.Close(); assert.NoError(t, c.Close()) },
		"peer first":              func(p *Poller, c *Conn, theirs net.Conn) { theirs.Close(); untilEnd(p, c); _ = c.Close() },
		"peer first, by an RST":   func(p *Poller, c *Conn, theirs net.Conn) { reset(theirs); untilEnd(p, c); _ = c.Close() },
		"peer first, and unread":  func(_ *Poller, c *Conn, theirs net.Conn) { theirs.Close(); _ = c.Close() },
		"poller first":            func(p *Poller, c *Conn, _ net.Conn) { _ = p.Close(); assert.NoError(t, c.Close()) },
		"Break, poller, Close":    func(p *Poller, c *Conn, _ net.Conn) { c.Break(nil); _ = p.Close(); _ = c.Close() },
		"a backlog, Close":        func(_ *Poller, c *Conn, _ net.Conn) { stuff(t, c); _ = c.Close() },
		"a backlog, Break, Close": func(_ *Poller, c *Conn, _ net.Conn) { stuff(t, c); c.Break(nil); _ = c.Close() },
		"a backlog, Shutdown":     func(p *Poller, c *Conn, _ net.Conn) { stuff(t, c); _ = c.Shutdown(); untilEnd(p, c); _ = c.Close() },
		"a backlog, peer first":   func(p *Poller, c *Conn, theirs net.Conn) { stuff(t, c); theirs.Close(); untilEnd(p, c); _ = c.Close() },
		"a backlog, an RST":       func(p *Poller, c *Conn, theirs net.Conn) { stuff(t, c); reset(theirs); untilEnd(p, c); _ = c.Close() },
		"Shutdown from elsewhere": func(p *Poller, c *Conn, _ net.Conn) {
			shut := make(chan error)
			go func() { shut <- c.Shutdown() }()
			untilEnd(p, c)
			assert.NoError(t, <-shut)
			assert.NoError(t, c.Close())
		},
		"Send afterwards": func(_ *Poller, c *Conn, _ net.Conn) {
			assert.NoError(t, c.Close())
			assert.ErrorIs(t, c.Send([]byte("x")), ErrClosed)
		},
	}
	for name, end := range orders {
		for i, network := range []string{"tcp", "unix", "tls", "tcp", "unix", "tls"} {
			p, err := NewPoller(1 + i/3)
			require.NoError(t, err)
			ours, theirs := sockets(t, network)
			c := newConn(newLink(ours), "a:1", secrets{}, resp.Limits{}, 16<<20)
			require.NoError(t, c.opened())
			require.True(t, p.Add(c, 0))
			end(p, c, theirs)
			_ = p.Close()
			_ = theirs.Close()
			eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines && redistest.OpenFiles() <= files })
			if t.Failed() {
				t.Fatalf("%s over %s", name, network)
			}
		}
	}
}

// stuff sends until the writer waits for room.
func stuff(t testing.TB, c *Conn) {
	t.Helper()
	for c.output.pending.Load() == 0 {
		require.NoError(t, c.Send(make([]byte, 1<<20)))
	}
}

// blob returns a simple string of exactly size bytes on the wire.
func blob(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	b[0] = '+'
	copy(b[size-2:], "\r\n")
	return b
}

// unreadBytes returns how many bytes the kernel holds for a polled connection.
func unreadBytes(c *Conn) int {
	var n int32
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(c.polled.socket.Load().fd), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n)
}

// A peer writes in bursts of many sizes around the size of the decoder's
// buffer, each after the previous one was read. If one byte were left without
// an event, the wait for it would never end.
func TestEdgesLeaveNothingUnread(t *testing.T) {
	const buffer = 8 << 10
	var sizes []int
	for _, n := range []int{1, 2, 3, 4} {
		for d := -3; d <= 3; d++ {
			sizes = append(sizes, n*buffer+d)
		}
	}
	for range 60 {
		sizes = append(sizes, 8+rand.IntN(5*buffer))
	}
	eachSortAndTLS(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		c, theirs := add(t, p, network, 0, 0)
		for _, size := range sizes {
			burst := blob(size)
			written := make(chan error, 1)
			go func() {
				cut := 1 + rand.IntN(size-1) // in two pieces, so that events come at odd moments
				_, err := theirs.Write(burst[:cut])
				if err == nil {
					_, err = theirs.Write(burst[cut:])
				}
				written <- err
			}()
			var text []byte
			for len(text) == 0 {
				for range wait(t, p) {
					some, err := readAll(c)
					require.NoError(t, err)
					text = append(text, some...)
				}
			}
			require.NoError(t, <-written)
			require.True(t, "+"+string(text)+"\r\n" == string(burst), "%d bytes", size)
		}
	})
}

// A node connects again before its old connection is removed. The new
// connection keeps its place: the poller sees its end, and reads from it when
// it is the only one.
func TestRemoveLeavesTheSuccessor(t *testing.T) {
	eachSort(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		old, gone := add(t, p, network, 0, 0)
		next, theirs := add(t, p, network, 0, 0)
		p.Remove(old)
		p.Remove(old) // a second Remove is harmless
		_, err := gone.Write([]byte("+x\r\n"))
		require.NoError(t, err)
		eventually(t, old.Unread)
		nothing(t, p)
		require.NoError(t, old.Close())
		require.Same(t, next, p.conns[0].Load())
		_, err = theirs.Write([]byte("+x\r\n"))
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		for err == nil { // its last bytes, and its end
			for _, e := range wait(t, p) {
				require.Equal(t, 0, e.ID)
				_, err = readAll(next)
			}
		}
		require.Error(t, next.Err())
	})
}
