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
	space := c.reader.Space()
	n, err := c.polled.Load().readNow(space)
	if err != nil {
		return false, c.fail("read", err)
	}
	if n > 0 {
		c.received(space[:n])
	}
	return n == len(space), nil
}

// ResumeWriting lets the writer go on after an event said that the socket is writable.
func (c *Conn) ResumeWriting() { c.polled.Load().resume() }
