package redlock

import "github.com/redmux/redmux/multiplex"

// A NodeStatus is what the client knows of one node: whether it is up, why not,
// its quarantine, its deployment, counts and warnings. It holds nothing secret,
// and has a JSON form (R27; docs/cli.md).
type NodeStatus = multiplex.Status

// NodeUp is the State of a node that gets every command. The others are "down",
// without a connection; "dialing"; "fencing", to make the commands of the
// previous connection harmless; "paying", during the releases it owes (R8);
// "shed", with the connection given up by the client (R26); and "stopped",
// after Close.
const NodeUp = multiplex.Up

// Nodes returns the status of each node, in the order of Config.Nodes.
func (c *Client) Nodes() []NodeStatus {
	c.made()
	return c.group.Nodes()
}
