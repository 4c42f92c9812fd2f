// Package trial has deployments in memory for tests of the packages beside
// package redlock, whose own tests have theirs.
package trial

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// A Memory is nodes in memory that know our scripts, and their network. How
// keys begin, how the nodes are called, which database they use, and what
// clients call themselves is drawn for each test.
type Memory struct {
	Network *redistest.Network
	Nodes   []*redistest.Node
	// Init is admin.Init.
	Init func(ctx context.Context, config redlock.Config) error

	arrangement redistest.Arrangement
}

// AnyNumber of nodes is for tests that hold for each: it is drawn.
const AnyNumber = 0

// New starts nodes, which end with the test.
func New(tb testing.TB, n int) *Memory {
	tb.Helper()
	m := &Memory{Network: redistest.NewNetwork(), arrangement: redistest.Arrange(tb)}
	for i := range cmp.Or(n, m.arrangement.N) {
		node := redistest.NewNode(redistest.NodeConfig{
			Arrangement: m.arrangement,
			Strays:      func(text string) { tb.Errorf("node %d: %s", i, text) },
		})
		node.Serve(m.Network.Listen(m.arrangement.Host(i)))
		m.Nodes = append(m.Nodes, node)
	}
	tb.Cleanup(func() {
		for _, node := range m.Nodes {
			node.Close()
		}
		_ = m.Network.Close()
	})
	return m
}

// Simulated runs a test in simulated time, with nodes that answer after 2 ms.
func Simulated(t *testing.T, nodes int, test func(t *testing.T, m *Memory)) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t, nodes)
		for i := range m.Nodes {
			m.Delay(i, 2*time.Millisecond)
		}
		test(t, m)
	})
}

// Ownerless takes back the owner that was drawn.
func (m *Memory) Ownerless() { m.arrangement.Owner = "" }

// Addr is the address of node i.
func (m *Memory) Addr(i int) string { return m.Nodes[i].Addr() }

// Link is the network's connection to node i.
func (m *Memory) Link(i int) *redistest.Link { return m.Network.At(m.Addr(i)) }

// Delay makes replies of a node arrive after d.
func (m *Memory) Delay(i int, d time.Duration) { m.Link(i).Latency(d/2, d-d/2) }

// Silence makes all nodes answer after an hour.
func (m *Memory) Silence() {
	for i := range m.Nodes {
		m.Delay(i, time.Hour)
	}
}

// Recover ends the silence, and drops what is in flight.
func (m *Memory) Recover() {
	for i := range m.Nodes {
		m.Delay(i, 2*time.Millisecond)
		m.Link(i).Reset()
	}
}

// Forget deletes a key on all nodes.
func (m *Memory) Forget(key string) {
	for _, n := range m.Nodes {
		n.DB().Delete(key)
	}
}

// Wires returns another network to the nodes, for a client with faults of its
// own.
func (m *Memory) Wires(tb testing.TB) *redistest.Network {
	tb.Helper()
	own := redistest.NewNetwork()
	tb.Cleanup(func() { _ = own.Close() })
	for _, n := range m.Nodes {
		n.Serve(own.Listen(n.Addr()))
	}
	return own
}

// Reach returns a configuration with the way to all nodes.
func (m *Memory) Reach(config redlock.Config) redlock.Config {
	if config.Nodes == nil {
		config.Nodes = redlock.Nodes(redistest.URLs(m.Nodes)...)
	}
	if config.Connect.NetDial == nil {
		config.Connect.NetDial = m.Network.Dial
	}
	for i := range config.Nodes {
		config.Nodes[i].URL = m.arrangement.URL(config.Nodes[i].URL)
	}
	config.Prefix = m.arrangement.Prefix + config.Prefix
	config.Owner = cmp.Or(config.Owner, m.arrangement.Owner)
	return config
}

// Client makes a client of all nodes, and closes it with the test. Without
// MaxTTL it is forgetful: most tests are not about quarantine.
func (m *Memory) Client(tb testing.TB, config redlock.Config) *redlock.Client {
	tb.Helper()
	config.Forgetful = config.MaxTTL == 0
	c, err := redlock.New(tb.Context(), m.Reach(config))
	require.NoError(tb, err)
	tb.Cleanup(func() { CloseNow(tb, c) })
	return c
}

// Opened is Client in a deployment that was opened with Init.
func (m *Memory) Opened(tb testing.TB, config redlock.Config) *redlock.Client {
	tb.Helper()
	open := m.Reach(config)
	open.Logger, open.Tracer = nil, nil
	require.NoError(tb, m.Init(tb.Context(), open))
	return m.Client(tb, config)
}

// CloseNow closes a client.
func CloseNow(tb testing.TB, c *redlock.Client) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(tb, c.Close(ctx))
}

// Fenced returns a configuration with fencing numbers.
func Fenced(changes ...func(*redlock.Config)) redlock.Config {
	config := redlock.Config{Fenced: true, MaxTTL: time.Second}
	for _, change := range changes {
		change(&config)
	}
	return config
}

// MustAcquire locks a resource in one attempt.
func MustAcquire(t *testing.T, c *redlock.Client, resource string, ttl time.Duration) redlock.Lock {
	t.Helper()
	lock, err := c.TryAcquire(context.Background(), resource, ttl)
	require.NoError(t, err)
	return lock
}

// Named puts the addresses of nodes in place of node0, node1, … in a text.
func (m *Memory) Named(text string) string {
	for i := range m.Nodes {
		text = strings.ReplaceAll(text, fmt.Sprintf("node%d", i), m.Addr(i))
	}
	return text
}
