package multiplex

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
)

// A poller reads for all nodes whose sockets can be polled, where the system
// allows it (conn.Poller). The goroutine that has the poller's role waits for
// all of them and counts the replies. A caller that finds the role free takes
// it and reads its own answer. That saves a lone caller the switch from one
// goroutine to another, most of its CPU (docs/internals/design.md, "The caller
// polls"). If others still wait, the poller's own goroutine then takes the role
// for as long as any caller waits.
//
// Some goroutine polls while anything is unanswered. A caller may leave replies
// unread, with its own answer read. The next pass of the watch finds them and
// wakes the poller's goroutine. With nothing unanswered, that goroutine keeps
// waiting for the end of a connection.
type poller struct {
	group  *Group
	events *conn.Poller

	role atomic.Uint32 // one of the roles below
	// waiting counts the callers that sleep, or are about to, for another
	// goroutine to decide their round, or to read the answers to their queries.
	waiting atomic.Int64
	// attached counts the polled connections. It grows under the group's mutex;
	// the goroutine with the role decrements it.
	attached atomic.Int64
	call     chan struct{} // wakes serveOthers
	// left is when the role was last given up, on the group's clock.
	left atomic.Int64

	// The following are owned by the goroutine that has the role.

	// unfinished is the set of nodes that have more to read than was read in
	// their last turn. No event reports that.
	unfinished Set
	fresh      bool          // what is read now has only just arrived
	since      time.Duration // when the role's holder began to read; see timely
}

// States of the poller's role.
const (
	roleFree   uint32 = iota
	roleCaller        // until its round is decided
	roleServer        // serveOthers, for as long as callers wait
)

func newPoller(g *Group) *poller {
	for _, n := range g.config.Nodes {
		if n.NetDial == nil {
			events, err := conn.NewPoller(len(g.config.Nodes))
			if err != nil {
				g.unpolled = err
				return nil // every connection then has a reader of its own
			}
			return &poller{group: g, events: events, call: make(chan struct{}, 1)}
		}
	}
	return nil
}

// await waits until the round is decided and returns its word. It does not
// watch the context: the group's watch does, for all rounds at once, since a
// select in every caller costs up to a tenth of the throughput
// (docs/internals/design.md, "One timer for all").
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
		// The caller counts itself before it looks at the role again, and a
		// goroutine that leaves gives the role up before it looks at the count:
		// so one of the two sees the other (docs/internals/design.md, "Handing over
		// the poller's role").
		p.waiting.Add(1)
		if p.role.Load() != roleFree && r.park(w) {
			// The goroutine that decided the round has uncounted this caller.
			return r.word.Load()
		}
		p.waiting.Add(-1)
	}
}

// take takes the role, if it is free.
func (p *poller) take(who uint32) bool {
	if p.role.Load() != roleFree || !p.role.CompareAndSwap(roleFree, who) {
		return false
	}
	p.fresh = false
	return true
}

// leave gives the role up, and wakes serveOthers if callers wait or something
// is unread. It reads unfinished first, which belongs to the role.
func (p *poller) leave() {
	unfinished := p.unfinished != 0
	p.giveUp()
	if unfinished || p.awaited() || p.stopped() {
		p.callServer()
	}
}

// awaited reports whether anything waits for replies: callers for their rounds,
// or lookouts for pushes.
func (p *poller) awaited() bool {
	return p.waiting.Load() > 0 || p.group.tracker.listening.Load() > 0
}

// readFor has another goroutine read until the returned function is called: a
// query would otherwise wait for the watch to look. The order of its two steps
// is that of await.
func (p *poller) readFor() (end func()) {
	p.waiting.Add(1)
	if p.role.Load() == roleFree {
		p.callServer()
	}
	return func() { p.waiting.Add(-1) }
}

func (p *poller) giveUp() {
	p.left.Store(int64(p.group.now()))
	p.role.Store(roleFree)
}

func (p *poller) stopped() bool { return p.group.life.stopped.Err() != nil }

func (p *poller) callServer() {
	select {
	case p.call <- struct{}{}:
	default: // it was woken already
	}
}

// pollFor polls until the caller's round is decided: by a reply, or by another
// goroutine with a kick.
func (p *poller) pollFor(r *round) {
	p.since = r.at
	for {
		if r.word.Or(polling)&decided != 0 {
			return
		}
		events := p.wait()
		r.word.And(^polling)
		// Events are read even if the round is decided: they are not reported
		// again.
		p.read(events)
		if r.word.Load()&decided != 0 {
			return
		}
	}
}

// wait waits for events. It returns none after a kick, and does not wait if
// something is unfinished.
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

