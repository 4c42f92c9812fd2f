package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

func TestResourcesOfALockOnSeveral_R19(t *testing.T) {
	many := make([]string, MaxResources+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	c := encoding(Config{})
	check := func(names []string) error {
		l := c.All(names...)
		_, err := c.config.checkLock(l.kind, l.name, time.Second)
		return err
	}
	require.NoError(t, check(many[1:]))
	for _, bad := range [][]string{
		nil, {}, many, {"a", "b", "a"}, {"a", ""}, {"a", strings.Repeat("x", 1025)}, {"a", wire.SealName}, {wire.SealName, "a"},
	} {
		require.ErrorIs(t, check(bad), ErrResource)
	}
	given := []string{"b", "a"}
	all := c.All(given...)
	given[0] = "x"
	require.Equal(t, []string{"b", "a"}, all.kind.Several(), "a copy")
}

// A hold on several resources is lost with one of its keys. A call for any of
// them with its context would wait for itself. On one, it is a plain one.
func TestHoldAll_R13(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h, err := c.All("x", "y").Hold(t.Context(), HoldOptions{TTL: time.Second})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, h.Err())
		require.Equal(t, []string{"x", "y"}, h.Current().Resources())
		for _, n := range m.nodes[:3] {
			n.DB().Delete("y")
		}
		time.Sleep(time.Second)
		require.ErrorIs(t, h.Err(), ErrLost)
		require.ErrorContains(t, h.Err(), `"x, y"`)
		require.ErrorIs(t, h.Release(t.Context()), ErrNotHeld)
		require.NoError(t, c.All("x", "y").Do(t.Context(), time.Second, func(ctx context.Context) error {
			for _, l := range []Locker{c.All("z", "y"), c.All("x", "y"), c.Lock("y")} {
				_, err := l.Acquire(ctx, time.Second)
				require.ErrorIs(t, err, ErrNested)
			}
			lock, err := c.All("v", "w").Acquire(ctx, time.Second)
			require.NoError(t, err)
			return lock.Release(ctx)
		}))
		require.Empty(t, m.sets())
		for _, o := range []HoldOptions{{TTL: time.Second, Heal: true}, {TTL: time.Second, MinHold: ms}} {
			h, err := c.All("x").Hold(t.Context(), o)
			require.NoError(t, err)
			require.NoError(t, h.Release(t.Context()))
		}
	})
}

// A lock on several resources is not handed over: not even to a caller that
// waits for a resource whose name is the text of all of them.
func TestSeveralAreNotHandedOver(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h, err := c.All("a", "b").Hold(t.Context(), HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		blocker, err := m.client(t, Config{}).TryAcquire(t.Context(), "a, b", 10*time.Second)
		require.NoError(t, err)
		got := make(chan Lock)
		go func() {
			lock, err := c.Acquire(t.Context(), "a, b", 10*time.Second)
			require.NoError(t, err)
			got <- lock
		}()
		time.Sleep(10 * ms)
		require.NoError(t, h.Release(t.Context()))
		require.Equal(t, map[string]int{"a, b": 3}, m.sets())
		require.NoError(t, blocker.Release(t.Context()))
		require.NoError(t, (<-got).Release(t.Context()))
		require.Zero(t, c.Stats().HandedOver)
	})
}

// The release of a lock calls the callers of the client that wait for one of
// its resources: their SETs stand behind it.
func TestReleaseOfSeveralCallsTheQueues(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for _, release := range []func(Lock) error{
			func(l Lock) error { return l.Release(t.Context()) },
			func(l Lock) error { c.abandon(l); return nil },
		} {
			lock, err := c.All("a", "b").TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			w := c.queues.join(c, request{kind: c.kinds.Plain(), name: "b", ttl: time.Second}, ErrHeld, 0, false)
			require.False(t, c.queues.isDue(w))
			require.NoError(t, release(lock))
			require.True(t, c.queues.isDue(w))
			w.leave()
		}
	})
}

// If the number of a second round is too low again, the error names no
// resource, and a caller that waits does not wait for a release.
func TestFenceOfSeveralThatIsBehind(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced())
		var raised atomic.Int64
		for _, n := range m.nodes {
			// Each attempt finds a last number that was raised meanwhile.
			n.Handle(func(_ int, args []string) ([]byte, bool) {
				if raised.Load() > 0 && args[0] == "EVALSHA" && args[1] == wire.AcquireFenced.Digest && args[3] == "x" {
					raised.Add(-1)
					return resp.AppendInteger(resp.AppendInteger(resp.AppendArray(nil, 2), 2), time.Now().UnixMicro()+1e6), true
				}
				return nil, false
			})
		}
		raised.Store(10)
		_, err := c.All("x", "y").TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.False(t, errors.As(err, new(*HeldError)))
		raised.Store(20)
		start := time.Now()
		lock, err := c.All("x", "y").Acquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 300*ms)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A refusal for several resources says which one is in the way and whose it is,
