package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waiting is a call of Acquire in a goroutine.
type waiting struct {
	lock Lock
	err  error
	at   time.Time
	done chan struct{}
}

// waits starts an Acquire and lets it proceed until it waits: for an attempt,
// and the nodes' answers to the lookout.
func waits(ctx context.Context, c *Client, resource string) *waiting {
	return waitsIn(20*ms, func() (Lock, error) { return c.Acquire(ctx, resource, 10*time.Second) })
}

// waitsIn starts a call, and lets it proceed for a while.
func waitsIn(rest time.Duration, acquire func() (Lock, error)) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lock, w.err = acquire()
		w.at = time.Now()
	}()
	time.Sleep(rest)
	return w
}

func (w *waiting) isDone() bool {
	synctest.Wait()
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// encoding returns a client that only encodes.
func encoding(config Config) *Client {
	c := &Client{config: &config}
	c.kinds = c.newKinds()
	return c
}

// secretOf returns a token's text.
func secretOf(v wire.Veiled) string {
	text := v.Unveil()
	return string(text[:])
}

// got waits for the lock and returns when it was granted.
func (w *waiting) got(t *testing.T) time.Time {
	t.Helper()
	<-w.done
	require.NoError(t, w.err)
	return w.at
}

// A release by another client is pushed: it takes the delays of the release and
// of the push, and one attempt.
func TestAReleaseElsewhereIsPushed(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 16} {
		simulatedAs(t, fmt.Sprint("nodes=", n), n, func(t *testing.T, m *memory) {
			a, b := m.client(t, Config{}), m.client(t, Config{})
			held := mustAcquire(t, a, "r", time.Minute)
			w := waits(t.Context(), b, "r")
			time.Sleep(100 * ms)
			require.False(t, w.isDone())
			before := calls(m, "SET")
			start := time.Now()
			require.NoError(t, held.Release(t.Context()))
			require.Equal(t, 4*ms, w.got(t).Sub(start))
			require.Equal(t, n, calls(m, "SET")-before, "one attempt")
		})
	}
}

// A waiter asks the nodes about the key as it stands there: with a prefix, it
// is told of a release as soon as without one.
func TestAWaiterWithAPrefixIsTold_R11(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{Prefix: "lock:"}), m.client(t, Config{Prefix: "lock:"})
		for _, wait := range []func() (Lock, error){
			func() (Lock, error) { return b.Acquire(t.Context(), "r", time.Minute) },
			func() (Lock, error) { return b.All("r", "s").Acquire(t.Context(), time.Minute) },
		} {
			held := mustAcquire(t, a, "r", time.Minute)
			w := waitsIn(3*time.Second, wait) // until it asks seldom by itself
			start := time.Now()
			require.NoError(t, held.Release(t.Context()))
			require.LessOrEqual(t, w.got(t).Sub(start), 10*ms)
			require.NoError(t, w.lock.Release(t.Context()))
		}
	})
}

// A release by this client wakes the next caller at once: its SET stands behind
// the release on every connection (R8).
func TestAReleaseHereCallsTheNextAtOnce(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: -1})
		held := mustAcquire(t, c, "r", time.Minute)
		w := waits(t.Context(), c, "r")
		all := []*waiting{w}
		for range 10 {
			all = append(all, waits(t.Context(), c, "r"))
		}
		for _, w := range all {
			start := time.Now()
			require.NoError(t, held.Release(t.Context()))
			require.Equal(t, 2*ms, w.got(t).Sub(start), "no time between the release and the SET")
			held = w.lock
		}
		require.NoError(t, held.Release(t.Context()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
		require.Empty(t, c.queues.of)
		require.Zero(t, c.queues.waiting.Load())
	})
}

