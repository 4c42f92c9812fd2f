package multiplex

import (
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

const (
	// tickMost is the longest time between two looks while anything is unanswered: a cancelled context is noticed so late
	// at most. A timer for each command would cost 7–20 % of the throughput (docs/design.md, "One timer for all").
	tickMost  = 5 * time.Millisecond
	tickLeast = 500 * time.Microsecond
	// grace is how much longer a vote is waited for when its node's bytes are there and we have not read them (R6).
	grace = 4 * time.Millisecond
	// lateTick is a delay of the watch itself that tells that this process was starved or stopped, and may have replies
	// in its sockets that it has not seen; then they get the grace from now on.
	lateTick = 2 * time.Millisecond
	// shedLeast is the least age of an unanswered command at which a node is given up (R26).
	shedLeast = 100 * time.Millisecond
	// lenience is how many times as long a node has that is late like all others, or still answers.
	lenience = 5
	// lagLeast is the least number of commands by which a node must be behind another to be given up for its lag.
	lagLeast = 16
	// lagCostly is a lag that is not waited with until the log is nearly full, if the node is overdue, too: each command costs
	// half a KiB until the node is given up, and each release of them another half from then on (R26).
	lagCostly = 8192
	// overdueLeast is the least age of an unanswered command that makes a node overdue.
	overdueLeast = shedLeast / 4
)

// A watcher is the one timer of all commands and votes. Its methods require the
// group's mutex.
type watcher struct {
	at      atomic.Int64  // when the watch looks next, on the group's clock; also read without the mutex
	timer   *time.Timer   // wakes the watch; Reset needs the mutex
	excused time.Duration // until then silence is put down to starvation of this process
}

func (w *watcher) start(after time.Duration) {
	w.at.Store(int64(after))
	w.timer = time.NewTimer(max(pure.Soon, after))
}

// set makes the timer go off at the given time, or up to slack later.
func (w *watcher) set(at, now, slack time.Duration) {
	w.at.Store(int64(at))
	w.timer.Reset(max(pure.Soon, at-now) + slack)
}

// voteTimeout is how long a node's vote is waited for (R6): TTL/200 within 5–50 ms, or four times the node's smoothed
// reply time, and at most a tenth of the TTL. A configured timeout stands as it is.
func voteTimeout(configured, ttl, replyTime time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	usual := min(max(ttl/200, 5*time.Millisecond), 50*time.Millisecond)
	return min(max(usual, 4*replyTime), ttl/10)
}

func (n *node) voteTimeout(ttl time.Duration) time.Duration {
	return voteTimeout(n.group.config.VoteTimeout, ttl, time.Duration(n.replyTime.Load()))
}

// watch looks after all deadlines and contexts with one timer, and after nodes that fall silent. It arms itself again as
// its last act.
func (g *Group) watch() {
	defer g.watcher.timer.Stop()
	for {
		select {
		case <-g.watcher.timer.C:
			g.tick()
		case <-g.life.stopped.Done():
			return
		}
	}
}

// wakeWatch makes the watch look in time for a new round. The caller holds the mutex.
func (g *Group) wakeWatchLocked(r *round) {
	g.wakeWatchAtLocked(r.at + min(tickMost, voteTimeout(g.config.VoteTimeout, r.ttl, 0)))
}

// wakeWatchAt makes the watch look at the given time, or before. The caller holds the mutex.
func (g *Group) wakeWatchAtLocked(at time.Duration) {
	if int64(at) < g.watcher.at.Load() && !g.life.closed() {
		g.setTickLocked(at, g.now())
	}
}

// setTick makes the watch look at the given time. The caller holds the mutex.
func (g *Group) setTickLocked(at, now time.Duration) {
	g.watcher.set(at, now, g.slack())
}

// slack is how much later than due the timer goes off. Where callers poll, whoever reads replies looks around when it is time,
// and the timer is for when nobody reads: one that goes off wakes a goroutine, and with it another thread, beside a lone
// caller, whose p99 with one master was a third to a half higher for it.
func (g *Group) slack() time.Duration {
	if g.poller == nil {
		return 0
	}
	return time.Millisecond
}

// tick looks after everything, if it is time.
func (g *Group) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.closed() {
		return
	}
	now, due := g.now(), time.Duration(g.watcher.at.Load())
	if now < due {
		g.setTickLocked(due, now) // it was set anew meanwhile
		return
	}
	late := max(0, now-due-g.slack())
	if late > lateTick {
		g.watcher.excused = now + grace
	}
	g.trimLocked()
	next := g.expireLocked(now)
	for _, n := range g.nodes {
		next = min(next, n.superviseLocked(now, late))
	}
	if g.poller != nil {
		next = min(next, g.poller.attend(now))
	}
	g.setTickLocked(max(next, now+tickLeast), now)
}

// judge decides the rounds whose context has ended, and gives up votes whose time is over. It returns when to look again.
func (g *Group) expireLocked(now time.Duration) time.Duration {
	next := now + g.config.ProbeAfter
	if len(g.gathering.rounds) > 0 {
		next = now + tickMost // the flusher is late; they will be in the log when we look again
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
	// A round that waits for a cure only may have left the log.
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

// judgeRound is judge for one round that is undecided.
func (g *Group) expireRoundLocked(r *round, now time.Duration, unread Set) time.Duration {
	next := now + tickMost
	if r.ctx != nil && r.ctx.Err() != nil {
		r.conclude(cancelled)
		return next
	}
	w := r.word.Load()
	var over Set
	for i, n := range g.nodes {
		if votedOf(w).Has(i) {
			continue
		}
		deadline := r.at + max(n.voteTimeout(r.ttl), r.patience)
		if now >= deadline && unread.Has(i) && now < max(deadline+grace, g.watcher.excused) {
			deadline = now + time.Millisecond // its bytes are here, we have only not read them (R6)
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

// unread are the nodes whose bytes wait in a socket that their reader has not drained.
func (g *Group) unreadLocked() Set {
	var s Set
	for i, n := range g.nodes {
		if n.attached && n.answered.Load() < g.log.head && n.conn.Unread() {
			s |= setOf(i)
			n.silence.excused = g.now()
		}
	}
	return s
}
