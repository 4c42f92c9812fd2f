package multiplex

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
)

// A flusher is the role of writing batches to the sockets, which at most one
// goroutine has. It belongs to the caller that queues a command while the role is
// free, and passes to flushForOthers when that caller has written enough.
type flusher struct {
	// The following are guarded by the group's mutex.
	taken bool // a goroutine has the role
	held  bool // the role is not given out until flushHeld; see holdFlush
	lanes bool // some node's lane waits to be written

	// The following are owned by the goroutine that has the role.
	busy     bool // several rounds are unanswered: a yield will gather more
	outgoing []outgoing

	handover   chan struct{} // passes the role to flushForOthers
	yieldAfter atomic.Int64  // no goroutine yields before, on the group's clock
}

func newFlusher(nodes int) flusher {
	return flusher{outgoing: make([]outgoing, nodes), handover: make(chan struct{}, 1)}
}

// take takes the role and reports whether it was free.
func (f *flusher) take() bool {
	if f.taken || f.held {
		return false
	}
	f.taken = true
	return true
}

// outgoing is what one flush writes to one node.
type outgoing struct {
	conn *conn.Conn
	lane []byte // before the batch
	skip int    // bytes of the batch that were queued before the node joined
	// commands is how many of the lane and of the batch go to the node.
	commands int
	node     int
	idle     bool // nothing that it was asked is unanswered
}

const (
	// flushesPerCaller is how many batches a caller writes before it hands the role to the group's own flusher: its
	// answer may be there already, and under load there is always another batch.
	flushesPerCaller = 4
	// crowdedAt is the number of unanswered rounds from which yielding once gathers more of them than it delays: the
	// largest single gain that was measured (docs/design.md, "Batching"). A lone caller never yields.
	crowdedAt = 2
)

// takeFlush gives the flusher's role to the caller, unless somebody has it. That one will see what was queued, since it
// gives the role up only under the mutex and with nothing left. The caller holds the mutex.
func (g *Group) takeFlushLocked() bool {
	if !g.flusher.take() {
		return false
	}
	g.flusher.busy = g.crowdedLocked()
	return true
}

// holdFlush keeps everybody from flushing, because the caller is about to hand out answers, and will flush once for all who
// ask again: a third of the writes.
func (g *Group) holdFlush() {
	g.mu.Lock()
	g.flusher.held = true
	g.mu.Unlock()
}

// flushHeld flushes what was queued since holdFlush.
func (g *Group) flushHeld() {
	g.mu.Lock()
	g.flusher.held = false
	lead := g.unwrittenLocked() && g.takeFlushLocked()
	if lead {
		g.flusher.busy = false // we have yielded
	}
	g.mu.Unlock()
	if lead {
		g.flush()
	}
}

// unwritten reports that something waits to be written. The caller holds the mutex.
func (g *Group) unwrittenLocked() bool {
	return len(g.log.buf) > 0 || len(g.gathering.rounds) > 0 || g.flusher.lanes
}

// flush writes batches until nothing is left, or passes the role on. The caller has the flusher's role. It never waits:
// what a socket does not take goes to that connection's own writer.
func (g *Group) flush() {
	for range flushesPerCaller {
		if g.flusher.busy {
			g.yield()
		}
		if !g.flushBatch() {
			return
		}
	}
	g.flusher.handover <- struct{}{} // one has the role, so there is room
}

// flushForOthers is a goroutine that takes the role over from callers that have written enough.
func (g *Group) flushForOthers() {
	for {
		select {
		case <-g.flusher.handover:
			g.flush()
		case <-g.life.stopped.Done():
			return
		}
	}
}

// crowded reports whether even the fastest node has several rounds to answer, so that others are likely to append soon.
// The caller holds the mutex.
func (g *Group) crowdedLocked() bool {
	return g.log.head+uint64(len(g.gathering.rounds)) > g.fastestLocked()+crowdedAt
}

// fastest is the position up to which some node that is connected has answered.
func (g *Group) fastestLocked() uint64 {
	var fastest uint64
	for _, n := range g.nodes {
		if n.attached {
			fastest = max(fastest, n.answered.Load())
		}
	}
	return fastest
}

