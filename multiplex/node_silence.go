package multiplex

import (
	"io"
	"syscall"
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
	next = min(next, g.members.Tend(n.index, now), n.dialer.renewLocked(now), n.keepContactLocked(now))
	n.payBesideLocked(now)
	n.expireFormerLocked(now)
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

// Idle timeouts: servers (by their setting timeout) and proxies close idle
// connections, often those to all nodes at the same moment. Each node is dialed
// again at once (pure.Life), and a command meanwhile waits for that. From then
// on the connection is probed before it has been idle for that long.

// noteEndLocked records how long a connection that the peer closed had been
// idle. A connection with nothing but an unanswered probe counts as idle.
// unanswered reports that commands of the log were not answered. noteEndLocked
// must be called before the node's life and its lane are told of the end.
func (n *node) noteEndLocked(unanswered bool, cause error) {
	n.idle.idled = 0
	if n.life.State != Up || unanswered || !endedByPeer(cause) {
		return
	}
	idled := n.group.now() - time.Duration(n.heard.Load())
	for _, entries := range [...][]laneEntry{n.lane.awaited, n.lane.queued} {
		for _, e := range entries {
			if e.purpose != probe {
				return
			}
			// Sending the probe has set heard.
			idled += n.probeAfterLocked()
		}
	}
	n.idle.idled = idled
}

// endedByPeer reports whether the peer ended the connection: a read found the
// end, or the write of a probe did.
func endedByPeer(cause error) bool {
	return isOneOf(cause, io.EOF, syscall.ECONNRESET, syscall.EPIPE)
}

// probeAfterLocked returns how long the connection may be idle before it is
// probed.
func (n *node) probeAfterLocked() time.Duration {
	return n.idle.probeAfter(n.group.config.ProbeAfter, n.group.now())
}
