package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// As many callers as there are permits hold one, and each permit is a lock.
func TestSemaphore(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).Semaphore("s", 3), m.client(t, Config{}).Semaphore("s", 3)
		var held []Lock
		for i := range 3 {
			lock, err := []Locker{a, b}[i%2].TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			require.Zero(t, lock.Fence())
			require.Equal(t, []string{"s"}, lock.Resources())
			held = append(held, lock)
		}
		for _, k := range []Locker{a, b} {
			_, err := k.TryAcquire(t.Context(), time.Minute)
			require.ErrorIs(t, err, ErrHeld)
		}
		longer, err := held[1].Extend(t.Context(), 2*time.Minute)
		require.NoError(t, err)
		require.Greater(t, longer.Validity(), time.Minute)
		require.NoError(t, held[1].Release(t.Context()))
		require.ErrorIs(t, held[1].Release(t.Context()), ErrNotHeld)
		again, err := a.TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		for _, lock := range []Lock{held[0], held[2], again} {
			require.NoError(t, lock.Release(t.Context()))
		}
		time.Sleep(5 * ms)
		require.Equal(t, map[string]int{"s:redlock:permits": 3}, m.sets())
		time.Sleep(2*time.Minute + time.Second)
		require.Zero(t, m.keys(), "the record goes a second after the permits")
	})
}

// A caller that waits gets a permit when one is given back, or its holder has
// died.
func TestWaitingForAPermit(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).Semaphore("s", 2), m.client(t, Config{}).Semaphore("s", 2)
		first, err := a.TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		second, err := a.TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.Positive(t, second.Validity())
		got := make(chan time.Time, 1)
		wait := func() {
			lock, err := b.Acquire(context.Background(), time.Minute)
			assert.NoError(t, err)
			got <- time.Now()
			time.Sleep(20 * ms)
			assert.NoError(t, lock.Release(context.Background()))
		}
		for range 3 {
			go wait()
			time.Sleep(1700 * ms)
			require.Empty(t, got)
			released := time.Now()
			require.NoError(t, first.Release(t.Context()))
			require.Less(t, (<-got).Sub(released), 30*ms)
			time.Sleep(50 * ms)
			first, err = a.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
		}
		start := time.Now()
		go wait()
		ends := second.Until()
		require.Less(t, (<-got).Sub(ends), 1200*ms)
		require.Greater(t, time.Since(start), 3*time.Second)
		time.Sleep(100 * ms)
		require.NoError(t, first.Release(t.Context()))
	})
}

// If clients name different numbers, new grants end at the least of those whose
// permits may live, and fewer permits stop only new grants.
func TestSemaphoresOfDifferentSizes(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		large, small := c.Semaphore("s", 5), c.Semaphore("s", 2)
		var held []Lock
		for range 4 {
			lock, err := large.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			held = append(held, lock)
		}
		refused := func(k Locker) {
			t.Helper()
			_, err := k.TryAcquire(t.Context(), time.Minute)
			require.ErrorIs(t, err, ErrHeld)
		}
		refused(small)
		for i := range 2 {
			require.NoError(t, held[i].Release(t.Context()))
			refused(small)
		}
		_, err := held[3].Extend(t.Context(), 2*time.Minute)
		require.NoError(t, err, "what is held stays")
		require.NoError(t, held[2].Release(t.Context()))
		lock, err := small.TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		refused(large)
		lock, err = lock.Extend(t.Context(), 3*time.Minute)
		require.NoError(t, err)
		time.Sleep(150 * time.Second)
		require.Positive(t, lock.Validity())
		second, err := large.TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		refused(large)
		require.NoError(t, second.Release(t.Context()))
		require.NoError(t, lock.Release(t.Context()))
		time.Sleep(time.Minute)
		for range 5 {
			_, err := large.TryAcquire(t.Context(), time.Second)
			require.NoError(t, err, "the permits of the small one cannot live any more")
		}
	})
}