// flushBatch writes one batch to every node that is up, and each node's lane before it. It reports false, and gives the
// role up, when there is nothing more to write.
func (g *Group) flushBatch() bool {
	g.mu.Lock()
	g.trimLocked()
	g.packLocked()
	if !g.unwrittenLocked() {
		g.flusher.taken = false
		g.mu.Unlock()
		return false
	}
	// A batch of releases needs no look at the sockets: a reply that was not asked for grants no lock there, and if it is taken for
	// the answer to a release, that release's own answer ends the connection.
	look := g.log.claims || g.flusher.lanes
	batch := g.log.swap()
	g.flusher.lanes = false
	out := g.flusher.outgoing[:0]
	for _, n := range g.nodes {
		if n.life.State == Up {
			// The cursor moves before the bytes go out, so that no reply can be early (R16).
			if len(n.lane.awaited) == 0 && len(n.lane.queued) > 0 {
				n.silence.asked = g.now()
			}
			sent := n.sent.Load()
			o := outgoing{
				conn: n.conn, skip: n.skip, node: n.index, commands: int(g.log.head-sent) + len(n.lane.queued),
				idle: look && g.live.Has(n.index) && n.answered.Load() == sent && len(n.lane.awaited) == 0,
			}
			o.lane = n.lane.handOut(sent)
			out = append(out, o)
			n.laneNext.Store(n.lane.front())
			n.sent.Store(g.log.head)
		}
		n.skip = 0
	}
	g.mu.Unlock()

	g.expect(out)
	for i, o := range out {
		if len(o.lane) > 0 {
			_ = o.conn.Send(o.lane)
		}
		// An error broke that connection; its reader sees it and buries the node.
		_ = o.conn.Send(batch[o.skip:])
		out[i] = outgoing{}
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.recycle(batch)
	g.flusher.busy = g.crowdedLocked()
	g.flusher.taken = g.unwrittenLocked()
	return g.flusher.taken
}

// expect announces to each connection what is about to be sent. What lies in the socket of a node with nothing unanswered was
// not asked for, unless it is a push, and must not become the answer to what is asked now (R16). One system call finds out
// about all connections that are polled, the larger part of what this costs a lone caller.
func (g *Group) expect(out []outgoing) {
	var idle, polled uint64
	for _, o := range out {
		if o.idle {
			idle |= 1 << uint(o.node)
			if g.nodes[o.node].polled.Load() == o.conn {
				polled |= 1 << uint(o.node)
			}
		}
	}
	look := idle
	if polled != 0 {
		look = idle&^polled | g.poller.events.Readable(polled)
	}
	for _, o := range out {
		o.conn.Expect(o.commands, look>>uint(o.node)&1 != 0)
	}
}

// trim frees the rounds that every attached node has passed. The caller holds the mutex.
func (g *Group) trimLocked() {
	to := g.log.head
	for _, n := range g.nodes {
		if n.attached {
			to = min(to, n.answered.Load())
		}
	}
	g.log.trim(to)
}

// prompt makes sure that what was queued in a lane is written soon, by somebody else: the caller reads a socket or holds
// the timer. The caller holds the mutex.
func (g *Group) promptLocked() {
	g.flusher.lanes = true
	g.wakeWatchAtLocked(g.now() + tickMost) // to look after the answers
	if g.takeFlushLocked() {
		g.flusher.handover <- struct{}{}
	}
}

const (
	// slowYield is longer than all of our own callers need to run: other goroutines compute, and a yield lets each of them
	// use up its time slice of 10 ms.
	slowYield = 5 * time.Millisecond
	// sulk is for how long nobody yields then.
	sulk = 100 * time.Millisecond
)

// yield lets others run, unless that took too long a moment ago.
func (g *Group) yield() {
	begun := g.now()
	if begun < time.Duration(g.flusher.yieldAfter.Load()) {
		return
	}
	runtime.Gosched()
	if now := g.now(); now-begun > slowYield {
		g.flusher.yieldAfter.Store(int64(now + sulk))
	}
}
