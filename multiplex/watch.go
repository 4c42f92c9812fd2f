package multiplex

import (
	"runtime"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

const (
	tickMost  = pure.TickMost
	tickLeast = pure.TickLeast
)

func (n *node) voteTimeout(ttl time.Duration) time.Duration {
	return pure.VoteTimeout(n.group.config.VoteTimeout, ttl, time.Duration(n.replyTime.Load()))
}

// watch is the goroutine that enforces all deadlines and contexts with one
// timer. It sheds silent nodes. Each pass ends by setting the timer again.
func (g *Group) watch() {
	defer g.watcher.timer.Stop()
	for {
		select {
		case <-g.watcher.timer.C:
			if int64(g.now()) >= g.watcher.ends.Load() {
				runtime.Gosched() // the context's own timer has gone off as well
			}
			g.tick()
		case <-g.life.stopped.Done():
			return
		}
	}
}

// wakeWatchLocked makes the watch run in time for a new round.
func (g *Group) wakeWatchLocked(r *round) {
	left := pure.VoteTimeout(g.config.VoteTimeout, r.ttl, 0) - r.waited()
	at := r.at + max(tickLeast, min(tickMost, left))
	if ends := g.watcher.heed(r.ctx, g.epoch); ends > r.at { // a release follows
		at = min(at, ends)
	}
	g.wakeWatchAtLocked(at)
}

// wakeWatchAtLocked makes the watch run at the given time or earlier.
func (g *Group) wakeWatchAtLocked(at time.Duration) {
	if int64(at) < g.watcher.at.Load() && !g.life.closed() {
		g.watcher.set(at, g.now())
	}
}

// tick runs one pass of the watch, if it is due.
func (g *Group) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.closed() {
		return
	}
	now, due := g.now(), time.Duration(g.watcher.at.Load())
	if now < due {
		g.watcher.set(due, now) // it was set again meanwhile
		return
	}
	late := max(0, now-due-g.watcher.slack)
	g.watcher.excused = pure.Excused(g.watcher.excused, late, now)
	g.trimLocked()
	g.watcher.ends.Store(int64(pure.Never))
	next := g.expireLocked(now)
	for _, n := range g.nodes {
		next = min(next, n.superviseLocked(now, late))
	}
	next = min(next, g.members.TendDeployment(now))
	if g.poller != nil {
		next = min(next, g.poller.attend(now))
	}
	g.watcher.set(max(next, now+tickLeast), now)
}

// expireLocked decides the rounds with an ended context and fails overdue
// votes. It returns when to run again.
func (g *Group) expireLocked(now time.Duration) time.Duration {
	next := now + g.config.ProbeAfter
	if len(g.gathering.rounds) > 0 {
		// The flusher is late. They will be in the log at the next pass.
		next = now + tickMost
	}
	unread := g.unreadLocked()
	slots := g.log.ring.Load()
	for pos := g.log.oldest; pos < g.log.head; pos++ {
		r := slots.at(pos)
		over := true
		for _, m := range r.members() {
			if m.word.Load()&decided == 0 {
				next = min(next, g.expireRoundLocked(m, now, unread))
				over = false
			}
		}
		if over && pos == g.log.oldest {
			g.log.oldest++
		}
	}
	// A round that waits only for a command sent again may have left the log.
	for _, n := range g.nodes {
		n.lane.rounds(func(r *round) {
			for _, m := range r.members() {
				if m.word.Load()&decided == 0 {
					next = min(next, g.expireRoundLocked(m, now, unread))
				}
			}
		})
	}
	return next
}

// expireRoundLocked is expireLocked for one undecided round.
func (g *Group) expireRoundLocked(r *round, now time.Duration, unread Set) time.Duration {
	if r.ctx != nil && r.ctx.Err() != nil {
		r.conclude(cancelled)
		return now + tickMost
	}
	next := min(now+tickMost, g.watcher.heed(r.ctx, g.epoch))
	if young := r.at + pure.VoteTimeout(g.config.VoteTimeout, r.ttl, 0) - r.waited(); now < young {
		return min(next, young) // whatever the node: with a thousand callers most are
	}
	w := r.word.Load()
	patience := pure.VotePatience(g.config.VoteTimeout, r.ttl, r.patience(),
		r.tallyOf(w).Hinges(g.quorum, r.verb.mode), pure.Starved(g.watcher.excused, r.at))
	var over Set
	for i, n := range g.nodes {
		if votedOf(w).Has(i) {
			continue
		}
		deadline := pure.VoteDeadline(r.at-r.waited(), n.voteTimeout(r.ttl), patience)
		if unread.Has(i) {
			deadline = pure.UnreadDeadline(deadline, g.watcher.excused, now)
		}
		if now >= deadline {
			over |= setOf(i)
			continue
		}
		next = min(next, deadline)
	}
	g.countMissedLocked(r.giveUp(over), overdue)
	return next
}

// unreadLocked returns the nodes with bytes in a socket that their reader has
// not drained.
func (g *Group) unreadLocked() Set {
	var s Set
	for i, n := range g.nodes {
		if n.inLog.attached && n.answered.Load() < g.log.head && n.conn.Unread() {
			s |= setOf(i)
			n.silence.Excuse(g.now())
		}
	}
	return s
}