// The head leaves during its attempt, after a release of this client: the next
// caller must not wait for that release in vain. With near nodes the attempt is
// over before the watch sees that its context has ended, so some nodes are
// distant: there the attempt ends without an outcome, and the next caller must
// try instead.
func TestTheHeadLeavesDuringAHandoverHere(t *testing.T) {
	for _, trip := range []time.Duration{2 * ms, 30 * ms} {
		simulatedAs(t, trip.String(), 3, func(t *testing.T, m *memory) {
			m.far(trip)
			c := m.client(t, Config{HandOver: -1})
			cut := 0
			for after := time.Duration(0); after < 2*trip; after += trip / 8 {
				held := mustAcquire(t, c, "r", time.Minute)
				first := waits(t.Context(), c, "r")
				time.Sleep(2 * trip) // until its attempt has failed, and its undo is executed
				ctx, cancel := context.WithCancel(t.Context())
				head := waits(ctx, c, "r")
				next := waits(t.Context(), c, "r")
				require.NoError(t, held.Release(t.Context()))
				first.got(t)
				start := time.Now()
				time.AfterFunc(max(pure.Soon, after), cancel)
				require.NoError(t, first.lock.Release(t.Context()))
				<-head.done
				if head.err == nil {
					require.NoError(t, head.lock.Release(t.Context()))
				} else if after > trip/4 {
					cut++
				}
				// The release, two attempts, and the time until the watch
				// has seen the end of the context.
				require.LessOrEqual(t, next.got(t).Sub(start), 5*trip+10*ms, "cancelled after %v", after)
				require.NoError(t, next.lock.Release(t.Context()))
				cancel()
				time.Sleep(5 * trip)
			}
			if trip > 10*ms {
				require.Positive(t, cut, "no attempt was cut short, which this is about")
			}
		})
	}
}

// The key of a holder that is gone expires; waiters try a few milliseconds
// later, before the servers push.
func TestAnExpiryIsNoticed(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		for ttl := 50 * ms; ttl < 4*time.Second; ttl *= 2 {
			start := time.Now()
			mustAcquire(t, a, "r", ttl)
			w := waits(t.Context(), b, "r")
			late := w.got(t).Sub(start) - ttl
			require.Positive(t, late)
			// The SET arrives after 1 ms, the answer counts from its arrival, 1
			// ms late, and the attempt takes 2 ms.
			require.LessOrEqual(t, late, 1*ms+1*ms+expiryMargin+expirySpread+2*ms, "TTL %v", ttl)
			require.NoError(t, w.lock.Release(t.Context()))
		}
	})
}

// Callers of one client are served in their order, and those that leave lose
// only their place.
func TestFirstComeFirstServed(t *testing.T) {
	for _, poll := range []bool{false, true} { // without tracking, too
		simulatedAs(t, fmt.Sprintf("tracking=%t", !poll), anyNumber, func(t *testing.T, m *memory) {
			if poll {
				each(m.nodes, func(n *redistest.Node) { n.Refuse("-NOPERM no", "CLIENT TRACKING") })
			}
			a, b := m.client(t, Config{}), m.client(t, Config{})
			held := mustAcquire(t, a, "r", time.Minute)
			var all []*waiting
			var cancels []context.CancelFunc
			for range 12 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cancels = append(cancels, cancel)
				all = append(all, waits(ctx, b, "r"))
			}
			for _, leaver := range []int{5, 0, 1, 11} { // in the middle, the head twice, the last
				start := time.Now()
				cancels[leaver]()
				<-all[leaver].done
				if poll { // the head may be in an attempt, whose end the watch notices
					require.LessOrEqual(t, time.Since(start), 5*ms)
				} else {
					require.Zero(t, time.Since(start), "at once")
				}
				require.ErrorIs(t, all[leaver].err, context.Canceled)
				require.ErrorIs(t, all[leaver].err, ErrHeld)
				time.Sleep(20 * ms)
			}
			require.NoError(t, held.Release(t.Context()))
			order := []int{2, 3, 4, 6, 7, 8, 9, 10}
			for turn, i := range order {
				all[i].got(t)
				for _, later := range order[turn+1:] {
					require.False(t, all[later].isDone(), "%d came before %d", later, i)
				}
				require.NoError(t, all[i].lock.Release(t.Context()))
			}
		})
	}
}

