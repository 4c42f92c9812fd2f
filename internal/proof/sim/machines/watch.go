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
			m.watch()
		}
	})
}

// watch looks after one node's connection: silence, debts, trust. (multiplex's
// watch also has leniency towards nodes that are as late as all others, and
// probes of idle connections. Both are left out: here the process always learns
// of an end.)
func (m *member) watch() {
	p := m.process
	if m.life.State != pure.Up {
		return
	}
	now := p.now()
	next := now + 5*time.Second
	if limit, ok := m.limitOfSilence(); ok {
		if now >= limit {
			m.shed()
			return
		}
		next = min(next, limit)
	}
	next = min(next, m.guard(now))
	m.payBeside()
	if due, ok := m.ledger.Next(); ok {
		next = min(next, max(due, now+5*ms))
	}
	if len(m.awaited) > 0 {
		next = min(next, now+50*ms)
	}
	m.arm(max(next, now+500*us))
}

// limitOfSilence returns when this silent node is given up (R26).
func (m *member) limitOfSilence() (limit time.Duration, ok bool) {
	if len(m.awaited) == 0 {
		return 0, false
	}
	e := m.awaited[0]
	patience := time.Second
	if e.purpose == vote {
		patience = max(100*ms, 4*voteTimeout(e.round.ttl, m.replyTime))
	}
	return max(e.at, m.excused) + patience, true
}

// looks is when the node's seal is read next, and what is in flight.
type looks struct {
	next            time.Duration
	delay           time.Duration
	asking, writing bool
}

const (
	lookFirst  = 100 * ms
	lookOften  = time.Second
	lookRarely = 5 * time.Second
)

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
	if m.trust.Trusted != p.quarantined.Has(m.index) {
		return
	}
	if !m.trust.Trusted {
		p.quarantined |= bit(m.index)
		m.arm(p.now() + m.trust.Left(p.now()))
		p.world.report.Count("quarantines", 1)
		return
	}
	p.quarantined &^= bit(m.index)
	p.debut = pure.Debut{} // the deployment has a past, so the declaration does not apply
	m.looks.next = p.now()
	m.arm(p.now())
}

// sight records what was found in place of the seal.
func (m *member) sight(r reply, verified bool) pure.Sighting {
	s := r.seal
	if r.kind != isOK {
		s.What = pure.Unreadable
	}
	if s.What == pure.SealSeen && m.process.world.broken.is(SealOfAnother) {
		s.Seal.Run = m.trust.Run
	}
	m.process.debut = m.process.debut.Sight(m.index, s, verified)
	m.trust = m.trust.Sight(s, m.process.now())
	m.judgeTrust()
	m.process.tryDebut()
	return s
}

// tend reads the seal when it is time.
func (m *member) tend(now time.Duration) time.Duration {
	if m.trust.Need == 0 {
		return now + 5*time.Second
	}
	if now < m.looks.next {
		return m.looks.next
	}
	if !m.looks.asking {
		m.look()
	}
	if m.trust.Trusted {
		m.looks.delay = lookRarely
	} else {
		m.looks.delay = min(2*max(m.looks.delay, lookFirst), lookOften)
	}
	m.looks.next = now + m.looks.delay
	return m.looks.next
}

func (m *member) look() {
	if m.wire == nil || m.life.State != pure.Up {
		return
	}
	m.looks.asking = true
	m.send(expected{purpose: look, cmd: &command{op: lookSeal}, at: m.process.now(), verified: m.process.debut.Verifying})
}

// looked handles the reply to a look: it may be time to write the seal.
func (m *member) looked(e expected, r reply) {
	m.looks.asking = false
	s := m.sight(r, e.verified)
	suffices := s.What == pure.SealSeen && s.Seal.Run == m.trust.Run &&
		s.Seal.Watched >= m.trust.Need && s.Seal.MaxTTL >= m.process.maxTTL
	if s.What != pure.Unreadable && !suffices && m.trust.Proved(m.process.now()) {
		m.writeSeal(m.trust.Watched(m.process.now()))
	}
}

// writeSeal writes how long the node's process was watched, over the connection
// to that process.
func (m *member) writeSeal(watched time.Duration) {
	if m.trust.Run == "" || m.looks.writing || m.wire == nil || m.life.State != pure.Up {
		return
	}
	m.looks.writing = true
	seal := pure.Seal{Run: m.trust.Run, MaxTTL: m.process.maxTTL, Watched: watched}
	m.send(expected{purpose: tell, cmd: &command{op: writeSeal, seal: seal}, at: m.process.now(), watched: watched})
}

func (m *member) told(e expected, r reply) {
	m.looks.writing = false
	switch {
	case r.kind == isInteger && r.n == 1:
		m.trust = m.trust.Seal(e.watched, m.process.now())
		m.judgeTrust()
		m.process.world.report.Count("seals", 1)
	case r.kind == isNoScript:
		m.cureScripts()
		m.looks.next = m.process.now() + lookFirst
		m.arm(m.looks.next)
	}
}
