package redlock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// permitWaiters puts callers for a permit into a queue in which each has a
// seat. They do not run.
func permitWaiters(c *Client, n int) (all []*waiter) {
	r := request{kind: kind.Waiting(c.kinds.Permit(20)), name: "r", ttl: 10 * time.Second}
	for range n {
		w := c.queues.join(c, r, ErrHeld, 0, false)
		w.queue.seats = n
		all = append(all, w)
	}
	return all
}

// The head has a seat, also if it gave one up when it was not the head yet:
// what is due is told to the head.
func TestTheHeadHasASeat(t *testing.T) {
	c := encoding(Config{})
	all := permitWaiters(c, 4)
	for _, w := range all {
		require.Nil(t, c.queues.begin(w))
	}
	c.queues.failed(all[1], ErrHeld)
	require.False(t, c.queues.hasTurn(all[1]))
	c.queues.granted(all[0])
	all[0].leave()
	require.True(t, c.queues.hasTurn(all[1]))
	c.queues.failed(all[2], ErrHeld)
	c.queues.failed(all[3], ErrHeld)
	require.True(t, c.queues.hasTurn(all[1]))
	require.Equal(t, 1, all[1].queue.taken)
}

// A permit that is released while another caller's attempt is granted is asked
// for: that attempt may stand before the release.
func TestAnotherPermitIsDueAfterAGrant(t *testing.T) {
	c := encoding(Config{})
	all := permitWaiters(c, 2)
	require.False(t, c.queues.isDue(all[0]))
	require.Nil(t, c.queues.begin(all[1]))
	c.queues.released(all[0].key(), nil)
	c.queues.granted(all[1])
	require.True(t, c.queues.isDue(all[0]))
}

// A permit that is handed over says nothing of others, so no further caller
// asks the nodes (R34).
func TestHandedPermitsCostNoAttempts_R34(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: 10 * time.Second})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if lock, err := c.Semaphore("r", 2).Acquire(ctx, 10*time.Second); err == nil {
						time.Sleep(20 * ms)
						assert.NoError(t, lock.Release(context.WithoutCancel(ctx)))
					}
				}
			})
		}
		time.Sleep(time.Second)
		asked, handed := m.nodes[0].Calls("EVALSHA"), c.Stats().HandedOver
		time.Sleep(2 * time.Second)
		asked, handed = m.nodes[0].Calls("EVALSHA")-asked, c.Stats().HandedOver-handed
		stop()
		wg.Wait()
		require.Greater(t, int(handed), 150)
		require.Less(t, asked, 300)
	})
}

// The next caller of a fair lock does not give way after a hold: it is its
// turn, and no other client can have the lock.
func TestNobodyGivesWayInAFairQueue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h, err := c.Fair("r").Hold(t.Context(), HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		w := waitsWith(t.Context(), c.Fair("r"))
		time.Sleep(3 * time.Second)
		begun := time.Now()
		require.NoError(t, h.Release(t.Context()))
		<-w.done
		require.NoError(t, w.err)
		require.LessOrEqual(t, w.at.Sub(begun), 4*ms)
		require.NoError(t, w.lock.Release(t.Context()))
	})
}

// Callers of a fair lock that come at one moment do not all have places at the
// nodes. One without a seat would not renew its own, and no other caller would
// get the lock until that has lapsed.
func TestOnlyCallersWithASeatHavePlaces_R34(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, k := m.client(t, Config{}), m.client(t, Config{}).Fair("r")
		held, err := k.Acquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				_, err := c.Fair("r").Acquire(ctx, 10*time.Second)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(100 * ms)
		within, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		_, err = k.Acquire(within, 10*time.Second)
		last := (*HeldError)(nil)
		stop()
		wg.Wait()
		require.ErrorAs(t, err, &last)
		require.Equal(t, 9, last.Place, "behind those with a seat")
		require.NoError(t, held.Release(t.Context()))
	})
}
