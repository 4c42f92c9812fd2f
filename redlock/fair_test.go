package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Callers of several clients get the lock in the order in which they asked,
// though their clocks differ.
func TestFairIsInOrder(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		var order journal[int]
		held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 10 {
			c := m.client(t, Config{})
			c.kinds.Tickets.Correct(time.Duration(i%3-1) * time.Hour)
			wg.Go(func() {
				lock, err := c.Fair("r").Acquire(context.Background(), time.Minute)
				if assert.NoError(t, err) {
					order.add(i)
					time.Sleep(30 * ms)
					assert.NoError(t, lock.Release(context.Background()))
				}
			})
			time.Sleep(50 * ms)
		}
		released := time.Now()
		require.NoError(t, held.Release(t.Context()))
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order.all())
		require.Less(t, time.Since(released), 10*(30+40)*ms)
		time.Sleep(2 * time.Minute)
		require.Zero(t, m.keys())
	})
}

// TryAcquire takes no place in the queue, and does not overtake callers that
// wait.
func TestTryAcquireDoesNotOvertake(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).Fair("r"), m.client(t, Config{}).Fair("r")
		held, err := a.TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		held, err = held.Extend(t.Context(), 2*time.Minute)
		require.NoError(t, err)
		_, err = b.TryAcquire(t.Context(), time.Minute)
		var refused *HeldError
		require.ErrorAs(t, err, &refused)
		require.Zero(t, refused.Place)
		require.Zero(t, refused.Admitted)
		got := make(chan Lock, 1)
		go func() {
			lock, err := b.Acquire(context.Background(), time.Minute)
			assert.NoError(t, err)
			got <- lock
		}()
		time.Sleep(time.Second)
		require.NoError(t, held.Release(t.Context()))
		require.ErrorIs(t, held.Release(t.Context()), ErrNotHeld)
		_, err = a.TryAcquire(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		lock := <-got
		require.NoError(t, lock.Release(t.Context()))
		lock, err = a.TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A caller knows its place, and leaves the queue at once when its context ends.
func TestPlacesInTheQueue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		held, err := m.client(t, Config{Owner: "first"}).Fair("r").Acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		places := make([]journal[int], 3)
		var cancels []context.CancelFunc
		var errs [3]chan error
		for i := range 3 {
			c := m.client(t, Config{Tracer: &Tracer{AttemptDone: func(_ context.Context, a CallInfo) {
				held := (*HeldError)(nil)
				if errors.As(a.Err, &held) {
					places[i].add(held.Place)
				}
			}}})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			cancels, errs[i] = append(cancels, cancel), make(chan error, 1)
			go func() {
				lock, err := c.Fair("r").Acquire(ctx, time.Minute)
				if err == nil {
					_ = lock.Release(context.Background())
				}
				errs[i] <- err
			}()
			time.Sleep(20 * ms)
		}
		time.Sleep(time.Second)
		for i := range places {
			all := places[i].all()
			require.Equal(t, i+1, all[len(all)-1], "the holder, which is still in the queue, has none")
		}
		cancels[0]()
		err = <-errs[0]
		held1 := (*HeldError)(nil)
		require.ErrorAs(t, err, &held1)
		require.Equal(t, 1, held1.Place)
		require.GreaterOrEqual(t, held1.Admitted, 2, "until a quorum had answered")
		require.Equal(t, "first", held1.Owner)
		time.Sleep(30 * ms)
		all := places[1].all()
		require.Equal(t, 1, all[len(all)-1], "the nodes push that the one before it has gone")
		cancels[1]()
		require.ErrorIs(t, <-errs[1], context.Canceled)
		released := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, <-errs[2])
		require.Less(t, time.Since(released), 40*ms, "it waits for none that has gone")
		time.Sleep(2 * time.Minute)
		require.Zero(t, m.keys())
	})
}