// The head leaves; the next caller is told of the release as the head would
// have been.
func TestTheTurnPassesWhenTheHeadLeaves(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		held := mustAcquire(t, a, "r", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		waits(ctx, b, "r")
		before := calls(m, "SET")
		limited, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		next := waits(limited, b, "r")
		cancel()
		time.Sleep(20 * ms)
		require.Equal(t, before, calls(m, "SET"), "nothing happened that would make an attempt worth while")
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.Equal(t, 4*ms, next.got(t).Sub(start))
	})
}

// Pushes without a reason, in any number, do not cause endless attempts. Beyond
// two for each question they end the connection (R32), and if they fall into
// the handshakes as well, the wait ends (R31).
func TestSpuriousPushesDoNotMakeUsSpin(t *testing.T) {
	for _, pause := range []time.Duration{200 * time.Microsecond, 2 * ms, 10 * ms, 20 * ms} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			a, b := m.client(t, Config{}), m.client(t, Config{})
			mustAcquire(t, a, "r", time.Minute)
			w := waits(t.Context(), b, "r")
			before := m.nodes[0].Calls("SET")
			key := m.arrangement.Prefix + "r"
			push := fmt.Sprintf(">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%s\r\n", len(key), key)
			for range int(time.Second / pause) {
				each(m.nodes, func(n *redistest.Node) { n.Push(push) })
				time.Sleep(pause)
			}
			tries := m.nodes[0].Calls("SET") - before
			t.Logf("%d attempts in a second with a push every %v", tries, pause)
			require.LessOrEqual(t, tries, 75)
			if !w.isDone() {
				require.Positive(t, tries)
				return
			}
			require.ErrorIs(t, w.err, ErrNoQuorum)
			require.ErrorIs(t, w.err, conn.ErrProtocol)
			require.Less(t, pause, 20*ms, "no connection ends")
		})
	}
}

// Nodes that die push nothing; what was missed is found within the fallback.
func TestNodesThatDieWhileSomebodyWaits(t *testing.T) {
	for _, dead := range []int{1, 2, 3} {
		simulatedAs(t, fmt.Sprint("dead=", dead), 5, func(t *testing.T, m *memory) {
			a, b := m.client(t, Config{}), m.client(t, Config{})
			held := mustAcquire(t, a, "r", time.Minute)
			w := waits(t.Context(), b, "r")
			for i := range dead {
				m.link(i).Refuse(true)
				m.link(i).Reset()
			}
			time.Sleep(100 * ms)
			start := time.Now()
			_ = held.Release(t.Context())
			if dead < 3 {
				require.Equal(t, 4*ms, w.got(t).Sub(start), "a quorum is left, and pushes")
				return
			}
			time.Sleep(100 * ms)
			require.False(t, w.isDone())
			for i := range dead {
				m.link(i).Refuse(false)
			}
			start = time.Now()
			require.LessOrEqual(t, w.got(t).Sub(start), 1200*ms+fallbackMost)
		})
	}
}

// A hundred waiters ask the nodes as often as one does.
func TestManyWaitersAskAsOneDoes(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		mustAcquire(t, a, "r", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var errs sync.Map
		for i := range 100 {
			wg.Go(func() {
				_, err := b.Acquire(ctx, "r", time.Second)
				errs.Store(i, err)
			})
		}
		time.Sleep(100 * ms)
		before := m.nodes[0].Calls("SET") + m.nodes[0].Calls("PTTL")
		time.Sleep(10 * time.Second)
		asked := m.nodes[0].Calls("SET") + m.nodes[0].Calls("PTTL") - before
		require.LessOrEqual(t, asked, 2*21, "two commands at the end of each fallback")
		start := time.Now()
		cancel()
		wg.Wait()
		require.LessOrEqual(t, time.Since(start), 5*ms)
		errs.Range(func(_, err any) bool {
			require.ErrorIs(t, err.(error), context.Canceled)
			require.ErrorIs(t, err.(error), ErrHeld)
			return true
		})
		require.Empty(t, b.queues.of)
	})
}

