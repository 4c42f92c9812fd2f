package multiplex

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

var ping = resp.AppendCommand(nil, "PING")

// superviseLocked is the watch's pass over one node: it sheds or probes the
// connection, updates its quarantine and seal, and pays its debts. late is how
// late the watch itself runs. It returns when to run again.
func (n *node) superviseLocked(now, late time.Duration) time.Duration {
	g := n.group
	if n.life.State != Up {
		return now + g.config.ProbeAfter
	}
	next := now + g.config.ProbeAfter
	if u, ok := n.unansweredLocked(); ok {
		limit := n.silence.Ends(u, late, now)
		if now >= limit {
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
	next = min(next, g.members.Tend(n.index, now))
	n.payBesideLocked(now)
	if due, ok := n.ledger.Next(); ok {
		// A little later several can be sent together.
		next = min(next, max(due, now+tickMost))
	}
	if !n.lane.idle() {
		next = min(next, now+tickMost)
	}
	return next
}

// unansweredLocked returns what this node has not answered; ok is false if
// nothing is.
func (n *node) unansweredLocked() (u pure.Unanswered, ok bool) {
	g, answered := n.group, n.answered.Load()
	u = pure.Unanswered{
		Heard: time.Duration(n.heard.Load()), ReplyTime: time.Duration(n.replyTime.Load()),
		Lag: int(g.fastestLocked() - answered), Waiting: g.log.waiting(),
		MaxPending: g.config.MaxPending, ShedAfter: g.config.ShedAfter,
	}
	switch {
	case answered < n.sent.Load():
		r := g.log.ring.Load().at(answered)
		u.Since, u.Voting, u.VoteTimeout = r.at, true, n.voteTimeout(r.ttl)
		for _, m := range r.members() {
			u.Patience = max(u.Patience, m.patience())
		}
	case len(n.lane.awaited) > 0:
		u.Since = n.silence.asked
	default:
		return u, false
	}
	return u, true
}
