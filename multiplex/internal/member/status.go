package member

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A Status is what is known of one node's past and deployment.
type Status struct {
	Sealed      bool          // a seal of its process is known to exist
	Deployment  pure.Identity // that it was last seen to belong to
	Opening     string        // id of the deployment that is about to be opened
	Met         time.Duration // when it last shook hands
	Quarantined bool
	Left        time.Duration // of the quarantine
	Why         string
	Stranger    bool // it is up, and does not show the deployment
}

// Status returns what is known of a node.
func (m *Members) Status(i int, up bool, now time.Duration) Status {
	n := &m.nodes[i]
	t := n.trust
	if !up {
		// A node not up counts from its join; an up one from the watch's next
		// look.
		t = t.At(now)
	}
	s := Status{
		Sealed: t.Sealed > 0, Deployment: m.deployment.Shown(i), Opening: m.deployment.Opening(i), Met: n.met,
		Stranger: up && m.Strangers.Has(i),
	}
	if s.Stranger || !t.Trusted && t.Need > 0 {
		s.Quarantined = true
		s.Left, s.Why = m.Left(i, now)
	}
	return s
}

// A Deployment is what the nodes belong to.
type Deployment struct {
	pure.Identity
	Complete bool // every node was found to belong to it
	Founded  bool // this group opened it
	Settles  time.Duration
}

// Deployment returns what the nodes belong to.
func (m *Members) Deployment(now time.Duration) Deployment {
	who, _ := m.deployment.Identity()
	return Deployment{
		Identity: who, Complete: m.Complete(), Settles: m.deployment.Settles(now),
		Founded: who.ID != "" && who.ID == m.deployment.Opened,
	}
}

// Complete reports whether every node was found to belong to one deployment.
func (m *Members) Complete() bool { return m.config.Sealed() && m.Strangers == 0 }

// Busy reports whether this group is changing what a node is.
func (m *Members) Busy() bool { return m.deployment.Busy() }

// Nameless reports whether a node has too many names for this client's.
func (m *Members) Nameless(i int) bool { return m.config.Sealed() && m.deployment.Nameless(i) }

// WaitsForOthers reports whether a node would count if the missing nodes showed
// the same deployment. Then the others, and not this node, keep a command from
// a quorum.
func (m *Members) WaitsForOthers(i int) bool {
	return (m.up & m.Strangers).Has(i) && m.nodes[i].trust.Trusted && m.deployment.Pending(i)
}

// Soon returns the nodes that count within some time, as far as they are up.
// Without known, a look or an order may change that at once.
func (m *Members) Soon(within, now time.Duration) (soon Set, known bool) {
	strangers := m.Strangers
	if m.deployment.Settles(now) > 0 {
		strangers = 0
	}
	for i := range m.nodes {
		if !m.up.Has(i) {
			continue
		}
		if m.config.Sealed() && m.deployment.Open(i, now) {
			return 0, false
		}
		left, _ := m.Left(i, now)
		if left <= within && !(strangers | m.Floorless).Has(i) {
			soon = soon.Add(i)
		}
	}
	return soon, true
}
