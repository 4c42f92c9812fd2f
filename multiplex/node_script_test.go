package multiplex

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (c *cluster) flushScripts() {
	for _, n := range c.nodes {
		n.FlushScripts()
	}
}

// healthy requires that no connection was lost.
func (c *cluster) healthy() {
	c.t.Helper()
	for i := range c.nodes {
		s := c.status(i)
		require.Equal(c.t, [3]int{1, 0, 0}, [3]int{s.Connects, s.Deaths, s.Sheds}, "node %d: %v", i, s.Err)
	}
}

// R24: a lost script is cured on the same connection, and costs one more round
// trip.
func TestLostScriptIsCured(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.flushScripts()
		assert.Equal(t, 2*trip, took(func() { assert.NoError(t, c.extend(background, "k", "t", 2*long)) }))
		assert.Equal(t, trip, took(func() { assert.NoError(t, c.extend(background, "k", "t", 2*long)) }))
		c.flushScripts()
		assert.Equal(t, 2*trip, took(func() {
			assert.NoError(t, c.release(background, "k", "t", long, receipt))
		}))
		synctest.Wait()
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
		c.healthy()
	})
}

// A group that was idle for long, or whose nodes are distant, is cured as well:
// the lane's age starts with the command in it.
func TestCureAfterALongRest(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, link := range c.links {
			link.Latency(20*ms, 20*ms)
		}
		time.Sleep(time.Hour + 2*time.Second)
		receipt := c.mustClaim("k")
		time.Sleep(40 * ms)
		c.flushScripts()
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(200 * ms)
		assert.Empty(t, c.keys())
		c.healthy()
	})
}

// R24: even without another call.
func TestDetachedReleaseIsCured(t *testing.T) {
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint("nodes=", n), func(t *testing.T) {
			inBubble(t, n, func(t *testing.T, c *cluster) {
				receipt := c.mustClaim("k")
				time.Sleep(trip)
				c.flushScripts()
				c.group.Tell(releaseKind, &Command{
					Encoded: raw(releaseCommand("k", "t")), TTL: long, Receipt: receipt,
				})
				time.Sleep(2 * trip)
				synctest.Wait()
				assert.Empty(t, c.keys())
				c.healthy()
			})
		})
	}
}

// Many commands that find their script lost are all cured, with few loads.
func TestManyCuresAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		const keys = 500
		receipts := make([]Receipt, keys)
		for i := range receipts {
			receipts[i] = c.mustClaim(fmt.Sprint("k", i))
		}
		time.Sleep(trip)
		c.flushScripts()
		loads := c.nodes[0].Calls("SCRIPT LOAD")
		var wg sync.WaitGroup
		for i, r := range receipts {
			wg.Go(func() { assert.NoError(t, c.release(background, fmt.Sprint("k", i), "t", long, r)) })
		}
		wg.Wait()
		time.Sleep(trip)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
		assert.LessOrEqual(t, c.nodes[0].Calls("SCRIPT LOAD")-loads, 500, "not two for each command")
		c.healthy()
	})
}

// If there are more cures than a lane holds, the rest become debts (R26), and
// nothing is lost.
func TestMoreCuresThanTheLaneHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("many commands")
	}
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		const keys = maxLane + 500
		receipts := make([]Receipt, keys)
		for i := range receipts {
			receipts[i] = Receipt{Sent: All(1)}
			c.nodes[0].DB().Set(fmt.Sprint("k", i), "t", time.Hour)
		}
		c.flushScripts()
		for i, r := range receipts {
			c.group.Tell(releaseKind, &Command{
				Encoded: raw(releaseCommand(fmt.Sprint("k", i), "t")), TTL: time.Hour, Receipt: r,
			})
		}
		c.eventually(10*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "all released")
	})
}

// If the scripts are flushed again between their load and the command, the
// release is a debt, and is paid.
func TestScriptFlushedInTheMiddleOfALoad(t *testing.T) {
	for _, times := range []int{1, 3, 7} {
		t.Run(fmt.Sprint("times=", times), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				receipt := c.mustClaim("k")
				time.Sleep(trip)
				for _, n := range c.nodes {
					flushes := 0
					n.Handle(func(_ int, args []string) ([]byte, bool) {
						if args[0] == "EVALSHA" && flushes < 2*times {
							flushes++
							n.FlushScripts() // whatever was loaded before it
						}
						return nil, false
					})
				}
				err := c.release(background, "k", "t", long, receipt)
				undecided(t, err)
				c.eventually(20*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "released")
				c.healthy()
			})
		})
	}
}

