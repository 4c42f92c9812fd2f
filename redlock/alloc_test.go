//go:build !race

package redlock

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Nothing is allocated in any layer once pools and buffers have reached their
// sizes: not for a lock, a refusal or an extension, with a fencing number or an
// owner, and not while one of five nodes is down or quarantined, whichever
// goroutine reads the replies. Over TLS crypto/tls allocates, so nothing is
// promised there. Nor is it for a refusal that names the holder.
func TestNothingIsAllocated(t *testing.T) {
	redistest.Alone(t)
	for name, option := range map[string]redistest.Option{"tcp": redistest.OverTCP, "unix": redistest.OverUnix} {
		for _, is := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/portable=%t", name, is), func(t *testing.T) {
				servers := redistest.Servers(t, 5, option)
				c := realClient(t, servers, portable(is))
				t.Run("all up", func(t *testing.T) { requireNoAllocs(t, c) })
				require.NoError(t, servers[3].Kill())
				require.Eventually(t, func() bool { return c.Nodes()[3].State != NodeUp }, 15*time.Second, ms)
				t.Run("one down", func(t *testing.T) { requireNoAllocs(t, c) })
			})
		}
	}
	numbered := func(c *Config) { c.Forgetful, c.Fenced, c.MaxTTL = false, true, 2*time.Hour }
	for _, is := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced/portable=%t", is), func(t *testing.T) {
			c := realClient(t, redistest.Servers(t, 5, redistest.OverTCP), portable(is), numbered)
			requireNoAllocs(t, c)
			require.Zero(t, c.Stats().Renumbered, "one round was enough")
		})
	}
	t.Run("quarantined", func(t *testing.T) {
		servers := redistest.Servers(t, 5, redistest.OverTCP)
		c := realClient(t, servers, numbered, func(c *Config) { c.Fenced = false })
		require.NoError(t, servers[3].Restart())
		require.Eventually(t, func() bool { return c.Nodes()[3].Quarantined && c.Nodes()[3].State == NodeUp }, 15*time.Second, ms)
		requireNoAllocs(t, c)
	})
	t.Run("an owner", func(t *testing.T) {
		c := realClient(t, redistest.Servers(t, 5), owns("web-1.example.org"))
		requireNone(t, pairOf(t.Context(), c.Lock("a resource with a name of usual length")), func() { _, _ = Inspect(t.Context(), c, "held") })
	})
}

// The same for many concurrent callers, whose releases are merged: carriers and
// their parts are recycled too.
func TestNothingIsAllocatedByManyCallers(t *testing.T) {
	redistest.Alone(t)
	for _, is := range []bool{false, true} {
		for _, callers := range []int{32, 1024} {
			t.Run(fmt.Sprintf("portable=%t/callers=%d", is, callers), func(t *testing.T) {
				b := startBusy(t, realClient(t, redistest.Servers(t, 5, redistest.OverTCP), portable(is)), callers, true)
				b.await(20_000) // until pools and buffers have reached their sizes
				best := math.Inf(1)
				for try := 0; try < 30 && best > few; try++ {
					best = min(best, b.allocations(20_000))
				}
				t.Logf("%.3f allocations for each pair", best)
				require.LessOrEqual(t, best, few)
			})
		}
	}
}

// The same while a node does not answer and is not given up yet: each command
// waits for it, and more rounds are in use than ever before.
func TestNothingIsAllocatedWhileANodeIsStopped(t *testing.T) {
	redistest.Alone(t)
	for _, is := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%t", is), func(t *testing.T) {
			best := math.Inf(1)
			// Only the first time do so many rounds have to be made.
			for try := 0; try < 5 && best > few; try++ {
				servers := redistest.Servers(t, 5, redistest.OverTCP)
				c := realClient(t, servers, portable(is))
				b := startBusy(t, c, 16, false)
				b.await(2000)
				require.NoError(t, servers[4].Stop())
				// A node that is 8,192 commands behind is given up.
				best = min(best, b.allocations(3500))
				b.end()
				require.Equal(t, NodeUp, c.Nodes()[4].State, "else nothing is tested")
				require.NoError(t, servers[4].Continue())
			}
			t.Logf("%.3f allocations for each pair", best)
			require.LessOrEqual(t, best, few)
		})
	}
}

