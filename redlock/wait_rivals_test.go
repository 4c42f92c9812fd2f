package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lock that loops of rivals take.
var rivalKinds = map[string]func(ctx context.Context, c *Client) (Lock, error){
	"plain": func(ctx context.Context, c *Client) (Lock, error) { return c.Acquire(ctx, "r", time.Minute) },
	"all": func(ctx context.Context, c *Client) (Lock, error) {
		return c.All("r", "s").Acquire(ctx, time.Minute)
	},
	"write": func(ctx context.Context, c *Client) (Lock, error) { return c.RW("r").Write().Acquire(ctx, time.Minute) },
	"permits": func(ctx context.Context, c *Client) (Lock, error) {
		return c.Semaphore("r", 2).Acquire(ctx, time.Minute)
	},
}

// staggered makes clients whom the nodes reach one after another, the last
// first, as servers push to those that connected last first.
func (m *memory) staggered(t *testing.T, n int, apart time.Duration) (clients []*Client) {
	t.Helper()
	for i := range n {
		c, network := m.apartPlain(t, Config{})
		for _, node := range m.nodes {
			network.At(node.Addr()).Latency(ms/10, ms/10+time.Duration(n-1-i)*apart)
		}
		clients = append(clients, c)
	}
	return clients
}

// loops lets callers of each client take a lock in a loop, and returns how
// often each client got it.
func loops(t *testing.T, clients []*Client, callers []int, take func(context.Context, *Client) (Lock, error), holds, lasts time.Duration) []int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	times := make([]int, len(clients))
	stop := time.Now().Add(lasts)
	for i, c := range clients {
		for range callers[i] {
			wg.Go(func() {
				for time.Now().Before(stop) {
					lock, err := take(t.Context(), c)
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					if time.Now().Before(stop) {
						times[i]++
					}
					mu.Unlock()
					time.Sleep(holds)
					assert.NoError(t, lock.Release(t.Context()))
					time.Sleep(rand.N(ms / 10)) // a processor is never at once there
				}
			})
		}
	}
	wg.Wait()
	return times
}

// Clients of equal need get like shares of a lock, of whatever kind, though the
// nodes tell one always before the other.
func TestWhoIsToldFirstHasNoLargerShare_R11(t *testing.T) {
	for kind, take := range rivalKinds {
		for _, c := range []struct {
			clients int
			holds   time.Duration
		}{{2, 10 * ms}, {3, 10 * ms}, {8, 10 * ms}, {8, 50 * ms}} {
			t.Run(fmt.Sprint(kind, c), func(t *testing.T) {
				if kind == "permits" && c.clients < 3 {
					return // each has its own
				}
				simulated(t, 3, func(t *testing.T, m *memory) {
					clients := m.staggered(t, c.clients, 20*time.Microsecond)
					times := loops(t, clients, slices.Repeat([]int{1}, c.clients), take, c.holds, time.Duration(c.clients)*200*c.holds)
					t.Log(times)
					require.LessOrEqual(t, slices.Max(times), 2*slices.Min(times))
				})
			})
		}
	}
}

// A client that waits alone for what another has gets it as soon as it is told,
// though they take turns for long, and though the holder extends its lock.
func TestALoneWaiterLosesNoTime_R11(t *testing.T) {
	for kind, take := range rivalKinds {
		if kind == "permits" {
			continue // another is free
		}
		t.Run(kind, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				clients := []*Client{m.client(t, Config{}), m.client(t, Config{})}
				for i := range m.nodes {
					m.delay(i, 2*ms)
				}
				held, err := take(t.Context(), clients[0])
				require.NoError(t, err)
				late := 0
				for i := range 200 {
					got := make(chan time.Time)
					go func() {
						next, err := take(t.Context(), clients[(i+1)%2])
						assert.NoError(t, err)
						at := time.Now()
						held = next
						got <- at
					}()
					time.Sleep(50 * ms)
					if i%4 == 0 {
						time.Sleep(20 * time.Second) // a third of the validity, as holds do
						held, err = held.Extend(t.Context(), time.Minute)
						require.NoError(t, err)
						time.Sleep(50 * ms)
					}
					given, begun := held, time.Now()
					require.NoError(t, given.Release(t.Context()))
					if (<-got).Sub(begun) > 4*ms {
						late++ // it drew a lot, to find out whether it is alone
					}
				}
				t.Log(late, "of 200 were late")
				require.Less(t, late, 40)
			})
		})
	}
}

// What is remembered of other clients is bounded, and forgotten soon.
func TestRivalsAreBounded_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs rivals
		c := encoding(Config{})
		resource := func(i int) string { return fmt.Sprint("r", i) }
		for i := range 2 * maxRivals {
			rs.note(&waiter{request: request{kind: c.kinds.Plain(), name: resource(i), ttl: 10 * time.Second}, queue: &queue{}}, 0)
		}
		require.EqualValues(t, maxRivals, rs.known.Load())
		_, ok := rs.find(&request{kind: c.kinds.Plain(), name: resource(0)})
		require.True(t, ok)
		lock := c.wanted(c.kinds.Plain(), resource(0), 0)
		rs.released(&lock)
		time.Sleep(rivalsFor + ms)
		_, ok = rs.find(&request{kind: c.kinds.Plain(), name: resource(0)})
		require.False(t, ok)
		time.Sleep(10 * time.Second)
		rs.find(&request{kind: c.kinds.Plain(), name: resource(0)})
		require.Zero(t, rs.known.Load())
	})
}

// A client whose rivals have gone stops giving way.
func TestAClientThatIsAloneGivesWayNoMore_R11(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		clients := []*Client{m.client(t, Config{}), m.client(t, Config{})}
		for kind, take := range rivalKinds {
			if kind == "permits" {
				continue // an attempt may ask for several
			}
			held, err := take(t.Context(), clients[1])
			require.NoError(t, err)
			time.AfterFunc(50*ms, func() { assert.NoError(t, held.Release(context.Background())) })
			late := 0
			for range 10 {
				begun := time.Now()
				lock, err := take(t.Context(), clients[0])
				require.NoError(t, err)
				if time.Since(begun) > 2*ms { // the way to the nodes and back
					late++
				}
				time.Sleep(10 * ms)
				require.NoError(t, lock.Release(t.Context()))
			}
			require.Equal(t, 1+maxAlone, late, kind)
		}
	})
}
