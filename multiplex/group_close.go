package multiplex

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Close refuses new work, lets attempts under way queue the releases that undo
// them, writes what is queued, and waits up to the vote timeout for the answers
// to releases (R28). Then every waiting call fails with ErrClosed. No goroutine
// or descriptor is left when Close returns. Further calls wait for the first
// and return nil.
//
// Close waits for answers for as long as Patience allows, even if ctx has
// ended. ctx only cuts short what a configured vote timeout allows beyond that;
// Close then returns the context's error. So Close outlasts ctx by at most
// Patience, and by another second for starved callers of this process with a
// claim to undo.
func (g *Group) Close(ctx context.Context) error {
	g.called(ctx)
	g.mu.Lock()
	again := g.life.closing()
	g.life.advance(phaseClosing)
	g.mu.Unlock()
	if again {
		<-g.life.gone
		return nil
	}
	err := g.wind(ctx)
	g.halt()
	close(g.life.gone)
	return err
}

// Refuse makes every command but releases fail with ErrClosed from now on, as
// Close does first. It is for a caller that has many locks to release before it
// closes the group. It does not wait.
func (g *Group) Refuse() {
	g.made()
	g.mu.Lock()
	g.life.advance(phaseRefusing)
	g.mu.Unlock()
}

// Done returns a channel that Close closes.
func (g *Group) Done() <-chan struct{} {
	g.made()
	return g.life.stopped.Done()
}

// unwindMost bounds the wait for callers of this process. They may be many, and
// starved.
const unwindMost = time.Second

// Patience returns how long Close waits for the answers to releases even after
// the end of its context. That is the larger of 50 ms and four times the reply
// time of the slowest node that is up, but at most a second and the configured
// vote timeout. Releases without an answer may be lost. A socket closed with
// answers on their way is aborted, and the kernel discards the bytes not sent
// yet.
func (g *Group) Patience() time.Duration {
	g.made()
	patience := g.answerTime(0)
	if configured := g.config.VoteTimeout; configured > 0 {
		patience = min(patience, configured)
	}
	return patience
}

// answerTime returns the vote timeout of the slowest node that is up, for a
// long TTL.
func (g *Group) answerTime(configured time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var slowest int64
	for _, n := range g.nodes {
		if g.live.Has(n.index) {
			slowest = max(slowest, n.replyTime.Load())
		}
	}
	return pure.VoteTimeout(configured, anyTTL, time.Duration(slowest))
}

// anyTTL stands for the TTLs of the locks that are released at the end. It
// allows the longest usual vote timeout, and at most a second for a slow node.
const anyTTL = 10 * time.Second

// wind ends rounds that may be ended and waits for the others. It first waits
// for each caller that was cut short: its release must be queued and written.
// This depends on this process alone, so ctx never cuts it short. It then waits
// for the answers: up to the vote timeout, or if ctx has ended, up to Patience.
// It returns the context's error if ctx cut the second wait short.
func (g *Group) wind(ctx context.Context) error {
	g.mu.Lock()
	g.endRoundsLocked(func(r *round) bool { return !r.verb.releases })
	g.mu.Unlock()
	g.Flush() // writes what was posted
	begun := g.now()
	waitFor(nil, g.unwound, unwindMost)
	// Both waits together take the vote timeout. At least half of it is
	// left for the nodes, however slow our own callers were.
	limit := g.answerTime(g.config.VoteTimeout)
	limit = max(limit-(g.now()-begun), limit/2)
	least := min(limit, g.Patience())
	if waitFor(nil, g.quiet, least) || least == limit || waitFor(ctx.Done(), g.quiet, limit-least) {
		return nil
	}
	return ctx.Err()
}

// waitFor waits until the condition holds, the time is over, or cut is closed.
// It reports whether the condition holds. It polls: otherwise every command
// would have to check on its way whether Close waits for it.
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

// unwound reports whether no claim is under way any more and nothing queued is
// unwritten.
func (g *Group) unwound() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.life.claims.Load() == 0 && len(g.log.buf)+len(g.gathering.rounds) == 0 && !g.flusher.taken
}

// quiet reports whether no round is in use: every node that is up has answered
// each, and its caller has read it.
func (g *Group) quiet() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.collect()
	g.trimLocked()
	return g.log.live == 0 && !g.flusher.taken
}

// endRoundsLocked concludes the undecided rounds for which ends reports true.
func (g *Group) endRoundsLocked(ends func(*round) bool) {
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
	for _, r := range g.gathering.rounds {
		end(r)
	}
	for _, n := range g.nodes {
		n.lane.rounds(end)
	}
}

// halt ends every connection and waits for every goroutine.
func (g *Group) halt() {
	g.mu.Lock()
	g.life.advance(phaseClosed)
	g.endRoundsLocked(func(*round) bool { return true })
	for _, n := range g.nodes {
		if n.conn != nil {
			// A plain end, not an abort: the kernel may still hold the release
			// of a failed attempt.
			_ = n.conn.Shutdown()
		}
	}
	g.mu.Unlock()
	g.life.stop()
	if g.poller != nil {
		g.poller.events.Kick() // its goroutine may be waiting for events
	}
	g.life.wg.Wait()
	if g.poller != nil {
		_ = g.poller.events.Close()
	}
}
