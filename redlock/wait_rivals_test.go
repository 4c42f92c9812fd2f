package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
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
func loops(t *testing.T, clients []*Client, callers []int, take func(context.Context, *Client) (Lock, error), holds, thinks, lasts time.Duration) []int {
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
					time.Sleep(thinks + rand.N(ms/10)) // a processor is never at once there
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
	type crowd struct {
		clients int
		holds   time.Duration
	}
	few := []crowd{{2, 10 * ms}, {3, 10 * ms}}
	for kind, take := range rivalKinds {
		for _, c := range redistest.Few(few, append(few, crowd{8, 10 * ms}, crowd{8, 50 * ms})) {
			t.Run(fmt.Sprint(kind, c), func(t *testing.T) {
				if kind == "permits" && c.clients < 3 {
					return // each has its own
				}
				simulated(t, 3, func(t *testing.T, m *memory) {
					clients := m.staggered(t, c.clients, 20*time.Microsecond)
					// Eight with plain locks: of 150 turns each the most were 2.2 times
					// the least, in one of 60 runs; of 450, 1.2 to 1.6 times, in 32.
					lasts := time.Duration(max(1200, 450*c.clients)) * c.holds
					times := loops(t, clients, slices.Repeat([]int{1}, c.clients), take, c.holds, 0, lasts)
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
		simulatedAs(t, kind, 3, func(t *testing.T, m *memory) {
			clients := []*Client{m.client(t, Config{}), m.client(t, Config{})}
			m.far(2 * ms)
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

// shareOf is the first client's share.
func shareOf(times []int) float64 { return float64(times[0]) / float64(times[0]+times[1]) }

// Of two clients each has the lock for about half of the time, however many of
// their callers want it, and even if the queue of one is empty again and again.
func TestTwoClientsShareALock_R11(t *testing.T) {
	type loop struct {
		callers     []int
		holds, trip time.Duration
	}
	few := []loop{
		{[]int{1, 1}, 5 * ms, ms / 2},
		{[]int{2, 2}, 5 * ms, 2 * ms},
		{[]int{2, 1}, 100 * ms, ms / 2}, // longer than a streak
		{[]int{10, 1}, 5 * ms, ms / 2},
	}
	for _, c := range redistest.Few(few, append(few, []loop{
		{[]int{2, 2}, 5 * ms, ms / 2},
		{[]int{2, 1}, 5 * ms, ms / 2},
		{[]int{2, 1}, 20 * ms, ms / 2},
		{[]int{10, 10}, 5 * ms, 2 * ms},
		{[]int{64, 1}, 20 * ms, ms / 2},
		{[]int{64, 1}, 50 * ms, ms / 2},
		{[]int{500, 500}, ms / 10, 2 * ms},
	}...)) {
		simulatedAs(t, fmt.Sprint(c), 3, func(t *testing.T, m *memory) {
			m.far(c.trip)
			clients := []*Client{m.client(t, Config{}), m.client(t, Config{})}
			times := loops(t, clients, c.callers, rivalKinds["plain"], c.holds, ms, 10*time.Second)
			t.Logf("grants %v, %d and %d handed over", times, clients[0].Stats().HandedOver, clients[1].Stats().HandedOver)
			require.InDelta(t, 0.5, shareOf(times), 0.05)
		})
	}
}

// If each grant asks the nodes, no client starves either.
func TestNoClientStarvesWithoutHandOvers_R11(t *testing.T) {
	for _, callers := range redistest.Few([][]int{{2, 1}, {10, 1}}, [][]int{{2, 1}, {2, 2}, {10, 1}, {10, 10}}) {
		simulatedAs(t, fmt.Sprint(callers), anyNumber, func(t *testing.T, m *memory) {
			clients := []*Client{m.client(t, Config{HandOver: -1}), m.client(t, Config{HandOver: -1})}
			times := loops(t, clients, callers, rivalKinds["plain"], 5*ms, ms, 10*time.Second)
			require.InDelta(t, 0.5, shareOf(times), 0.45)
			require.Zero(t, clients[0].Stats().HandedOver)
		})
	}
}

// A client whose callers have the lock to themselves loses little by giving
// way: a pause for each streak.
func TestGivingWayCostsLittle(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, idle := m.client(t, Config{}), m.client(t, Config{})
		times := loops(t, []*Client{c, idle}, []int{10, 0}, rivalKinds["plain"], ms, 0, 10*time.Second)
		t.Logf("%d grants, %d handed over", times[0], c.Stats().HandedOver)
		require.Greater(t, times[0], 8000)
	})
}

// The end of a streak is where it is nearest to what it should be.
func TestWhenAStreakIsOver(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		left, had time.Duration // until the end of the streak, and since the grant
		over      bool
	}{
		{0, 0, true}, {-ms, 0, true}, {1, 0, false},
		{5*ms + 1, 10 * ms, false}, {5 * ms, 10 * ms, true},
		{time.Hour, ms, false}, {time.Hour, 3 * time.Hour, true},
	} {
		require.Equal(t, c.over, streak{ends: now.Add(c.left)}.over(now.Add(-c.had), now), "%+v", c)
	}
}

// How long a streak lasts follows from what was before.
func TestHowLongAStreakLasts(t *testing.T) {
	start := time.Now()
	gave := start.Add(-9 * ms)
	for name, c := range map[string]struct {
		handOver, usual time.Duration
		before          yielding
		lasts           time.Duration
	}{
		"as configured":           {50 * ms, ms, yielding{}, 50 * ms},
		"without hand-overs":      {-1, ms, yielding{}, streakLong},
		"distant nodes":           {50 * ms, 100 * ms, yielding{}, 400 * ms},
		"one that goes on":        {50 * ms, ms, yielding{streak: streak{ends: start.Add(7 * ms)}}, 7 * ms},
		"another had it":          {50 * ms, ms, yielding{gave: gave, last: 20 * ms, taken: true}, 9 * ms},
		"another had it for long": {5 * ms, ms, yielding{gave: gave, last: 5 * ms, taken: true}, 5 * ms},
		"another came and went":   {50 * ms, ms, yielding{gave: gave, last: 20 * ms, rival: true}, 9 * ms},
		"no other came":           {50 * ms, ms, yielding{gave: gave, last: 20 * ms}, 40 * ms},
		"none comes any more":     {50 * ms, ms, yielding{gave: gave, last: 40 * ms}, 50 * ms},
	} {
		var client Client
		client.config = &Config{HandOver: c.handOver}
		client.quorumTime.Store(int64(c.usual))
		require.Equal(t, c.lasts, client.streakAfter(c.before, start).ends.Sub(start), name)
	}
}

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
