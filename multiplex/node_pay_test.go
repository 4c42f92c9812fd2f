package multiplex

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

// If there are more debts than one turn handles, all are fenced and started,
// including those that arise while another goroutine has the mutex.
func TestEachDebtIsMet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		n := c.group.nodes[0]
		owe := func(i int) {
			n.ledger.OweAbsent(pure.Release{Command: fmt.Append(nil, "release ", i), TTL: time.Second}, time.Hour)
		}
		c.group.mu.Lock()
		for i := range 2*debtsAtOnce + 10 {
			owe(i)
		}
		c.group.mu.Unlock()
		met, more := make(map[*pure.Debt]bool), 5*debtsAtOnce
		n.eachDebt(func(d *pure.Debt, _ time.Duration) {
			require.False(t, met[d])
			met[d] = true
			if len(n.ledger.Debts) < more {
				owe(len(n.ledger.Debts))
			}
		})
		require.Len(t, met, len(n.ledger.Debts))
		require.Greater(t, len(met), 4*debtsAtOnce)
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		for len(n.ledger.Debts) > 0 {
			n.ledger.Remove(n.ledger.Debts[0])
		}
	})
}

// Every change of a debt's times, in the lane and outside it, moves the debt to
// the right place. A debt with an outdated end would be dropped with its key
// there, and one without a place would never be paid (R8).
func TestNodeKeepsItsDebtsPlanned_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		synctest.Wait() // from now on the test owns what the reader owns
		g, n := c.group, c.group.nodes[0]
		r := &round{group: g, verb: releaseKind.verb(), ttl: time.Second, receipt: receipt, kept: kept{command: releaseCommand("k", "t")}}
		g.mu.Lock()
		n.previous.unfenced = pure.Unfenced{End: math.MaxUint64, Since: g.now()}
		g.mu.Unlock()
		n.doubt(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		require.Len(t, n.ledger.Debts, 1)
		d := n.ledger.Debts[0]
		require.NotZero(t, d.Until)
		require.Nil(t, n.ledger.Misplaced())

		n.ledger.FenceDebt(d, g.now(), true) // due now
		n.lane.queued = make([]laneEntry, maxLane)
		n.payBesideLocked(g.now())
		require.Equal(t, g.now()+pure.RefusedFirst, d.Due, "no room in the lane")
		require.False(t, d.Sent)
		require.Nil(t, n.ledger.Misplaced())

		n.lane.queued = nil
		n.ledger.FenceDebt(d, g.now(), true) // due now
		n.payBesideLocked(g.now())
		require.True(t, d.Sent)
		require.Nil(t, n.ledger.Misplaced())
		n.abandonLaneLocked(&fault{err: ErrSilent})
		require.False(t, d.Sent)
		require.Nil(t, n.ledger.Misplaced())
		n.ledger.Remove(d)
		n.previous.unfenced = pure.Unfenced{}
	})
}

// A debt whose key has expired is gone at once, although its next try would be
// much later and the client is idle.
func TestDebtEndsInTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt, err := c.claim(background, "k", "t", 3*time.Second)
		require.NoError(t, err)
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", 3*time.Second, receipt))
		time.Sleep(trip)
		spent := c.eventually(5*time.Second, func() bool { return c.debts() == 0 }, "the debt ends")
		require.GreaterOrEqual(t, spent, 3*time.Second)
		require.LessOrEqual(t, spent, 3032*ms+2*tickMost)
	})
}
