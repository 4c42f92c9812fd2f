package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten clients over a wide area that try at one time are often all refused. With
// a short wait one of them always has the lock.
func TestOfSeveralThatWaitABitOneHasTheLock_R11(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		const rounds = 50
		r := rand.New(rand.NewPCG(26, 21))
		var clients []*Client
		for range 10 {
			c, network := m.apartPlain(t, Config{})
			for _, node := range m.nodes {
				network.At(node.Addr()).Latency(ms+spanOf(r, 10*ms), 5*ms)
			}
			clients = append(clients, c)
		}
		won := func(take func(context.Context, *Client) (Lock, error)) (count int) {
			for range rounds {
				var wg sync.WaitGroup
				var wins atomic.Int32
				var held sync.Map
				for _, c := range clients {
					wg.Go(func() {
						if lock, err := take(t.Context(), c); err == nil {
							wins.Add(1)
							held.Store(c, lock)
						}
					})
				}
				wg.Wait()
				if wins.Load() > 0 {
					count++
				}
				held.Range(func(_, lock any) bool { return lock.(Lock).Release(t.Context()) == nil })
				time.Sleep(time.Second)
			}
			return count
		}
		once := won(func(ctx context.Context, c *Client) (Lock, error) { return c.TryAcquire(ctx, "r", time.Minute) })
		waits := won(func(ctx context.Context, c *Client) (Lock, error) {
			within, cancel := context.WithTimeout(ctx, 500*ms)
			defer cancel()
			return c.Acquire(within, "r", time.Minute)
		})
		t.Logf("one won in %d of %d rounds of TryAcquire, and in %d of Acquire with half a second", once, rounds, waits)
		require.Less(t, once, rounds/2)
		require.Equal(t, rounds, waits)
	})
}