// What one node says of a caller's place, though it is the first to answer,
// counts for nothing against the others (R32).
func TestPlaceByMostNodes_R32(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		m.delay(0, ms)
		m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			lie := resp.AppendBulkString(nil, "2 999999999 "+strings.Repeat("x", len(Token{})))
			return lie, args[0] == "EVALSHA" && args[1] == wire.AskFair.Digest
		})
		holder := m.client(t, Config{}).Fair("r")
		held, err := holder.Acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		for place := 1; place <= 3; place++ {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var places journal[int]
			c := m.client(t, Config{Tracer: &Tracer{AttemptDone: func(_ context.Context, a CallInfo) {
				held := (*HeldError)(nil)
				if errors.As(a.Err, &held) {
					places.add(held.Place)
				}
			}}})
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				if lock, err := c.Fair("r").Acquire(ctx, time.Minute); err == nil {
					_ = lock.Release(context.WithoutCancel(ctx))
				}
			})
			time.Sleep(time.Second)
			all := places.all()
			require.Equal(t, place, all[len(all)-1])
			require.LessOrEqual(t, len(all), 15, "it is not woken in vain")
			defer cancel()
		}
		require.NoError(t, held.Release(t.Context()))
	})
}

// A waiter that dies costs the others its lease, and no more. The holder that
// dies costs its TTL.
func TestAWaiterThatDies(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a := m.client(t, Config{}).Fair("r")
		held, err := a.TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		dead, network := m.apartPlain(t, Config{})
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() {
			_, err := dead.Fair("r").Acquire(ctx, time.Minute)
			gone <- err
		}()
		time.Sleep(100 * ms)
		got := make(chan time.Time, 1)
		go func() {
			lock, err := a.Acquire(context.Background(), 3*time.Second)
			assert.NoError(t, err)
			got <- time.Now()
			time.Sleep(lock.Validity())
		}()
		time.Sleep(100 * ms)
		m.mute(network, true)
		require.NoError(t, held.Release(t.Context()))
		start := time.Now()
		at := <-got
		require.Greater(t, at.Sub(start), kind.LeaseTime/2)
		require.Less(t, at.Sub(start), kind.LeaseTime+kind.AskTime+50*ms)
		lock, err := a.Acquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.Less(t, time.Since(at), 3*time.Second+kind.LeaseTime)
		require.NoError(t, lock.Release(t.Context()))
		cancel()
		<-gone
		m.mute(network, false)
	})
}

// A waiter keeps its place on a node that misses every other question, whatever
// wakes the waiter in between.
func TestAWaiterKeepsItsPlaceThoughQuestionsAreLost(t *testing.T) {
	for name, config := range map[string]Config{"pushed": {}, "polling": {Retry: Retry{Tries: 1_000_000, MinDelay: 1}}} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
				require.NoError(t, err)
				var asked atomic.Int64
				lost := false
				m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					if args[0] == "EVALSHA" && args[1] == wire.AskFair.Digest {
						lost = asked.Add(1) > 1 && !lost
						return []byte("-ERR no\r\n"), lost
					}
					return nil, false
				})
				ctx, stop := context.WithCancel(t.Context())
				gone := make(chan error, 1)
				go func() {
					_, err := m.client(t, config).Fair("r").Acquire(ctx, time.Minute)
					gone <- err
				}()
				time.Sleep(20 * ms)
				least := kind.LeaseTime
				for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(ms) {
					if rand.IntN(100) == 0 {
						for _, n := range m.nodes {
							n.DB().Expire("r", time.Hour) // they push
						}
					}
					left := time.Duration(0)
					for _, key := range m.nodes[0].Keys() {
						if strings.HasPrefix(key, "r"+wire.LeaseSuffix) {
							left, _ = m.nodes[0].DB().TTL(key)
						}
					}
					least = min(least, left)
				}
				t.Logf("%d questions, the least left of the lease: %v", asked.Load(), least)
				require.Greater(t, least, kind.LeaseTime/5)
				stop()
				<-gone
				require.NoError(t, held.Release(context.WithoutCancel(t.Context())))
			})
		})
	}
}

