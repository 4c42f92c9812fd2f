package member

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A Cause says why a node's vote does not count.
type Cause struct {
	Kind Kind
	// Found is what is the matter, and Advice what to do, as far as the kind
	// does not say it.
	Found, Advice string
	Left          time.Duration // of a quarantine
	Theirs, Ours  time.Duration // MaxTTL
	// What a seal says of a node that fails over, and what this client does.
	TheirFailover, OurFailover pure.Failover
	// Asked is the time of the look. If zero, it proves nothing.
	Asked time.Duration
}

// A Kind is a kind of cause.
type Kind uint8

const (
	Quarantined   Kind = iota // the node may have forgotten locks (R23)
	Foreign                   // it belongs to another deployment (R30)
	Unopened                  // the deployment is not open
	OtherMaxTTL               // its deployment has another MaxTTL
	OtherFailover             // or has another bound for a failover, or none
	Unconfirmed               // its server may be no primary any more
	// The node does not remember fencing numbers. It learns them from others
	// (Learning), or too few others could tell (Lost), or its record cannot be
	// true (Untrue), or its process has no name (Nameless).
	Learning
	Lost
	Untrue
	Nameless
)

// staleAfter is the least time for which rounds share a cause.
const staleAfter = 10 * time.Millisecond

// Cause returns why the vote of an up node is missing. Rounds share the cause
// for a moment: it is not made for each of them.
func (m *Members) Cause(i int, now time.Duration) *Cause {
	n := &m.nodes[i]
	if n.cause != nil && now < n.stale {
		return n.cause
	}
	left, why := m.Left(i, now)
	n.cause = m.Estranged(i, now)
	switch {
	case n.cause != nil:
	case m.Doubted.Has(i):
		n.cause = &Cause{Kind: Quarantined, Left: left, Found: why}
	default:
		n.cause = m.NoFloor(i)
	}
	n.stale = now + max(staleAfter, left/100)
	return n.cause
}

// Renew makes the next Cause of a node anew: what it says of other nodes may be
// outdated.
func (m *Members) Renew(i int) { m.nodes[i].cause = nil }

// isLearning is the one cause that passes by waiting.
var isLearning = &Cause{Kind: Learning}

// NoFloor returns why a node has no floor yet.
func (m *Members) NoFloor(i int) *Cause {
	switch {
	case m.nodes[i].trust.Run == "" && !m.config.Durable.Has(i):
		return &Cause{Kind: Nameless, Asked: m.host.Now()}
	case m.floors.Beyond(i):
		return &Cause{Kind: Untrue, Asked: m.host.Now()}
	case m.floors.Learnable(i):
		return isLearning
	}
	return &Cause{Kind: Lost, Asked: m.host.Now()}
}

// Estranged returns why an up node does not show the deployment; nil if it
// does.
func (m *Members) Estranged(i int, now time.Duration) *Cause {
	d := &m.deployment
	if !m.config.Sealed() || d.Counts(i) || d.Settles(now) > 0 {
		return nil
	}
	switch d.Berth(i) {
	case pure.BerthRivals:
		return m.rivals()
	case pure.BerthStranger:
		who, _ := d.Identity()
		return &Cause{Kind: Foreign, Asked: now, Found: "the node belongs to no deployment, the others to " + describe(who) +
			", and its address is not that of just one member that is missing there",
			Advice: "name the nodes as the other clients do, or if they have changed, stop all clients and replace the deployment (redlock init)"}
	case pure.BerthElsewhere:
		return m.elsewhere(i, now)
	case pure.BerthTwin:
		return &Cause{Kind: Foreign, Asked: now, Found: "another node is the same member of the deployment: both lead to one master, or one is a copy of the other",
			Advice: "name each master once; empty a copy"}
	case pure.BerthOpening:
		return &Cause{Kind: Unopened, Found: sealPlace + " lists the node for deployment " + d.Opening(i) +
			", which another client is about to open; if it is over, stop its clients and replace it (redlock init)"}
	case pure.BerthUnread:
		return &Cause{Kind: Unopened, Found: "the node's seal cannot be read"}
	case pure.BerthStrange:
		if d.Seen(i).Later {
			return &Cause{Kind: Foreign, Asked: now, Advice: "update this client",
				Found: "the node was opened by a newer version: " + sealPlace + " has a form that this one does not know"}
		}
		return &Cause{Kind: Foreign, Asked: now, Advice: "delete that key on this node, or use another prefix",
			Found: sealPlace + " holds something else there"}
	case pure.BerthAdopts, pure.BerthLeft:
		if !m.nodes[i].trust.Trusted {
			return nil // its quarantine lasts longer than writing the seal
		}
		return &Cause{Kind: Unopened, Found: m.unsealed(i)}
	}
	return &Cause{Kind: Unopened, Found: m.unopened(now)}
}