// The permits of a client with more count again when those of a client with
// fewer have ended, also while the semaphore is used without a pause.
func TestMorePermitsOfASemaphoreInUse(t *testing.T) {
	for name, use := range map[string]func(*testing.T, Locker){
		"grants": func(t *testing.T, large Locker) {
			for range 34 {
				lock, err := large.TryAcquire(t.Context(), time.Second)
				require.NoError(t, err)
				time.Sleep(150 * ms)
				require.NoError(t, lock.Release(t.Context()))
				time.Sleep(150 * ms)
			}
		},
		"renewals": func(t *testing.T, large Locker) {
			lock, err := large.TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
			for range 34 {
				time.Sleep(300 * ms)
				lock, err = lock.Extend(t.Context(), time.Second)
				require.NoError(t, err)
			}
			require.NoError(t, lock.Release(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				small, large := m.client(t, Config{}).Semaphore("s", 2), m.client(t, Config{}).Semaphore("s", 5)
				lock, err := small.TryAcquire(t.Context(), time.Second)
				require.NoError(t, err)
				require.NoError(t, lock.Release(t.Context()))
				use(t, large)
				for range 5 {
					_, err := large.TryAcquire(t.Context(), time.Second)
					require.NoError(t, err)
				}
				_, err = large.TryAcquire(t.Context(), time.Second)
				require.ErrorIs(t, err, ErrHeld)
			})
		})
	}
}

// Callers that wait for a permit do not wake each other by marking that they
// wait.
func TestCallersThatWaitForAPermitAskSeldom(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		holder := m.client(t, Config{}).Semaphore("s", 2)
		for range 2 {
			_, err := holder.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
		}
		asked := func() (n int) {
			for _, e := range m.nodes[1].Log() {
				if e.Args[0] == "EVALSHA" && e.Args[1] == wire.AcquirePermit.Digest {
					n++
				}
			}
			return n
		}
		const waiters = 4
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range waiters {
			k := m.client(t, Config{}).Semaphore("s", 2)
			wg.Go(func() {
				_, err := k.Acquire(ctx, time.Minute)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		time.Sleep(time.Second)
		before := asked()
		time.Sleep(10 * time.Second)
		n := asked() - before
		t.Logf("%d attempts by %d callers in 10 s", n, waiters)
		require.Less(t, n, waiters*20)
		stop()
		wg.Wait()
	})
}

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

// Permits and readers of one name do not meet: a caller that waits for a permit
// keeps no reader out, and a permit that is given back lets none in past a
// writer that waits.
func TestPermitsAndReadersOfOneName(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		k, rw := m.client(t, Config{}).Semaphore("x", 1), m.client(t, Config{}).RW("x")
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		waits := func(l Locker) {
			wg.Go(func() {
				_, err := l.Acquire(ctx, time.Minute)
				assert.ErrorIs(t, err, context.Canceled)
			})
			time.Sleep(time.Second)
		}
		held, err := k.TryAcquire(t.Context(), time.Hour)
		require.NoError(t, err)
		waits(k)
		read, err := rw.Read().TryAcquire(t.Context(), time.Hour)
		require.NoError(t, err)
		stop()
		wg.Wait()

		ctx, stop = context.WithCancel(t.Context())
		waits(rw.Write())
		for range 20 {
			require.NoError(t, held.Release(t.Context()))
			_, err = rw.Read().TryAcquire(t.Context(), time.Hour)
			require.ErrorIs(t, err, ErrHeld)
			held, err = k.TryAcquire(t.Context(), time.Hour)
			require.NoError(t, err)
			time.Sleep(50 * ms)
		}
		stop()
		wg.Wait()
		require.NoError(t, read.Release(t.Context()))
	})
}

// A semaphore of one permit is a lock, and a hold on it renews itself. The
// holder of one of several may ask for another.
func TestHoldsOfPermits(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		o := HoldOptions{TTL: time.Second}
		one, two := c.Semaphore("one", 1), c.Semaphore("two", 2)
		require.NoError(t, one.DoWith(t.Context(), o, func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			_, err := one.TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrHeld)
			require.ErrorIs(t, one.DoWith(ctx, o, nothing), ErrNested)
			require.NoError(t, c.Do(ctx, "one", time.Second, func(context.Context) error { return nil }), "another key")
			return ctx.Err()
		}))
		require.NoError(t, two.DoWith(t.Context(), o, func(ctx context.Context) error {
			return two.DoWith(ctx, o, func(ctx context.Context) error {
				time.Sleep(5 * time.Second)
				_, err := two.TryAcquire(t.Context(), time.Second)
				require.ErrorIs(t, err, ErrHeld)
				return ctx.Err()
			})
		}))
	})
}