// read reads and counts what has arrived: one turn for each node that has sent
// something, and then one for those with something unfinished.
func (p *poller) read(events []conn.Event) {
	unfinished := p.unfinished
	if len(events) == 0 && unfinished == 0 {
		return
	}
	p.unfinished = 0
	now := p.group.now()
	for _, e := range events {
		n := p.group.nodes[e.ID]
		c := n.polled.conn.Load()
		if c == nil {
			continue // handBack has run, and the event is of before
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
		if c := n.polled.conn.Load(); c != nil {
			p.turn(n, c, now)
		}
	}
	p.fresh = true // from now on nothing stays unread for long
	if int64(now) >= p.group.watcher.at.Load() {
		p.group.tick() // see watcher.slack
	}
}

// turn reads from one node and records whether something is left for its next
// turn.
func (p *poller) turn(n *node, c *conn.Conn, now time.Duration) {
	if n.reader.readNow(c, now) {
		p.unfinished |= setOf(n.index)
	}
}

// serveOthers is the poller's own goroutine. It polls while callers wait, and
// reads what no caller waits for.
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

// serve polls once, and then for as long as a round or a push is waited for.
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
			// After Close, serveOthers ends all connections. That
			// wakes the lookouts.
			break
		}
	}
	g := p.group
	g.mu.Lock()
	// The watch finds the role free, unless a caller polls.
	g.wakeWatchAtLocked(g.now() + tickMost)
	g.mu.Unlock()
}

// serveOnce delivers answers once. With several callers waiting, it yields
// before it reads, so that more replies arrive, and gathers afterwards.
// Answered callers are likely to ask again at once, and their commands are
// flushed together (bench/README.md has the gain of each).
func (p *poller) serveOnce() {
	g := p.group
	events, crowd := p.wait(), p.waiting.Load() > 1
	if !crowd {
		p.read(events)
		return
	}
	g.flusher.yield()
	g.holdFlush()
	p.read(events)
	g.flusher.yield() // another processor may need time to wake up
	g.flusher.gather()
	g.flushHeld()
}

// handAllBack reads what is left and ends all polling, after the group was
// closed.
func (p *poller) handAllBack() {
	if !p.take(roleServer) {
		// The holder of the role was kicked, and sends to call on
		// leaving.
		<-p.call
		return
	}
	now := p.group.now()
	for _, n := range p.group.nodes {
		if c := n.polled.conn.Load(); c != nil {
			n.reader.readNow(c, now)
		}
		if c := n.polled.conn.Load(); c != nil {
			// It was shut down, even if no read has found its end.
			n.handBack(c, conn.ErrClosed)
		}
	}
	p.leave()
}

// attend makes sure that some goroutine polls: a caller may leave at any time.
// It returns when to check again. A busy caller frees the role for a moment
// between its calls; taking it then would cost a wake-up. The watch calls
// attend.
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

// timely reports whether the answer to a round was in the socket for a moment
// only. It arrived just now, or the round was queued just before a read.
func (p *poller) timely(r *round) bool { return p.fresh || r.at >= p.since }

// Polls reports whether callers read replies themselves. If they do not,
// against the configuration and the system, the error says why: the system has
// no descriptors left.
func (g *Group) Polls() (bool, error) {
	g.made()
	return g.poller != nil, g.unpolled
}

// A connection enters the poller in adoptLocked and leaves it in handBack. In
// between, its read side belongs to the goroutine with the poller's role,
// before and after that to the node's goroutine.

// adoptLocked gives the node's connection to the poller, if it can be polled.
func (p *poller) adoptLocked(n *node) bool {
	if n.dialer.config.NetDial != nil {
		return false // such as a connection of the user's NetDial
	}
	n.polled.conn.Store(n.conn) // events may come before Add returns
	if !p.events.Add(n.conn, n.index) {
		n.polled.conn.Store(nil)
		return false
	}
	p.attached.Add(1)
	return true
}

// readsPerTurn bounds what is read from one node before the others get their
// turn (R32). A read takes as much as the decoder has room for: 8 KiB, and more
// only for the rest of a large value. In ordinary operation a socket does not
// hold so many replies.
const readsPerTurn = 4

// readNow reads what a node has sent, up to a bound. With more, something may
// be left, and no further event reports it. The caller must have the poller's
// role, and with it the node's read side.
func (n *reader) readNow(c *conn.Conn, now time.Duration) (more bool) {
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

// handBack ends the polling of a connection that ended, and gives it back to
// the node's goroutine to be buried.
func (n *node) handBack(c *conn.Conn, cause error) {
	p := n.group.poller
	c.Break(cause)
	p.events.Remove(c)
	n.polled.conn.Store(nil)
	p.attached.Add(-1)
	n.polled.ended <- cause
}
