package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A caller is told of a release whatever is left of the mark that it found.
func TestAPermitGivenBackBesideAnOldMark(t *testing.T) {
	for _, left := range []time.Duration{1, 20 * ms, 400 * ms, kind.PermitMark*3/4 - ms, kind.PermitMark * 3 / 4, kind.PermitMark*3/4 + ms, kind.PermitMark} {
		for _, after := range []time.Duration{3 * ms, 100 * ms, left - 2*ms, left, left + 2*ms, 1100 * ms, kind.PermitMark} {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				held, err := m.client(t, Config{}).Semaphore("s", 1).TryAcquire(t.Context(), time.Minute)
				require.NoError(t, err)
				for _, n := range m.nodes {
					n.DB().Set("s:redlock:wanted", "", left)
				}
				k, got := m.client(t, Config{}).Semaphore("s", 1), make(chan time.Time, 1)
				go func() {
					_, err := k.Acquire(context.Background(), time.Minute)
					assert.NoError(t, err)
					got <- time.Now()
				}()
				time.Sleep(max(ms, after))
				require.Empty(t, got)
				released := time.Now()
				require.NoError(t, held.Release(t.Context()))
				require.Less(t, (<-got).Sub(released), 50*ms, "%v were left of the mark, released after %v", left, after)
			})
		}
	}
}

// Sizes that cannot be are refused, and so is a grant by a node whose record of
// permits has what is no number of them.
func TestSemaphoresThatCannotBe(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for n, want := range map[int]error{0: ErrResource, -1: ErrResource, MaxPermits + 1: ErrResource, MaxPermits: nil} {
			_, err := c.Semaphore("s", n).Acquire(t.Context(), time.Second)
			require.ErrorIs(t, err, want, n)
		}
		for _, numbers := range [][]string{{"2", "something else"}, {"1025"}, {"0"}, {"02"}, {"-1"}, {"1.5"}} {
			m.forget("x:redlock:permits")
			for _, n := range m.nodes {
				for _, number := range numbers {
					n.DB().Rank("x:redlock:permits", number, float64(time.Now().Add(-time.Hour).UnixMilli()))
				}
			}
			_, err := c.Semaphore("x", 2).TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrNoQuorum, "%q", numbers)
		}
	})
}

// An attempt asks first for the permit that was granted last, also if that is
// number 0, and for any if none was. Refused, it asks for any that is free. So
// callers that ask together do not meet.
func TestThePermitAskedFor(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, first, next := m.client(t, Config{}), make(map[int64]bool), make(map[int64]bool)
		for range 20 {
			k := c.Semaphore("s", 1000)
			lock, err := k.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			first[lock.grant.Number] = true
			require.NoError(t, lock.Release(t.Context()))
			kind.Freed(k.kind, &kind.Grant{})
			lock, err = k.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			require.Zero(t, lock.grant.Number)
			kind.Freed(k.kind, &kind.Grant{})
			other, err := k.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			next[other.grant.Number] = true
			require.NoError(t, other.Release(t.Context()))
			require.NoError(t, lock.Release(t.Context()))
		}
		require.Greater(t, len(first), 1)
		require.Greater(t, len(next), 1)
	})
}

// The mark of a caller that waits for a permit stands all the time, so that a
// release is pushed, whenever it asks.
func TestTheMarkOfACallerThatWaitsForAPermitHasNoGap(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		held, err := m.used(t, Config{}).Semaphore("s", 1).TryAcquire(t.Context(), time.Hour)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		k := m.used(t, Config{}).Semaphore("s", 1)
		go func() {
			_, err := k.Acquire(ctx, time.Minute)
			gone <- err
		}()
		time.Sleep(20 * ms)
		require.Greater(t, m.leastLeft("s"+wire.WantedSuffix, 3*time.Minute), 400*ms, "of half a second for pauses and slow nodes")
		stop()
		<-gone
		require.NoError(t, held.Release(context.WithoutCancel(t.Context())))
	})
}

// More callers than permits get them about as fast as they are given back, and
// each asks the nodes a few times: those that are told of one free permit do
// not all ask.
func TestMoreCallersThanPermits_R26(t *testing.T) {
	for _, c := range []struct {
		permits, callers, clients int
		most                      float64 // six clients draw lots: 39 to 51 in 25 runs
	}{{64, 300, 1, 8}, {64, 300, 6, 60}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				const holds, lasts = 100 * ms, time.Second
				var grants atomic.Int64
				var wg sync.WaitGroup
				stop := time.Now().Add(lasts)
				for range c.clients {
					k := m.client(t, Config{}).Semaphore("s", c.permits)
					for range c.callers / c.clients {
						wg.Go(func() {
							for time.Now().Before(stop) {
								lock, err := k.Acquire(t.Context(), time.Minute)
								if !assert.NoError(t, err) {
									return
								}
								grants.Add(1)
								time.Sleep(holds)
								assert.NoError(t, lock.Release(t.Context()))
							}
						})
					}
				}
				wg.Wait()
				possible := float64(c.permits) * float64(lasts/holds)
				each := float64(m.nodes[0].Calls("EVALSHA")) / float64(grants.Load())
				t.Logf("%d grants of %.0f, %.1f scripts for each", grants.Load(), possible, each)
				require.Greater(t, float64(grants.Load()), 0.7*possible)
				require.Less(t, each, c.most)
			})
		})
	}
}

// A caller that waits asks first for a permit that this client has given back.
// Where no caller waits, no number is kept: other clients may have taken it.
func TestAPermitGivenBackHereIsAskedForFirst_R26(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		k := m.client(t, Config{HandOver: -1}).Semaphore("s", 20)
		var held []Lock
		for range 20 {
			lock, err := k.Acquire(t.Context(), time.Minute)
			require.NoError(t, err)
			held = append(held, lock)
		}
		for _, lock := range held {
			got := make(chan Lock)
			go func() {
				next, err := k.Acquire(t.Context(), time.Minute)
				assert.NoError(t, err)
				got <- next
			}()
			time.Sleep(50 * ms)
			before := m.nodes[0].Calls("EVALSHA")
			require.NoError(t, lock.Release(t.Context()))
			next := <-got
			require.Equal(t, lock.grant.Number, next.grant.Number)
			require.Equal(t, 2, m.nodes[0].Calls("EVALSHA")-before, "the release, and one claim")
		}
	})
}
