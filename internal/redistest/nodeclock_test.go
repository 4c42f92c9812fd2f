package redistest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// Keys, PTTL, TIME and the uptime follow the node's clock, for native commands
// and scripts alike.
func TestNodeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		const extend = "-- extends"
		node.Script(extend, func(keys, args []string, db *redistest.DB) any {
			return db.ExtendIf(keys[0], args[0], 10*time.Second)
		})
		start := node.Clock().Now()
		require.Equal(t, start, time.Now(), "one that was not set is the world's")
		node.Clock().SetRate(2)
		c.do("SET", "a", "x", "PX", "10000")
		time.Sleep(5*time.Second - time.Millisecond)
		require.Equal(t, ":2\r\n", c.do("PTTL", "a"))
		time.Sleep(time.Millisecond)
		require.Equal(t, ":-2\r\n", c.do("PTTL", "a"))
		require.Equal(t, 10*time.Second, node.Clock().Now().Sub(start))
		require.Contains(t, c.do("INFO", "server"), "uptime_in_seconds:10\r\n")

		node.Clock().SetRate(0.5)
		c.do("SET", "b", "x", "PX", "5000")
		require.Equal(t, ":1\r\n", c.do("EVAL", extend, "1", "b", "x"))
		require.Equal(t, ":10000\r\n", c.do("PTTL", "b"))
		time.Sleep(20*time.Second - time.Millisecond)
		require.Equal(t, []string{"b"}, node.Keys())
		require.Equal(t, time.Minute, node.Clock().Lasts(30*time.Second))
		time.Sleep(time.Millisecond)
		require.Empty(t, node.Keys())

		node.Clock().SetRate(1)
		c.do("SET", "c", "x", "PX", "10000")
		node.Clock().Step(-5 * time.Second)
		require.Equal(t, ":15000\r\n", c.do("PTTL", "c"))
		node.Clock().Step(15 * time.Second)
		require.Empty(t, node.Keys())
		require.Equal(t, time.Minute, node.Clock().Lasts(time.Minute))
	})
}

// A tracked key that expires at another time than expected is pushed when it
// expires.
func TestNodePushesByItsClock(t *testing.T) {
	for name, set := range map[string]struct {
		clock func(*redistest.NodeClock)
		after time.Duration
	}{
		"as it is":     {func(*redistest.NodeClock) {}, 10 * time.Second},
		"faster":       {func(c *redistest.NodeClock) { c.SetRate(2) }, 5 * time.Second},
		"slower":       {func(c *redistest.NodeClock) { c.SetRate(0.5) }, 20 * time.Second},
		"jumped":       {func(c *redistest.NodeClock) { c.Step(time.Hour) }, 0},
		"jumped there": {func(c *redistest.NodeClock) { c.Step(-5 * time.Second) }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, node, c := one(t, redistest.NodeConfig{})
				c.do("HELLO", "3")
				c.do("CLIENT", "TRACKING", "ON", "OPTIN")
				c.do("SET", "k", "x", "PX", "10000")
				c.do("CLIENT", "CACHING", "YES")
				c.do("GET", "k")
				start := time.Now()
				set.clock(node.Clock())
				require.Equal(t, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", c.next())
				require.InDelta(t, set.after.Seconds(), time.Since(start).Seconds(), 0.02)
			})
		})
	}
}

// A node that keeps its keys over a restart is still a new process.
func TestNodeRestartDurably(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, node, c := one(t, redistest.NodeConfig{})
		node.Script(release, releaseScript)
		c.do("SCRIPT", "LOAD", release)
		c.do("SET", "k", "a", "PX", "10000")
		before := node.RunID()
		time.Sleep(4 * time.Second)
		node.RestartDurably()
		require.Error(t, readError(c))
		d := dial(t, network, "node0:6379")
		require.Equal(t, ":6000\r\n", d.do("PTTL", "k"), "its life goes on meanwhile")
		require.NotEqual(t, before, node.RunID())
		require.Contains(t, d.do("EVALSHA", redistest.SHA1(release), "1", "k", "a"), "-NOSCRIPT ")
	})
}