// Close ends all waiting calls, the head's and the others' (R28). Nothing of
// theirs is left: a goroutine would fail the test.
func TestCloseEndsAllThatWait_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		mustAcquire(t, a, "r", time.Minute)
		var all []*waiting
		for i := range 20 {
			all = append(all, waits(t.Context(), b, []string{"r", "r2"}[i%2]))
		}
		<-all[1].done // the first caller for r2 has it
		require.NoError(t, b.Close(t.Context()))
		for i, w := range all {
			<-w.done
			if i != 1 {
				require.ErrorIs(t, w.err, ErrClosed)
			}
		}
		require.Empty(t, b.queues.of)
	})
}

// FailFast ends each waiter if there is no quorum, one after another (R11).
func TestFailFastEndsAllThatWait(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{Retry: Retry{FailFast: true}})
		mustAcquire(t, a, "r", time.Minute)
		var all []*waiting
		for range 5 {
			all = append(all, waits(t.Context(), b, "r"))
		}
		start := time.Now()
		for i := range 2 {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		for _, w := range all {
			<-w.done
			require.ErrorIs(t, w.err, ErrNoQuorum)
			require.LessOrEqual(t, w.at.Sub(start), 10*ms)
		}
	})
}

// A wait leaves no lookout, in whichever way it ends.
func TestWaitingStopsItsLookout_R26(t *testing.T) {
	for _, resources := range [][]string{{"x"}, {"x", "y"}} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			a, b := m.client(t, Config{}), m.client(t, Config{})
			x, y := mustAcquire(t, a, "x", 5*time.Second), mustAcquire(t, a, "y", 5*time.Second)
			requireFree := leaveOneLookout(t, b)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := b.All(resources...).Acquire(ctx, 5*time.Second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			requireFree("the context ended")
			time.AfterFunc(time.Second, func() { assert.NoError(t, x.Release(t.Context())) })
			time.AfterFunc(2*time.Second, func() { assert.NoError(t, y.Release(t.Context())) })
			lock, err := b.All(resources...).Acquire(t.Context(), 5*time.Second)
			require.NoError(t, err)
			requireFree("granted")
			require.NoError(t, lock.Release(t.Context()))
			time.Sleep(2 * time.Second)
		})
	}
}

// leaveOneLookout uses up all lookouts of a client but one. The function that
// it returns fails the test unless that one is free.
func leaveOneLookout(t *testing.T, c *Client) (requireFree func(when string)) {
	t.Helper()
	key := []byte("another")
	last := c.group.Lookout(key)
	for l := last; l != nil; l = c.group.Lookout(key) {
		last = l
	}
	last.Stop()
	return func(when string) {
		t.Helper()
		l := c.group.Lookout(key)
		require.NotNil(t, l, when)
		l.Stop()
	}
}

// A hold that was granted in turn is released with MinHold: the next caller
// does not have to find out by itself.
func TestMinHoldAndThoseWhoWaitHere(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		held := mustAcquire(t, c, "r", time.Minute)
		got := holdsLater(t, c, HoldOptions{TTL: time.Minute, MinHold: 100 * ms})
		time.Sleep(20 * ms)
		next := waits(t.Context(), c, "r")
		require.NoError(t, held.Release(t.Context()))
		h := <-got
		begun := h.begun.at
		require.NoError(t, h.Release(t.Context()))
		lasted := next.got(t).Sub(begun)
		require.GreaterOrEqual(t, lasted, 100*ms)
		require.LessOrEqual(t, lasted, 100*ms+4*ms+expiryMargin+expirySpread+4*ms, "the drift, the wait for the end, and the ways")
	})
}
