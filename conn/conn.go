package conn

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/valyala/bytebufferpool"
)

// Conn is one connection to one node, after its handshake. The package comment
// says who may call what.
type Conn struct {
	addr     string
	password string                     // to be kept out of what the server says
	link     link                       // changed by relink only
	polled   atomic.Pointer[descriptor] // the same, when a Poller has it
	server   Server

	// Owned by the read side.
	reader  *resp.Reader
	begun   int64   // where in the stream the value begins that Next returned last
	readErr error   // came together with bytes; reported by the following Fill
	first   [8]byte // the first bytes received, for a guess at what the peer speaks
	nfirst  int
	early   earlyRead // when a Poller reads
	ending  bool      // an event said that nothing more will come
	arrived arrivals
	// roundTrip is the least time from a write to the first reply to it, of the handshake and of each Exchange.
	roundTrip time.Duration

	// pending counts the bytes of the backlog: added by Send, subtracted by the writer when they are written. While
	// it is 0 nobody writes, so Send may.
	pending atomic.Int64
	limit   int64         // of pending
	wake    chan struct{} // holds one token for the writer

	mu     sync.Mutex                 // guards the following
	queue  *bytebufferpool.ByteBuffer // bytes the writer has not taken yet; nil when there are none
	broken *Error                     // the first cause

	// opening is set until the handshake is over: a failed write then leaves the socket open, because the reason for
	// it may lie there to be read ("max number of clients reached").
	opening bool
	unsent  error // a write that failed while opening

	done    chan struct{} // closed when broken
	writer  sync.WaitGroup
	freeing sync.Once
	// buffers is the pool of queue. A pointer, since the pool counts in 64-bit words that a 32-bit system must find aligned.
	buffers *bytebufferpool.Pool
}

// defaultBacklog bounds what is queued for a node that does not read.
const defaultBacklog = 4 << 20

func newConn(l link, addr, password string, limits resp.Limits, backlog int) *Conn {
	if backlog == 0 {
		backlog = defaultBacklog
	}
	c := &Conn{
		opening:  true,
		addr:     addr,
		password: password,
		link:     l,
		reader:   resp.NewReader(limits),
		limit:    int64(backlog),
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		buffers:  new(bytebufferpool.Pool),
	}
	_, c.arrived.plain = l.(*socket)
	c.writer.Go(c.writeBacklog)
	return c
}

// Server returns what the node said of itself in the handshake. It is not to be
// changed.
func (c *Conn) Server() *Server { return &c.server }

// String is the node's address, without credentials (R27).
func (c *Conn) String() string { return c.addr }

// Format prints String for every verb.
func (c *Conn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.addr) }

// RoundTrip returns the least time that a first reply took, in the handshake and in
// each Exchange. The time to connect is not in it, nor that of TLS's handshake. The
// owner of the read side may call it.
func (c *Conn) RoundTrip() time.Duration { return c.roundTrip }

// Addr returns the node's address as it stands in errors.
func (c *Conn) Addr() string { return c.addr }

// ServerError returns the error reply v in a form that may be kept and shown: the
// password replaced, without arguments, printable, at most 200 bytes (R27). It is
// nil when v is no error. ClassOf is cheaper where only the class matters.
func (c *Conn) ServerError(v resp.Value) *resp.Error { return serverError(v, c.password) }

// Unread reports whether the kernel holds bytes that Fill has not read. It never
// waits, and is false where that cannot be known: for a net.Conn with no socket
// below that we know of, and when the connection is broken.
func (c *Conn) Unread() bool { return c.link.unread() > 0 }

// Break aborts the connection because of cause, from any goroutine, without
// waiting for the peer: what the kernel has not got acknowledged is thrown away,
// by an RST over TCP. A blocked Fill returns an *Error that wraps cause. Only the
// first cause counts; a nil one is ErrClosed.
func (c *Conn) Break(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	c.end("break", cause, true)
}

// Shutdown ends the connection at once, whatever is in the backlog, but not by an
// abort: what the kernel holds is still sent. It may be called by any goroutine,
// and leaves what the owner of the read side uses to Close.
func (c *Conn) Shutdown() error { return c.end("close", ErrClosed, false) }

// Close is Shutdown, waits for the connection's goroutine and frees what it used.
// It may be called more than once, and after Break, by the owner of the read side.
func (c *Conn) Close() error {
	err := c.Shutdown()
	c.writer.Wait()
	c.freeing.Do(c.link.free)
	return err
}

// Err returns what broke the connection, an *Error, or nil while it is sound.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		return nil // not a nil *Error in an error
	}
	return c.broken
}

// fail breaks the connection and returns what broke it, which may be something
// else that came first.
func (c *Conn) fail(op string, cause error) error {
	c.end(op, cause, true)
	return c.Err()
}

// end breaks the connection unless it is broken already. Its error is that of
// closing the socket.
func (c *Conn) end(op string, cause error, abort bool) error {
	e, named := cause.(*Error) // it says already what was being done
	if !named {
		e = &Error{Op: op, Addr: c.addr, Err: cause}
	}
	c.mu.Lock()
	if c.broken != nil {
		c.mu.Unlock()
		return nil
	}
	c.broken = e
	c.queue = nil
	l := c.link
	c.mu.Unlock()

	close(c.done)
	return l.shut(abort)
}

// relink changes what the connection reads and writes through, unless it is broken.
func (c *Conn) relink(l link, polled *descriptor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.link = l
		c.polled.Store(polled)
	}
	return c.broken == nil
}
