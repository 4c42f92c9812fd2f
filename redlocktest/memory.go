package redlocktest

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// beginInMemory starts nodes as goroutines, at node0:6379, node1:6379, … of a
// network of their own.
func (d *Deployment) beginInMemory(nodes int) error {
	network := redistest.NewNetwork()
	d.ends = append(d.ends, network.Close)
	d.dial = network.Dial
	for i := range nodes {
		node := redistest.NewNode(redistest.NodeConfig{Password: d.settings.password, LogLimit: logLimit, Age: age, NXGET: true})
		d.ends = append(d.ends, node.Close)
		node.Serve(network.Listen(fmt.Sprintf("node%d:6379", i)))
		link := network.At(node.Addr())
		d.nodes = append(d.nodes, &Node{url: node.URL(), link: link, server: memory{node, link}})
	}
	return nil
}

// age is how long the nodes seem to have run. It is longer than any MaxTTL in
// use, so that they count at once with any Prefix.
const age = 50 * 365 * 24 * time.Hour

// logLimit is small: nothing here reads a node's log, and tests may simulate
// days.
const logLimit = 16

type memory struct {
	node *redistest.Node
	link *redistest.Link
}

// stop freezes the node until start restarts it, so a connection that was being
// established when new ones were refused gets no answer.
func (m memory) stop() error {
	m.link.Refuse(true)
	m.node.Pause()
	return nil
}

// start also ends such connections and the pause.
func (m memory) start() error {
	m.node.Restart()
	return nil
}

func (m memory) refuse(on bool) { m.link.Refuse(on) }

func (m memory) pause() error {
	m.node.Pause()
	return nil
}

func (m memory) proceed() error {
	m.node.Resume()
	return nil
}

func (m memory) keys() ([]string, error) { return m.node.Keys(), nil }
