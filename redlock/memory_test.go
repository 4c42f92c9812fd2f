package redlock

import (
	"cmp"
	"context"
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

// memory is a deployment in memory, with clients.
type memory struct {
	*redistest.Masters
	network     *redistest.Network
	nodes       []*redistest.Node
	arrangement redistest.Arrangement
}

// anyNumber of nodes is for tests that hold for each: it is drawn.
const anyNumber = 0

func newMemory(tb testing.TB, n int) *memory {
	tb.Helper()
	m := redistest.NewMasters(tb, n)
	return &memory{m, m.Network, m.Nodes, m.Arrangement}
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

func (m *memory) urls() []string { return redistest.URLs(m.nodes) }

// url is the URL of node i, with credentials.
func (m *memory) url(i int, credentials string) string {
	return strings.Replace(m.nodes[i].URL(), "://", "://"+credentials+"@", 1)
}

func (m *memory) addr(i int) string                          { return m.Addr(i) }
func (m *memory) named(text string) string                   { return m.Named(text) }
func (m *memory) link(i int) *redistest.Link                 { return m.Link(i) }
func (m *memory) delay(i int, d time.Duration)               { m.Delay(i, d) }
func (m *memory) far(d time.Duration)                        { m.Far(d) }
func (m *memory) wires(tb testing.TB) *redistest.Network     { return m.Wires(tb) }
func (m *memory) silence()                                   { m.Silence() }
func (m *memory) recover()                                   { m.Recover() }
func (m *memory) forget(key string)                          { m.Forget(key) }
func (m *memory) forgetOn(node int, key string)              { m.nodes[node].DB().Delete(key) }
func calls(m *memory, command string) int                    { return m.Calls(command) }
func each(nodes []*redistest.Node, do func(*redistest.Node)) { redistest.Each(nodes, do) }

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

// realClient returns a patient client of real servers, all of which are up: on
// a busy machine a vote may come late. It is forgetful, unless a change says
// so.
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

// apartPlain returns a client that alone uses another network to the nodes.
func (m *memory) apartPlain(t *testing.T, config Config) (*Client, *redistest.Network) {
	t.Helper()
	own := m.wires(t)
	config.Connect.NetDial = own.Dial
	return m.client(t, config), own
}

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

// sets waits until what was sent has arrived, and returns how many nodes have
// each key.
func (m *memory) sets() map[string]int {
	time.Sleep(100 * ms)
	on := make(map[string]int)
	for _, n := range m.nodes {
		for _, key := range n.Keys() {
			on[key]++
		}
	}
	return on
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
)
