package multiplex

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
)

// A poller reads for all nodes whose sockets can be polled, where the system has a way (conn.Poller). Whoever has its role
// waits for all of them and counts what comes: a caller that finds the role free reads its own answer, which saves a lone
// caller the hand-over from one goroutine to another, the larger part of its CPU (docs/design.md, "The caller polls"). When it
// leaves others waiting, the poller's own goroutine takes the role for as long as anybody waits.
//
// While anything is owed somebody polls: what a caller leaves unread when it leaves with its answer, the watch finds at its
// next look, and wakes that goroutine. When nothing is owed it waits on, for the end of a connection.
type poller struct {
	group  *Group
	events *conn.Poller

	role    atomic.Uint32 // who polls
	waiting atomic.Int64  // callers that sleep until another decides their round, or are about to
	// attached counts the connections that are polled. It grows under the group's mutex, and shrinks by whoever polls.
	attached atomic.Int64
	call     chan struct{} // wakes serveOthers
	left     atomic.Int64  // when the role was last given up, on the group's clock

	// The following are owned by whoever has the role.
	unfinished Set           // nodes that have sent more than was read in their last turn: no event tells of the rest
	fresh      bool          // what is read now came only just
	since      time.Duration // since when the holder of the role is about to read, for commands that were queued from then on
}

// Who has the poller's role.
const (
	roleFree   uint32 = iota
	roleCaller        // until its round is decided
	roleServer        // serveOthers, for as long as it likes
)

func newPoller(g *Group) *poller {
	if g.config.Portable {
		return nil
	}
	for _, n := range g.config.Nodes {
		if n.NetDial == nil && n.TLS == nil {
			events, err := conn.NewPoller(len(g.config.Nodes))
			if err != nil {
				g.unpolled = err
				return nil // every connection has a reader of its own then
			}
			return &poller{group: g, events: events, call: make(chan struct{}, 1)}
		}
	}
	return nil
}

// await waits until the round is decided and returns its word. It looks at no context: the group's watch does, for all
// rounds at once, since a select of every caller costs up to a tenth of the throughput (docs/design.md,
// "One timer for all").
func (g *Group) await(r *round) uint64 {
	p := g.poller
	if p == nil {
		return r.await()
	}
	for {
		w := r.word.Load()
		if w&decided != 0 {
			return w
		}
		if p.take(roleCaller) {
			p.pollFor(r)
			p.leave()
			continue
		}
		// Counted before the second look at the role, while whoever leaves gives it up before it looks at the count: one
		// of the two sees the other (docs/design.md, "Handing over the poller's role").
		p.waiting.Add(1)
		if p.role.Load() != roleFree && r.word.CompareAndSwap(w, w|parked) {
			<-r.wake // whoever decided the round has taken us off the count
			return r.word.Load()
		}
		p.waiting.Add(-1)
	}
}

// take takes the role, if nobody has it.
func (p *poller) take(who uint32) bool {
	if p.role.Load() != roleFree || !p.role.CompareAndSwap(roleFree, who) {
		return false
	}
	p.fresh = false
	return true
}

// leave gives the role up, and sees to it that the role is taken for those who wait, and for what is unread. The look at what is
// unfinished comes first: it belongs to the role.
func (p *poller) leave() {
	unfinished := p.unfinished != 0
	p.giveUp()
	if unfinished || p.awaited() || p.stopped() {
		p.callServer()
	}
}

// awaited reports that somebody waits for what another is to read: callers for their rounds, lookouts for pushes.
func (p *poller) awaited() bool {
	return p.waiting.Load() > 0 || p.group.tracker.listening.Load() > 0
}

func (p *poller) giveUp() {
	p.left.Store(int64(p.group.now()))
	p.role.Store(roleFree)
}

func (p *poller) stopped() bool { return p.group.life.stopped.Err() != nil }

func (p *poller) callServer() {
	select {
	case p.call <- struct{}{}:
	default: // it is on its way
	}
}

// pollFor polls until the caller's round is decided, by a reply or by anybody else: they kick us.
func (p *poller) pollFor(r *round) {
	p.since = r.at
	for {
		if r.word.Or(polling)&decided != 0 {
			return
		}
		events := p.wait()
		r.word.And(^polling)
		p.read(events) // also when another has decided the round: nobody would be told of these events again
		if r.word.Load()&decided != 0 {
			return
		}
	}
}

// wait waits for events. It returns none after a kick, and does not wait while something is unfinished.
func (p *poller) wait() []conn.Event {
	if p.unfinished != 0 {
		events, err := p.events.Look()
		if err != nil {
			return nil
		}
		return events
	}
	events, waited, err := p.events.Wait()
	if err != nil {
		return nil // the group was closed, and every round is decided
	}
	p.fresh = p.fresh || waited
	return events
}

