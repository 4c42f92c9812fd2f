package multiplex

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node that joins while commands wait to be written gets none of them, not
// even a part: those rounds have its vote as failed, and their replies would be
// surplus (docs/internals/design.md, "A join is at the head").
func TestJoinWithUnflushedBytes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.unreachable(0)
		c.eventually(time.Second, func() bool { return c.status(0).State == Down }, "down")

		// The test takes the flusher's role, so that appended commands wait.
		c.group.mu.Lock()
		require.True(t, c.group.takeFlushLocked())
		c.group.mu.Unlock()
		var wg sync.WaitGroup
		claim := func(when string, sent bool) {
			for i := range 10 {
				wg.Go(func() {
					receipt, err := c.claim(background, fmt.Sprint(when, i), "t", long)
					assert.NoError(t, err)
					assert.Equal(t, sent, receipt.Sent.Has(0))
				})
			}
			synctest.Wait()
		}
		claim("before", false)
		c.links[0].Refuse(false)
		c.waitUp(3)
		claim("after", true)
		c.group.flush()
		wg.Wait()
		time.Sleep(trip)
		assert.Len(t, c.nodes[0].Keys(), 10)
		assert.Len(t, c.nodes[1].Keys(), 20)
		assert.Equal(t, 1, c.status(0).Deaths)

		// Nothing is out of step afterwards.
		for _, key := range c.nodes[0].Keys() {
			assert.NoError(t, c.release(background, key, "t", long, Receipt{Sent: All(3)}))
		}
		assert.Equal(t, 1, c.status(0).Deaths)
	}, withConfig(func(c *Config) { c.VoteTimeout = time.Minute }))
}

// A node that is given up gets no new rounds from that moment. Those that come
// before its connection is buried are owed once (R8), and not again by the
// burial.
func TestReleaseBetweenShedAndBurialIsOwedOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.links[0].Refuse(true)
		g := c.group
		g.mu.Lock()
		g.nodes[0].shedLocked(ErrSilent) // its reader wakes, and waits for the mutex
		require.True(t, g.takeFlushLocked())
		r := g.log.take(g)
		g.admitLocked(noCaller, r, releaseKind.verb(), &Command{
			Encoded: raw(releaseCommand("k", "t")), TTL: long, Receipt: receipt,
		}, 1)
		g.mu.Unlock()
		g.flush()
		time.Sleep(10 * ms)
		assert.Equal(t, Down, c.status(0).State)
		assert.Equal(t, 1, c.status(0).Debts)
		c.links[0].Refuse(false)
		c.waitUp(3)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	})
}

// R12: a caller uses errors.Is to ask whether its own context ended. Nodes
// whose dials, fences and payments hang have deadlines of ours. None of them
// may match, although each node's own cause is reported.
func TestNodesDeadlinesAreNotTheCallers_R12(t *testing.T) {
	for hangs, why := range map[string]error{"dial": os.ErrDeadlineExceeded, "CLIENT": ErrSilent, "EVALSHA": ErrSilent} {
		subBubble(t, hangs, 3, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("k")
			c.nodes[0].Pause()
			c.nodes[1].Pause()
			_ = c.release(background, "k", "t", long, receipt)
			c.eventually(2*time.Second, func() bool { return c.up() == 1 }, "shed")
			for _, n := range c.nodes[:2] {
				n.Handle(func(_ int, args []string) ([]byte, bool) {
					return nil, args[0] == hangs && (hangs != "CLIENT" || args[1] == "KILL")
				})
				if hangs != "dial" {
					n.Resume()
				}
			}
			time.Sleep(time.Second)
			_, err := c.claim(background, "other", "t", long)
			require.Equal(t, []int{0, 1}, undecided(t, err))
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, why, "why is told all the same")
		}, eachNode(func(n *conn.Config) { n.DialTimeout = 50 * ms }))
	}
}

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
			subBubble(t, fmt.Sprint(after, "+", later), 5, func(t *testing.T, c *cluster) {
				c.mustClaim("before")
				c.eventually(2*after, func() bool { return c.up() == 0 }, "closed")
				time.Sleep(later)
				spent := took(func() {
					_, err := c.claim(background, "k", "t", long)
					assert.NoError(t, err)
				})
				assert.Less(t, spent, 5*trip)
			}, idleTimeout(after), withConfig(func(c *Config) { c.ProbeAfter = time.Hour }))
		}
	}
}

// A connection that was closed after an idle time is probed earlier from then
// on, and not closed again (R26). So is one with an idle timeout as long as the
// time between two probes.
func TestProbesLearnFromIdleTimeouts_R26(t *testing.T) {
	for _, after := range []time.Duration{400 * ms, time.Second, 3 * time.Second, 5 * time.Second} {
		subBubble(t, after.String(), 3, func(t *testing.T, c *cluster) {
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

// Nodes that do not come back are waited for as long as a vote at most, and not
// at all once they are known to be gone (R26).
func TestNodesThatDoNotReturn_R26(t *testing.T) {
	absent := func(c *cluster) time.Duration {
		return took(func() {
			_, err := c.claim(background, "k", "t", long)
			assert.Len(c.t, undecided(c.t, err), 3)
		})
	}
	subBubble(t, "refused", 3, func(t *testing.T, c *cluster) {
		time.Sleep(time.Second)
		for i, link := range c.links {
			link.Refuse(true)
			c.nodes[i].DropConns()
		}
		c.eventually(time.Second, func() bool { return c.up() == 0 }, "down")
		assert.LessOrEqual(t, absent(c), trip+ms)
		assert.Zero(t, absent(c))
	})
	subBubble(t, "silent", 3, func(t *testing.T, c *cluster) {
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
	subBubble(t, "one of three was down before", 3, func(t *testing.T, c *cluster) {
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
			assert.InDelta(t, longTimeout-waited, took(func() { _, err = c.group.outcome(p, nil) }), float64(ms), waited)
			c.group.life.claims.Add(-1)
			assert.Len(t, undecided(t, err), 3)
		}
		for _, link := range c.links {
			link.Resume(redistest.Both)
		}
	})
}

// A node that fell far behind at full load is given up long before the log is
// full: its queue, and then its debts, cost memory (R26).
func TestCostlyLagIsShed_R26(t *testing.T) {
	const callers = 512
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.mustClaim("first")
		c.nodes[2].Pause()
		var wg sync.WaitGroup
		most := 0
		for i := range callers {
			wg.Go(func() {
				for j := range 60 { // 120 ms
					_, _ = c.claim(background, fmt.Sprint(i, ":", j), "t", long)
					c.group.mu.Lock()
					if last := c.group.nodes[2]; last.inLog.attached {
						most = max(most, int(c.group.fastestLocked()-last.answered.Load()))
					}
					c.group.mu.Unlock()
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 1, c.status(2).Sheds)
		// If it is given up exactly when the last callers came, they need not
		// have been seen here. Some come between two looks, or before it is
		// overdue.
		assert.GreaterOrEqual(t, most, pure.LagCostly-callers, "else nothing is tested")
		assert.LessOrEqual(t, most, pure.LagCostly+callers*int((pure.OverdueLeast+tickMost)/trip))
		c.nodes[2].Resume()
	}, withConfig(func(config *Config) { config.ShedAfter, config.VoteTimeout = time.Minute, time.Second }))
}
