package multiplex

import (
	"time"

	"github.com/redmux/redmux/conn"
)

// The way of a connection into the poller and out of it: from adopt to handBack its read side belongs to whoever has the
// poller's role, before and after that to the node's goroutine.

// adopt gives the node's connection to the poller, if it can be polled. The caller holds the group's mutex.
func (p *poller) adopt(n *node) bool {
	if n.config.NetDial != nil {
		return false // a user's connection stays as it is
	}
	n.polled.Store(n.conn) // events may come before Add returns
	if !p.events.Add(n.conn, n.index) {
		n.polled.Store(nil)
		return false
	}
	p.attached.Add(1)
	return true
}

// readsPerTurn bounds what is read from one node before the others have their turn (R32): a read takes what the decoder has
// room for, 8 KiB, and more only for the rest of a large value. That is more replies than a socket has in ordinary operation.
const readsPerTurn = 4

// readNow reads what a node has sent, up to a bound. more says that something may be left, of which no further event tells. The
// caller must hold the poller's role, and with it the node's read side.
func (n *node) readNow(c *conn.Conn, now time.Duration) (more bool) {
	for range readsPerTurn {
		var err error
		if more, err = n.group.poller.events.Fill(c); err == nil {
			n.heard.Store(int64(now))
			err = n.drain(c, now)
		}
		if err != nil {
			n.handBack(c, err)
			return false
		}
		if !more {
			return false
		}
	}
	return true
}

// handBack ends the polling of a connection that ended, and gives it back to the node's goroutine to be buried.
func (n *node) handBack(c *conn.Conn, cause error) {
	p := n.group.poller
	c.Break(cause)
	p.events.Remove(c)
	n.polled.Store(nil)
	p.attached.Add(-1)
	n.ended <- cause
}
