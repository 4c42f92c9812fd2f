// Package outlook says what a client that starts now would think of the nodes'
// past and of their deployment (R23, R30), by the rules of package pure, from
// what probes found. Unlike a client it writes nothing: it opens no deployment,
// and seals no node. It asks no node and reads no clock.
package outlook

import (
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// An Outlook is what such a client knows after some looks. It is not safe for
// concurrent use.
type Outlook struct {
	need       time.Duration // 0 if clients are forgetful
	deployment pure.Deployment
	nodes      []node
}

type node struct {
	trust pure.Trust
	up    bool // the last look succeeded
}

// A Node is what a look found at one node.
type Node struct {
	probe.Facts
	Clock      probe.Clock
	ClockKnown bool
}

// New returns the outlook on nodes with these names before the first look.
// Of each durable says whether clients are told that the node loses nothing.
// maxTTL is that of the clients, or 0 if they are forgetful.
func New(names []string, durable []bool, maxTTL time.Duration) *Outlook {
	const drift = pure.DefaultDriftFactor
	need := pure.NeedFor(maxTTL, drift)
	o := &Outlook{need: need, deployment: pure.NewDeployment(names), nodes: make([]node, len(names))}
	o.deployment.Need, o.deployment.Drift = need, drift
	for i := range o.nodes {
		o.nodes[i].trust = pure.Trust{Need: need, Durable: durable[i]}
	}
	return o
}

// Look takes in what was found at each node. now is on any clock that does not
// step, the same in all calls, and not before the nodes answered.
func (o *Outlook) Look(found []Node, now time.Duration) {
	d := &o.deployment
	for i := range found {
		f, n := &found[i], &o.nodes[i]
		if n.up = f.Err == nil; !n.up {
			d.Part(i)
			continue
		}
		d.Join(i)
		s := f.Sighting()
		need, own := o.needs(&f.Facts)
		n.trust = n.trust.Require(need, own, now).Meet(f.Process(), now)
		n.trust.Account = f.account(now)
		n.trust = n.trust.Sight(d.Proof(s), now)
		d.Born(i, n.trust.Born())
		d.Sight(i, s, now, now)
	}
	if d.Rebound() {
		for i := range o.nodes {
			t := &o.nodes[i].trust
			*t = t.Joins(now).Sight(d.Proof(d.Seen(i)), now)
		}
	}
}

// account returns what the node's process says of its start (R29).
func (n *Node) account(now time.Duration) pure.Account {
	up, ok := n.Uptime()
	believed := ok && !n.Failover.Expected && n.ClockKnown && pure.Believed(n.RunID(), n.Server.Unpromoted, n.Clock.Ahead)
	return pure.Account{Believed: believed, Uptime: up, Dialed: now, Asked: now}
}

// Why a node does not count, besides what began its quarantine.
const (
	WhyUnread   = "no seal can be read"
	WhyStrange  = "no seal, but something else"
	WhyLater    = "opened by a newer version"
	whyOpening  = "being opened"
	whyRivals   = "another deployment"
	whyStranger = "not a member"
	whyTwin     = "the same member as another"
	whyQuorum   = "no quorum is sealed"
	whyUnopened = "not opened yet"
)

// Standing returns how long a node's votes do not count yet for a client that
// starts now, as far as that is known, and why. why is empty if they do, if
// clients are forgetful, and if the node was not reached.
func (o *Outlook) Standing(i int, now time.Duration) (left time.Duration, why string) {
	if o.need == 0 || !o.nodes[i].up {
		return 0, ""
	}
	d := &o.deployment
	switch d.Berth(i) {
	case pure.BerthRivals:
		return 0, whyRivals
	case pure.BerthStranger:
		return 0, whyStranger
	case pure.BerthTwin:
		return 0, whyTwin
	case pure.BerthUnread:
		return 0, WhyUnread
	case pure.BerthStrange:
		if d.Seen(i).Later {
			return 0, WhyLater
		}
		return 0, WhyStrange
	case pure.BerthOpening:
		return 0, whyOpening
	case pure.BerthUnopened:
		if who, _ := d.Identity(); who != (pure.Identity{}) {
			return 0, whyQuorum
		}
		since := d.Since(func(i int) pure.Trust { return o.nodes[i].trust }, now)
		return max(d.Settles(now), o.nodes[i].trust.Opens(since, now).Left(now)), whyUnopened
	}
	if t := o.nodes[i].trust.At(now); !t.Trusted {
		return t.Left(now), t.Why
	}
	return 0, ""
}

// Quarantined returns how long a node's process must be watched by a client that
// starts now, whatever deployment it belongs to. inevitable is as much of it as
// each new client waits behind which servers may change, however long ago the
// present one was promoted.
func (o *Outlook) Quarantined(i int, now time.Duration) (left, inevitable time.Duration) {
	t := o.nodes[i].trust
	return t.At(now).Left(now), t.Own
}

// Deployment returns what is known of the nodes' deployment. It must not be
// changed.
func (o *Outlook) Deployment() *pure.Deployment { return &o.deployment }
