package conn

// Send writes p, or queues what the node does not take now; it never waits and
// does not keep p. An error means that the connection is broken; ErrStalled is its
// cause when the backlog is over its bound. Over TCP and unix sockets nothing is
// allocated while the backlog is empty. One caller at a time.
//
// After an error, how much of p was written is not known.
func (c *Conn) Send(p []byte) error {
	// pending is 0 only when the writer has finished, and nobody but the caller makes it grow.
	if c.pending.Load() == 0 {
		n, err := c.link.tryWrite(p)
		if err != nil {
			return c.writeFailed(err)
		}
		if n == len(p) {
			return nil
		}
		p = p[n:]
	}
	return c.enqueue(p)
}

func (c *Conn) enqueue(p []byte) error {
	// A batch that is larger than the bound is no sign of a node that does not read.
	if all := c.pending.Add(int64(len(p))); all > c.limit && all > int64(len(p)) {
		return c.fail("write", ErrStalled)
	}
	c.mu.Lock()
	if c.broken != nil {
		defer c.mu.Unlock()
		return c.broken
	}
	if c.queue == nil {
		c.queue = c.buffers.Get()
	}
	c.queue.B = append(c.queue.B, p...)
	c.mu.Unlock()

	select {
	case c.wake <- struct{}{}:
	default: // a token is there, and the writer will find these bytes too
	}
	return nil
}

// writeBacklog is the writer goroutine. It ends when the connection is broken.
func (c *Conn) writeBacklog() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		for c.writeQueue() {
		}
	}
}

// writeQueue writes what is queued and reports whether there was anything.
func (c *Conn) writeQueue() bool {
	c.mu.Lock()
	b := c.queue
	c.queue = nil
	c.mu.Unlock()
	if b == nil {
		return false
	}
	defer c.buffers.Put(b) // Write keeps nothing, and Send has let go of it

	for p := b.B; len(p) > 0; {
		piece := p[:min(len(p), maxPiece)]
		if _, err := c.link.Write(piece); err != nil {
			_ = c.writeFailed(err)
			return false
		}
		c.pending.Add(-int64(len(piece)))
		p = p[len(piece):]
	}
	return true
}

// maxPiece is how much one Write is given, so that the backlog shrinks while a
// slow node reads it and not only when all of it was read.
const maxPiece = 64 << 10

// writeFailed breaks the connection, except during the handshake: then the read
// side finds out, after it has read what the node said before it went.
func (c *Conn) writeFailed(err error) error {
	c.mu.Lock()
	if c.opening {
		defer c.mu.Unlock()
		c.unsent = err
		return &Error{Op: "write", Addr: c.addr, Err: err}
	}
	c.mu.Unlock()
	return c.fail("write", err)
}

// opened ends the handshake's leniency. A failed write that comes to light later
// breaks the connection then.
func (c *Conn) opened() error {
	c.mu.Lock()
	c.opening = false
	err := c.unsent
	c.mu.Unlock()
	if err != nil {
		return c.fail("write", err)
	}
	return nil
}

func (c *Conn) isOpening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opening
}