// unsealed says whether a member without a seal gets it again.
func (m *Members) unsealed(i int) string {
	d := &m.deployment
	who, _ := d.Identity()
	switch {
	case d.Berth(i) == pure.BerthAdopts:
		return "the node's seal is being written"
	case !d.Present(who):
		return "the node has lost its seal, and no node shows " + describe(who) + " at the moment"
	}
	return "the node has lost its seal, which this client does not write: it only opens sets, or its MaxTTL is not the deployment's"
}

// unopened says why no deployment is open.
func (m *Members) unopened(now time.Duration) string {
	d := &m.deployment
	if who, _ := d.Identity(); who != (pure.Identity{}) {
		return "fewer than a quorum of the nodes belong to " + describe(who)
	}
	text := "no deployment is open, and to open one needs all nodes at one time"
	missing := pure.All(len(m.nodes)).Without(m.up)
	if missing != 0 {
		text += "; missing: " + m.list(missing)
	}
	for i := range m.nodes {
		if was := d.Former(i); was != "" {
			return text + "; " + m.name(i) + " belonged to deployment " + was + " before it came back empty"
		}
		if m.up.Has(i) && d.Berth(i) != pure.BerthUnopened {
			return text + "; " + m.name(i) + ": " + m.Estranged(i, now).Found
		}
	}
	if missing == 0 {
		return "the set is being opened"
	}
	return text
}

// elsewhere is the cause for a deployment in another database.
func (m *Members) elsewhere(i int, now time.Duration) *Cause {
	node, other, _ := m.deployment.Other()
	return &Cause{Kind: Foreign, Asked: now,
		Found: fmt.Sprintf("database %d, which this client uses, belongs to no deployment, and database %d of %s to deployment %s",
			m.config.Nodes[i].DB, other.DB, m.name(node), other.ID),
		Advice: "name the same database in all clients, or use another prefix; if that deployment is over, replace it (redlock init)"}
}

// rivals is the cause for nodes of several deployments. It names both sides.
func (m *Members) rivals() *Cause {
	node, other, _ := m.deployment.Rivals()
	found := m.claim(node)
	if node != other {
		found += ", and " + m.claim(other)
	} else if m.deployment.Seen(node).Seal.Listed == (pure.Identity{}) {
		found += ", and this client has " + strconv.Itoa(len(m.nodes))
	}
	return &Cause{Kind: Foreign, Asked: m.deployment.RivalsAsked(), Found: found,
		Advice: "all clients of a deployment must name the same nodes; to use nodes of a deployment that is over, replace it (redlock init); if one of " +
			"these nodes should not have its key, delete the key there"}
}

// sealPlace is the key with a node's deployment. Errors do not show the prefix
// (R27).
const sealPlace = "the key redlock:seal (behind the prefix)"

// claim returns the text about a node's deployment, and the key with it.
func (m *Members) claim(i int) string {
	s := m.deployment.Seen(i).Seal
	var all []string
	if s.Open != (pure.Identity{}) {
		all = append(all, "belongs to "+describe(s.Open))
	}
	if s.Listed != (pure.Identity{}) {
		all = append(all, "is listed for "+describe(s.Listed))
	}
	return m.name(i) + " " + strings.Join(all, " and ") + ", by " + sealPlace
}

func describe(who pure.Identity) string {
	return "deployment " + who.ID + " of " + strconv.Itoa(who.Nodes()) + " nodes"
}

func (m *Members) name(i int) string {
	return "node " + strconv.Itoa(i) + " (" + m.config.Nodes[i].Addr + ")"
}

// list returns the names of some nodes.
func (m *Members) list(nodes Set) string {
	var all []string
	for i := range m.nodes {
		if nodes.Has(i) {
			all = append(all, m.name(i))
		}
	}
	return strings.Join(all, ", ")
}
