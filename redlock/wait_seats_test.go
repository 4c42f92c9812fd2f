package redlock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An acquiring is how callers get a lock of one kind.
type acquiring func(ctx context.Context, c *Client, ttl time.Duration) (Lock, error)

// acquirings has each kind of lock that excludes some of its callers.
func acquirings() map[string]acquiring {
	locker := func(of func(c *Client) Locker) acquiring {
		return func(ctx context.Context, c *Client, ttl time.Duration) (Lock, error) { return of(c).Acquire(ctx, ttl) }
	}
	return map[string]acquiring{
		"plain": func(ctx context.Context, c *Client, ttl time.Duration) (Lock, error) {
			return c.Acquire(ctx, "r", ttl)
		},
		"several": func(ctx context.Context, c *Client, ttl time.Duration) (Lock, error) {
			return c.All("r", "s").Acquire(ctx, ttl)
		},
		"writers":    locker(func(c *Client) Locker { return c.RW("r").Write() }),
		"fair":       locker(func(c *Client) Locker { return c.Fair("r") }),
		"permits":    locker(func(c *Client) Locker { return c.Semaphore("r", 4) }),
		"one by one": locker(func(c *Client) Locker { return c.Semaphore("r", 1) }),
	}
}

// Grants per second do not fall with the number of callers that wait, and the
// nodes are not asked more often (R34).
func TestGrantsDoNotFallWithTheCallersThatWait_R34(t *testing.T) {
	for name, acquire := range acquirings() {
		t.Run(name, func(t *testing.T) {
			var grants, asked [2]int
			for i, callers := range []int{10, 300} {
				simulated(t, 3, func(t *testing.T, m *memory) {
					grants[i], asked[i] = turnover(t, m, callers, acquire)
				})
			}
			t.Logf("%d grants and %d commands with 10 callers, %d and %d with 300", grants[0], asked[0], grants[1], asked[1])
			require.GreaterOrEqual(t, 10*grants[1], 9*grants[0])
			require.LessOrEqual(t, 10*asked[1], 13*asked[0]+1000)
		})
	}
}

// turnover counts the grants to callers of one client, which keep each lock for
// 20 ms, and the commands of a node, within two seconds.
func turnover(t *testing.T, m *memory, callers int, acquire acquiring) (grants, asked int) {
	c := m.used(t, Config{})
	ctx, stop := context.WithCancel(t.Context())
	var got atomic.Int64
	done := make(chan struct{}, callers)
	for range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				lock, err := acquire(ctx, c, 10*time.Second)
				if err != nil {
					continue
				}
				got.Add(1)
				time.Sleep(20 * ms)
				assert.NoError(t, lock.Release(context.WithoutCancel(ctx)))
			}
		}()
	}
	time.Sleep(time.Second)
	scripts := func() int { return m.nodes[0].Calls("SET") + m.nodes[0].Calls("EVALSHA") }
	before, earlier := got.Load(), scripts()
	time.Sleep(2 * time.Second)
	grants, asked = int(got.Load()-before), scripts()-earlier
	stop()
	for range callers {
		<-done
	}
	return grants, asked
}

// Locks of each kind without an order of its own are handed to the next caller
// of the client, which then has the same keys.
func TestLocksOfEachKindAreHandedOver(t *testing.T) {
	for name, acquire := range acquirings() {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.client(t, Config{HandOver: 10 * time.Second})
				next := func() *waiting {
					w := &waiting{done: make(chan struct{})}
					go func() {
						defer close(w.done)
						w.lock, w.err = acquire(t.Context(), c, 10*time.Second)
					}()
					time.Sleep(50 * ms)
					return w
				}
				holder, queued := next(), []*waiting(nil)
				for len(queued) < 3 {
					if w := next(); !w.isDone() { // else it has another permit
						queued = append(queued, w)
					}
				}
				require.NoError(t, holder.lock.Release(t.Context()))
				time.Sleep(50 * ms)
				first := servedOf(queued)
				require.NotNil(t, first, "the grant of a first attempt goes by way of the nodes")
				before := c.Stats().HandedOver
				require.NoError(t, first.lock.Release(t.Context()))
				time.Sleep(50 * ms)
				second := servedOf(queued)
				require.NotNil(t, second)
				if name == "fair" {
					require.Zero(t, c.Stats().HandedOver, "the next in the queue may be elsewhere")
					return
				}
				require.EqualValues(t, 1, c.Stats().HandedOver-before)
				require.Equal(t, first.lock.grant.Token, second.lock.grant.Token)
				require.Equal(t, first.lock.grant.Number, second.lock.grant.Number)
				require.ErrorIs(t, first.lock.Release(t.Context()), ErrNotHeld)
				_, err := first.lock.Extend(t.Context(), 10*time.Second)
				require.ErrorIs(t, err, ErrNotHeld)
				longer, err := second.lock.Extend(t.Context(), 10*time.Second)
				require.NoError(t, err, "the keys are there")
				require.NoError(t, longer.Release(context.Background()))
			})
		})
	}
}

// servedOf returns a call that has a lock and was not returned before.
func servedOf(queued []*waiting) *waiting {
	for i, w := range queued {
		if w != nil && w.isDone() && w.err == nil {
			queued[i] = nil
			return w
		}
	}
	return nil
}

