package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// memory is a deployment in memory: nodes that know our scripts, and their
// network. Inside testing/synctest all of it runs in simulated time.
//
// How keys begin, how the nodes are called, which database they use, and what
// clients call themselves is drawn for each test. Tests name keys without the
// prefix; a client that leaves it out fails the test, and so does one that uses
// another database.
type memory struct {
	network     *redistest.Network
	nodes       []*redistest.Node
	arrangement redistest.Arrangement
}

// anyNumber of nodes is for tests that hold for each: it is drawn.
const anyNumber = 0

func newMemory(tb testing.TB, n int) *memory {
	tb.Helper()
	m := &memory{network: redistest.NewNetwork(), arrangement: redistest.Arrange(tb)}
	for i := range cmp.Or(n, m.arrangement.N) {
		node := redistest.NewNode(redistest.NodeConfig{
			Arrangement: m.arrangement,
			Strays:      func(text string) { tb.Errorf("node %d: %s", i, text) },
		})
		node.Serve(m.network.Listen(m.arrangement.Host(i)))
		m.nodes = append(m.nodes, node)
	}
	tb.Cleanup(m.close)
	return m
}

// usual takes back what was drawn, for a test of that itself. It must be called
// before there is a client.
func (m *memory) usual() {
	m.arrangement = redistest.Arrangement{}
	for _, n := range m.nodes {
		n.Arrange(m.arrangement)
	}
}

// ownerless takes back the owner that was drawn, for a test of which commands
// clients send: to know the owners, a client tries what its nodes understand.
func (m *memory) ownerless() { m.arrangement.Owner = "" }

func (m *memory) close() {
	for _, node := range m.nodes {
		node.Close()
	}
	m.network.Close()
}

func (m *memory) urls() []string { return redistest.URLs(m.nodes) }

// addr is the address of node i, and url its URL with credentials.
func (m *memory) addr(i int) string { return m.nodes[i].Addr() }

func (m *memory) url(i int, credentials string) string {
	return strings.Replace(m.nodes[i].URL(), "://", "://"+credentials+"@", 1)
}

// named puts the addresses of nodes in place of node0, node1, … in a text.
func (m *memory) named(text string) string {
	for i := range m.nodes {
		text = strings.ReplaceAll(text, fmt.Sprintf("node%d", i), m.addr(i))
	}
	return text
}

func (m *memory) link(i int) *redistest.Link { return m.network.At(m.nodes[i].Addr()) }

// delay makes replies of a node arrive after d: half of it passes before the
// command is executed.
func (m *memory) delay(i int, d time.Duration) { m.link(i).Latency(d/2, d-d/2) }

// client creates a client of all nodes and closes it with the test. Without
// MaxTTL it is forgetful: most tests are not about quarantine.
func (m *memory) client(tb testing.TB, config Config) *Client {
	tb.Helper()
	config.Forgetful = config.MaxTTL == 0
	c, err := New(tb.Context(), m.reach(config))
	require.NoError(tb, err)
	tb.Cleanup(func() { closeNow(tb, c) })
	return c
}

// opened is client in a deployment that was opened with Init.
func (m *memory) opened(tb testing.TB, config Config) *Client {
	tb.Helper()
	open := m.reach(config)
	open.Logger, open.Tracer = nil, nil
	_, err := Init(tb.Context(), open)
	require.NoError(tb, err)
	return m.client(tb, config)
}

// reach returns a configuration with the way to all nodes.
func (m *memory) reach(config Config) Config {
	if config.Nodes == nil {
		config.Nodes = Nodes(m.urls()...)
	}
	if config.Connect.NetDial == nil {
		config.Connect.NetDial = m.network.Dial
	}
	for i := range config.Nodes {
		config.Nodes[i].URL = m.arrangement.URL(config.Nodes[i].URL)
	}
	config.Prefix = m.arrangement.Prefix + config.Prefix
	config.Owner = cmp.Or(config.Owner, m.arrangement.Owner)
	return config
}

