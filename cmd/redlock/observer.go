package main

import (
	"slices"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
)

// An observer is the outlook on the nodes as time passes.
type observer struct {
	begun     time.Time
	outlook   *outlook.Outlook
	forgetful bool // clients are
}

// observe returns an observer of the deployment that the flags name.
func (d *deployment) observe(probes []*probe.Probe) *observer {
	var names []string
	var durable []bool
	for i, node := range probes {
		names = append(names, node.Name())
		durable = append(durable, slices.Contains(d.Durable, d.Nodes[i]))
	}
	return &observer{begun: time.Now(), outlook: outlook.New(names, durable, d.longest()), forgetful: d.Forgetful}
}

// look takes in what the probes found. Clocks are those of the nodes.
func (o *observer) look(facts []probe.Facts, clockOf func(i int) (probe.Clock, bool)) {
	found := make([]outlook.Node, len(facts))
	for i := range facts {
		found[i].Facts = facts[i]
		found[i].Clock, found[i].ClockKnown = clockOf(i)
	}
	o.outlook.Look(found, time.Since(o.begun))
}

// standing returns how long a node's votes do not count yet for a client that
// starts now, and why; see outlook.Outlook.
func (o *observer) standing(i int) (left time.Duration, why string) {
	return o.outlook.Standing(i, time.Since(o.begun))
}

// deploymentOf returns the deployment that a node shows, and how many nodes that
// has; zero if it shows none.
func (o *observer) deploymentOf(i int) (id string, nodes int) {
	who := o.outlook.Deployment().Shown(i)
	return who.ID, who.Nodes()
}
