package conn

import (
	"crypto/tls"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/valyala/bytebufferpool"
)

// Conn is one connection to one node, after its handshake. The package comment
// says which goroutine may call which method.
type Conn struct {
	addr string
	// hidden is removed from texts that the server sends. AppendAuth replaces
	// it.
	hidden atomic.Pointer[secrets] // not by value: fmt would print it
	server Server
	link   link   // changed by relink only
	polled polled // set while a Poller has the connection
	// located is how the server was found, or nil without Seeds. The follower
	// is nil before Follow.
	located  *Config
	follower *follower

	input
	output output

	mu    sync.Mutex                 // guards the following
	queue *bytebufferpool.ByteBuffer // for the writer; nil if empty

	// The life of a connection: opening, then open, then broken. A write
	// that fails while opening does not break the connection. The reason
	// may be in the socket to be read ("max number of clients reached").
	opening bool
	unsent  error         // a write that failed while opening
	broken  *Error        // the first cause
	done    chan struct{} // closed when broken; not guarded

	freeing sync.Once // by Close
}

// An input is what was received. The read side owns it.
type input struct {
	reader    *resp.Reader
	begun     int64         // where in the stream Next's last value begins
	readErr   error         // came with bytes; the following Fill returns it
	first     [8]byte       // the first bytes, to guess what the peer speaks
	nfirst    int           // of first
	arrived   arrivals      // when bytes came; partly guarded by its own mutex
	roundTrip time.Duration // see RoundTrip
	inside    atomic.Bool   // TLS holds bytes that Poller.Fill left; not owned
}

// An output sends, in the background, what the socket did not take at once.
type output struct {
	// tls encrypts what is sent and then calls write, while a Poller has a
	// connection over TLS; otherwise nil. sending is set while it does that for
	// Send.
	tls     *tls.Conn
	sending atomic.Bool
	// pending counts the bytes of the backlog: Send adds, the writer subtracts
	// what it has written. While it is 0 the writer does not write, so Send
	// may.
	pending atomic.Int64
	limit   int64         // of pending; it may be exceeded by what one Send queues
	wake    chan struct{} // holds one token for the writer
	written chan struct{} // holds one token once the writer has written all
	writer  sync.WaitGroup
	// buffers is the pool of queue. It is a pointer for the pool's counts
	// in 64-bit words. A 32-bit system must find them aligned.
	buffers *bytebufferpool.Pool
}

// defaultBacklog bounds the bytes queued for a node that does not read.
const defaultBacklog = 4 << 20

func newConn(l link, addr string, hidden secrets, limits resp.Limits, backlog int) *Conn {
	if backlog == 0 {
		backlog = defaultBacklog
	}
	c := &Conn{
		opening: true,
		addr:    addr,
		link:    l,
		input:   input{reader: resp.NewReader(limits)},
		output: output{
			limit: int64(backlog), buffers: new(bytebufferpool.Pool),
			wake: make(chan struct{}, 1), written: make(chan struct{}, 1),
		},
		done: make(chan struct{}),
	}
	c.hidden.Store(&hidden)
	_, c.arrived.plain = l.(*socket)
	c.output.writer.Go(c.writeBacklog)
	return c
}

// Server returns what the node said of itself in the handshake. The result must
// not be modified.
func (c *Conn) Server() *Server {
	c.made()
	return &c.server
}

// String returns the node's address as it stands in errors, without credentials
// (R27).
func (c *Conn) String() string {
	if c == nil {
		return "(no connection)"
	}
	return c.addr
}

// Format prints String for every verb.
func (c *Conn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// RoundTrip returns the shortest time from a write to its first reply, in the
// handshake and in each Exchange. It does not include the times to connect and
// to shake hands in TLS. Only the owner of the read side may call it.
func (c *Conn) RoundTrip() time.Duration {
	c.made()
	return c.roundTrip
}

// ServerError returns the error reply v as an error fit to be kept and shown
// (R27), or nil for another reply. Its text is printable, has at most 200 bytes
// and no arguments; the password, the user's name and each word that begins
// with Config.Conceal are replaced. errors.As finds a *resp.Error in it.
// ClassOf is cheaper where only the class matters.
func (c *Conn) ServerError(v resp.Value) error {
	c.made()
	return serverError(v, *c.hidden.Load())
}

// Unread reports whether there are unread bytes: in the kernel, or left within
// TLS by Poller.Fill. It never waits. It is false for a broken connection, and
// for a net.Conn without a known socket below it: there it cannot be known.
func (c *Conn) Unread() bool {
	c.made()
	return c.link.unread() > 0 || c.inside.Load() && c.Err() == nil
}

// Break aborts the connection because of cause: over TCP the peer gets an RST,
// and what it has not acknowledged is thrown away (R8). Break does not wait for
// the peer, and any goroutine may call it. A blocked Fill returns an *Error
// that wraps cause. Only the first cause counts; if nil, it is ErrClosed.
//
// Break frees nothing: the owner of the read side must still call Close.
func (c *Conn) Break(cause error) {
	c.made()
	if cause == nil {
		cause = ErrClosed
	}
	c.end("break", cause, true)
}

// Shutdown ends the connection with ErrClosed as its cause, but without an
// abort: what the kernel holds is still sent. The backlog is dropped. Shutdown
// does not wait for the peer, and any goroutine may call it.
//
// Shutdown frees nothing: the owner of the read side must still call Close.
func (c *Conn) Shutdown() error {
	c.made()
	return c.end("close", ErrClosed, false)
}

// Close calls Shutdown, waits for the writer goroutine and for those of Follow,
// and frees the descriptor. Only the owner of the read side may call it. It may
// be called after Break and Shutdown, and more than once.
func (c *Conn) Close() error {
	c.made()
	err := c.Shutdown()
	c.output.writer.Wait()
	c.follower.end()
	c.freeing.Do(c.link.free)
	return err
}

// Err returns the *Error that broke the connection, or nil while it is sound.
func (c *Conn) Err() error {
	c.made()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		return nil // not a nil *Error in an error
	}
	return c.broken
}

// fail breaks the connection, unless it is broken already, and returns what
// broke it.
func (c *Conn) fail(op string, cause error) error {
	c.end(op, cause, true)
	return c.Err()
}

// end breaks the connection unless it is broken already. It returns the error
// of closing the socket.
func (c *Conn) end(op string, cause error, abort bool) error {
	e, named := cause.(*Error) // it names an operation already
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
