package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A link is the way from one process to one server. It carries one connection
// after another, each in order.
type link struct {
	delay, spread time.Duration // one way, without faults
	slow          time.Duration // what a fault adds
	heldUp        int           // faults that hold what is in flight to the server
	heldDown      int           // and to the process
	refused       int           // faults that refuse new connections
	up            []*wire       // connections with something held on its way to the server
	down          []func()      // held on its way to the process, in order
	trap          func(*wire)   // called when the next SET is sent
	sealTrap      func()        // called when the next lock or seal of an opening is sent
	lame          *wire         // the last connection whose commands were held
	since         time.Duration // since when it, its server and its process have had no fault
	world         *world
}

func newLink(w *world) *link {
	return &link{world: w, delay: w.span(w.plan.latency), spread: w.span(w.plan.latency)}
}

// longest returns the longest delay one way, without faults.
func (l *link) longest() time.Duration { return l.delay + l.spread }

func (l *link) travel() time.Duration {
	return l.delay + l.world.span(l.spread) + l.world.span(l.slow)
}

func (l *link) isWell() bool {
	isLame := l.lame != nil && l.lame.held > 0 && !l.lame.broken
	return l.slow == 0 && l.heldUp+l.heldDown+l.refused == 0 && !isLame
}

// releaseUp delivers what was held on its way to the server, unless another
// fault holds it: at once, and in order for each connection.
func (l *link) releaseUp() {
	waiting := l.up
	l.up = nil
	for _, c := range waiting {
		if c.held+l.heldUp > 0 {
			l.up = append(l.up, c)
			continue
		}
		arrivals := c.queue
		c.queue = nil
		for _, arrive := range arrivals {
			arrive()
		}
	}
}

func (l *link) releaseDown() {
	all := l.down
	l.down = nil
	for _, comeBack := range all {
		comeBack()
	}
}

// A wire is one connection. Its two ends learn of its end at different times:
// bytes that were sent may be executed long after the process has given up the
// connection (R8).
type wire struct {
	link    *link
	process *process
	server  *server
	member  *member
	run     int64 // the run of the server's process at its end; 0 before it arrives
	lastUp  time.Duration
	lastDn  time.Duration
	sent    int // commands, by the process
	arrived int // of those
	broken  bool
	cut     int           // of the commands in flight when it broke, those from this one on are lost
	late    time.Duration // how late the others arrive
	closed  bool          // the server's end is gone: nothing more is executed
	stalled []*command    // arrived at a server that is stopped, or that has not read them yet
	unread  bool          // the server still has to read them
	fenced  time.Duration // true time when the next connection first tried to kill this one, or 0
	held    int           // faults that hold this connection alone on the way to the server: lost and resent packets
	queue   []func()      // held on its way to the server, in order
}

// send sends a command.
func (c *wire) send(cmd *command) {
	w := c.link.world
	if trap := c.link.trap; trap != nil && cmd.op == set {
		c.link.trap = nil
		trap(c)
	}
	if trap := c.link.sealTrap; trap != nil && cmd.op == changeSeal && cmd.change.Verb >= pure.Lock {
		c.link.sealTrap = nil
		trap()
	}
	c.lastUp = max(c.lastUp, w.now+c.link.travel())
	index := c.sent
	c.sent++
	w.at(c.lastUp, func() { c.arrive(index, cmd) })
}

// overtake sends a command that arrives before earlier ones. No real connection
// does that; it is for Broken.
func (c *wire) overtake(cmd *command) {
	index := c.sent
	c.sent++
	c.link.world.at(c.link.world.now, func() { c.arrive(index, cmd) })
}

func (c *wire) arrive(index int, cmd *command) {
	if c.isHeld(func() { c.arrive(index, cmd) }) {
		return
	}
	if c.broken && index >= c.cut {
		return
	}
	if w := c.link.world; c.broken && w.now < c.late {
		w.at(c.late, func() { c.arrive(index, cmd) })
		return
	}
	c.arrived++
	c.server.receive(c, cmd)
}

// isHeld reports whether an arrival is held, and keeps it for later.
func (c *wire) isHeld(arrival func()) bool {
	if c.held+c.link.heldUp == 0 {
		return false
	}
	if len(c.queue) == 0 {
		c.link.up = append(c.link.up, c)
	}
	c.queue = append(c.queue, arrival)
	return true
}

// answer sends a reply.
func (c *wire) answer(cmd *command, r reply) {
	c.back(func() { c.member.reply(c, cmd, r) })
}

// back delivers something to the process, in the order in which the server sent
// it.
func (c *wire) back(do func()) {
	w := c.link.world
	c.lastDn = max(c.lastDn, w.now+c.link.travel())
	w.at(c.lastDn, func() { c.comeBack(do) })
}

func (c *wire) comeBack(do func()) {
	switch {
	case c.broken:
	case c.link.heldDown > 0:
		c.link.down = append(c.link.down, func() { c.comeBack(do) })
	default:
		c.process.run(do)
	}
}

// breakOff ends the process's side. What was sent and has not arrived may be
// lost from some command on. The rest may arrive late, and is executed unless
// the server has ended its side by then.
func (c *wire) breakOff() {
	if c.broken {
		return
	}
	w := c.link.world
	c.broken = true
	c.cut = c.arrived + w.random.IntN(c.sent-c.arrived+1)
	c.late = w.now
	if w.oneIn(2) {
		c.late += w.span(w.plan.lateness)
	}
	w.at(max(c.late, c.lastUp), c.hangUp)
	w.disturb(c.link)
}

// hangUp is the end of what the process sent, after all of it.
func (c *wire) hangUp() {
	if c.isHeld(c.hangUp) {
		return
	}
	if len(c.stalled) == 0 {
		c.closed = true
	}
}

// reset ends the connection from outside; the process notices.
func (c *wire) reset() {
	if c.broken {
		return
	}
	m := c.member
	c.breakOff()
	c.process.run(func() { m.died(c) })
}

// close ends the server's side. The process notices after it has received all
// replies.
func (c *wire) close() {
	if c.closed {
		return
	}
	c.closed, c.stalled = true, nil
	m := c.member
	c.back(func() { m.died(c) })
}