// few is what others allocate meanwhile: the runtime, and the log when it needs
// more rounds than before.
const few = 0.02

// A busy client has callers that acquire and release without a pause.
type busy struct {
	pairs atomic.Int64
	stop  atomic.Bool
	wg    sync.WaitGroup
}

func startBusy(t *testing.T, c *Client, callers int, extend bool) *busy {
	b := &busy{}
	for i := range callers {
		resource := fmt.Sprint("a resource with a name of usual length ", i)
		b.wg.Go(func() {
			for !b.stop.Load() {
				lock, err := c.TryAcquire(context.Background(), resource, 10*time.Second)
				if err == nil && extend {
					lock, err = lock.Extend(context.Background(), 20*time.Second)
				}
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
					return
				}
				b.pairs.Add(1)
			}
		})
	}
	t.Cleanup(b.end)
	return b
}

func (b *busy) end() {
	b.stop.Store(true)
	b.wg.Wait()
}

// await waits for so many more pairs and returns how many there were.
func (b *busy) await(pairs int) int64 {
	from := b.pairs.Load()
	for deadline := time.Now().Add(15 * time.Second); b.pairs.Load() < from+int64(pairs) && time.Now().Before(deadline); {
		time.Sleep(100 * time.Microsecond)
	}
	return b.pairs.Load() - from
}

// allocations counts what is allocated for each pair, by any goroutine, during
// so many of them.
func (b *busy) allocations(pairs int) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	made := b.await(pairs)
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(made)
}

func requireNoAllocs(t *testing.T, c *Client) {
	ctx, cancel := context.WithCancel(context.Background()) // can end, like the context of a request
	defer cancel()
	const resource = "a resource with a name of usual length"
	held, err := c.TryAcquire(ctx, "held", time.Hour)
	require.NoError(t, err)
	for name, act := range map[string]func() error{
		"acquire without waiting": pairOf(ctx, c.Lock(resource)),
		"acquire and release": func() error {
			lock, err := c.TryAcquire(ctx, resource, 10*time.Second)
			if err != nil {
				return err
			}
			return lock.Release(ctx)
		},
		"refused": func() error {
			if _, err := c.TryAcquire(ctx, "held", 10*time.Second); err != ErrHeld {
				return err
			}
			return nil
		},
		"extend": func() error {
			longer, err := held.Extend(ctx, time.Hour)
			if err == nil {
				held = longer
			}
			return err
		},
		"read":     pairOf(ctx, c.RW(resource).Read()),
		"write":    pairOf(ctx, c.RW(resource).Write()),
		"a permit": pairOf(ctx, c.Semaphore(resource, 8)),
	} {
		t.Run(name, func(t *testing.T) {
			requireNone(t, act, func() { _, _ = Inspect(ctx, c, "held") })
		})
	}
	require.NoError(t, held.Release(ctx))
}

// pairOf acquires without waiting, extends and releases a lock of a Locker.
func pairOf(ctx context.Context, k Locker) func() error {
	return func() error {
		lock, err := k.Acquire(ctx, 10*time.Second)
		if err == nil {
			lock, err = lock.Extend(ctx, 20*time.Second)
		}
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	}
}

// requireNone takes the best of several measurements: other work of the
// process, such as a redial of the node that is down, counts too. catchUp waits
// for the slowest node. The fastest nodes decide for a lone caller, two of them
// can refuse while one is quarantined, and on a busy machine the others may
// meanwhile fall so far behind that they are given up (R26).
func requireNone(t *testing.T, act func() error, catchUp func()) {
	t.Helper()
	var failed error
	run := func() {
		if err := act(); err != nil && failed == nil {
			failed = err
		}
	}
	for i := range 200 { // the log's ring may still grow after that, in one of the measurements
		if run(); i%100 == 0 {
			catchUp()
		}
	}
	// AllocsPerRun rounds down, so a run is a hundred operations: one
	// allocation in a hundred shows.
	hundred := func() {
		for range 100 {
			run()
		}
	}
	catchUp()
	best := testing.AllocsPerRun(2, hundred)
	for try := 0; try < 20 && best > 0; try++ {
		catchUp()
		best = min(best, testing.AllocsPerRun(2, hundred))
	}
	require.NoError(t, failed)
	require.Zero(t, best, "allocations in a hundred operations")
}
