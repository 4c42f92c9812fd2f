package multiplex

import (
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// idleTimeout makes all connections close after an idle time.
func idleTimeout(after time.Duration) func(*cluster) {
	return func(c *cluster) {
		for _, link := range c.links {
			link.IdleTimeout(after)
		}
	}
}

// The idle timeout of a server or a proxy closes the connections to all nodes
// at once. A call that comes then waits until they are back, which takes some
// round trips (R26).
func TestCallsSurviveAnIdleTimeout_R26(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second} {
		for _, later := range []time.Duration{0, ms, 3 * ms, 10 * ms} {
			t.Run(fmt.Sprint(after, "+", later), func(t *testing.T) {
				inBubble(t, 5, func(t *testing.T, c *cluster) {
					c.mustClaim("before")
					c.eventually(2*after, func() bool { return c.up() == 0 }, "closed")
					time.Sleep(later)
					spent := took(func() {
						_, err := c.claim(background, "k", "t", long)
						assert.NoError(t, err)
					})
					assert.Less(t, spent, 5*trip)
				}, idleTimeout(after), withConfig(func(c *Config) { c.ProbeAfter = time.Hour }))
			})
		}
	}
}

// A connection that was closed after an idle time is probed earlier from then
// on, and not closed again (R26). So is one with an idle timeout as long as the
// time between two probes.
func TestProbesLearnFromIdleTimeouts_R26(t *testing.T) {
	for _, after := range []time.Duration{400 * ms, time.Second, 3 * time.Second, 5 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				for range 15 {
					time.Sleep(2*after + 10*ms)
					key := fmt.Sprint("k", time.Now())
					_, err := c.claim(background, key, "t", long)
					assert.NoError(t, err)
				}
				for i := range c.nodes {
					assert.Equal(t, 1, c.status(i).Deaths, "node %d", i)
				}
			}, idleTimeout(after))
		})
	}
}

// What was learned about an idle timeout is slowly forgotten: an operator may
// have changed it.
func TestProbesRecover_R26(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.eventually(4*time.Second, func() bool { return c.status(0).Deaths == 1 }, "closed once")
		for _, link := range c.links {
			link.IdleTimeout(0)
		}
		probes := func() int {
			before := c.status(0).Counts.Probes
			time.Sleep(time.Minute)
			return int(c.status(0).Counts.Probes - before)
		}
		assert.InDelta(t, 60, probes(), 1)
		time.Sleep(probeRecovery)
		assert.InDelta(t, 30, probes(), 1)
		time.Sleep(2 * probeRecovery)
		assert.InDelta(t, 12, probes(), 1)
	}, idleTimeout(3*time.Second))
}

// A restart of a server that had been idle says nothing about idle timeouts.
func TestRestartsAreNoIdleTimeouts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		time.Sleep(2 * time.Second)
		for _, n := range c.nodes {
			n.Restart()
		}
		time.Sleep(time.Second)
		c.waitUp(3)
		before := c.status(0).Counts.Probes
		time.Sleep(time.Minute)
		assert.InDelta(t, 12, c.status(0).Counts.Probes-before, 1)
	})
}

// Nodes that do not come back are waited for as long as a vote at most, and not
// at all once they are known to be gone (R26).
func TestNodesThatDoNotReturn_R26(t *testing.T) {
	absent := func(c *cluster) time.Duration {
		return took(func() {
			_, err := c.claim(background, "k", "t", long)
			assert.Len(c.t, undecided(c.t, err), 3)
		})
	}
	t.Run("refused", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			time.Sleep(time.Second)
			for i, link := range c.links {
				link.Refuse(true)
				c.nodes[i].DropConns()
			}
			c.eventually(time.Second, func() bool { return c.up() == 0 }, "down")
			assert.LessOrEqual(t, absent(c), trip+ms)
			assert.Zero(t, absent(c))
		})
	})
	t.Run("silent", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			time.Sleep(time.Second)
			for i, link := range c.links {
				link.HoldDials(true)
				c.nodes[i].DropConns()
			}
			c.eventually(time.Second, func() bool { return c.up() == 0 }, "down")
			assert.InDelta(t, longTimeout, absent(c), float64(ms))
			time.Sleep(longShed)
			assert.Zero(t, absent(c))
			for _, link := range c.links {
				link.HoldDials(false)
			}
		})
	})
	t.Run("one of three was down before", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			for i := range 2 {
				c.links[i].Refuse(true)
				c.nodes[i].DropConns()
			}
			time.Sleep(time.Second)
			require.Equal(t, 1, c.up())
			c.nodes[2].DropConns()
			c.eventually(time.Second, func() bool { return c.up() == 0 }, "down")
			assert.Zero(t, absent(c), "its return would make no quorum")
		})
	})
}

// A command whose caller has waited for nodes to return waits for their votes
// for the rest of the vote timeout only (R26).
func TestWaitForAReturnAndVotesIsOneTimeout_R26(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, link := range c.links {
			link.Pause(redistest.Both)
		}
		for waited := time.Duration(0); waited < longTimeout; waited += longTimeout / 5 {
			command := &Command{Encoded: raw(setCommand("k", "t", long)), TTL: long}
			p, err := c.group.enter(background, claimKind.verb(), command, Posting{waited: waited})
			require.NoError(t, err)
			assert.InDelta(t, longTimeout-waited, took(func() { err = c.group.outcome(p, nil) }), float64(ms), waited)
			c.group.life.claims.Add(-1)
			assert.Len(t, undecided(t, err), 3)
		}
		for _, link := range c.links {
			link.Resume(redistest.Both)
		}
	})
}
