package multiplex

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moving starts a group of one node that may move, and waits until it is up.
func moving(t *testing.T, raw, key string) *cluster {
	t.Helper()
	e, err := conn.ParseURL(raw)
	require.NoError(t, err)
	config := Config{Cure: scripts(), MaxTTL: 100 * ms, Nodes: []conn.Config{{Endpoint: e, Slot: pure.Slot(key)}}}
	for _, s := range scripts() {
		config.Nodes[0].Prelude = append(config.Nodes[0].Prelude, conn.Step{Command: s})
	}
	c := &cluster{t: t}
	c.group, err = New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.group.Close(context.Background()) })
	require.Eventually(t, func() bool { return c.up() == 1 }, patience, ms)
	return c
}

// claims waits until a key can be claimed, and releases it.
func (c *cluster) claims(key string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		receipt, err := c.claim(brief(c.t, time.Second), key, "t", long)
		if err != nil {
			return false
		}
		return assert.NoError(c.t, c.release(background, key, "t", long, receipt))
	}, patience, 10*ms)
}

// A node in cluster mode has a vote if its URL says so. The answer MOVED is a
// failed vote, and the node is dialed where the slot is now. ASK is a failed
// vote, and nothing else (R24).
func TestNodeFollowsItsSlot_R24(t *testing.T) {
	t.Parallel()
	g := redistest.Cluster(t)
	const key = "{06S}:k" // of slot 0
	c := moving(t, g.URL(), key)
	c.claims(key)
	require.NoError(t, g.MoveSlot(0, g.Servers[1], func() {
		_, err := c.claim(brief(t, time.Second), key, "t", long)
		require.ErrorContains(t, err, "ASK")
		require.Equal(t, 1, c.group.Nodes()[0].Connects)
	}))
	_, err := c.claim(brief(t, time.Second), key, "t", long)
	require.ErrorContains(t, err, "MOVED")
	c.claims(key)
	require.Equal(t, g.Servers[1].TCPAddr(), c.reached())
	now, err := g.Failover(0)
	require.NoError(t, err)
	require.Eventually(t, func() bool { c.claims(key); return c.reached() == now.TCPAddr() }, patience, 10*ms)
	for _, s := range g.Servers {
		stats, _ := s.Do("INFO", "commandstats")
		require.NotContains(t, stats, "cmdstat_asking")
	}
	require.Equal(t, []string{warnUnbounded}, c.group.Nodes()[0].Warnings, "that a slot moves is no news")
}

// reached is the address of the first node's server.
func (c *cluster) reached() string {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	return c.group.nodes[0].server.Addr
}

// A node whose primary stopped is dialed where the sentinels say, also when
// that is a server from before (R22).
func TestNodeFollowsItsPrimary_R22(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinels(t)
	c := moving(t, g.URL(), "k")
	c.claims("k")
	for range 3 {
		former := g.Primary()
		require.NoError(t, former.Stop())
		now, err := g.AwaitFailover(former)
		require.NoError(t, err)
		c.claims("k")
		require.Equal(t, now.TCPAddr(), c.reached())
		require.NoError(t, former.Continue())
	}
}
