package main

import (
	"slices"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// An observer finds out what a client that starts now would think of the nodes'
// past and of their deployment (R23, R30), by the same rules, from what probes
// found. Unlike a client it writes nothing: it opens no deployment, and seals no
// node.
type observer struct {
	begun      time.Time
	need       time.Duration
	deployment pure.Deployment
	nodes      []observed
}

// observed is what is known of one node.
type observed struct {
	trust   pure.Trust
	up      bool          // the last look succeeded
	young   bool          // its uptime proves for how long it was not restarted (R29)
	started time.Duration // since the observer began; usually negative
}

// observe returns an observer of the nodes with these addresses. longest is
// MaxTTL, or 0 with --forgetful.
func observe(addrs []string, durable []bool, longest time.Duration) *observer {
	o := &observer{
		begun: time.Now(), need: pure.NeedFor(longest, pure.DefaultDriftFactor),
		deployment: pure.NewDeployment(addrs), nodes: make([]observed, len(addrs)),
	}
	for i := range o.nodes {
		if n := &o.nodes[i]; !durable[i] {
			n.trust.Need = o.need
		}
	}
	return o
}

// look takes in what the probes found. Clocks are those of the nodes.
func (o *observer) look(facts []probe.Facts, clockOf func(i int) (probe.Clock, bool)) {
	now := time.Since(o.begun)
	for i := range facts {
		f, n := &facts[i], &o.nodes[i]
		if n.up = f.Err == nil; !n.up {
			o.deployment.Part(i)
			continue
		}
		o.deployment.Join(i)
		n.trust = n.trust.Meet(f.RunID(), now)
		n.trust = n.trust.Sight(f.Sighting(), now)
		o.deployment.Sight(i, f.Sighting(), now, now)
		up, ok := f.Uptime()
		clock, known := clockOf(i)
		n.young = ok && known && f.Server.Unpromoted && clock.Ahead.Abs() <= time.Second
		n.started = now - pure.UptimeProves(up)
	}
}

// Reasons that redlock init says more about.
const (
	whyUnread  = "no seal can be read"
	whyStrange = "no seal, but something else"
	whyOpening = "being opened"
)

// standing returns how long a node's votes do not count yet for a client that
// starts now, and why; why is empty if they do. Without a look at the node, it
// is unknown, and empty too.
func (o *observer) standing(i int) (left time.Duration, why string) {
	n := &o.nodes[i]
	if o.need == 0 || !n.up {
		return 0, ""
	}
	now := time.Since(o.begun)
	switch o.deployment.Berth(i) {
	case pure.BerthRivals:
		return 0, "another deployment"
	case pure.BerthStranger:
		return 0, "not a member"
	case pure.BerthUnread:
		return 0, whyUnread
	case pure.BerthStrange:
		return 0, whyStrange
	case pure.BerthOpening:
		return 0, whyOpening
	case pure.BerthUnopened:
		if who, _ := o.deployment.Identity(); who != (pure.Identity{}) {
			return 0, "no quorum is sealed"
		}
		return o.debut(n, now), "not opened yet"
	}
	t := n.trust.At(now)
	if t.Trusted {
		return 0, ""
	}
	return t.Left(now), t.Why
}

// debut returns how long a node of a set without any seal will not count if a
// client opens its deployment now (R29).
func (o *observer) debut(n *observed, now time.Duration) time.Duration {
	if n.young && !n.trust.Marked {
		return n.trust.Premiere(n.started, now).Left(now)
	}
	return n.trust.Left(now)
}

// deploymentOf returns the deployment that a node shows, and how many nodes that
// has; zero if it shows none.
func (o *observer) deploymentOf(i int) (id string, nodes int) {
	who := o.deployment.Shown(i)
	return who.ID, who.Nodes
}

// observe returns an observer of the deployment that the flags name.
func (d *deployment) observe(probes []*probe.Probe) *observer {
	var addrs []string
	var durable []bool
	for i, node := range probes {
		addrs = append(addrs, node.Addr())
		durable = append(durable, slices.Contains(d.Durable, d.Nodes[i]))
	}
	return observe(addrs, durable, d.longest())
}
