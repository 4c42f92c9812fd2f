//go:build !race

package redlock

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Nothing is allocated in any layer once pools and buffers have reached their
// sizes: not for a lock, a refusal or an extension, and not while one of five
// nodes is down, whichever goroutine reads the replies. Over TLS crypto/tls
// allocates, so nothing is promised there.
func TestNothingIsAllocated(t *testing.T) {
	for name, option := range map[string]redistest.Option{"tcp": redistest.OverTCP, "unix": redistest.OverUnix} {
		for _, portable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/portable=%t", name, portable), func(t *testing.T) {
				servers := redistest.Servers(t, 5, option)
				c := openReal(t, servers, portable)
				t.Run("all up", func(t *testing.T) { requireNoAllocs(t, c) })
				require.NoError(t, servers[3].Kill())
				require.Eventually(t, func() bool { return c.Nodes()[3].State != "up" }, 15*time.Second, ms)
				t.Run("one down", func(t *testing.T) { requireNoAllocs(t, c) })
			})
		}
	}
}

// The same for many concurrent callers, whose releases are merged: carriers and
// their parts are recycled too.
func TestNothingIsAllocatedByManyCallers(t *testing.T) {
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%t", portable), func(t *testing.T) {
			requireNoAllocsByMany(t, openReal(t, redistest.Servers(t, 5, redistest.OverTCP), portable))
		})
	}
}

// The same for locks with a fencing number, including refusals.
func TestNothingIsAllocatedForFencedLocks(t *testing.T) {
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%t", portable), func(t *testing.T) {
			c := openFenced(t, redistest.Servers(t, 5, redistest.OverTCP), portable)
			requireNoAllocs(t, c)
			require.Zero(t, c.Stats().Renumbered, "one round was enough")
		})
	}
}

// openFenced is openReal for a client with Config.Fenced.
func openFenced(tb testing.TB, servers []*redistest.Server, portable bool) *Client {
	tb.Helper()
	config := Config{
		Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Portable: portable, MaxTTL: time.Hour, Fenced: true,
	}
	_, err := Init(tb.Context(), config)
	require.NoError(tb, err)
	c, err := New(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() { closeNow(tb, c) })
	require.NoError(tb, c.Ready(tb.Context()))
	return c
}

func requireNoAllocsByMany(t *testing.T, c *Client) {
	const callers, pairs = 32, 300
	run := func() {
		var wg sync.WaitGroup
		for i := range callers {
			resource := fmt.Sprint("a resource with a name of usual length ", i)
			wg.Go(func() {
				for range pairs {
					lock, err := c.TryAcquire(t.Context(), resource, 10*time.Second)
					if err == nil {
						lock, err = lock.Extend(t.Context(), 20*time.Second)
					}
					if err == nil {
						err = lock.Release(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	run() // until pools and buffers have reached their sizes
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := math.Inf(1)
	for try := 0; try < 30 && best > 0.02; try++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run()
		runtime.ReadMemStats(&after)
		best = min(best, float64(after.Mallocs-before.Mallocs)/(callers*pairs))
	}
	t.Logf("%.3f allocations for each pair", best)
	require.LessOrEqual(t, best, 0.02, "the goroutines of this test alone make 0.01")
}

// A client with an owner allocates nothing for a lock either. A refusal that
// names the holder does.
func TestNothingIsAllocatedForAnOwner(t *testing.T) {
	servers := redistest.Servers(t, 5)
	c, err := New(t.Context(), Config{
		Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Forgetful: true, Owner: "web-1.example.org",
	})
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	require.NoError(t, c.Ready(t.Context()))
	requireNone(t, func() error {
		lock, err := c.TryAcquire(t.Context(), "a resource with a name of usual length", 10*time.Second)
		if err != nil {
			return err
		}
		return lock.Release(t.Context())
	}, func() { _, _ = c.Inspect(t.Context(), "held") })
}

func openReal(t *testing.T, servers []*redistest.Server, portable bool) *Client {
	t.Helper()
	// A patient client: on a busy machine a vote may come late, and an error
	// would allocate.
	c, err := New(t.Context(), Config{Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Portable: portable, Forgetful: true})
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	require.NoError(t, c.Ready(ctx))
	return c
}

func requireNoAllocs(t *testing.T, c *Client) {
	ctx, cancel := context.WithCancel(context.Background()) // can end, like the context of a request
	defer cancel()
	const resource = "a resource with a name of usual length"
	held, err := c.TryAcquire(ctx, "held", time.Hour)
	require.NoError(t, err)
	for name, act := range map[string]func() error{
		"acquire and release": func() error {
			lock, err := c.TryAcquire(ctx, resource, 10*time.Second)
			if err != nil {
				return err
			}
			return lock.Release(ctx)
		},
		"acquire without waiting": func() error {
			lock, err := c.Acquire(ctx, resource, 10*time.Second)
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
	} {
		t.Run(name, func(t *testing.T) {
			requireNone(t, act, func() { _, _ = c.Inspect(ctx, "held") })
		})
	}
	require.NoError(t, held.Release(ctx))
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
	for i := range 1200 { // more than the log's first ring has room for
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
