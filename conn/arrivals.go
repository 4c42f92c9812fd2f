package conn

import (
	"sync"

	"github.com/redmux/redmux/resp"
)

// A reply cannot arrive before its command is sent. So bytes in a socket just
// before a command is sent answer earlier commands, or none. They must not be
// taken for the answer to this one (R16). Finding that out takes no read, only
// the number of replies expected at a byte's arrival.

// arrivals records when the bytes of a connection came.
type arrivals struct {
	// plain reports that a read returns what the socket holds: the connection
	// is neither TLS nor a net.Conn of unknown kind.
	plain bool

	// mu guards the following. It is held during a read that does not wait.
	mu       sync.Mutex
	expected uint64 // replies, as announced by Expect
	taken    int64  // bytes read so far
	latest   bound

	// The following are owned by the read side.
	due     uint64 // expected before the latest read
	applied bound  // latest, before the latest read
	held    bound  // for the value that began in an earlier read
}

// A bound says that the bytes before an offset of the stream arrived with at
// most so many replies expected.
type bound struct {
	before int64
	due    uint64
}

// Expect announces that n commands are sent next, with one reply each. It must
// be called before Send, by the goroutine that calls Send.
//
// With look, Expect first checks whether the kernel holds bytes. These cannot
// be part of these replies (see Due). It never waits for the node. Over TLS,
// and for a net.Conn of unknown kind, it does not check: what the socket below
// holds says nothing about replies.
func (c *Conn) Expect(n int, look bool) {
	c.made()
	a := &c.arrived
	a.mu.Lock()
	defer a.mu.Unlock()
	if look && a.plain {
		a.markLocked(c.linkNow().unread())
	}
	a.expected += uint64(n)
}

// markLocked records that the socket holds so many unread bytes. The caller
// must hold a.mu.
func (a *arrivals) markLocked(unread int) {
	if unread > 0 {
		a.latest = bound{before: a.taken + int64(unread), due: a.expected}
	}
}

// linkNow returns the link to callers that do not own the read side.
func (c *Conn) linkNow() link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// Due is about the last value from Next: it returns how many replies were
// expected at most at the arrival of that value's first byte. If the value is a
// reply, but not among the first Due replies since the handshake, no command
// caused it. Only the owner of the read side may call Due.
func (c *Conn) Due() uint64 {
	c.made()
	return c.arrived.dueAt(c.begun)
}

func (a *arrivals) dueAt(offset int64) uint64 {
	switch {
	case offset < a.held.before:
		return a.held.due
	case offset < a.applied.before:
		return min(a.due, a.applied.due)
	}
	return a.due
}

// SetLimits changes what the node may send from now on. Only the owner of the
// read side may call it, and only while no reply is awaited.
func (c *Conn) SetLimits(limits resp.Limits) {
	c.made()
	c.reader.SetLimits(limits)
}

// noteRead records the n bytes of a read that may have waited.
// Commands announced since it began count as announced before it.
func (c *Conn) noteRead(n int) {
	a := &c.arrived
	a.mu.Lock()
	defer a.mu.Unlock()
	c.beginReadLocked()
	a.taken += int64(n)
}

// beginReadLocked records what is expected before a read. The caller must hold
// c.arrived.mu.
func (c *Conn) beginReadLocked() {
	a := &c.arrived
	if at := c.reader.Offset(); c.reader.Buffered() > 0 && at >= a.held.before {
		a.held = bound{before: at + 1, due: a.dueAt(at)}
	}
	a.due, a.applied = a.expected, a.latest
}
