package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// arm makes the watch look at the given time or earlier.
func (m *member) arm(at time.Duration) {
	if at >= m.armed {
		return
	}
	m.armed = at
	m.process.wake(at, func() {
		if m.armed == at {
			m.armed = pure.Never
			m.watch(m.process.now() - at)
		}
	})
}

// watch looks after one node's connection: silence, debts, trust. late is by how
// much it is late. (Probes of idle connections are left out: here the process
// always learns of an end.)
func (m *member) watch(late time.Duration) {
	p := m.process
	if m.life.State != pure.Up {
		return
	}
	now := p.now()
	next := now + 5*time.Second
	if u, ok := m.unanswered(); ok {
		limit := m.silence.Ends(u, late, now)
		if now >= limit {
			m.shed()
			return
		}
		next = min(next, limit, now+pure.TickMost)
	}
	next = min(next, m.guard(now))
	m.payBeside()
	if due, ok := m.ledger.Next(); ok {
		next = min(next, max(due, now+pure.TickMost))
	}
	m.arm(max(next, now+pure.TickLeast))
}

// unanswered returns what this node has not answered; ok is false if nothing is.
func (m *member) unanswered() (u pure.Unanswered, ok bool) {
	p := m.process
	if len(m.awaited) == 0 {
		return u, false
	}
	u = pure.Unanswered{
		Since: m.asked, Heard: m.heard, ReplyTime: m.replyTime,
		Lag: int(p.fastest() - m.answered()), Waiting: len(p.open), MaxPending: pendingMost,
	}
	if r := m.oldest(); r != nil {
		u.Since, u.Voting, u.VoteTimeout, u.Patience = r.at, true, m.voteTimeout(r.ttl), r.patience
	}
	return u, true
}

// pendingMost is multiplex.Config.MaxPending, which is never reached here.
const pendingMost = 32768

// oldest returns the oldest round on which this node has not voted; nil if there
// is none.
func (m *member) oldest() *round {
	for _, e := range m.awaited {
		if e.purpose == vote {
			return e.round
		}
	}
	return nil
}

// answered returns the place in the log up to which this node has answered.
func (m *member) answered() uint64 {
	if r := m.oldest(); r != nil {
		return r.pos
	}
	return m.process.head
}

// guard looks after a node's quarantine and seal, and returns when to do so
// again.
func (m *member) guard(now time.Duration) time.Duration {
	m.judgeTrust()
	next := m.tend(now)
	if left := m.trust.Left(now); left > 0 {
		next = min(next, now+left)
	}
	return next
}

// judgeTrust updates the set of quarantined nodes with what is known of this
// one.
func (m *member) judgeTrust() {
	p := m.process
	m.trust = m.trust.At(p.now())
	counts := m.trust.Trusted && !p.strangers.Has(m.index)
	if counts != p.quarantined.Has(m.index) {
		return
	}
	if !counts {
		p.quarantined |= bit(m.index)
		m.arm(p.now() + m.trust.Left(p.now()))
		p.world.report.Count("quarantines", 1)
		return
	}
	p.quarantined &^= bit(m.index)
	m.looks.Next = p.now()
	m.arm(p.now())
}

// tend reads the seal when it is time.
func (m *member) tend(now time.Duration) time.Duration {
	if m.process.maxTTL == 0 {
		return now + 5*time.Second
	}
	if now < m.looks.Next {
		return m.looks.Next
	}
	if !m.looks.Asking {
		m.look()
	}
	m.looks.Plan(!(m.process.quarantined | m.process.floorless).Has(m.index), now)
	return m.looks.Next
}

func (m *member) look() {
	if m.wire == nil || m.life.State != pure.Up {
		return
	}
	m.looks.Asking = true
	m.glanceAt(look)
}

// voteTimeout returns how long a round waits for this node's vote.
func (m *member) voteTimeout(ttl time.Duration) time.Duration {
	return pure.VoteTimeout(0, ttl, m.replyTime)
}
