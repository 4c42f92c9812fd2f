package multiplex

import (
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
)

// A Status describes one node.
type Status struct {
	Addr   string      // without credentials
	State  State       // the stage of its life
	Server conn.Server // what it said of itself when it was last connected
	Debts  int         // releases that it owes (R8)
	// Connects counts handshakes, Deaths ended connections, and Sheds those
	// of them given up by this group for silence or a full backlog (R26).
	Connects, Deaths, Sheds int
	// Polled reports whether callers read this node's replies themselves.
	Polled bool
	// Counts has what happened so far.
	Counts NodeCounts
	// ReplyTime is the smoothed time to a reply.
	ReplyTime time.Duration
	// Err is why the node is not up, nil when it is.
	Err error
	// Quarantined reports whether the node's grants do not count yet (R23).
	// QuarantineLeft is how long that lasts if the node stays connected and
	// no seal ends it earlier. QuarantineWhy is its reason. They are zero
	// for a node that counts as soon as it is up.
	Quarantined    bool
	QuarantineLeft time.Duration
	QuarantineWhy  string
	// Sealed reports whether a seal of the node's process is known to exist.
	Sealed bool
	// Deployment is the id of the deployment in the last look at the node,
	// and DeploymentNodes its size (R30). Both are zero for none.
	Deployment      string
	DeploymentNodes int
	// Opening is the id of the deployment that another client is, or was at
	// its death, about to open with the node. It is "" if there is none.
	Opening string
	// Started is when the server's process started, by its own account, to the
	// second. It is zero if the server does not say.
	Started time.Time
	// Warnings lists what was noteworthy about the server when it was last
	// connected (R22), and why its grants of numbered claims do not count, one
	// sentence each. The slice is the caller's.
	Warnings []string
}

// Nodes returns the status of each node, in the order of the configuration.
func (g *Group) Nodes() []Status {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, g.size)
	for _, n := range g.nodes {
		s := Status{
			Addr: n.addr, State: n.life.State, Server: n.server, Debts: len(n.ledger.Debts),
			Connects: n.counters.connects, Deaths: n.counters.ended, Sheds: n.counters.sheds, ReplyTime: time.Duration(n.replyTime.Load()),
		}
		s.Polled, s.Counts = n.polled.conn.Load() != nil, n.countsLocked()
		if n.life.State != Up && n.fault != nil {
			s.Err = n.fault.err
		}
		n.tellMembershipLocked(&s, g.now())
		s.Warnings = n.reporter.warningsLocked()
		if s.State == Up && g.members.Floorless.Has(n.index) {
			s.Warnings = append(s.Warnings, errtext.Text(errorOf(g.members.NoFloor(n.index))))
		}
		all = append(all, s)
	}
	return all
}