// A waiter keeps its place on a node that answers while the others do not: it
// asks as often as before, however late other callers would try again.
func TestAWaiterKeepsItsPlaceWithoutAQuorum(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		c := m.client(t, Config{Retry: Retry{MaxDelay: time.Minute}, Logger: slog.New(new(records))})
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := c.Fair("r").Acquire(ctx, time.Minute)
			gone <- err
		}()
		time.Sleep(20 * ms)
		for _, n := range m.nodes[1:] {
			n.Refuse("-LOADING for a while", "EVALSHA") // which ends no wait (R31)
		}
		for range 1000 {
			time.Sleep(10 * ms)
			require.Len(t, m.nodes[0].Keys(), 5, "the lock, its holder, the queue, its ticket and the lease")
		}
		stop()
		<-gone
		for _, n := range m.nodes[1:] {
			n.Refuse("", "EVALSHA")
		}
		require.NoError(t, held.Release(context.WithoutCancel(t.Context())))
	})
}

// A ticket that comes too late is drawn anew, under another name.
func TestLateTickets(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		a.kinds.Tickets.Correct(time.Hour)
		held, err := a.Fair("r").Acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		before := m.nodes[0].Calls("EVALSHA")
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		_, err = b.Fair("r").Acquire(ctx, time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(100 * ms)
		require.LessOrEqual(t, m.nodes[0].Calls("EVALSHA")-before, 8)
		names := map[string]bool{}
		for _, e := range m.nodes[0].Log() {
			if len(e.Args) > 1 && e.Args[1] == wire.AskFair.Digest && e.Args[10] != "" {
				names[e.Args[10]] = true
			}
		}
		require.Len(t, names, 3, "of a, and of b twice")
		require.NoError(t, held.Release(t.Context()))
		time.Sleep(100 * ms)
		for _, n := range m.nodes {
			require.Equal(t, []string{"r:redlock:ticket"}, n.Keys())
		}
	})
}

// A caller from afar gets its turn beside a stream of callers near the nodes:
// each time its ticket arrives, later ones have been let in, whether its clock
// is right or slow.
func TestFairFromAfar(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Hour} {
		for _, callers := range []int{1, 8} {
			simulated(t, 5, func(t *testing.T, m *memory) {
				far, network := m.apartPlain(t, Config{})
				far.kinds.Tickets.Correct(-slow)
				for _, n := range m.nodes {
					network.At(n.Addr()).Latency(25*ms, 25*ms)
				}
				ctx, stop := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				for range callers {
					c := m.client(t, Config{})
					wg.Go(func() {
						for ctx.Err() == nil {
							lock, err := c.Fair("r").Acquire(context.Background(), time.Minute)
							if !assert.NoError(t, err) {
								return
							}
							time.Sleep(2 * ms)
							assert.NoError(t, lock.Release(context.Background()))
						}
					})
				}
				time.Sleep(100 * ms)
				within, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				var took []time.Duration
				for range 10 {
					begun := time.Now()
					lock, err := far.Fair("r").Acquire(within, time.Minute)
					if !assert.NoError(t, err) {
						break
					}
					took = append(took, time.Since(begun))
					assert.NoError(t, lock.Release(ctx))
				}
				stop()
				wg.Wait()
				t.Logf("%d callers, a clock that is slow by %v: %v", callers, slow, took)
			})
		}
	}
}

