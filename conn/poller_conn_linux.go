//go:build !redmux_portable

package conn

import "sync/atomic"

// polled is the part of a Conn that a Poller uses.
type polled struct {
	socket atomic.Pointer[descriptor] // the Conn's link; nil until Poller.Add

	// The following are owned by the read side.
	early  earlyRead
	ending bool // an event said that nothing more will come
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
	// The end comes behind the last bytes, and no further event tells of it.
	return n == len(space) || n > 0 && c.polled.ending, nil
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
// no command is announced between the look at what is expected and the read.
func (c *Conn) readNow(p []byte) (int, error) {
	a := &c.arrived
	a.mu.Lock()
	defer a.mu.Unlock()
	c.beginReadLocked()
	n, err := c.polled.socket.Load().readNow(p)
	a.taken += int64(n)
	return n, err
}

// relink changes what the connection reads and writes through. It reports
// false, and changes nothing, if the connection is broken.
func (c *Conn) relink(l link, d *descriptor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return false
	}
	c.link = l
	c.polled.socket.Store(d)
	return true
}
