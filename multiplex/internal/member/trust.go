package member

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Quarantine (R23): a node that may have forgotten locks gets every command, so
// its keys are set, extended and released like any other's. But up to the
// expiry of every earlier lock, its grants of claims do not count, nor do its
// extensions of keys set meanwhile. Those votes fail from the start, so rounds
// are decided as fast as without a quarantine.

// Judge makes the set of doubted nodes follow what is known of a node.
func (m *Members) Judge(i int, now time.Duration) {
	n := &m.nodes[i]
	n.trust = n.trust.At(now)
	counts := n.trust.Trusted && !m.Strangers.Has(i)
	if counts != m.Doubted.Has(i) {
		return
	}
	n.cause = nil
	if counts {
		m.Doubted = m.Doubted.Without(pure.SetOf(i))
		n.looks.Next = now
		m.host.Wake(now) // to write the seal
	} else {
		m.Doubted = m.Doubted.Add(i)
		m.host.Wake(now + n.trust.Left(now))
	}
	m.host.Changed(i)
	m.host.Notify()
}

// Left returns how long a node stays quarantined without a seal to end it
// earlier, and why. It includes the wait before the group opens the set.
func (m *Members) Left(i int, now time.Duration) (left time.Duration, why string) {
	n := &m.nodes[i]
	left, why = n.trust.Left(now), n.trust.Why
	if settles := m.deployment.Settles(now); settles > 0 {
		opened := n.trust.Opens(m.since(now), now)
		left, why = max(settles, opened.Left(now)), pure.WhyYoung
	}
	if n.connected && n.server.RunID == "" && why != pure.WhyUnknown {
		why += ", and it tells no run id, so that each client waits"
	}
	return left, why
}

// raise adopts a longer MaxTTL found in a seal: a client of this deployment may
// hold locks for that long, on any node (OtherMaxTTL).
func (m *Members) raise(maxTTL, now time.Duration) {
	if maxTTL <= m.maxTTL {
		return
	}
	m.maxTTL = maxTTL
	need := pure.NeedFor(maxTTL, m.config.DriftFactor)
	m.deployment.Need = need
	for i := range m.nodes {
		t := &m.nodes[i].trust
		*t = t.Require(need, now)
		m.Judge(i, now)
	}
}