// A caller that is too far away for its TTL gets no lock, and does not stop the
// others: it goes to the end of the queue each time.
func TestFairFromTooFar(t *testing.T) {
	for _, c := range []struct{ ttl, nodeTimeout time.Duration }{
		{time.Second, 0}, // votes have a tenth of the TTL (R6)
		{80 * ms, 0},
		{10 * time.Second, 100 * ms},
	} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			far, network := m.apartPlain(t, Config{NodeTimeout: c.nodeTimeout})
			for _, n := range m.nodes {
				network.At(n.Addr()).Latency(60*ms, 60*ms)
			}
			near := m.client(t, Config{})
			held, err := near.Fair("r").TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := far.Fair("r").Acquire(ctx, c.ttl)
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, ErrNoQuorum)
			})
			time.Sleep(time.Second) // it has found out
			require.NoError(t, held.Release(t.Context()))
			within, stop := context.WithTimeout(ctx, 10*time.Second)
			defer stop()
			for range 100 {
				lock, err := near.Fair("r").Acquire(within, time.Minute)
				if !assert.NoError(t, err) {
					break
				}
				time.Sleep(ms)
				require.NoError(t, lock.Release(t.Context()))
			}
			cancel()
			wg.Wait()
		})
	}
}

// A call that is a mistake, or whose context has ended, sends nothing: it has
// no place to give up.
func TestFairSendsNothingInVain(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		before := calls(m, "EVALSHA")
		for _, name := range []string{"", strings.Repeat("x", 1<<20), "a:redlock:queue"} {
			_, err := c.Fair(name).Acquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrResource)
		}
		_, err := c.Fair("r").Acquire(t.Context(), 0)
		require.ErrorIs(t, err, ErrTTL)
		_, err = c.Fair("r").Acquire(ended, time.Second)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(100 * ms)
		require.Equal(t, before, calls(m, "EVALSHA"))
	})
}

// A node that is away when a caller leaves the queue is owed that, though later
// questions did not go to it: when it is back, the caller has no place there,
// and its lease has not ended. A node that refuses is owed it for as long as a
// place lasts (R8).
func TestALeftPlaceIsOwed_R8(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		c := m.client(t, Config{})
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := c.Fair("r").Acquire(ctx, 100*ms)
			gone <- err
		}()
		time.Sleep(10 * ms)
		m.link(0).Refuse(true)
		m.link(0).Reset()
		time.Sleep(kind.AskTime + 20*ms)
		leave()
		require.ErrorIs(t, <-gone, context.Canceled)
		require.Contains(t, m.nodes[0].Keys(), "r"+wire.QueueSuffix)
		m.link(0).Refuse(false)
		time.Sleep(kind.LeaseTime/2 + 50*ms)
		for _, key := range m.nodes[0].Keys() {
			require.NotContains(t, key, wire.QueueSuffix)
		}

		m.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		within, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		_, err = c.Fair("r").Acquire(within, 100*ms)
		require.ErrorIs(t, err, ErrHeld)
		require.Positive(t, c.Nodes()[0].Debts)
		time.Sleep(2 * time.Second)
		require.Zero(t, c.Nodes()[0].Debts)
		require.NoError(t, held.Release(t.Context()))
	})
}

// Close gives up the places of the callers that wait, before it ends the
// connections: other clients do not wait for a lease (R28).
func TestCloseLeavesTheQueue_R28(t *testing.T) {
	for range 20 { // how it ends depends on which goroutine runs first
		simulated(t, 3, func(t *testing.T, m *memory) {
			for i := range m.nodes {
				m.delay(i, 0)
			}
			held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			c := m.client(t, Config{})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					_, err := c.Fair("r").Acquire(context.Background(), time.Minute)
					assert.ErrorIs(t, err, ErrClosed)
				})
			}
			time.Sleep(time.Second)
			closeNow(t, c)
			for _, n := range m.nodes {
				for _, key := range n.Keys() {
					require.NotContains(t, key, wire.QueueSuffix)
				}
			}
			wg.Wait()
			require.NoError(t, held.Release(t.Context()))
		})
	}
}