// read reads and counts what has come: one turn for each node that has sent something, and for those with something unfinished
// after that.
func (p *poller) read(events []conn.Event) {
	unfinished := p.unfinished
	if len(events) == 0 && unfinished == 0 {
		return
	}
	p.unfinished = 0
	now := p.group.now()
	for _, e := range events {
		n := p.group.nodes[e.ID]
		c := n.polled.Load()
		if c == nil {
			continue // it was given back before it was removed
		}
		if e.Writable {
			p.events.Resume(c)
		}
		if e.Readable {
			p.turn(n, c, now)
			unfinished &^= setOf(e.ID)
		}
	}
	for ; unfinished != 0; unfinished &= unfinished - 1 {
		n := p.group.nodes[bits.TrailingZeros16(uint16(unfinished))]
		if c := n.polled.Load(); c != nil {
			p.turn(n, c, now)
		}
	}
	p.fresh = true // from now on nothing lies there for long
	if int64(now) >= p.group.watcher.at.Load() {
		p.group.tick() // see Group.slack
	}
}

// turn reads from one node, and notes whether something is left for its next turn.
func (p *poller) turn(n *node, c *conn.Conn, now time.Duration) {
	if n.readNow(c, now) {
		p.unfinished |= setOf(n.index)
	}
}

// serveOthers is the goroutine that polls while there are callers who wait, and for what nobody waits for.
func (p *poller) serveOthers() {
	for {
		select {
		case <-p.call:
			p.serve()
		case <-p.group.life.stopped.Done():
			for p.attached.Load() > 0 {
				p.handAllBack()
			}
			return
		}
	}
}

// serve polls once, and then for as long as anybody waits, for a round or for a push.
func (p *poller) serve() {
	for p.take(roleServer) {
		p.since = p.group.now()
		for !p.stopped() {
			p.serveOnce()
			if !p.awaited() && p.unfinished == 0 {
				break
			}
		}
		p.giveUp()
		if !p.awaited() || p.stopped() {
			break // when the group is closed, serveOthers ends all connections, which is what lookouts wait for then
		}
	}
	g := p.group
	g.mu.Lock()
	g.wakeWatchAtLocked(g.now() + tickMost) // it will find that nobody polls, unless a caller does
	g.mu.Unlock()
}

// serveOnce hands out answers once. Where several wait it yields before it reads, so that more replies are there, and after
// it, twice since another processor may have to be woken first: those who got their answers are likely to ask again at
// once, and what they ask is flushed for all of them together (bench/README.md says what each of the three is worth).
func (p *poller) serveOnce() {
	g := p.group
	events, crowd := p.wait(), p.waiting.Load() > 1
	if !crowd {
		p.read(events)
		return
	}
	g.yield()
	g.holdFlush()
	p.read(events)
	g.yield()
	g.yield()
	g.flushHeld()
}

// handAllBack reads what is left and ends all polling, when the group was closed.
func (p *poller) handAllBack() {
	if !p.take(roleServer) {
		<-p.call // whoever has it was kicked, and calls when it leaves
		return
	}
	now := p.group.now()
	for _, n := range p.group.nodes {
		if c := n.polled.Load(); c != nil {
			n.readNow(c, now)
		}
		if c := n.polled.Load(); c != nil {
			n.handBack(c, conn.ErrClosed) // it was shut down, whether or not its end shows
		}
	}
	p.leave()
}

// attend makes sure that somebody polls, and returns when to look again: a caller may leave at any time. Between two calls
// of a busy caller the role is free for a moment, and not to be taken from it: it would have to be woken by another goroutine
// then. The watch calls it.
func (p *poller) attend(now time.Duration) time.Duration {
	switch p.role.Load() {
	case roleServer:
		return now + p.group.config.ProbeAfter
	case roleFree:
		if due := time.Duration(p.left.Load()) + tickMost; now < due {
			return due
		}
		p.callServer()
	}
	return now + tickMost
}

// timely reports that the answer to a round did not lie in the socket for an unknown time: it came only just, or the round
// was queued when somebody was about to read.
func (p *poller) timely(r *round) bool { return p.fresh || r.at >= p.since }

// Polls reports whether callers read replies by themselves. If they do not where the configuration and the system would
// have it, the error says why: the system gave no descriptors.
func (g *Group) Polls() (bool, error) { return g.poller != nil, g.unpolled }

// The way of a connection into the poller and out of it: from adopt to handBack its read side belongs to whoever has the
// poller's role, before and after that to the node's goroutine.

// adopt gives the node's connection to the poller, if it can be polled. The caller holds the group's mutex.
func (p *poller) adoptLocked(n *node) bool {
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
