package multiplex

import (
	"time"

	"github.com/redmux/redmux/resp"
)

var ping = resp.AppendCommand(nil, "PING")

// A silence is what decides how long a node may leave a command unanswered
// before its connection is shed. The group's mutex guards it.
type silence struct {
	excused time.Duration // until then its silence is our own: there were bytes that were not read yet
	usual   time.Duration // its reply time when it was last not far behind the others
	asked   time.Duration // since when the oldest awaited entry of the lane waits
	// away is how late the watch was, all in all, since awaySince, when the oldest
	// unanswered command began to wait.
	away, awaySince time.Duration
}

// awayFor adds up how late the watch was since the oldest unanswered command
// began to wait, and returns the sum.
func (s *silence) awayFor(since, late time.Duration) time.Duration {
	if s.awaySince != since {
		s.awaySince, s.away = since, 0
	}
	s.away += late
	return s.away
}

// watch looks after one node's connection: silence, debts, idleness. late is by how much the watch itself was late. It
// returns when to look again.
func (n *node) superviseLocked(now, late time.Duration) time.Duration {
	g := n.group
	if n.life.State != Up {
		return now + g.config.ProbeAfter
	}
	next := now + g.config.ProbeAfter
	if limit, ok := n.silenceLimitLocked(late); ok {
		if now >= limit || n.holdsUpLocked(now) {
			n.shedLocked(ErrSilent)
			return next
		}
		next = min(next, limit, now+tickMost)
	} else if idle := time.Duration(n.heard.Load()) + n.probeAfterLocked(); now >= idle {
		n.heard.Store(int64(now))
		if n.lane.add(laneEntry{purpose: probe}, ping) {
			n.counters.probes++
			g.promptLocked()
		}
	} else {
		next = min(next, idle)
	}
	next = min(next, n.guardLocked(now))
	n.payBesideLocked(now)
	if due, ok := n.ledger.Next(); ok {
		next = min(next, max(due, now+tickMost)) // so that some are sent together
	}
	if !n.lane.idle() {
		next = min(next, now+tickMost)
	}
	return next
}

// limitOfSilence is when this node is given up if nothing comes from it; ok is false while nothing is unanswered.
//
// The age of the oldest unanswered command counts only while we have drained the socket, so that a starved client sheds
// nobody (R26): not while there are bytes to read, nor (up to as long again) the time in which even this watch did not get
// to run. A node that still answers, only late, or that is no further behind than every other, is more likely starved
// than dead: to give it up would cost a vote and gain nothing, so it has five times as long. Memory is bounded meanwhile
// by MaxPending.
func (n *node) silenceLimitLocked(late time.Duration) (limit time.Duration, ok bool) {
	since, timeout, ok := n.oldestLocked()
	if !ok {
		return 0, false
	}
	since = max(since, n.silence.excused)
	away := n.silence.awayFor(since, late)
	if n.group.config.ShedAfter > 0 {
		return since + timeout + min(timeout, away), true // it stands as it is
	}
	most := since + lenience*timeout + away
	if n.group.fastestLocked() <= n.answered.Load() && n.answered.Load() < n.sent.Load() {
		return most, true
	}
	silent := max(since, time.Duration(n.heard.Load())) + timeout + min(timeout, away)
	return min(silent, most), true
}

// holdsUp reports that this node lags so far behind another that commands would soon be refused for want of room, or that it
// costs much memory and is overdue, though it has sent nothing that we have not read: then it is given up before others suffer
// (R26). Where all are equally far behind, nobody would gain by it.
func (n *node) holdsUpLocked(now time.Duration) bool {
	g := n.group
	lag := int(g.fastestLocked() - n.answered.Load())
	if lag < lagCostly/2 {
		n.silence.usual = time.Duration(n.replyTime.Load())
	}
	full := g.log.waiting() >= g.config.MaxPending/4*3 && lag >= max(g.config.MaxPending/2, lagLeast)
	return (full || lag >= lagCostly && n.overdueLocked(now)) && n.silence.excused < now
}

// overdue reports that the oldest command has waited for much longer than this node's answers took before it fell behind. One
// that is only far away is not overdue, however many commands are on the way to it; one whose answers drip is, though each
// makes its reply time longer.
func (n *node) overdueLocked(now time.Duration) bool {
	since, _, ok := n.oldestLocked()
	return ok && now-since >= max(overdueLeast, 2*n.silence.usual)
}

// oldest is since when the oldest unanswered command waits, and for how long it may. The caller holds the mutex.
func (n *node) oldestLocked() (since, limit time.Duration, ok bool) {
	g := n.group
	if pos := n.answered.Load(); pos < n.sent.Load() {
		r := g.log.ring.Load().at(pos)
		return r.at, n.shedAfter(r.ttl), true
	}
	if len(n.lane.awaited) > 0 {
		return n.silence.asked, max(time.Second, n.group.config.ShedAfter), true
	}
	return 0, 0, false
}

func (n *node) shedAfter(ttl time.Duration) time.Duration {
	if after := n.group.config.ShedAfter; after > 0 {
		return after
	}
	return max(shedLeast, 4*n.voteTimeout(ttl))
}
