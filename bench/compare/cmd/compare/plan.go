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

// plan lists the blocks of a whole run. What most users run, and what the report
// begins with, is measured in full: the most masters. With fewer masters it is
// measured with all of them up, and not over TLS, so that a run ends in time.
func (f *flags) plan() (all []block) {
	for _, network := range f.Network {
		for _, nodes := range f.Nodes {
			if network == "tls" && nodes != f.most() {
				continue
			}
			for _, callers := range f.Callers {
				c := report.Case{Kind: report.Healthy, Network: network, Nodes: nodes, Callers: callers}
				all = append(all, block{f.around(c)})
			}
		}
	}
	return all
}

// most is the greatest number of masters.
func (f *flags) most() int { return slices.Max(f.Nodes) }

// around adds to a healthy case those that are compared with it. Gaps and system
// calls, whose windows are long, are measured over one network: what is asked
// is how a client reacts to a stop, and whether callers share calls.
func (f *flags) around(healthy report.Case) []report.Case {
	cases := []report.Case{healthy}
	add := func(k report.Kind, wanted bool) {
		c := healthy
		c.Kind = k
		if wanted {
			cases = append(cases, c)
		}
	}
	full := healthy.Nodes == f.most()
	first := full && healthy.Network == f.Network[0]
	stops := f.Stopped && healthy.Nodes >= 3 // of fewer, the rest is no quorum
	add(report.Stopped, stops && full)
	add(report.Stopping, stops && first && f.StopWindow > 0)
	add(report.Counting, f.Syscalls && first)
	return cases
}

// overhead is what a window takes besides what is measured, at 1 to 1,024
// callers on two cores: to start a process, to connect, to warm up for longer
// than is asked for, and to wait for the last callers.
const overhead = 300 * time.Millisecond

// estimate tells how many windows a plan has, and how long it will take.
func (f *flags) estimate(plan []block) (windows int, took time.Duration) {
	for _, b := range plan {
		for _, t := range f.turns(b, 0) {
			windows += f.Rounds
			each := f.Warmup + f.windowOf(t.Kind) + overhead
			if t.Kind == report.Stopped {
				each += f.Settle
			}
			took += time.Duration(f.Rounds) * each
		}
	}
	return windows, took
}

// turns is the order of a round: all peers of one case, then all of the next.
// The first peer of a round is the second of the round before, so that no peer
// always has the same neighbour's leavings or the same age of the servers.
func (f *flags) turns(b block, round int) (all []turn) {
	for _, c := range b.cases {
		var peers []compare.Peer
		for _, p := range compare.Peers {
			if f.wants(p) && f.takesPart(p, c) {
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
func (f *flags) takesPart(p compare.Peer, c report.Case) bool {
	switch {
	case c.Kind == report.Stopping && !p.Ours && p.Name != compare.Default && p.Name != compare.DefaultAll:
		return false // the others are measured with a master stopped
	case p.Variant && (c.Network != f.Network[0] || c.Kind == report.Counting):
		return false
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
