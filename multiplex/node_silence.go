package multiplex

import (
	"time"

	"github.com/redmux/redmux/resp"
)

var ping = resp.AppendCommand(nil, "PING")

// superviseLocked is the watch's pass over one node: it sheds or probes the
// connection, tends its quarantine and seal, and pays its debts. late is by how
// much the watch itself was late. It returns when to run again.
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
		// Waiting a little sends several together.
		next = min(next, max(due, now+tickMost))
	}
	if !n.lane.idle() {
		next = min(next, now+tickMost)
	}
	return next
}

// silenceLimitLocked returns when this node is shed if nothing comes from it;
// ok is false while nothing is unanswered.
//
// The age of the oldest unanswered command counts only while its socket is
// drained, so that a starved client sheds no node (R26): not while there are
// bytes to read, nor (up to as long again) while this watch itself did not get
// to run. A node that still answers, only late, or that is no further behind
// than every other, is more likely starved than dead. Shedding it would cost a
// vote and gain nothing, so it has five times as long. MaxPending bounds the
// memory meanwhile.
func (n *node) silenceLimitLocked(late time.Duration) (limit time.Duration, ok bool) {
	since, timeout, ok := n.oldestLocked()
	if !ok {
		return 0, false
	}
	since = max(since, n.silence.excused)
	away := n.silence.awayFor(since, late)
	if n.group.config.ShedAfter > 0 {
		// A configured limit is used as it is.
		return since + timeout + min(timeout, away), true
	}
	most := since + lenience*timeout + away
	if n.group.fastestLocked() <= n.answered.Load() && n.answered.Load() < n.sent.Load() {
		return most, true
	}
	silent := max(since, time.Duration(n.heard.Load())) + timeout + min(timeout, away)
	return min(silent, most), true
}

// holdsUpLocked reports whether this node's lag is about to fill the log, or is
// costly and overdue, with its socket drained. Such a node is shed before
// commands are refused (R26). If all nodes are equally far behind, shedding one
// would gain nothing.
func (n *node) holdsUpLocked(now time.Duration) bool {
	g := n.group
	lag := int(g.fastestLocked() - n.answered.Load())
	if lag < lagCostly/2 {
		n.silence.usual = time.Duration(n.replyTime.Load())
	}
	full := g.log.waiting() >= g.config.MaxPending/4*3 && lag >= max(g.config.MaxPending/2, lagLeast)
	return (full || lag >= lagCostly && n.overdueLocked(now)) && n.silence.excused < now
}

// overdueLocked reports whether the oldest command has waited much longer than
// this node's answers took before it fell behind. A node that is only far away
// is not overdue, however many commands are on the way to it. One whose answers
// drip is, although each answer makes its reply time longer.
func (n *node) overdueLocked(now time.Duration) bool {
	since, _, ok := n.oldestLocked()
	return ok && now-since >= max(overdueLeast, 2*n.silence.usual)
}

// oldestLocked returns since when the oldest unanswered command waits, and for
// how long it may.
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
