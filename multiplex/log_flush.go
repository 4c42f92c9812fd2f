package multiplex

import (
	"runtime"
	"time"
)

const (
	// flushesPerCaller is how many batches a caller writes before it hands the
	// role to flushForOthers: its answer may have come already, and under load
	// there is always another batch.
	flushesPerCaller = 4
	// crowdedAt is the number of callers from which one yield gathers more
	// rounds than it delays. This was the largest single gain that was measured
	// (docs/internals/design.md, "Batching"). A lone caller never yields.
	crowdedAt = 2
	// gatherMost and gatherYields bound the wait for callers that were
	// answered: by the clock, and by yields where a simulated clock stands
	// still.
	gatherMost   = 20 * time.Microsecond
	gatherYields = 100
)

// takeFlushLocked gives the flusher's role to the caller and returns true, if
// the role is free. The holder of a taken role will see what was queued: it
// gives the role up only under the mutex, with nothing left.
func (g *Group) takeFlushLocked() bool {
	if !g.flusher.take() {
		return false
	}
	g.flusher.busy = g.flusher.crowded()
	return true
}

// holdFlush defers flushing during a delivery of replies. The follow-ups go out
// in one flush: a third of the writes.
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
		g.flusher.busy = false // the caller has yielded already
	}
	g.mu.Unlock()
	if lead {
		g.flush()
	}
}

// unwrittenLocked reports whether something waits to be written.
func (g *Group) unwrittenLocked() bool {
	return len(g.log.buf)+len(g.gathering.rounds) > 0 || g.flusher.lanes
}

// flush writes batches until nothing is left, or hands the role to
// flushForOthers. The caller must have the flusher's role. flush never waits:
// what a socket does not take goes to that connection's own writer.
func (g *Group) flush() {
	for range flushesPerCaller {
		if g.flusher.busy {
			g.flusher.gather()
		}
		if !g.flushBatch() {
			return
		}
	}
	// The channel has room: only the goroutine with the role sends.
	g.flusher.handover <- struct{}{}
}

// flushForOthers is the goroutine that gets the role from callers after a few
// batches.
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

// gather yields, and then waits a moment for callers that were answered and
// run, or are about to run, on another processor. Callers that are answered
// together are likely to ask again at once; then their commands make one batch.
func (f *flusher) gather() {
	f.yield()
	begun := time.Now()
	for range gatherYields {
		if !f.returning() || time.Since(begun) >= gatherMost {
			return
		}
		runtime.Gosched()
	}
}

// flushBatch writes one batch to every node that is up, and each node's lane
// before it. If nothing is left to write, it gives the role up and returns
// false.
func (g *Group) flushBatch() bool {
	g.mu.Lock()
	g.trimLocked()
	g.packLocked()
	if !g.unwrittenLocked() {
		g.flusher.taken = false
		g.mu.Unlock()
		return false
	}
	// A batch of releases needs no check of the sockets. An unrequested
	// reply grants no lock there. Taken for the answer to a release, it
	// leaves that release's own answer to end the connection.
	look, claims := g.log.claims || g.flusher.lanes, g.log.claims
	batch := g.log.swap()
	g.flusher.lanes = false
	out := g.flusher.outgoing[:0]
	for _, n := range g.nodes {
		if n.life.State == Up {
			// The cursor moves before the bytes are sent. So no
			// reply can come before that (R16).
			if len(n.lane.awaited) == 0 && len(n.lane.queued) > 0 {
				n.silence.asked = g.now()
			}
			sent := n.sent.Load()
			o := outgoing{
				conn: n.conn, skip: n.inLog.skip, node: n.index, commands: int(g.log.head-sent) + len(n.lane.queued),
				idle: look && g.live.Has(n.index) && n.answered.Load() == sent && len(n.lane.awaited) == 0,
			}
			confirms := n.failsOver && (claims || n.lane.repeats())
			o.lane = n.lane.handOut(sent)
			if confirms {
				behind, count := n.askBehindLocked()
				o.behind, o.commands = behind, o.commands+count
			}
			out = append(out, o)
			n.laneNext.Store(n.lane.front())
			n.sent.Store(g.log.head)
		}
		n.inLog.skip = 0
	}
	g.mu.Unlock()

	g.expect(out)
	var behind Set
	for i, o := range out {
		if len(o.lane) > 0 {
			_ = o.conn.Send(o.lane)
		}
		// An error broke that connection; its reader sees it and buries the
		// node.
		_ = o.conn.Send(batch[o.skip:])
		if len(o.behind) > 0 {
			_ = o.conn.Send(o.behind)
		}
		if o.conn.Behind() {
			behind = behind.Add(o.node)
		}
		out[i] = outgoing{}
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.recycle(batch)
	g.flusher.behind = behind
	g.flusher.busy = g.flusher.crowded()
	g.flusher.taken = g.unwrittenLocked()
	return g.flusher.taken
}

// expect announces to each connection what is about to be sent. Anything but a
// push in the socket of a node that has answered everything was not asked for.
// It must not be taken for an answer to the next command (R16). One system call
// checks all polled connections; for a lone caller, it is most of what expect
// costs.
func (g *Group) expect(out []outgoing) {
	var idle, polled uint64
	for _, o := range out {
		if o.idle {
			idle |= 1 << uint(o.node)
			if g.nodes[o.node].polled.conn.Load() == o.conn {
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

const (
	// slowYield is longer than all callers of this process need to run. If a
	// yield takes so long, other goroutines compute, and each may use up its
	// time slice of 10 ms.
	slowYield = 5 * time.Millisecond
	// yieldPause is how long no goroutine yields after a slow yield.
	yieldPause = 100 * time.Millisecond
)

// yield lets other goroutines run, unless a yield took too long a moment ago.
func (f *flusher) yield() {
	begun := time.Since(f.made)
	if begun < time.Duration(f.yieldAfter.Load()) {
		return
	}
	runtime.Gosched()
	if now := time.Since(f.made); now-begun > slowYield {
		f.yieldAfter.Store(int64(now + yieldPause))
	}
}
