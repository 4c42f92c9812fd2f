package multiplex

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A lifecycle is how far a group is on its way to the end, and what its end
// waits for.
type lifecycle struct {
	phase phase // guarded by the group's mutex; it only advances

	// claims counts the calls of Ask, and those that Detain adds, that may have to
	// undo something; Close waits for them (R28).
	claims atomic.Int64

	stop    context.CancelFunc
	stopped context.Context // ended by stop: connections end, goroutines return
	wg      sync.WaitGroup  // the group's goroutines
	gone    chan struct{}   // closed when Close is through
}

// A phase is a stage of a group's life. Each includes the ones before it.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseRefusing       // nothing but releases is let in
	phaseClosing        // Close was called
	phaseClosed         // nothing is sent any more
)

func newLifecycle() lifecycle {
	stopped, stop := context.WithCancel(context.Background())
	return lifecycle{stopped: stopped, stop: stop, gone: make(chan struct{})}
}

func (l *lifecycle) advance(to phase) { l.phase = max(l.phase, to) }
func (l *lifecycle) refusing() bool   { return l.phase >= phaseRefusing }
func (l *lifecycle) closing() bool    { return l.phase >= phaseClosing }
func (l *lifecycle) closed() bool     { return l.phase == phaseClosed }

// Close refuses new work, lets attempts under way queue what undoes them, writes what is queued, and waits for the
// answers to releases up to the vote timeout (R28). Then every waiter fails with ErrClosed, and no goroutine or
// descriptor is left when it returns. Further calls wait for the first and return nil.
//
// ctx may have ended before the call: it cuts short only what a configured vote timeout allows beyond Patience, and
// Close then returns the context's error. So Close outlasts ctx by Patience at most, and by another second where
// callers of this process that have to undo a claim are starved.
func (g *Group) Close(ctx context.Context) error {
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

// Refuse is what Close does first: from now on everything but releases is refused with ErrClosed. It is for who has to release
// much before closing, and waits for nothing.
func (g *Group) Refuse() {
	g.mu.Lock()
	g.life.advance(phaseRefusing)
	g.mu.Unlock()
}

// Detain adds to the number of callers that Close waits for, at most a second,
// before it ends the connections: callers that were granted a claim, or may be,
// and have not decided yet whether to undo it. Each call with 1 must be followed
// by one with -1.
func (g *Group) Detain(callers int64) { g.life.claims.Add(callers) }

// Done is closed when the group is, for those who wait to ask again.
func (g *Group) Done() <-chan struct{} { return g.life.stopped.Done() }

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
	g.endRoundsLocked(func(r *round) bool { return !r.kind.Release })
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
	return g.life.claims.Load() == 0 && len(g.log.buf) == 0 && len(g.gathering.rounds) == 0 && !g.flusher.taken
}

// quiet reports that no round is in use: each was answered by every node that is up, and read by its caller.
func (g *Group) quiet() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.collect()
	g.trimLocked()
	return g.log.live == 0 && !g.flusher.taken
}

// endRounds concludes the undecided rounds that ought to end. The caller holds the mutex.
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
			// A plain end, not an abort: what the kernel still holds may be the release of a failed attempt.
			_ = n.conn.Shutdown()
		}
	}
	g.mu.Unlock()
	g.life.stop()
	if g.poller != nil {
		g.poller.events.Kick() // it may wait for nobody at all
	}
	g.life.wg.Wait()
	if g.poller != nil {
		_ = g.poller.events.Close()
	}
}
