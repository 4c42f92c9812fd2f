//go:build linux && !redmux_portable

package multiplex

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mixedServers are two plain servers and three with TLS. A NetDial dials a
// plain one and one with TLS, so these have readers.
func mixedServers(t testing.TB) ([]*redistest.Server, func(*Config)) {
	t.Helper()
	servers := redistest.Servers(t, 2, redistest.OverTCP)
	servers = append(servers, redistest.Servers(t, 3, redistest.OverTLS)...)
	return servers, func(c *Config) {
		for _, i := range []int{1, 4} {
			c.Nodes[i].NetDial = new(net.Dialer).DialContext
		}
	}
}

// polledNodes returns the nodes that the poller reads.
func (g *Group) polledNodes() (s Set) {
	for i, n := range g.nodes {
		if n.polled.conn.Load() != nil {
			s |= setOf(i)
		}
	}
	return s
}

// A group of both sorts: a caller polls nodes with TLS and without, others have
// their readers, and the outcome counts all.
func TestPolledMixedGroup(t *testing.T) {
	redistest.NoLeaks(t)
	servers, dialed := mixedServers(t)
	g := onServers(t, servers, patient, dialed, func(c *Config) { c.VoteTimeout = 3 * time.Second }) // Close waits this long in the end
	assert.Equal(t, setOf(0)|setOf(2)|setOf(3), g.polledNodes())

	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 50 {
				assert.NoError(t, pairOn(background, g, fmt.Sprint(i, "-", n)))
			}
		})
	}
	within(t, "callers", wg.Wait)

	// With two polled nodes silent, the quorum needs both votes that readers
	// count: they must wake the polling caller.
	for _, i := range []int{0, 2} {
		require.NoError(t, servers[i].Stop())
	}
	atBest(t, func() error {
		var took []time.Duration
		for i := range 20 {
			start, err := time.Now(), error(nil)
			within(t, "a claim", func() {
				_, err = claimOn(background, g, fmt.Sprint("woken:", i, time.Now().UnixNano()), "t")
			})
			require.NoError(t, err)
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		t.Logf("decided by readers: median %v", took[10])
		if took[10] > 20*time.Millisecond {
			return fmt.Errorf("half of the calls took more than %v", took[10])
		}
		return nil
	})

	// If one of those is silent too, a cancellation must wake it.
	require.NoError(t, servers[4].Stop())
	atBest(t, func() error {
		ctx, cancel := context.WithCancel(background)
		var ended time.Time
		time.AfterFunc(20*time.Millisecond, func() { ended = time.Now(); cancel() })
		within(t, "a cancelled claim", func() {
			_, err := claimOn(ctx, g, "cancelled", "t")
			assert.ErrorIs(t, err, context.Canceled)
		})
		if late := time.Since(ended); late > 15*time.Millisecond {
			return fmt.Errorf("the cancellation was noticed after %v", late)
		}
		return nil
	})
	requireSettled(t, g)
	closesInTime(t, g)
	assert.Zero(t, g.poller.attached.Load())
}

// A connection from a user's NetDial is never polled, plain socket or not.
func TestPolledGroupWithNetDial(t *testing.T) {
	redistest.NoLeaks(t)
	nodes := startWireNodes(t, 5)
	g := onWire(t, nodes, patient, func(c *Config) {
		for i := range 2 {
			c.Nodes[i].NetDial = new(net.Dialer).DialContext
		}
	})
	for i := range 200 {
		require.NoError(t, pairOn(background, g, fmt.Sprint(i)))
	}
	nodes[4].drop()
	nodes[0].drop()
	soon(t, "all up again", func() bool {
		all := g.Nodes()
		return all[0].Connects == 2 && all[4].Connects == 2 && all[0].State == Up && all[4].State == Up
	})
	require.NoError(t, pairOn(background, g, "k"))
	polled := g.polledNodes()
	closesInTime(t, g)
	assert.Equal(t, All(5)&^All(2), polled)
}

// Groups with nothing to poll have no poller.
func TestGroupsWithNothingToPollHaveNoPoller(t *testing.T) {
	nodes := startWireNodes(t, 3)
	all := onWire(t, nodes, patient, func(c *Config) {
		for i := range c.Nodes {
			c.Nodes[i].NetDial = new(net.Dialer).DialContext
		}
	})
	assert.Nil(t, all.poller)
	require.NoError(t, pairOn(background, all, "k"))
}
