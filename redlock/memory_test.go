package redlock

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// memory is a deployment in memory: nodes that know our scripts, and their
// network. Inside testing/synctest all of it runs in simulated time.
type memory struct {
	network *redistest.Network
	nodes   []*redistest.Node
}

func newMemory(tb testing.TB, n int) *memory {
	tb.Helper()
	m := &memory{network: redistest.NewNetwork()}
	for i := range n {
		node := redistest.NewNode(redistest.NodeConfig{})
		teach(node)
		teachHolds(node)
		node.Serve(m.network.Listen(fmt.Sprintf("node%d:6379", i)))
		m.nodes = append(m.nodes, node)
	}
	tb.Cleanup(m.close)
	return m
}

func (m *memory) close() {
	for _, node := range m.nodes {
		node.Close()
	}
	m.network.Close()
}

func (m *memory) urls() []string { return redistest.URLs(m.nodes) }

func (m *memory) link(i int) *redistest.Link { return m.network.At(m.nodes[i].Addr()) }

// delay makes replies of a node arrive after d: half of it passes before the
// command is executed.
func (m *memory) delay(i int, d time.Duration) { m.link(i).Latency(d/2, d-d/2) }

// client creates a client of all nodes and closes it with the test.
func (m *memory) client(tb testing.TB, config Config) *Client {
	tb.Helper()
	if config.Nodes == nil {
		config.Nodes = Nodes(m.urls()...)
	}
	config.NetDial = m.network.Dial
	c, err := New(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() { closeNow(tb, c) })
	return c
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
		return ok && value == string(token[:])
	})
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

// teach registers what the scripts do; TestScripts compares it with a real
// server.
func teach(n *redistest.Node) {
	n.Script(sealSource, writeSeal)
	n.Script(lookSource, func(keys, _ []string, db *redistest.DB) any {
		if value, ok := db.Get(keys[0]); ok {
			return value
		}
		return nil
	})
	n.Script(releaseManySource, func(keys, args []string, db *redistest.DB) any {
		results := make([]any, len(keys))
		for i := range keys {
			results[i] = 0
			if db.DeleteIf(keys[i], args[i]) {
				results[i] = 1
			}
		}
		return results
	})
	n.Script(releaseSource, func(keys, args []string, db *redistest.DB) any {
		if db.DeleteIf(keys[0], args[0]) {
			return 1
		}
		return 0
	})
	n.Script(extendSource, func(keys, args []string, db *redistest.DB) any {
		return extendOne(db, keys[0], args[0], args[1])
	})
	n.Script(extendManySource, func(keys, args []string, db *redistest.DB) any {
		results := make([]any, len(keys))
		for i := range keys {
			results[i] = extendOne(db, keys[i], args[2*i], args[2*i+1])
		}
		return results
	})
}

// teachHolds registers what the scripts of holds do.
func teachHolds(n *redistest.Node) {
	n.Script(healSource, func(keys, args []string, db *redistest.DB) any {
		if _, ok := db.Get(keys[0]); ok {
			return extendOne(db, keys[0], args[0], args[1])
		}
		ttl, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		db.Set(keys[0], args[0], time.Duration(ttl)*time.Millisecond)
		return 2
	})
	n.Script(shortenSource, func(keys, args []string, db *redistest.DB) any {
		if value, ok := db.Get(keys[0]); !ok || value != args[0] {
			return 0
		}
		want, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		if rest, _ := db.TTL(keys[0]); rest == 0 || rest.Milliseconds() > want {
			db.Expire(keys[0], time.Duration(want)*time.Millisecond)
		}
		return 1
	})
}

func extendOne(db *redistest.DB, key, token, ttl string) any {
	if value, ok := db.Get(key); !ok || value != token {
		return 0
	}
	rest, _ := db.TTL(key)
	want, err := strconv.ParseInt(ttl, 10, 64)
	if err != nil {
		return err
	}
	if rest > 0 && rest.Milliseconds() < want {
		db.Expire(key, time.Duration(want)*time.Millisecond)
	}
	return 1
}
