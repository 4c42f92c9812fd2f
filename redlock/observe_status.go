package redlock

import (
	"encoding/json"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
)

// The JSON forms of what a client reports have names that contain the unit, and
// are those that the tools use (docs/cli.md). Programs read them: fields are
// added, never renamed.

// A NodeStatus is what the client knows of one node. It holds nothing secret,
// and also has a JSON form (R27; docs/cli.md).
type NodeStatus struct {
	Addr string `json:"addr"` // without credentials
	// State is "up"; "down", without a connection; "dialing"; "fencing", to
	// make the commands of the previous connection harmless; "paying", during
	// the releases it owes (R8); "shed", with the connection given up by the
	// client (R26); or "stopped", after Close.
	State     string        `json:"state"`
	Product   string        `json:"product,omitempty"` // what the server said of itself
	Version   string        `json:"version,omitempty"`
	Debts     int           `json:"debts"`    // releases that it has yet to confirm (R8)
	Connects  int           `json:"connects"` // connections so far
	ReplyTime time.Duration `json:"-"`        // smoothed
	// Polled reports that callers read its replies themselves; see
	// Stats.Polling.
	Polled bool                 `json:"polled"`
	Counts multiplex.NodeCounts `json:"counts"` // what happened so far
	Err    error                `json:"-"`      // why it is not up, or nil if it is
	// Quarantined reports that the node's grants do not count, since it may
	// have forgotten locks (R23), for how long at most, and what began it.
	Quarantined    bool          `json:"quarantined"`
	QuarantineLeft time.Duration `json:"-"`
	QuarantineWhy  string        `json:"quarantine_why,omitempty"`
	// Sealed reports that a seal of the process that runs there exists.
	Sealed bool `json:"sealed"`
	// Deployment is the id of the node's deployment, and DeploymentNodes how
	// many nodes that has (R30). Opening is the id of one being opened with it
	// by another client, perhaps a dead one.
	Deployment      string `json:"deployment,omitempty"`
	DeploymentNodes int    `json:"deployment_nodes,omitempty"`
	Opening         string `json:"opening,omitempty"`
	// Started is when the server started, by its own account.
	Started time.Time `json:"started,omitzero"`
	// Warnings lists what should be changed about the server (R22), one sentence
	// each, and why it does not count for locks with a number.
	Warnings []string `json:"warnings,omitempty"`
}

// MarshalJSON returns the status with the names of docs/cli.md.
func (s NodeStatus) MarshalJSON() ([]byte, error) {
	type plain NodeStatus
	return json.Marshal(struct {
		ReplyTime      float64 `json:"reply_time_us"`
		QuarantineLeft float64 `json:"quarantine_left_s,omitempty"`
		Err            string  `json:"error,omitempty"`
		plain
	}{micros(s.ReplyTime), s.QuarantineLeft.Seconds(), errtext.JSON(s.Err), plain(s)})
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

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
