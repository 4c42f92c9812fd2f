package redlock

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

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

// A key of another type is not ours, in a merged command too; the other keys of
// its lock are released, and other locks are not touched by it. The largest
// lock fills a command.
func TestSeveralAreMergedOnRealServers_R9(t *testing.T) {
	server := redistest.Servers(t, 1)
	c := patient(t, server)
	const callers = 32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			size := []int{2, 3, 10, MaxResources}[i%4]
			var names []string
			for k := range size {
				names = append(names, fmt.Sprint("r", i, "-", k))
			}
			for turn := range 20 {
				lock, err := c.All(names...).TryAcquire(t.Context(), time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				odd := i%8 == 0 && turn == 19
				if odd {
					for _, command := range [][]string{{"DEL", names[1]}, {"RPUSH", names[1], "x"}} {
						if _, err := server[0].Do(command...); err != nil {
							t.Error(err)
						}
					}
				}
				longer, err := lock.Extend(t.Context(), 2*time.Minute)
				if odd != (err != nil) {
					t.Errorf("extension: %v", err)
				}
				if err = longer.Release(t.Context()); odd != (err != nil) {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for i := range callers {
		if i%8 == 0 {
			said, err := server[0].Do("TYPE", fmt.Sprint("r", i, "-1"))
			require.NoError(t, err)
			require.Equal(t, "list", said)
		}
	}
	size, err := server[0].Do("DBSIZE")
	require.NoError(t, err)
	require.EqualValues(t, callers/8, size)
	require.Equal(t, 1, c.Nodes()[0].Connects)
	require.Zero(t, c.Nodes()[0].Debts)
}
