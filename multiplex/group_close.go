package multiplex

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Close refuses new work, lets attempts under way queue what undoes them, writes what is queued, and waits for the
// answers to releases up to the vote timeout (R28). Then every waiter fails with ErrClosed, and no goroutine or
// descriptor is left when it returns. Further calls wait for the first and return nil.
//
// ctx may have ended before the call: it cuts short only what a configured vote timeout allows beyond Patience, and
// Close then returns the context's error. So Close outlasts ctx by Patience at most, and by another second where
// callers of this process that have to undo a claim are starved.
func (g *Group) Close(ctx context.Context) error {
	g.mu.Lock()
	again := g.closing
	g.refusing, g.closing = true, true
	g.mu.Unlock()
	if again {
		<-g.gone
		return nil
	}
	err := g.wind(ctx)
	g.halt()
	close(g.gone)
	return err
}

// Refuse is what Close does first: from now on everything but releases is refused with ErrClosed. It is for who has to release
// much before closing, and waits for nothing.
func (g *Group) Refuse() {
	g.mu.Lock()
	g.refusing = true
	g.mu.Unlock()
}

// Detain adds to the number of callers that Close waits for, at most a second,
// before it ends the connections: callers that were granted a claim, or may be,
// and have not decided yet whether to undo it. Each call with 1 must be followed
// by one with -1.
func (g *Group) Detain(callers int64) { g.claims.Add(callers) }

// Done is closed when the group is, for those who wait to ask again.
func (g *Group) Done() <-chan struct{} { return g.stopped.Done() }

// unwindMost bounds the wait for our own callers, who may be many and starved.
const unwindMost = time.Second

// Patience is how long Close waits for the answers to releases although its context has ended: 50 ms, or four times the
// reply time of the slowest node that is up, at most a second; less if the configured vote timeout is less. Releases
// that were written but not answered may be lost: closing a socket on which answers arrive aborts it, and with it what
// the kernel has not sent yet.
func (g *Group) Patience() time.Duration {
	patience := g.answerTime(0)
	if configured := g.config.VoteTimeout; configured > 0 {
		patience = min(patience, configured)
	}
	return patience
}

// answerTime is the vote timeout of the slowest node that is up, for a long TTL.
func (g *Group) answerTime(configured time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var slowest int64
	for _, n := range g.nodes {
		if g.live.Has(n.index) {
			slowest = max(slowest, n.replyTime.Load())
		}
	}
	return voteTimeout(configured, 10*time.Second, time.Duration(slowest))
}

// wind ends what may be ended and waits until all rounds are through: first until each caller that was cut short has
// queued what undoes its claim and that is written, which depends on this process alone and so is never cut short by
// ctx; then until it is answered, at most for the vote timeout, or when ctx has ended, for Patience. It returns the
// context's error if ctx cut the second wait short.
func (g *Group) wind(ctx context.Context) error {
	g.mu.Lock()
	g.endRounds(func(r *round) bool { return !r.kind.Release })
	g.mu.Unlock()
	g.Flush() // what was posted and is not written yet
	begun := g.now()
	waitFor(nil, g.unwound, unwindMost)
	// The whole takes the vote timeout, unless our own callers were so slow that the nodes would get less than half of it.
	limit := g.answerTime(g.config.VoteTimeout)
	limit = max(limit-(g.now()-begun), limit/2)
	least := min(limit, g.Patience())
	if waitFor(nil, g.quiet, least) || least == limit || waitFor(ctx.Done(), g.quiet, limit-least) {
		return nil
	}
	return ctx.Err()
}

// waitFor asks again and again until the condition holds, the time is over, or cut is closed. It reports whether the
// condition holds.
func waitFor(cut <-chan struct{}, holds func() bool, most time.Duration) bool {
	patience := time.NewTimer(max(pure.Soon, most))
	defer patience.Stop()
	look := time.NewTicker(tickLeast)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-patience.C:
			return false
		case <-cut:
			return false
		}
	}
	return true
}

// unwound reports that no claim is under way any more, and that all that was queued is written.
func (g *Group) unwound() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claims.Load() == 0 && len(g.log.buf) == 0 && len(g.gathered) == 0 && !g.flushing
}

// quiet reports that no round is in use: each was answered by every node that is up, and read by its caller.
func (g *Group) quiet() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.collect()
	g.trim()
	return g.log.live == 0 && !g.flushing
}

// endRounds concludes the undecided rounds that ought to end. The caller holds the mutex.
func (g *Group) endRounds(ends func(*round) bool) {
	end := func(r *round) {
		for _, m := range r.members() {
			if ends(m) {
				m.conclude(closed)
			}
		}
	}
	slots := g.log.ring.Load()
	for pos := g.log.tail; pos < g.log.head; pos++ {
		end(slots.at(pos))
	}
	for _, r := range g.gathered {
		end(r)
	}
	for _, n := range g.nodes {
		n.lane.rounds(end)
	}
}

// halt ends every connection and waits for every goroutine.
func (g *Group) halt() {
	g.mu.Lock()
	g.closed = true
	g.endRounds(func(*round) bool { return true })
	for _, n := range g.nodes {
		if n.conn != nil {
			// A plain end, not an abort: what the kernel still holds may be the release of a failed attempt.
			_ = n.conn.Shutdown()
		}
	}
	g.mu.Unlock()
	g.stop()
	if g.poller != nil {
		g.poller.events.Kick() // it may wait for nobody at all
	}
	g.wg.Wait()
	if g.poller != nil {
		_ = g.poller.events.Close()
	}
}
