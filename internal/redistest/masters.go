package redistest

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Masters are nodes in memory that know our scripts, and their network. Inside
// testing/synctest all of it runs in simulated time.
//
// How keys begin, how the nodes are called, which database they use, and what
// clients call themselves is drawn for each test. Tests name keys without the
// prefix; a client that leaves it out fails the test, and so does one that uses
// another database.
type Masters struct {
	Network     *Network
	Nodes       []*Node
	Arrangement Arrangement
}

// NewMasters starts so many nodes, or if n is 0 a number that is drawn. They end
// with the test.
func NewMasters(tb testing.TB, n int) *Masters {
	tb.Helper()
	m := &Masters{Network: NewNetwork(), Arrangement: Arrange(tb)}
	for i := range cmp.Or(n, m.Arrangement.N) {
		node := NewNode(NodeConfig{
			Arrangement: m.Arrangement,
			Strays:      func(text string) { tb.Errorf("node %d: %s", i, text) },
		})
		node.Serve(m.Network.Listen(m.Arrangement.Host(i)))
		m.Nodes = append(m.Nodes, node)
	}
	tb.Cleanup(m.Close)
	return m
}

// Close ends the nodes and their network.
func (m *Masters) Close() {
	for _, node := range m.Nodes {
		_ = node.Close()
	}
	_ = m.Network.Close()
}

// Addr is the address of node i.
func (m *Masters) Addr(i int) string { return m.Nodes[i].Addr() }

// Link is the network's connection to node i.
func (m *Masters) Link(i int) *Link { return m.Network.At(m.Addr(i)) }

// Delay makes replies of a node arrive after d: half of it passes before the
// command is executed.
func (m *Masters) Delay(i int, d time.Duration) { m.Link(i).Latency(d/2, d-d/2) }

// Far is Delay of all nodes.
func (m *Masters) Far(d time.Duration) {
	for i := range m.Nodes {
		m.Delay(i, d)
	}
}

// Each does something with each of some nodes.
func Each(nodes []*Node, do func(*Node)) {
	for _, n := range nodes {
		do(n)
	}
}

// Silence delays the answers of all nodes for longer than any test.
func (m *Masters) Silence() { m.Far(time.Hour) }

// Recover ends the silence, and drops what is in flight, so that the test's end
// need not wait for it.
func (m *Masters) Recover() {
	m.Far(2 * time.Millisecond)
	for i := range m.Nodes {
		m.Link(i).Reset()
	}
}

// Mute stops all bytes between the nodes and the clients of a network.
func (m *Masters) Mute(network *Network, on bool) {
	for _, n := range m.Nodes {
		if link := network.At(n.Addr()); on {
			link.Pause(Up | Down)
		} else {
			link.Resume(Up | Down)
		}
	}
}

// Wires returns another network to the nodes, which have the same addresses in
// it: for a client with faults, and an order of commands, of its own.
func (m *Masters) Wires(tb testing.TB) *Network {
	tb.Helper()
	own := NewNetwork()
	tb.Cleanup(func() { _ = own.Close() })
	for _, n := range m.Nodes {
		n.Serve(own.Listen(n.Addr()))
	}
	return own
}

// Forget deletes a key on all nodes.
func (m *Masters) Forget(key string) {
	Each(m.Nodes, func(n *Node) { n.DB().Delete(key) })
}

// Calls counts the calls of a command on all nodes.
func (m *Masters) Calls(command string) (n int) {
	for _, node := range m.Nodes {
		n += node.Calls(command)
	}
	return n
}

// Named puts the addresses of nodes in place of node0, node1, … in a text.
func (m *Masters) Named(text string) string {
	for i := range m.Nodes {
		text = strings.ReplaceAll(text, fmt.Sprintf("node%d", i), m.Addr(i))
	}
	return text
}

// A Text is a log that is read while it is written.
type Text struct {
	mu  sync.Mutex
	all strings.Builder
}

// Write implements io.Writer.
func (x *Text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.Write(b)
}

// String returns all that was written.
func (x *Text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.String()
}
