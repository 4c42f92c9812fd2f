package conn

// Send writes p, or queues what the node does not take now. It never waits and
// does not keep p. An error means that the connection is broken, with
// ErrStalled as the cause for a backlog at its bound before the call; how much
// of p was written is unknown. Over TCP and unix sockets without TLS, Send
// allocates nothing while the backlog is empty.
//
// One goroutine at a time may call Send.
func (c *Conn) Send(p []byte) error {
	c.made()
	if err := c.stalled(); err != nil {
		return err
	}
	if c.output.tls == nil {
		return c.write(p)
	}
	c.output.sending.Store(true)
	defer c.output.sending.Store(false)
	if _, err := c.output.tls.Write(p); err != nil {
		return c.fail("write", err)
	}
	return nil
}

// stalled breaks the connection if the backlog has reached its bound. It is
// called before a batch, not for its parts, as over TLS there are many: a batch
// above the bound does not mean that the node does not read.
func (c *Conn) stalled() error {
	if c.output.full() {
		return c.fail("write", ErrStalled)
	}
	return nil
}

func (o *output) full() bool { return o.pending.Load() >= o.limit }

// call has the writer look at the queue.
func (o *output) call() {
	select {
	case o.wake <- struct{}{}:
	default: // the writer has a token, and will find these bytes too
	}
}

// done says that the writer has written all.
func (o *output) done() {
	select {
	case o.written <- struct{}{}:
	default: // the earlier token was not taken yet
	}
}

// Behind reports whether more than half of the backlog's bound is queued. Any
// goroutine may call it.
func (c *Conn) Behind() bool {
	c.made()
	return c.output.pending.Load() > c.output.limit/2
}

// write sends p as it is. One goroutine at a time may call it: the caller of
// Send, or crypto/tls under its mutex.
func (c *Conn) write(p []byte) error {
	// pending is 0 only when the writer has finished, and only this goroutine
	// adds to it.
	if c.output.pending.Load() == 0 {
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
	c.output.pending.Add(int64(len(p)))
	c.mu.Lock()
	if c.broken != nil {
		defer c.mu.Unlock()
		return c.broken
	}
	if c.queue == nil {
		c.queue = c.output.buffers.Get()
	}
	c.queue.B = append(c.queue.B, p...)
	c.mu.Unlock()

	c.output.call()
	return nil
}

// writeBacklog is the writer goroutine. It ends when the connection is broken.
func (c *Conn) writeBacklog() {
	for {
		select {
		case <-c.output.wake:
		case <-c.done:
			return
		}
		for c.writeQueue() {
		}
		c.output.done()
	}
}

// writeQueue writes the queued bytes and reports whether there were any.
func (c *Conn) writeQueue() bool {
	c.mu.Lock()
	b := c.queue
	c.queue = nil
	c.mu.Unlock()
	if b == nil {
		return false
	}
	defer c.output.buffers.Put(b) // Write keeps nothing, and Send uses a new one

	for p := b.B; len(p) > 0; {
		piece := p[:min(len(p), maxPiece)]
		if _, err := c.link.Write(piece); err != nil {
			_ = c.writeFailed(err)
			return false
		}
		c.output.pending.Add(-int64(len(piece)))
		p = p[len(piece):]
	}
	return true
}

// maxPiece bounds one Write, so that the backlog already shrinks during a slow
// node's reads.
const maxPiece = 64 << 10

// writeFailed breaks the connection, except during the handshake. Then the read
// side finds the end of the connection, after the last bytes that the node
// sent.
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

// opened ends the handshake. If a write failed during it, opened breaks the
// connection.
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

// isUnsent reports whether a write failed while opening.
func (c *Conn) isUnsent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsent != nil
}

func (c *Conn) isOpening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opening
}
