package redlock

import (
	"time"

	"github.com/redmux/redmux/multiplex"
)

// A NodeStatus is what the client knows of one node. It holds nothing secret,
// and also has a JSON form (R27; docs/cli.md).
type NodeStatus struct {
	Addr string // without credentials
	// State is "up"; "down", without a connection; "dialing"; "fencing", to
	// make the commands of the previous connection harmless; "paying", during
	// the releases it owes (R8); "shed", with the connection given up by the
	// client (R26); or "stopped", after Close.
	State            string
	Product, Version string        // what the server said of itself
	Debts            int           // releases that it has yet to confirm (R8)
	Connects         int           // connections so far
	ReplyTime        time.Duration // smoothed
	// Polled reports that callers read its replies themselves; see
	// Stats.Polling.
	Polled bool
	Counts multiplex.NodeCounts // what happened so far
	Err    error                // why it is not up, or nil if it is
	// Quarantined reports that the node's grants do not count, since it may
	// have forgotten locks (R23), for how long at most, and what began it.
	Quarantined    bool
	QuarantineLeft time.Duration
	QuarantineWhy  string
	Sealed         bool // a seal of the process that runs there is known to exist
	// Deployment is the id of the node's deployment, and DeploymentNodes how
	// many nodes that has (R30). Opening is the id of one being opened with it
	// by another client, perhaps a dead one.
	Deployment      string
	DeploymentNodes int
	Opening         string
	Started         time.Time // when the server started, by its own account
	// Warnings lists what should be changed about the server (R22), one sentence
	// each, and why it does not count for locks with a number.
	Warnings []string
}

// NodeUp is the State of a node that gets every command.
const NodeUp = "up"

// Nodes returns the status of each node, in the order of Config.Nodes.
func (c *Client) Nodes() []NodeStatus {
	c.made()
	var all []NodeStatus
	for _, s := range c.group.Nodes() {
		all = append(all, NodeStatus{
			Addr: s.Addr, State: s.State.String(), Product: s.Server.Product, Version: s.Server.Version,
			Debts: s.Debts, Connects: s.Connects, ReplyTime: s.ReplyTime, Err: s.Err,
			Polled: s.Polled, Counts: s.Counts,
			Quarantined: s.Quarantined, QuarantineLeft: s.QuarantineLeft, QuarantineWhy: s.QuarantineWhy,
			Sealed: s.Sealed, Deployment: s.Deployment, DeploymentNodes: s.DeploymentNodes, Opening: s.Opening, Started: s.Started,
			Warnings: s.Warnings,
		})
	}
	return all
}
