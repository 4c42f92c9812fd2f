package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
						if strings.HasPrefix(key, "r"+wire.WaiterSuffix) {
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
			if len(e.Args) > 1 && e.Args[1] == wire.AskFair.Digest && e.Args[11] != "" {
				names[e.Args[11]] = true
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

// A node that refuses is owed a place that was left, for as long as a place
// lasts, whatever the TTL.
func TestALeftPlaceIsOwed_R8(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		held, err := m.client(t, Config{}).Fair("r").TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		c := m.client(t, Config{})
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

func TestLeasesThatCannotBe(t *testing.T) {
	for _, lease := range []time.Duration{kind.LeaseTime - 1, mostLease + 1, -time.Second} {
		_, err := New(t.Context(), Config{Nodes: Nodes("redis://a"), FairLease: lease})
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "FairLease")
	}
}

// Of sixteen clients that want one lock all the time, the next in line acts,
// and not all that wait.
func TestCommandsForAFairGrant(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		commands := func() (n int) {
			for _, node := range m.nodes {
				n += len(node.Log())
			}
			return n
		}
		var clients []*Client
		for range 16 {
			clients = append(clients, m.client(t, Config{}))
		}
		var grants atomic.Int64
		var wg sync.WaitGroup
		before, stop := commands(), time.Now().Add(5*time.Second)
		for _, c := range clients {
			wg.Go(func() {
				for time.Now().Before(stop) {
					lock, err := c.Fair("r").Acquire(context.Background(), time.Minute)
					if !assert.NoError(t, err) {
						return
					}
					grants.Add(1)
					time.Sleep(2 * ms)
					assert.NoError(t, lock.Release(context.Background()))
				}
			})
		}
		wg.Wait()
		each := float64(commands()-before) / float64(grants.Load())
		t.Logf("%.0f commands for each of %d grants", each, grants.Load())
		require.Less(t, each, 65.0, "32 to 49 otherwise, 97 without order, and 188 if all act whenever one asks")
	})
}
