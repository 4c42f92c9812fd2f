package main

import (
	"slices"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
)

// A turn is one peer's window of a round.
type turn struct {
	report.Case
	peer  compare.Peer
	place int
}

// A block is what is measured round by round before anything else is: the cases
// in it are compared with one another, so their windows of one round must be
// neighbours in time.
type block struct{ cases []report.Case }

// plan lists the blocks of a whole run.
func (f *flags) plan() (all []block) {
	for _, network := range f.Network {
		for _, nodes := range f.Nodes {
			for _, callers := range f.Callers {
				c := report.Case{Kind: report.Healthy, Network: network, Nodes: nodes, Callers: callers}
				all = append(all, block{f.around(c)})
			}
		}
	}
	return all
}

// around adds to a healthy case those that are compared with it.
func (f *flags) around(healthy report.Case) []report.Case {
	cases := []report.Case{healthy}
	add := func(k report.Kind, wanted bool) {
		c := healthy
		c.Kind = k
		if wanted {
			cases = append(cases, c)
		}
	}
	stops := f.Stopped && healthy.Nodes >= 3 // of fewer, the rest is no quorum
	add(report.Stopped, stops)
	add(report.Stopping, stops && f.StopWindow > 0)
	// With the most masters and over one network only: what is asked is whether
	// calls are shared by callers, and these windows are long.
	add(report.Counting, f.Syscalls && healthy.Nodes == slices.Max(f.Nodes) && healthy.Network == f.Network[0])
	return cases
}

// turns is the order of a round: all peers of one case, then all of the next.
// The first peer of a round is the second of the round before, so that no peer
// always has the same neighbour's leavings or the same age of the servers.
func (f *flags) turns(b block, round int) (all []turn) {
	for _, c := range b.cases {
		var peers []compare.Peer
		for _, p := range compare.Peers {
			if f.wants(p) && takesPart(p, c) {
				peers = append(peers, p)
			}
		}
		for place := range peers {
			all = append(all, turn{c, peers[(place+round)%len(peers)], place})
		}
	}
	return all
}

// takesPart reports whether a peer has a window in a case.
func takesPart(p compare.Peer, c report.Case) bool {
	if c.Kind == report.Stopping && !p.Ours && p.Name != compare.Default && p.Name != compare.DefaultAll {
		return false // the others are measured with a master stopped
	}
	return p.Fits(c.Nodes)
}

// windowOf is the measured time of a case.
func (f *flags) windowOf(k report.Kind) time.Duration {
	switch k {
	case report.Stopping:
		return f.StopWindow
	case report.Counting:
		return countWindow
	}
	return f.Window
}