// A caller that no node has let in, since there are always later tickets, has
// no place.
func TestNoPlaceInTheQueue(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var late atomic.Int64
		late.Store(time.Now().UnixMicro())
		for _, n := range m.nodes {
			n.Handle(func(_ int, args []string) ([]byte, bool) {
				text := fmt.Sprint("3 ", late.Add(time.Minute.Microseconds()))
				return resp.AppendBulkString(nil, text), args[0] == "EVALSHA" && args[1] == wire.AskFair.Digest
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.client(t, Config{}).Fair("r").Acquire(ctx, time.Minute)
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Zero(t, held.Place)
		require.Zero(t, held.Admitted)
	})
}

// A caller with a low ticket that asks later does not overtake one that a
// quorum has let in, though it heard of no higher ticket: of the nodes that
// know it, one failed, and the other's answer was late.
func TestTicketThatANodeRefusedInSilence(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		ask := func(c *Client, k kind.Kind) (Lock, error) {
			lock := c.wanted(k, "r", time.Minute)
			err := c.attempt(t.Context(), &lock)
			return lock, err
		}
		a, b := m.client(t, Config{}), m.client(t, Config{})
		held, err := a.Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		a.kinds.Tickets.Correct(time.Hour)
		first := kind.Waiting(a.kinds.Fair())
		m.nodes[0].Refuse("-ERR no", "EVALSHA")
		_, err = ask(a, first)
		require.ErrorIs(t, err, ErrHeld)
		m.nodes[0].Refuse("", "EVALSHA")
		m.nodes[1].Refuse("-ERR no", "EVALSHA")
		m.delay(2, 20*ms)
		second := kind.Waiting(b.kinds.Fair())
		_, err = ask(b, second)
		require.ErrorIs(t, err, ErrHeld)
		m.nodes[1].Refuse("", "EVALSHA")
		m.delay(2, 0)
		time.Sleep(100 * ms)
		require.NoError(t, held.Release(t.Context()))
		_, err = ask(b, second)
		require.ErrorIs(t, err, ErrHeld)
		lock, err := ask(a, first)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// asks returns the place of a caller of a lock that another has, and what makes
// one attempt of it.
func asks(t *testing.T, m *memory) (place *kind.Place, attempt func()) {
	t.Helper()
	c := m.client(t, Config{})
	_, err := c.Fair("r").TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	k := kind.Waiting(m.client(t, Config{}).kinds.Fair())
	return kind.PlaceOf(k), func() {
		lock := c.wanted(k, "r", time.Minute)
		require.ErrorIs(t, c.attempt(t.Context(), &lock), ErrHeld)
		time.Sleep(100 * ms) // all nodes have answered
	}
}

// A node that let a caller in and then forgot it, and lets in a later ticket,
// does not count for the caller's place any more.
func TestPlaceThatANodeForgot(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		place, ask := asks(t, m)
		late := func(nodes ...int) {
			for i := range m.nodes {
				m.delay(i, 2*ms)
			}
			for _, i := range nodes {
				m.delay(i, 20*ms)
			}
		}
		for _, n := range m.nodes[3:] {
			n.Refuse("-ERR no", "EVALSHA")
		}
		late(1, 2)
		ask()
		require.EqualValues(t, 1, place.AdmittedBy, "the first node")
		require.False(t, place.Kept)
		for _, n := range m.nodes[3:] {
			n.Refuse("", "EVALSHA")
		}
		other := place.Ticket + 1
		m.forgetOn(0, "r:redlock:queue")
		m.nodes[0].DB().Set("r:redlock:ticket", strconv.FormatInt(other, 10), time.Minute)
		late(3, 4)
		ask()
		require.True(t, place.Kept)
		require.Greater(t, place.Ticket, other, "a quorum must have it, also without the node that has forgotten it")
	})
}

// A caller that a quorum has let in keeps its place, whatever one node says
// later (R32).
func TestNoNodeTakesAPlace_R32(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		place, ask := asks(t, m)
		m.delay(2, 20*ms)
		ask()
		require.True(t, place.Kept)
		waiter := place.Waiter
		m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			lie := resp.AppendBulkString(nil, fmt.Sprint("3 ", place.Ticket+1))
			return lie, args[0] == "EVALSHA" && args[1] == wire.AskFair.Digest
		})
		ask()
		require.Equal(t, waiter, place.Waiter)
	})
}

