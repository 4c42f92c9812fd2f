package redlock

import (
	"time"

	"github.com/redmux/redmux/multiplex"
)

// A NodeStatus is what is known of one node. It holds nothing secret, and has a JSON form too (R27; docs/output.md).
type NodeStatus struct {
	Addr             string        // without credentials
	State            string        // "up", "down", "dialing", "fencing", "paying", "shed", "stopped"
	Product, Version string        // what it said of itself
	Debts            int           // releases that it has yet to confirm (R8)
	Connects         int           // connections so far
	ReplyTime        time.Duration // smoothed
	Polled           bool          // callers read its replies by themselves; see Stats.Polling
	Counts           NodeCounts    // what happened so far
	Err              error         // why it is not up, else nil
	// Quarantined says that the node's grants do not count, since it may have forgotten locks (R23); QuarantineLeft for how
	// long, unless a seal ends it before or the node goes down; QuarantineWhy what began it: "first seen", "restarted",
	// "seal vanished" …
	Quarantined    bool
	QuarantineLeft time.Duration
	QuarantineWhy  string
	Sealed         bool     // a seal of the process that runs there is known to stand
	Warnings       []string // what was remarkable when it was last connected (R22), one sentence each
}

// NodeCounts are the votes, replies, errors, connections and debts of one node.
type NodeCounts = multiplex.Counts

// Nodes returns the status of each node, in the order of Config.Nodes.
func (c *Client) Nodes() []NodeStatus {
	var all []NodeStatus
	for _, s := range c.group.Nodes() {
		all = append(all, NodeStatus{
			Addr: s.Addr, State: s.State.String(), Product: s.Server.Product, Version: s.Server.Version,
			Debts: s.Debts, Connects: s.Connects, ReplyTime: s.ReplyTime, Err: s.Err,
			Polled: s.Polled, Counts: s.Counts,
			Quarantined: s.Quarantined, QuarantineLeft: s.QuarantineLeft, QuarantineWhy: s.QuarantineWhy,
			Sealed: s.Sealed, Warnings: s.Warnings,
		})
	}
	return all
}
