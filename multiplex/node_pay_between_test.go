package multiplex

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests are about the moment between two steps: what happens there must
// not be lost, and must not count for more than it is.

// A release that a node comes to owe while it pays its other debts is written
// before the first command after the join, although the join does not wait for
// it (R8). Otherwise the next claim of that key would find the old one.
func TestWhatIsOwedDuringThePaymentIsPaidFirst_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		one, two := c.mustClaim("one"), c.mustClaim("two")
		time.Sleep(trip)
		c.unreachable(0)
		require.NoError(t, c.release(background, "one", "t", long, one))
		c.nodes[0].Delay("EVALSHA", 20*ms)
		c.links[0].Refuse(false)
		c.eventually(time.Second, func() bool { return c.status(0).State == Paying }, "it pays")
		require.NoError(t, c.release(background, "two", "t", long, two))
		c.nodes[0].Delay("EVALSHA", 0)
		c.waitUp(3)
		_, err := c.claim(background, "two", "next", long)
		require.NoError(t, err)
		time.Sleep(20 * trip)
		last := story(c.nodes[0])
		last = last[len(last)-3:]
		assert.Contains(t, last[0], "release one t")
		assert.Contains(t, last[1], "release two t")
		assert.Contains(t, last[2], "SET two next")
		value, _ := c.nodes[0].Get("two")
		assert.Equal(t, "next", value)
	})
}

// If the lane has no room for a debt, it stays owed, and is tried again (R8).
func TestADebtThatFindsNoRoomIsTriedAgain_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(trip)
		require.Equal(t, 1, c.status(0).Debts)
		g, n := c.group, c.group.nodes[0]
		g.mu.Lock()
		for n.lane.add(laneEntry{purpose: probe}, ping) {
		}
		n.payBesideLocked(g.now() + time.Second) // it is due by then
		misplaced, next := n.ledger.Misplaced(), n.ledger.Debts[0]
		sent := next.Sent
		g.promptLocked()
		g.mu.Unlock()
		assert.Nil(t, misplaced)
		assert.False(t, sent, "it was not written")
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(3*time.Second, func() bool { return c.debts() == 0 }, "it is paid")
		assert.Empty(t, c.keys())
	}, withConfig(func(config *Config) { config.ShedAfter = time.Minute }))
}

// A reply that cannot answer a release ends the connection and counts for
// nothing: the release is owed, although it was the one at the cursor (R8,
// R16). The same applies to a release that was sent again after its script, and
// has left the lane when its reply is examined.
func TestAReleaseWhoseReplyIsNoAnswerIsOwed_R8(t *testing.T) {
	for name, cured := range map[string]bool{"in the log": false, "in the lane": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				receipt := c.mustClaim("k")
				time.Sleep(trip)
				if cured {
					c.flushScripts()
				}
				var answered atomic.Bool
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					known := c.nodes[0].Calls("SCRIPT LOAD") > len(scripts())
					if args[0] != "EVALSHA" || answered.Load() || cured && !known {
						return nil, false
					}
					answered.Store(true)
					return []byte("+what\r\n"), true
				})
				require.NoError(t, c.release(background, "k", "t", long, receipt))
				time.Sleep(5 * trip)
				require.True(t, answered.Load())
				require.Equal(t, 1, c.status(0).Deaths)
				require.EqualValues(t, 1, c.status(0).Counts.DebtsMade)
				c.waitUp(3)
				assert.Zero(t, c.debts())
				assert.Empty(t, c.keys())
			})
		})
	}
}

// A decided round does not hide an older one that is undecided: the latter's
// votes time out when they should (R6).
func TestAYoungerRoundThatIsDecidedHidesNoOlder_R6(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			n.Pause()
		}
		done := make(chan time.Duration)
		go func() {
			done <- took(func() {
				_, err := c.claim(background, "older", "t", long)
				assert.ErrorIs(t, err, ErrUndecided)
			})
		}()
		time.Sleep(ms)
		_, err := c.claim(background, "younger", "t", time.Second) // its votes have 5 ms
		require.ErrorIs(t, err, ErrUndecided)
		spent := <-done
		assert.GreaterOrEqual(t, spent, longTimeout)
		assert.LessOrEqual(t, spent, longTimeout+tickMost)
		for _, n := range c.nodes {
			n.Resume()
		}
	})
}
