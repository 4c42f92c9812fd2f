package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Waiting on slow networks. The clients have had a grant: before the first one,
// a client does not know the time to a quorum, and hardly waits for the answers
// of a lookout.

// used returns a client that has had grants.
func (m *memory) used(t *testing.T, config Config) *Client {
	c := m.client(t, config)
	for range 3 {
		require.NoError(t, mustAcquire(t, c, "before", time.Minute).Release(t.Context()))
	}
	return c
}

// leastLeft returns the shortest rest of the lives of keys with the prefix on
// any node, in the given time. A key that is missing has none.
func (m *memory) leastLeft(prefix string, during time.Duration) time.Duration {
	least := time.Hour
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(ms) {
		for _, n := range m.nodes {
			left := time.Duration(0)
			for _, key := range n.Keys() {
				if strings.HasPrefix(key, prefix) {
					left, _ = n.DB().TTL(key)
				}
			}
			least = min(least, left)
		}
	}
	return least
}

// A writer that waits keeps new readers out all the time, on slow networks too,
// whatever wakes it in between. The mark has a gap only where an attempt takes
// as long as the mark stands.
func TestTheMarkOfAWaitingWriterHasNoGap(t *testing.T) {
	for _, far := range redistest.Few([]time.Duration{0, 150 * ms}, []time.Duration{0, 25 * ms, 50 * ms, 100 * ms, 150 * ms, 250 * ms}) {
		for name, config := range map[string]Config{"pushed": {}, "polling": {Retry: Retry{Tries: 1_000_000, MinDelay: 1}}, "not pushed": {Retry: Retry{MaxDelay: time.Minute}}} {
			simulatedAs(t, fmt.Sprint(far, " ", name), anyNumber, func(t *testing.T, m *memory) {
				m.far(far)
				if name == "not pushed" {
					each(m.nodes, func(n *redistest.Node) { n.Refuse("-NOPERM no", "CLIENT TRACKING") })
				}
				rw := m.used(t, config).RW("r")
				read, err := m.used(t, Config{}).RW("r").Read().TryAcquire(t.Context(), 10*time.Minute)
				require.NoError(t, err)
				time.Sleep(ms + far) // all nodes have let it in
				ctx, stop := context.WithCancel(t.Context())
				gone := make(chan error, 1)
				go func() {
					_, err := rw.Write().Acquire(ctx, time.Minute)
					gone <- err
				}()
				time.Sleep(20*ms + far)
				var wg sync.WaitGroup
				wg.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(rand.N(400 * ms))
						each(m.nodes, func(n *redistest.Node) { n.DB().Expire("r"+wire.ReadersSuffix, time.Hour) }) // they push
					}
				})
				least := m.leastLeft("r"+wire.MarkSuffix, time.Minute)
				t.Logf("the least left of the mark: %v", least)
				assert.GreaterOrEqual(t, least, 50*ms)
				stop()
				wg.Wait()
				<-gone
				require.NoError(t, read.Release(context.WithoutCancel(t.Context())))
			})
		}
	}
}

// A permit whose holder has died is found within a second and the time that an
// attempt takes, on slow networks too: the nodes do not push its end.
func TestAPermitOfADeadHolderFarAway(t *testing.T) {
	for _, far := range []time.Duration{2 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			m.far(far)
			a, b := m.client(t, Config{}), m.client(t, Config{})
			require.NoError(t, a.Ready(t.Context()))
			require.NoError(t, b.Ready(t.Context()))
			died, waits := a.Semaphore("s", 1), b.Semaphore("s", 1)
			longest := time.Duration(0)
			for i := range 30 {
				ttl := 5*time.Second + time.Duration(i)*77*ms
				_, err := died.TryAcquire(t.Context(), ttl)
				require.NoError(t, err)
				ends := time.Now().Add(ttl)
				lock, err := waits.Acquire(context.Background(), time.Minute)
				require.NoError(t, err)
				longest = max(longest, time.Since(ends))
				require.NoError(t, lock.Release(t.Context()))
				time.Sleep(kind.PermitMark)
			}
			t.Log(far, "away: found after", longest, "at most")
			require.LessOrEqual(t, longest, fallbackMost+4*pushedPauseMost+far)
		})
	}
}

// A waiter far away keeps its place, and those behind it do not overtake. By
// the sum it does up to 500 ms, but over 350 ms no client here gets connected.
func TestAWaiterFarAwayKeepsItsPlace(t *testing.T) {
	for _, far := range redistest.Few([]time.Duration{300 * ms}, []time.Duration{25 * ms, 50 * ms, 100 * ms, 200 * ms, 300 * ms}) {
		for name, config := range map[string]Config{"pushed": {}, "polling": {Retry: Retry{Tries: 1_000_000, MinDelay: 1}}} {
			simulatedAs(t, fmt.Sprint(far, " ", name), anyNumber, func(t *testing.T, m *memory) {
				m.far(far)
				held, err := m.used(t, Config{}).Fair("r").TryAcquire(t.Context(), 10*time.Minute)
				require.NoError(t, err)
				time.Sleep(ms + far)
				first, second := m.used(t, config).Fair("r"), m.used(t, config).Fair("r")
				got := make(chan string, 2)
				wait := func(name string, l Locker) {
					lock, err := l.Acquire(context.Background(), time.Minute)
					assert.NoError(t, err)
					assert.NoError(t, lock.Release(context.Background()))
					got <- name
				}
				go wait("first", first)
				time.Sleep(20*ms + far)
				least := m.leastLeft("r"+wire.WaiterSuffix, time.Minute)
				t.Logf("the least left of the lease: %v", least)
				go wait("second", second)
				time.Sleep(20 * time.Second)
				assert.Positive(t, least)
				require.NoError(t, held.Release(t.Context()))
				require.Equal(t, "first", <-got)
				require.Equal(t, "second", <-got)
			})
		}
	}
}

// A higher Config.Retry.MinDelay counts also where a waiter that polls should
// ask sooner.
func TestRetryDelayMinOfAWaiterInAQueue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		seldom := m.client(t, Config{Retry: Retry{Tries: 1000, MinDelay: 400 * ms, MaxDelay: time.Second}})
		before := m.nodes[0].Calls("EVALSHA")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = seldom.Fair("r").Acquire(ctx, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		asked := m.nodes[0].Calls("EVALSHA") - before
		t.Logf("%d questions and releases", asked)
		require.LessOrEqual(t, asked, 2*26, "each question that fails is undone")
		require.NoError(t, held.Release(t.Context()))
	})
}
