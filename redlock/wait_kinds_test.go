package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
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

// A write lock that was handed over is another caller's: its former holder
// cannot downgrade it, and the attempt releases nothing.
func TestAWriteLockThatWasHandedOverIsNotDowngraded(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: 10 * time.Second})
		rw := c.RW("r")
		var locks []Lock
		held, err := rw.Write().Acquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		got := make(chan Lock)
		for range 2 {
			go func() {
				lock, err := rw.Write().Acquire(t.Context(), 10*time.Second)
				assert.NoError(t, err)
				got <- lock
			}()
			time.Sleep(50 * ms)
		}
		for range 2 {
			require.NoError(t, held.Release(t.Context()))
			held = <-got
			locks = append(locks, held)
		}
		require.EqualValues(t, 1, c.Stats().HandedOver)
		_, err = rw.Downgrade(t.Context(), locks[0], 10*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.NotErrorIs(t, err, ErrReleased)
		time.Sleep(10 * ms)
		longer, err := locks[1].Extend(t.Context(), 10*time.Second)
		require.NoError(t, err, "the keys are there")
		read, err := rw.Downgrade(t.Context(), longer, 10*time.Second)
		require.NoError(t, err)
		require.ErrorIs(t, longer.Release(t.Context()), ErrNotHeld, "it is a reader now")
		require.NoError(t, read.Release(t.Context()))
	})
}