// Of an even number of nodes, fewer than a quorum can refuse the lock. A caller
// still hears a quorum of them, so it knows of its place from its first
// attempt.
func TestPlaceOfAnEvenNumberOfNodes_R33(t *testing.T) {
	for _, nodes := range []int{2, 4} {
		simulated(t, nodes, func(t *testing.T, m *memory) {
			place, ask := asks(t, m)
			for node := range m.nodes {
				m.delay(node, time.Duration(2+node)*ms)
			}
			ask()
			require.True(t, place.Kept)
			_, err := m.client(t, Config{Retry: Retry{Tries: 1}}).Fair("r").Acquire(t.Context(), time.Minute)
			var held *HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, multiplex.Quorum(nodes), held.Admitted)
			require.Equal(t, 2, held.Place)
		})
	}
}

// With two nodes, one that restarts empty shuffles no queue: it gets all
// callers back in their order, whichever asks it first.
func TestEmptyRestartOfOneOfTwo_R33(t *testing.T) {
	simulated(t, 2, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Forgetful: true})
		held, err := c.Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		var mu sync.Mutex
		var served []int
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				lock, err := c.Fair("r").Acquire(t.Context(), time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(10 * ms)
		}
		m.nodes[1].Restart()
		time.Sleep(time.Second)
		_ = held.Release(t.Context()) // one of the nodes has forgotten it
		wg.Wait()
		require.Len(t, served, 12)
		require.IsIncreasing(t, served)
	})
}

// What nodes say of the tickets in one queue, true or not, changes nothing for
// another, and delays the caller no longer than it will wait.
func TestTicketsOfAnySize_R32(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		far := []string{"9007199164740000", "9223372036854775807"} // the first is below pure.MostNumber
		for i, text := range far {
			m.nodes[i].DB().Set("r:redlock:ticket", text, 0)
		}
		before := c.kinds.Tickets.Next(time.Now())
		lock, err := c.Fair("r").Acquire(t.Context(), time.Minute)
		require.NoError(t, err, "by the first and the third node")
		require.NoError(t, lock.Release(t.Context()))
		require.Less(t, c.kinds.Tickets.Next(time.Now())-before, time.Hour.Microseconds())

		for _, n := range m.nodes {
			n.DB().Set("s:redlock:ticket", far[1], 0)
		}
		_, err = c.Fair("s").Acquire(t.Context(), time.Minute)
		require.NoError(t, err, "what no ticket can pass is passed over")
		_, err = c.Fair("t").Acquire(t.Context(), time.Minute)
		require.NoError(t, err)
	})
}

// Tickets that one node names beyond belief move no caller, and do not mix up
// those that a quorum has let in: such an answer is none (R33).
func TestANodeThatLiesAboutTickets_R33(t *testing.T) {
	for name, lie := range map[string]func() string{
		"the last":         func() string { return fmt.Sprint("3 ", int64(pure.LastNumber)) },
		"before the last":  func() string { return fmt.Sprint("3 ", int64(pure.LastNumber)-1) },
		"the most":         func() string { return fmt.Sprint("3 ", int64(pure.MostNumber)) },
		"a year from now":  func() string { return fmt.Sprint("3 ", time.Now().Add(365*24*time.Hour).UnixMicro()) },
		"no number at all": func() string { return "3 x" },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.client(t, Config{})
				held, err := c.Fair("r").TryAcquire(t.Context(), time.Minute)
				require.NoError(t, err)
				m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					return resp.AppendBulkString(nil, lie()), args[0] == "EVALSHA" && args[1] == wire.AskFair.Digest
				})
				var mu sync.Mutex
				var served []int
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						lock, err := c.Fair("r").Acquire(t.Context(), time.Minute)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						served = append(served, i)
						mu.Unlock()
						if err := lock.Release(t.Context()); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(200 * ms) // until a quorum has let it in
				}
				for _, n := range m.nodes[1:] {
					text, _ := n.Get("r" + wire.TicketSuffix)
					require.Less(t, text, fmt.Sprint(time.Now().Add(kind.TicketBelief).UnixMicro()), "no honest node has taken it over")
				}
				require.NoError(t, held.Release(t.Context()))
				wg.Wait()
				require.IsIncreasing(t, served)
			})
		})
	}
}

