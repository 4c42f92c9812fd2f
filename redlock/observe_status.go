package redlock

import (
	"time"

	"github.com/redmux/redmux/multiplex"
)

// A NodeStatus is what the client knows of one node. It holds nothing secret,
// and has a JSON form too (R27; docs/output.md).
type NodeStatus struct {
	Addr string // without credentials
	// State is NodeUp, NodeDown, NodeDialing, NodeFencing, NodePaying, NodeShed
	// or NodeStopped.
	State            NodeState
	Product, Version string        // what it said of itself
	Debts            int           // releases that it has yet to confirm (R8)
	Connects         int           // connections so far
	ReplyTime        time.Duration // smoothed
	Polled           bool          // callers read its replies themselves; see Stats.Polling
	Counts           NodeCounts    // what happened so far
	Err              error         // why it is not up, else nil
	// Quarantined reports that the node's grants do not count, since it may
	// have forgotten locks (R23); QuarantineLeft for how long, unless a seal
	// ends the quarantine earlier or the node goes down; QuarantineWhy what
	// began it: "first seen", "restarted", "seal vanished" …
	Quarantined    bool
	QuarantineLeft time.Duration
	QuarantineWhy  string
	Sealed         bool // a seal of the process that runs there is known to exist
	// Deployment is the id of the deployment that the node was last seen to
	// belong to, and DeploymentNodes how many nodes that has (R30); zero if it
	// belongs to none.
	Deployment      string
	DeploymentNodes int
	// Started is when the server's process started, by its own account, to the
	// second; zero if it does not say.
	Started time.Time
	// Warnings are what ought to be changed about the server, as of its last
	// connection (R22), one sentence each.
	Warnings []string
}

// NodeState is the state of a node, as one word.
type NodeState string

const (
	// NodeUp is a node that gets every command.
	NodeUp NodeState = "up"
	// NodeDown is a node without a connection.
	NodeDown NodeState = "down"
	// NodeDialing is a node that is being connected to.
	NodeDialing NodeState = "dialing"
	// NodeFencing is a node where the commands of the connection before are
	// being made harmless (R8).
	NodeFencing NodeState = "fencing"
	// NodePaying is a node where the releases that it still owes are executed
	// first (R8).
	NodePaying NodeState = "paying"
	// NodeShed is a node whose connection the client has given up (R8, R26).
	NodeShed NodeState = "shed"
	// NodeStopped is a node of a client that was closed.
	NodeStopped NodeState = "stopped"
	// NodeRefused, in a NodeChange, is a node that is there but may not take
	// part as it is: its role, our credentials or permissions (R22).
	NodeRefused NodeState = "refused"
	// NodeQuarantined, in a NodeChange, is a node that is up but whose grants
	// do not count yet (R23). A NodeStatus has a field for that.
	NodeQuarantined NodeState = "quarantined"
)

// NodeCounts are the votes, replies, errors, connections and debts of one node.
type NodeCounts = multiplex.NodeCounts

// Nodes returns the status of each node, in the order of Config.Nodes.
func (c *Client) Nodes() []NodeStatus {
	var all []NodeStatus
	for _, s := range c.group.Nodes() {
		all = append(all, NodeStatus{
			Addr: s.Addr, State: NodeState(s.State.String()), Product: s.Server.Product, Version: s.Server.Version,
			Debts: s.Debts, Connects: s.Connects, ReplyTime: s.ReplyTime, Err: s.Err,
			Polled: s.Polled, Counts: s.Counts,
			Quarantined: s.Quarantined, QuarantineLeft: s.QuarantineLeft, QuarantineWhy: s.QuarantineWhy,
			Sealed: s.Sealed, Deployment: s.Deployment, DeploymentNodes: s.DeploymentNodes, Started: s.Started,
			Warnings: s.Warnings,
		})
	}
	return all
}