// with and without numbers, for as many nodes as refuse, and at no further
// command. A foreign value is not shown (R27).
func TestHeldErrorOfSeveralHasTheOwner(t *testing.T) {
	for _, number := range []bool{false, true} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			config := func(owner string) Config { return Config{Fenced: number, MaxTTL: time.Second, Owner: owner} }
			a, b, unlabelled := m.opened(t, config("web-1")), m.client(t, config("web-2")), m.client(t, config(""))
			lock, err := a.All("x", "y").TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
			asked := m.nodes[0].Calls("GET")
			_, err = b.All("w", "y", "x").TryAcquire(t.Context(), time.Second)
			held := (*HeldError)(nil)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Resource: "y", Owner: "web-1"}, *held)
			require.Equal(t, `redlock: "w, y, x": "y" is held by "web-1"`, err.Error())
			_, err = unlabelled.All("w", "y").TryAcquire(t.Context(), time.Second)
			require.ErrorAs(t, err, &held)
			require.Equal(t, "web-1", held.Owner, "whether or not the client has a label")
			require.Equal(t, asked, m.nodes[0].Calls("GET"))
			found := inspect(t, b, "x")
			require.Equal(t, "web-1", found.Owner)
			longer, err := lock.Extend(t.Context(), time.Second)
			require.NoError(t, err, "the label is a part of what is compared")
			require.NoError(t, longer.Release(t.Context()))

			single, err := a.TryAcquire(t.Context(), "x", time.Second)
			require.NoError(t, err)
			_, err = b.All("x", "y").TryAcquire(t.Context(), time.Second)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Resource: "x", Owner: "web-1"}, *held)
			_, err = b.TryAcquire(t.Context(), "x", time.Second)
			if number { // in memory, the nodes do not know SET … NX GET
				require.ErrorAs(t, err, &held)
				require.Equal(t, HeldError{Owner: "web-1"}, *held)
			}
			require.NoError(t, single.Release(t.Context()))
			time.Sleep(100 * ms)
			for _, n := range m.nodes {
				n.DB().Set("y", "the password of the program:hunter2", 0)
			}
			_, err = b.All("x", "y").TryAcquire(t.Context(), time.Second)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Resource: "y"}, *held)
		})
	}
}

// Releases and extensions of locks on several resources that wait for the same
// flush travel as one command, with those of single locks. Each caller hears
// only of its own lock: all keys must be ours, and only these are deleted (R9).
func TestSeveralAreMerged_R9(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		const callers = 60
		c := m.client(t, Config{Owner: "web-1"})
		var locks [callers]Lock
		for i := range locks {
			var names []string
			for k := range 1 + i%4 {
				names = append(names, fmt.Sprint("r", i, "-", k))
			}
			lock, err := c.All(names...).TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			locks[i] = lock
		}
		time.Sleep(100 * ms)
		// Of every third lock, a quorum has lost a key; of every sixth, it is
		// another's.
		for i := 0; i < callers; i += 3 {
			for _, n := range m.nodes[:2] {
				names := locks[i].Resources()
				lost := names[len(names)-1]
				if n.DB().Delete(lost); i%2 == 0 {
					n.DB().Set(lost, "stranger", time.Hour)
				}
			}
		}
		all := func(do func(l *Lock) error) (commands int) {
			before := m.nodes[0].Calls("EVALSHA")
			var wg sync.WaitGroup
			for i := range locks {
				wg.Go(func() {
					err := do(&locks[i])
					if i%3 == 0 {
						require.ErrorIs(t, err, ErrNotHeld, "lock %d", i)
					} else {
						require.NoError(t, err, "lock %d", i)
					}
				})
			}
			wg.Wait()
			time.Sleep(100 * ms)
			return m.nodes[0].Calls("EVALSHA") - before
		}
		extensions := all(func(l *Lock) (err error) { *l, err = l.Extend(t.Context(), 20*time.Second); return err })
		require.Less(t, extensions, callers/2)
		left, _ := m.nodes[0].DB().TTL("r1-1")
		require.Greater(t, left, 19*time.Second)
		releases := all(func(l *Lock) error { return l.Release(t.Context()) })
		require.Less(t, releases, callers/2)
		t.Logf("%d and %d commands for %d locks", extensions, releases, callers)
		for key, on := range m.sets() {
			value, _ := m.nodes[0].Get(key)
			require.Equal(t, "stranger", value)
			require.Equal(t, 2, on)
		}
		for _, n := range c.Nodes() {
			require.Zero(t, n.Debts)
			require.Equal(t, 1, n.Connects)
		}
	})
}