// A lock is handed to callers that want just this lock: the same resources in
// any order, and no others whose names look alike; the same number of permits.
func TestALockIsHandedToThoseThatWantIt(t *testing.T) {
	c := encoding(Config{})
	set := func(names ...string) kind.Key {
		k, text := c.kinds.All(names)
		return k.Key(text)
	}
	require.Equal(t, set("a", "b"), set("b", "a"))
	require.NotEqual(t, set("a, b", "c"), set("a", "b, c"))
	require.NotEqual(t, set(`a" "b`, "c"), set("a", `b" "c`))
	keys := map[kind.Key]bool{}
	for _, l := range []Locker{c.Lock("r"), c.RW("r").Read(), c.RW("r").Write(), c.Fair("r"), c.Semaphore("r", 1), c.Semaphore("r", 2)} {
		key := l.kind.Key(l.name)
		require.Equal(t, key, kind.Waiting(l.kind).Key(l.name))
		require.False(t, keys[key], fmt.Sprint(key))
		keys[key] = true
	}
}

// waitsWith is waits for a lock of any kind.
func waitsWith(ctx context.Context, l Locker) *waiting {
	return waitsIn(20*ms, func() (Lock, error) { return l.Acquire(ctx, 10*time.Second) })
}

// grantedInTurn is granted for a lock of any kind: held was granted to a first
// attempt, and is released.
func grantedInTurn(t *testing.T, l Locker, held Lock) Lock {
	t.Helper()
	w := waitsWith(t.Context(), l)
	require.NoError(t, held.Release(t.Context()))
	w.got(t)
	return w.lock
}

// Readers that wait here are let in together when the writer has gone: those
// behind the first that is granted ask at once, more of them after each (R34).
func TestReadersThatWaitAreLetInTogether_R34(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		write, err := m.client(t, Config{}).RW("r").Write().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				_, err := c.RW("r").Read().Acquire(t.Context(), 10*time.Second)
				assert.NoError(t, err)
			})
		}
		time.Sleep(100 * ms)
		before, begun := m.nodes[0].Calls("EVALSHA"), time.Now()
		require.NoError(t, write.Release(t.Context()))
		wg.Wait()
		require.Less(t, time.Since(begun), 20*ms, "as many round trips as the seats doubled")
		require.LessOrEqual(t, m.nodes[0].Calls("EVALSHA")-before, 202)
	})
}

// A permit goes to the second caller while the first makes an attempt.
func TestAPermitIsHandedToTheSecondInTheQueue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: 10 * time.Second})
		k := c.Semaphore("r", 2)
		var held [2]Lock
		for i := range held {
			var err error
			held[i], err = k.TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
		}
		permit := grantedInTurn(t, k, held[0])
		first, second := waitsWith(t.Context(), k), waitsWith(t.Context(), k)
		before := calls(m, "EVALSHA")
		for calls(m, "EVALSHA") == before { // executed, and not answered yet
			time.Sleep(ms / 4)
		}
		require.NoError(t, permit.Release(t.Context()))
		second.got(t)
		require.EqualValues(t, 1, c.Stats().HandedOver)
		require.Equal(t, permit.grant.Token, second.lock.grant.Token)
		require.False(t, first.isDone())
		require.NoError(t, held[1].Release(t.Context()))
		first.got(t)
	})
}

// Callers that had a seat while permits were free give it back when none is:
// then one asks the nodes (R34).
func TestSeatsAreGivenBackAfterARefusal_R34(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}).Semaphore("r", 20), m.client(t, Config{}).Semaphore("r", 20)
		var held []Lock
		for range 20 {
			lock, err := other.TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			held = append(held, lock)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got, gone := wait(ctx, c, 100)
		time.Sleep(100 * ms)
		for _, lock := range held {
			require.NoError(t, lock.Release(t.Context()))
			time.Sleep(20 * ms) // so that all nodes have the same permits
		}
		time.Sleep(2 * time.Second) // each has tried once more
		require.EqualValues(t, 20, got.Load())
		requireSeldom(t, m, 1)
		cancel()
		gone.Wait()
	})
}

// A permit that is held on a quorum and free on one node is no reason to ask
// again and again, though other nodes have another one free (R26).
func TestPermitsThatAreFreeOnOneNode_R26(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}).Semaphore("r", 2), m.client(t, Config{}).Semaphore("r", 2)
		for node := range 2 {
			lock, err := other.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			time.Sleep(10 * ms)
			m.nodes[node].DB().DeleteField("r"+wire.PermitsSuffix, strconv.FormatInt(lock.grant.Number, 10))
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, gone := wait(ctx, c, 5)
		time.Sleep(time.Second)
		requireSeldom(t, m, 4)
		cancel()
		gone.Wait()
		time.Sleep(10 * ms)
	})
}

// wait starts callers, and counts those that get a lock.
func wait(ctx context.Context, l Locker, callers int) (got *atomic.Int64, gone *sync.WaitGroup) {
	got, gone = new(atomic.Int64), new(sync.WaitGroup)
	for range callers {
		gone.Go(func() {
			if _, err := l.Acquire(ctx, 10*time.Second); err == nil {
				got.Add(1)
			}
		})
	}
	return got, gone
}

// requireSeldom requires that one caller asks, as seldom as one without news:
// once in half a second at most. Each attempt has up to so many rounds, with
// their releases.
func requireSeldom(t *testing.T, m *memory, rounds int) {
	t.Helper()
	before := m.nodes[0].Calls("EVALSHA")
	time.Sleep(4 * time.Second)
	asked := m.nodes[0].Calls("EVALSHA") - before
	t.Log(asked, "commands")
	require.LessOrEqual(t, asked, (8+1)*2*rounds, "one caller asks, not eight")
}

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