// The lease is as long as it is set: a caller that reaches no quorum for a
// while keeps its place, and one that has died stops the others for as long.
func TestFairLeaseIsSet(t *testing.T) {
	for _, lease := range []time.Duration{0, 5 * time.Second} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			c := m.client(t, Config{FairLease: lease})
			held, err := c.Fair("r").TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			first, network := m.apartPlain(t, Config{FairLease: lease})
			var mu sync.Mutex
			var served []string
			var wg sync.WaitGroup
			wait := func(name string, c *Client) {
				wg.Go(func() {
					lock, err := c.Fair("r").Acquire(t.Context(), time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					served = append(served, name)
					mu.Unlock()
					_ = lock.Release(t.Context())
				})
				time.Sleep(100 * ms)
			}
			wait("first", first)
			wait("second", c)
			for _, n := range m.nodes {
				network.At(n.Addr()).Refuse(true)
				network.At(n.Addr()).Reset()
			}
			time.Sleep(2 * time.Second)
			require.NoError(t, held.Release(t.Context()))
			time.Sleep(100 * ms)
			for _, n := range m.nodes {
				network.At(n.Addr()).Refuse(false)
			}
			wg.Wait()
			if lease == 0 {
				require.Equal(t, []string{"second", "first"}, served)
			} else {
				require.Equal(t, []string{"first", "second"}, served)
			}
		})
	}
	for _, lease := range []time.Duration{kind.LeaseTime - 1, mostLease + 1, -time.Second} {
		_, err := New(t.Context(), Config{Nodes: Nodes("redis://a"), FairLease: lease})
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "FairLease")
	}
}

// With nodes that stop and lose their connections, two callers never have the
// lock, and none that a quorum has let in is overtaken by one that asks later.
func TestFairUnderFaults(t *testing.T) {
	for seed := range seeds(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				random := rand.New(rand.NewPCG(seed, 1))
				l := &procession{}
				stop := time.Now().Add(5 * time.Second)
				var wg sync.WaitGroup
				for i := range 8 {
					own := rand.New(rand.NewPCG(seed, uint64(i+2)))
					wg.Go(func() {
						turn := &queueing{}
						c := m.client(t, Config{Tracer: &Tracer{AttemptDone: func(_ context.Context, a CallInfo) {
							held := (*HeldError)(nil)
							if errors.As(a.Err, &held) && held.Admitted >= 3 {
								l.admit(turn)
							}
						}}})
						c.kinds.Tickets.Correct(spanOf(own, time.Minute))
						for time.Now().Before(stop) {
							l.once(t, c.Fair("r"), turn, own)
						}
					})
				}
				m.disturb(random, stop, 100*ms)
				wg.Wait()
				t.Logf("%d grants, %d inversions", l.grants, l.inversions)
				require.Greater(t, l.grants, 50)
				require.Zero(t, l.inversions)
				time.Sleep(2 * time.Minute)
				require.Zero(t, m.keys())
			})
		})
	}
}

// A procession is the callers that wait for a fair lock, as they know it.
type procession struct {
	mu                 sync.Mutex // guards the following
	waiting            []*queueing
	until              time.Time // of the last holder
	grants, inversions int
}

// A queueing is one call.
type queueing struct {
	begun, admitted time.Time
	asked           time.Time // the last attempt's end
}

func (l *procession) admit(q *queueing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.asked = time.Now()
	if q.admitted.IsZero() {
		q.admitted = q.asked
	}
}