// wires returns another network to the nodes, which have the same addresses in
// it: for a client with faults, and an order of commands, of its own.
func (m *memory) wires(tb testing.TB) *redistest.Network {
	tb.Helper()
	own := redistest.NewNetwork()
	tb.Cleanup(func() { _ = own.Close() })
	for _, n := range m.nodes {
		n.Serve(own.Listen(n.Addr()))
	}
	return own
}

// realClient returns a patient client of real servers, all of which are up: on a
// busy machine a vote may come late. It is forgetful, unless a change says so.
func realClient(tb testing.TB, servers []*redistest.Server, changes ...func(*Config)) *Client {
	tb.Helper()
	config := Config{Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Forgetful: true}
	for _, change := range changes {
		change(&config)
	}
	if !config.Forgetful {
		_, err := Init(tb.Context(), config)
		require.NoError(tb, err)
	}
	c, err := New(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() { closeNow(tb, c) })
	require.Eventually(tb, func() bool {
		return !slices.ContainsFunc(c.Nodes(), func(n NodeStatus) bool { return n.State != NodeUp || n.Quarantined })
	}, 15*time.Second, ms)
	return c
}

// portable chooses the way of reading that every system has.
func portable(is bool) func(*Config) {
	return func(c *Config) { c.Connect.NetDial = redistest.Portable(is) }
}

// owns gives a client an owner.
func owns(owner string) func(*Config) { return func(c *Config) { c.Owner = owner } }

func closeNow(tb testing.TB, c *Client) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(tb, c.Close(ctx))
}

// holders returns the nodes on which the key has this value.
func (m *memory) holders(key string, token Token) []int {
	return m.where(func(n *redistest.Node) bool {
		value, ok := n.Get(key)
		return ok && tokenIn(value) == string(token[:])
	})
}

// mute stops all bytes between the nodes and the clients of a network.
func (m *memory) mute(network *redistest.Network, on bool) {
	for _, n := range m.nodes {
		if link := network.At(n.Addr()); on {
			link.Pause(redistest.Up | redistest.Down)
		} else {
			link.Resume(redistest.Up | redistest.Down)
		}
	}
}

// forget deletes a key on all nodes, and forgetOn on one.
func (m *memory) forget(key string) {
	for i := range m.nodes {
		m.forgetOn(i, key)
	}
}

func (m *memory) forgetOn(node int, key string) { m.nodes[node].DB().Delete(key) }

// A journal collects what goroutines report.
type journal[T any] struct {
	mu   sync.Mutex
	list []T
}

func (j *journal[T]) add(entry T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, entry)
}

func (j *journal[T]) all() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// tokenIn returns the token in the value of a key, which may name an owner.
func tokenIn(value string) string {
	token, _, _ := strings.Cut(value, ":")
	return token
}

func (m *memory) where(is func(*redistest.Node) bool) []int {
	var all []int
	for i, n := range m.nodes {
		if is(n) {
			all = append(all, i)
		}
	}
	return all
}

// keys counts the keys of all nodes.
func (m *memory) keys() int {
	n := 0
	for _, node := range m.nodes {
		n += len(node.Keys())
	}
	return n
}

// inspect asks the nodes about a resource.
func inspect(t *testing.T, c *Client, resource string) Inspection {
	t.Helper()
	all, err := Inspect(context.Background(), c, resource)
	require.NoError(t, err)
	return all
}

// tokensSent returns the tokens of the SETs that a node executed, in order.
func tokensSent(n *redistest.Node) []string {
	var all []string
	for _, e := range n.Log() {
		if e.Args[0] == "SET" {
			all = append(all, e.Args[2])
		}
	}
	return all
}

// The sources of the scripts.
var (
	releaseSource, releaseManySource = lua.Release, lua.ReleaseMany
	extendSource, extendManySource   = lua.Extend, lua.ExtendMany
	healSource, shortenSource        = lua.Heal, lua.Shorten
	sealSource                       = lua.Seal
)

// recordPermits writes a node's record of permits, as its script does.
func recordPermits(n *redistest.Node, resource string, ends time.Duration, numbers ...string) {
	for _, number := range numbers {
		n.DB().Rank(resource+":redlock:permits", number, float64(time.Now().Add(ends).UnixMilli()))
	}
}