// A node that falls silent during a cure costs its callers the vote timeout, as
// any silent node does (R26).
func TestSilenceInTheMiddleOfACure(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("nodes=", n), func(t *testing.T) {
			inBubble(t, n, func(t *testing.T, c *cluster) {
				receipt := c.mustClaim("k")
				time.Sleep(time.Second)
				c.flushScripts()
				for _, node := range c.nodes {
					node.Delay("SCRIPT LOAD", 10*time.Second)
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					var err error
					spent := took(func() { err = c.extend(background, "k", "t", long) })
					assert.Len(t, undecided(t, err), n)
					assert.ErrorIs(t, err, ErrTimeout)
					assert.LessOrEqual(t, spent, longTimeout+5*ms)
				})
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(background, 10*ms)
					defer cancel()
					var err error
					spent := took(func() { err = c.release(ctx, "k", "t", long, receipt) })
					assert.Equal(t, context.DeadlineExceeded, err)
					assert.LessOrEqual(t, spent, 25*ms)
				})
				wg.Wait()
				for _, node := range c.nodes {
					node.Delay("SCRIPT LOAD", 0)
				}
				c.eventually(20*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "released")
			})
		})
	}
}

// If a connection dies during a cure, the release is owed, once.
func TestDeathInTheMiddleOfACure(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.flushScripts()
		for _, n := range c.nodes {
			n.Delay("SCRIPT LOAD", 5*ms)
		}
		time.AfterFunc(2*trip, func() {
			for i, n := range c.nodes {
				c.links[i].Refuse(true)
				n.DropConns()
			}
		})
		err := c.release(background, "k", "t", long, receipt)
		assert.Len(t, undecided(t, err), 2)
		time.Sleep(100 * ms)
		assert.Equal(t, 3, c.debts())
		for i, n := range c.nodes {
			n.Delay("SCRIPT LOAD", 0)
			c.links[i].Refuse(false)
		}
		c.waitUp(3)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	})
}

// A cure concerns one node: the others answer in one round trip, and their
// quorum decides.
func TestCureOfOneNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range 50 {
			key := fmt.Sprint("k", i)
			receipt := c.mustClaim(key)
			c.nodes[i%3].FlushScripts()
			assert.Equal(t, trip, took(func() { assert.NoError(t, c.release(background, key, "t", long, receipt)) }))
		}
		time.Sleep(2 * trip)
		assert.Empty(t, c.keys())
		c.healthy()
	})
}

// A debt whose script was lost is cured too.
func TestDebtIsCured(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(trip)
		c.nodes[0].FlushScripts()
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "paid")
		c.healthy()
	})
}

// A node whose scripts are flushed while it pays is connected again, since the
// handshake loads them (R24, R26). With a full ledger it would otherwise stay
// out until its debts have expired.
func TestScriptsFlushedWhilePaying(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var receipts []Receipt
		keys := []string{"a", "b", "c", "d"}
		for _, key := range keys {
			receipts = append(receipts, c.mustClaim(key))
		}
		c.links[0].HoldDials(true)
		c.nodes[0].DropConns()
		c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "down")
		for i, key := range keys {
			require.NoError(t, c.release(background, key, "t", long, receipts[i]))
		}
		require.Equal(t, len(keys), c.status(0).Debts)
		c.nodes[0].Refuse("-BUSY a script runs", "EVALSHA")
		c.links[0].HoldDials(false)
		time.Sleep(500 * ms)
		require.NotEqual(t, Up, c.status(0).State, "it owes too much")
		c.nodes[0].FlushScripts()
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(1500*ms, func() bool { return c.status(0).State == Up && c.status(0).Debts == 0 }, "up and even")
		require.Empty(t, c.nodes[0].Keys())
	}, withConfig(func(c *Config) { c.MaxDebts = 4 }))
}

// R26: a lost script also does not make a debt wait for another pause, which
// may have grown to a second by earlier refusals.
func TestRefusedDebtIsCuredAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(900 * ms) // it was tried after 50, 100, 200 and 400 ms, and is due after another 800
		c.nodes[0].FlushScripts()
		c.nodes[0].Refuse("", "EVALSHA")
		spent := c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "paid")
		require.LessOrEqual(t, spent, 850*ms)
		c.healthy()
	})
}
