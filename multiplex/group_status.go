package multiplex

import (
	"slices"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// A Status describes one node.
type Status struct {
	Addr   string
	State  State
	Server conn.Server // what it said of itself when it was last connected
	Debts  int         // releases that it owes (R8)
	// Connects counts connections that shook hands, Deaths connections that
	// ended, and Sheds those of them that this group gave up for silence or a
	// full backlog (R26).
	Connects, Deaths, Sheds int
	// Polled reports whether callers read this node's replies themselves; see
	// Config.Portable.
	Polled bool
	// Counts is what happened so far.
	Counts Counts
	// ReplyTime is the smoothed time to a reply.
	ReplyTime time.Duration
	// Err is why the node is not up, nil when it is.
	Err error
	// Quarantined reports whether the node's grants do not count yet (R23).
	// QuarantineLeft is how long that lasts if the node stays connected and no
	// seal ends it before; QuarantineWhy is what began it. They are zero for a
	// node that counts once it is up.
	Quarantined    bool
	QuarantineLeft time.Duration
	QuarantineWhy  string
	// Sealed reports whether a seal of the node's process is known to exist.
	Sealed bool
	// Warnings lists what was noteworthy about the server when it was last
	// connected (R22), one sentence each. The slice is the caller's.
	Warnings []string
}

// Nodes returns the status of each node, in the order of the configuration.
func (g *Group) Nodes() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, g.size)
	for _, n := range g.nodes {
		s := Status{
			Addr: n.addr, State: n.life.State, Server: n.server, Debts: len(n.ledger.Debts),
			Connects: n.counters.connects, Deaths: n.counters.ended, Sheds: n.counters.sheds, ReplyTime: time.Duration(n.replyTime.Load()),
		}
		s.Polled, s.Counts = n.polled.Load() != nil, n.countsLocked()
		if n.life.State != Up && n.fault != nil {
			s.Err = n.fault.err
		}
		tellTrust(n.trust.Trust, &s, g.now())
		s.Warnings = slices.Clone(n.trust.warnings)
		all = append(all, s)
	}
	return all
}

// tellTrust writes the state of trust into a node's status.
func tellTrust(t pure.Trust, s *Status, now time.Duration) {
	s.Sealed = t.Sealed > 0
	if s.State != Up {
		// A node that is not up counts when it joins; one that is up counts
		// when the watch has looked.
		t = t.At(now)
	}
	if !t.Trusted && t.Need > 0 {
		s.Quarantined, s.QuarantineLeft, s.QuarantineWhy = true, t.Left(now), t.Why
	}
}