// Every size and name that cannot be is refused.
func TestSemaphoresThatCannotBe(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for _, k := range []Locker{
			c.Semaphore("s", 0), c.Semaphore("s", -1), c.Semaphore("s", MaxPermits+1), c.Semaphore("", 1),
			c.Semaphore("a:redlock:permits", 1), c.Semaphore("redlock:seal", 1),
		} {
			_, err := k.TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrResource)
			_, err = k.Acquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrResource)
		}
		most := c.Semaphore("s", MaxPermits)
		for range 3 {
			_, err := most.TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
		}
		for _, numbers := range [][]string{{"2", "something else"}, {"1025"}, {"0"}, {"02"}, {"-1"}, {"1.5"}} {
			m.forget("x:redlock:permits")
			for _, n := range m.nodes {
				recordPermits(n, "x", -time.Hour, numbers...)
			}
			_, err := c.Semaphore("x", 2).TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrNoQuorum, "%q", numbers)
		}
	})
}

// Rounds per permit at different occupancies, with one node down and without.
func TestRoundsPerPermit(t *testing.T) {
	const permits = 20
	for _, taken := range []int{0, permits / 2, permits * 9 / 10} {
		for _, down := range []int{0, 1} {
			simulated(t, 5, func(t *testing.T, m *memory) {
				c, other := m.client(t, Config{}), m.client(t, Config{})
				for range taken {
					_, err := other.Semaphore("s", permits).TryAcquire(t.Context(), time.Hour)
					require.NoError(t, err)
				}
				if down > 0 {
					m.link(0).Refuse(true)
					m.link(0).Reset()
				}
				time.Sleep(time.Second)
				rounds := func(k func() Locker) float64 {
					before, n := m.nodes[1].Calls("EVALSHA"), 50
					for range n {
						lock, err := k().TryAcquire(t.Context(), time.Minute)
						require.NoError(t, err)
						require.NoError(t, lock.Release(t.Context()))
					}
					time.Sleep(time.Second)
					return float64(m.nodes[1].Calls("EVALSHA")-before) / float64(2*n) // each round has a release
				}
				kept := c.Semaphore("s", permits)
				same, fresh := rounds(func() Locker { return kept }), rounds(func() Locker { return c.Semaphore("s", permits) })
				t.Logf("%d of %d taken, %d nodes down: %.2f rounds, and %.2f where the last permit is not known", taken, permits, down, same, fresh)
				require.Less(t, same, 1.1)
				require.Less(t, fresh, 2.1)
			})
		}
	}
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

// Never more holders than permits, by their own validity, while nodes stop and
// lose their connections.
func TestPermitsAreNeverMore(t *testing.T) {
	for seed := range seeds(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				const permits = 3
				random := rand.New(rand.NewPCG(seed, 1))
				var mu sync.Mutex
				var held []*time.Time
				grants := 0
				stop := time.Now().Add(5 * time.Second)
				var wg sync.WaitGroup
				for i := range 8 {
					k, own := m.client(t, Config{}).Semaphore("s", permits), rand.New(rand.NewPCG(seed, uint64(i+2)))
					wg.Go(func() {
						for time.Now().Before(stop) {
							ctx, cancel := context.WithTimeout(context.Background(), spanOf(own, time.Second))
							lock, err := k.Acquire(ctx, 100*ms+spanOf(own, 400*ms))
							cancel()
							if err != nil {
								continue
							}
							until := lock.Until()
							mu.Lock()
							grants++
							held = slices.DeleteFunc(held, func(t *time.Time) bool { return !t.After(time.Now()) })
							held = append(held, &until)
							assert.LessOrEqual(t, len(held), permits)
							mu.Unlock()
							time.Sleep(spanOf(own, 200*ms))
							mu.Lock()
							until = time.Time{}
							mu.Unlock()
							if own.IntN(8) > 0 {
								_ = lock.Release(context.Background())
							}
						}
					})
				}
				m.disturb(random, stop, 300*ms)
				wg.Wait()
				t.Log(grants, "grants")
				require.Greater(t, grants, 50)
				time.Sleep(3 * time.Second)
				require.Zero(t, m.keys(), "nothing is left")
			})
		})
	}
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
