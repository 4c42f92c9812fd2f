package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Network is a network in memory. Addresses are any strings. Everything that
// waits in it waits on simulated time inside a testing/synctest bubble, when it
// is made and used there. It starts no goroutine.
type Network struct {
	mu        sync.Mutex // guards the following
	links     map[string]*Link
	listeners map[string]*memListener
	port      int // of the client that dialed last
}

// NewNetwork returns an empty network.
func NewNetwork() *Network {
	return &Network{
		links:     make(map[string]*Link),
		listeners: make(map[string]*memListener),
		port:      40000,
	}
}

// Listen accepts connections to addr from now on, until the listener is
// closed. It panics when the address is taken.
func (n *Network) Listen(addr string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		panic("redistest: address is taken: " + addr)
	}
	l := &memListener{network: n, addr: Addr(addr)}
	l.cond.L = &l.mu
	n.listeners[addr] = l
	return l
}

// Dial connects to addr; the network's name is ignored. It fits a NetDial
// field. It takes one round trip of the link's latency.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(addr), Err: err}
	}
	pr, err := n.At(addr).connect(ctx)
	if err != nil {
		return fail(err)
	}
	n.mu.Lock()
	l := n.listeners[addr]
	n.port++
	local := Addr(fmt.Sprintf("192.0.2.1:%d", n.port))
	n.mu.Unlock()

	client := &memConn{pair: pr, in: pr.down, out: pr.up, local: local, remote: Addr(addr)}
	server := &memConn{pair: pr, in: pr.up, out: pr.down, local: Addr(addr), remote: local}
	if l == nil || !l.offer(server) {
		client.Close()
		server.Close()
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	return client, nil
}

// At returns the link to an address, whether or not there is a listener.
func (n *Network) At(addr string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[addr]
	if l == nil {
		l = newLink()
		n.links[addr] = l
	}
	return l
}

// Conns is the number of connections with an end that is not closed.
func (n *Network) Conns() int {
	n.mu.Lock()
	links := make([]*Link, 0, len(n.links))
	for _, l := range n.links {
		links = append(links, l)
	}
	n.mu.Unlock()
	open := 0
	for _, l := range links {
		open += l.Conns()
	}
	return open
}

// Close closes all listeners, resets all connections and lets held dials fail.
func (n *Network) Close() error {
	n.mu.Lock()
	links, listeners := n.links, n.listeners
	n.links = make(map[string]*Link)
	n.listeners = make(map[string]*memListener)
	n.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, l := range links {
		l.HoldDials(false)
		l.Reset()
	}
	return nil
}

// Addr is an address in memory.
type Addr string

// Network returns "mem".
func (a Addr) Network() string { return "mem" }

// String returns the address as it was given to Listen or made up by Dial.
func (a Addr) String() string { return string(a) }

// memListener hands out the server's ends of connections.
type memListener struct {
	network *Network
	addr    Addr

	mu     sync.Mutex // guards the following
	cond   sync.Cond
	queue  []*memConn
	closed bool
}

// Accept waits for a connection or for Close.
func (l *memListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "mem", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

func (l *memListener) Addr() net.Addr { return l.addr }

// Close frees the address and resets connections that were not accepted.
func (l *memListener) Close() error {
	l.mu.Lock()
	queue := l.queue
	l.queue, l.closed = nil, true
	l.cond.Broadcast()
	l.mu.Unlock()

	for _, c := range queue {
		c.Abort()
	}
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.listeners[string(l.addr)] == l {
		delete(l.network.listeners, string(l.addr))
	}
	return nil
}

// offer queues the server's end. The queue is not bounded; HoldDials stands for
// a full backlog.
func (l *memListener) offer(c *memConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, c)
	l.cond.Signal()
	return true
}

// memConn is one end of a connection. It has SetLinger and CloseWrite as
// *net.TCPConn has, so that code which aborts connections finds what it needs.
type memConn struct {
	pair          *pair
	in, out       *pipe
	local, remote Addr
	abrupt        atomic.Bool
	closing       atomic.Bool
}

// Read and Write are those of the pipes, with errors as sockets give them.
func (c *memConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	return n, c.wrap("read", err)
}

func (c *memConn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	return n, c.wrap("write", err)
}

// Close ends the connection: with FIN, or with RST after SetLinger(0). What was
// written before still arrives either way, unless Link.AbortsLose says
// otherwise.
func (c *memConn) Close() error {
	if c.closing.Swap(true) {
		return c.wrap("close", net.ErrClosed)
	}
	var end error = io.EOF
	if lossy := c.pair.link.abortsLose(); c.abrupt.Load() || lossy && c.in.unread() {
		end = syscall.ECONNRESET
		if lossy {
			c.out.lose()
		}
	}
	c.out.finish(end)
	c.in.abandon()
	c.pair.leave()
	return nil
}

// Abort closes with RST.
func (c *memConn) Abort() error {
	c.abrupt.Store(true)
	return c.Close()
}

// SetLinger with 0 makes the Close that follows an abort.
func (c *memConn) SetLinger(sec int) error {
	c.abrupt.Store(sec == 0)
	return nil
}

// CloseWrite sends FIN and goes on reading.
func (c *memConn) CloseWrite() error {
	c.out.finish(io.EOF)
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

// wrap gives errors the shape that those of sockets have.
func (c *memConn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}
