//go:build !redmux_portable

package conn

import (
	"crypto/tls"
	"net"
	"sync/atomic"
)

// polled is the part of a Conn that a Poller uses.
type polled struct {
	// socket is the Conn's link, and transport what is between it and TLS, if
	// there is TLS. Both are nil until Poller.Add.
	socket    atomic.Pointer[descriptor]
	transport *transport

	// The following are owned by the read side.
	early  earlyRead
	ending bool // an event reported that nothing more will come
}

// An earlyRead is the result of a read that was made before fillNow asked for
// it.
type earlyRead struct {
	done  bool
	space []byte
	n     int
	err   error
}

// fillNow reads once and never waits. See Poller.Fill.
func (c *Conn) fillNow() (more bool, err error) {
	c.readEarly()
	n, space, err := c.polled.early.n, c.polled.early.space, c.polled.early.err
	c.polled.early = earlyRead{}
	if err != nil {
		return false, c.fail("read", err)
	}
	if n > 0 {
		c.received(space[:n])
	}
	// The end follows the last bytes, and no further event reports it.
	more = n == len(space) || n > 0 && c.polled.ending
	if t := c.polled.transport; t != nil {
		more = more || t.left
		c.inside.Store(more)
	}
	return more, nil
}

// readEarly reads once for the following fillNow, and reports whether it got
// bytes or an error.
func (c *Conn) readEarly() bool {
	early := &c.polled.early
	if early.done {
		return true
	}
	space := c.reader.Space()
	n, err := c.readNow(space)
	*early = earlyRead{n > 0 || err != nil, space, n, err}
	return early.done
}

// readNow reads once, without waiting. It holds the mutex of arrivals, so that
// no command is announced between beginReadLocked and the read.
func (c *Conn) readNow(p []byte) (int, error) {
	a := &c.arrived
	a.mu.Lock()
	defer a.mu.Unlock()
	c.beginReadLocked()
	var n int
	var err error
	if t := c.polled.transport; t != nil {
		n, err = t.decrypt(p)
	} else {
		n, err = c.polled.socket.Load().readNow(p)
	}
	a.taken += int64(n)
	return n, err
}

// pollable returns the socket of a link for polling, and what is between it and
// TLS, if any.
func pollable(l link) (net.Conn, *transport) {
	switch l := l.(type) {
	case *socket:
		return l.Conn, nil
	case *stream:
		if over, ok := l.Conn.(*tls.Conn); ok {
			if t, ok := over.NetConn().(*transport); ok {
				return t.Conn, t
			}
		}
	}
	return nil, nil
}

// relink makes l the connection's link. For a connection taken over by a
// Poller, d is l, and TLS, if any, runs above d by way of t. If the Poller
// gives the connection back, d is nil. relink returns false, and changes
// nothing, if the connection is broken.
func (c *Conn) relink(l link, d *descriptor, t *transport) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return false
	}
	c.link = l
	if t != nil {
		t.conn, t.raw = c, d
		c.output.tls, c.polled.transport = t.tls, t
		if d == nil {
			c.output.tls, c.polled.transport = nil, nil
		}
	}
	c.polled.socket.Store(d)
	return true
}