func (l *procession) once(t *testing.T, k Locker, q *queueing, random *rand.Rand) {
	time.Sleep(spanOf(random, 100*ms))
	l.mu.Lock()
	*q = queueing{begun: time.Now()}
	l.waiting = append(l.waiting, q)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), spanOf(random, 3*time.Second))
	lock, err := k.Acquire(ctx, 300*ms+spanOf(random, 300*ms))
	cancel()
	l.mu.Lock()
	l.waiting = slices.DeleteFunc(l.waiting, func(o *queueing) bool { return o == q })
	if err != nil {
		l.mu.Unlock()
		return
	}
	l.grants++
	now := time.Now()
	assert.False(t, l.until.After(now), "two holders")
	l.until = lock.Until()
	for _, o := range l.waiting {
		// Half of a lease covers what the nodes and the caller know late.
		if !o.admitted.IsZero() && o.admitted.Before(q.begun) && now.Sub(o.asked) < kind.LeaseTime/2 {
			l.inversions++
			t.Logf("began at %v, and overtook one of %v, admitted at %v", q.begun, o.begun, o.admitted)
		}
	}
	l.mu.Unlock()
	time.Sleep(spanOf(random, 50*ms))
	l.mu.Lock()
	l.until = time.Time{}
	l.mu.Unlock()
	_ = lock.Release(context.Background())
}

// What order costs: sixteen clients that want one lock all the time, with and
// without it.
func TestFairBesideRandomRetry(t *testing.T) {
	waits := func(acquire func(c *Client) (Lock, error)) (all []time.Duration, messages float64) {
		simulated(t, 5, func(t *testing.T, m *memory) {
			var clients []*Client
			for range 16 {
				clients = append(clients, m.client(t, Config{HandOver: -1}))
			}
			stop := time.Now().Add(5 * time.Second)
			before := commandsOf(m)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for time.Now().Before(stop) {
						start := time.Now()
						lock, err := acquire(c)
						if !assert.NoError(t, err) {
							return
						}
						mu.Lock()
						all = append(all, time.Since(start))
						mu.Unlock()
						time.Sleep(2 * ms)
						assert.NoError(t, lock.Release(context.Background()))
					}
				})
			}
			wg.Wait()
			messages = float64(commandsOf(m)-before) / float64(len(all))
		})
		slices.Sort(all)
		return all, messages
	}
	report := func(name string, all []time.Duration, messages float64) time.Duration {
		n := len(all)
		t.Logf("%s: %d grants, p50 %v, p99 %v, longest %v, %.0f commands per grant", name, n, all[n/2], all[n*99/100], all[n-1], messages)
		return all[n-1]
	}
	all, messages := waits(func(c *Client) (Lock, error) { return c.Fair("r").Acquire(context.Background(), time.Minute) })
	longest, inOrder := report("fair", all, messages), messages
	all, messages = waits(func(c *Client) (Lock, error) { return c.Acquire(context.Background(), "r", time.Minute) })
	require.Less(t, longest, report("without order", all, messages))
	// 32 to 49 and 97 commands; 188 if all that wait act whenever one asks.
	require.Less(t, inOrder, messages, "the next in line acts, and not all that wait")
}

func commandsOf(m *memory) (n int) {
	for _, node := range m.nodes {
		n += len(node.Log())
	}
	return n
}

// A hold on a fair lock renews itself.
func TestHoldOfAFairLock(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).Fair("r"), m.client(t, Config{}).Fair("r")
		err := a.DoWith(t.Context(), HoldOptions{TTL: time.Second}, func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			_, err := b.TryHold(t.Context(), HoldOptions{TTL: time.Second})
			require.ErrorIs(t, err, ErrHeld)
			require.ErrorIs(t, a.DoWith(ctx, HoldOptions{TTL: time.Second}, nothing), ErrNested)
			return ctx.Err()
		})
		require.NoError(t, err)
		for _, name := range []string{"", "a:redlock:queue"} {
			_, err := m.client(t, Config{}).Fair(name).Acquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrResource)
		}
	})
}

// apartPlain returns a client that alone uses another network to the nodes.
func (m *memory) apartPlain(t *testing.T, config Config) (*Client, *redistest.Network) {
	t.Helper()
	own := m.wires(t)
	config.Connect.NetDial = own.Dial
	return m.client(t, config), own
}
