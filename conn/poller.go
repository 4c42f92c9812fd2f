package conn

// An Event is what a [Poller] found out about one of its connections.
type Event struct {
	ID int // as given to Add
	// Readable says that FillNow will find bytes, the end of the connection or its error. Writable, that the backlog can
	// go on; ResumeWriting sees to that.
	Readable, Writable bool
}

// FillNow is Fill for a connection that is polled: it reads once and never waits. more says that there may be bytes left,
// of which no further event tells.
func (c *Conn) FillNow() (more bool, err error) {
	c.readEarly()
	n, space, err := c.early.n, c.early.space, c.early.err
	c.early = earlyRead{}
	if err != nil {
		return false, c.fail("read", err)
	}
	if n > 0 {
		c.received(space[:n])
	}
	// The end comes behind the last bytes, and nothing will tell of it again.
	return n == len(space) || n > 0 && c.ending, nil
}

// An earlyRead is what was read before FillNow asked for it.
type earlyRead struct {
	done  bool
	space []byte
	n     int
	err   error
}

// readEarly reads once for the following FillNow, and reports whether anything came, be it an error.
func (c *Conn) readEarly() bool {
	if c.early.done {
		return true
	}
	space := c.reader.Space()
	n, err := c.readNow(space)
	c.early = earlyRead{n > 0 || err != nil, space, n, err}
	return c.early.done
}

// ResumeWriting lets the writer go on after an event said that the socket is writable.
func (c *Conn) ResumeWriting() { c.polled.Load().resume() }
