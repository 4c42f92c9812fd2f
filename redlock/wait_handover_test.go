package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asked is how many commands about locks the nodes have executed.
func asked(m *memory) int { return calls(m, "SET") + calls(m, "EVALSHA") }

// granted returns a lock that its holder waited for, so that it can be handed
// over, granted right now.
func granted(t *testing.T, c *Client, resource string, ttl time.Duration) Lock {
	t.Helper()
	held := mustAcquire(t, c, resource, time.Minute)
	w := waitsFor(t.Context(), c, resource, ttl)
	require.NoError(t, held.Release(t.Context()))
	w.got(t)
	return w.lock
}

// waitsFor is waits with a TTL.
func waitsFor(ctx context.Context, c *Client, resource string, ttl time.Duration) *waiting {
	return waitsIn(5*ms, func() (Lock, error) { return c.Acquire(ctx, resource, ttl) })
}

// holdsLater waits for a hold in a goroutine, and passes it on.
func holdsLater(t *testing.T, c *Client, o HoldOptions) <-chan *Hold {
	got := make(chan *Hold, 1)
	go func() {
		h, err := c.Hold(t.Context(), "r", o)
		assert.NoError(t, err)
		got <- h
	}()
	return got
}

// The next caller has the lock at once, with the same keys, and the former
// holder's copies are of no use any more.
func TestALockIsHandedOver(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		var attempts []CallInfo
		c := m.client(t, Config{Tracer: &Tracer{AttemptDone: func(_ context.Context, a CallInfo) { attempts = append(attempts, a) }}})
		require.Equal(t, 50*ms, c.config.HandOver)
		first := granted(t, c, "r", 10*time.Second)
		next := waits(t.Context(), c, "r")
		before, released := asked(m), c.Stats().Releases.Granted
		start := time.Now()
		require.NoError(t, first.Release(t.Context()))
		require.Equal(t, start, next.got(t))
		require.Equal(t, before, asked(m), "no node was asked")
		require.Equal(t, first.grant.Token, next.lock.grant.Token)
		require.Less(t, next.lock.Validity(), first.grant.TTL-22*ms, "counted from the SET")
		require.LessOrEqual(t, next.lock.Until(), first.until)
		require.Equal(t, Token{}, first.Token(), "it is another holder's, and secret")
		require.Zero(t, first.Until())
		require.Zero(t, first.Validity())

		s := c.Stats()
		require.EqualValues(t, 1, s.HandedOver)
		require.EqualValues(t, 3, s.Attempts.Granted)
		require.EqualValues(t, 2, s.Quorum.Total())
		require.Equal(t, released+1, s.Releases.Granted)
		last := attempts[len(attempts)-1]
		require.True(t, last.HandedOver)
		require.Equal(t, next.lock.Validity(), last.Validity)

		require.ErrorIs(t, first.Release(t.Context()), ErrNotHeld)
		_, err := first.Extend(t.Context(), 20*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		time.Sleep(10 * ms)
		require.Equal(t, before, asked(m), "nothing was sent for it")
		require.Len(t, m.holders("r", next.lock.grant.Token.Unveil()), 3)

		longer, err := next.lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		require.NoError(t, longer.Release(t.Context()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
		require.ErrorIs(t, next.lock.Release(t.Context()), ErrNotHeld, "the nodes say so")
	})
}

// A lock that is on its way when the client closes is not left behind, unless
// the caller that had it is told (R28).
func TestCloseDuringAHandOver_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		for range 30 {
			c := m.client(t, Config{})
			lock := granted(t, c, "r", 10*time.Second)
			w := waitsFor(t.Context(), c, "r", 10*time.Second)
			released := make(chan error, 1)
			go func() { released <- lock.Release(context.Background()) }()
			closeNow(t, c)
			<-w.done
			if err := <-released; err != nil || w.err == nil { // the lock stays until its TTL ends
				require.Len(t, m.holders("r", lock.grant.Token.Unveil()), 3)
				for _, n := range m.nodes {
					n.FlushAll()
				}
				continue
			}
			require.ErrorIs(t, w.err, ErrClosed)
			time.Sleep(20 * ms)
			require.Zero(t, m.keys())
		}
	})
}

// A hold that was handed over is over in every respect.
func TestAHoldIsHandedOver(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: time.Second})
		h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		copied := h.Current()
		got := holdsLater(t, c, HoldOptions{TTL: 10 * time.Second, MaxHold: time.Minute})
		time.Sleep(300 * ms)
		before := asked(m)
		start := time.Now()
		require.NoError(t, h.Release(t.Context()))
		next := <-got
		require.Equal(t, start, time.Now())
		require.Equal(t, before, asked(m))
		require.Equal(t, ErrReleased, context.Cause(h.Context()))
		require.LessOrEqual(t, h.Validity(), time.Duration(0))
		require.ErrorIs(t, h.Release(t.Context()), ErrNotHeld)
		require.ErrorIs(t, copied.Release(t.Context()), ErrNotHeld)
		require.Equal(t, Token{}, copied.Token())
		require.Equal(t, Token{}, h.Current().Token())
		_, err = copied.Extend(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.Len(t, m.holders("r", next.lock.grant.Token.Unveil()), 3)
		require.Equal(t, start, next.begun.at, "MaxHold and MinHold count from here")

		time.Sleep(time.Minute - 100*ms - time.Since(start))
		require.NoError(t, next.Err(), "it is renewed, and not for less than MaxHold")
		time.Sleep(time.Minute - time.Since(start))
		require.Equal(t, ErrMaxHold, next.Err())
		require.NoError(t, next.Release(t.Context()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// The end of a hand-over, by what would make it unsafe or unfair: the nodes are
// asked instead.
func TestWhatIsNotHandedOver(t *testing.T) {
	for name, letGo := range map[string]func(t *testing.T, m *memory, c *Client) (w *waiting, release func() error){
		"less than half of the validity": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := granted(t, c, "r", 60*ms) // half of it is over before the streak is
			w := waitsFor(t.Context(), c, "r", 60*ms)
			time.Sleep(lock.Validity() - 28*ms)
			return w, func() error { return lock.Release(t.Context()) }
		},
		"keys that may live too long": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := granted(t, c, "r", 10*time.Second)
			return waitsFor(t.Context(), c, "r", 9*time.Second), func() error { return lock.Release(t.Context()) }
		},
		"a long time since the nodes granted": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := granted(t, c, "r", 10*time.Second)
			w := waits(t.Context(), c, "r")
			time.Sleep(c.config.HandOver)
			return w, func() error { return lock.Release(t.Context()) }
		},
		"a token that was read": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := granted(t, c, "r", 10*time.Second)
			_ = lock.Token()
			return waits(t.Context(), c, "r"), func() error { return lock.Release(t.Context()) }
		},
		"keys that a copy has extended": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := granted(t, c, "r", time.Second)
			_, err := lock.Extend(t.Context(), 10*time.Second)
			require.NoError(t, err)
			return waitsFor(t.Context(), c, "r", time.Second), func() error { return lock.Release(t.Context()) }
		},
		"keys that a copy is extending": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := granted(t, c, "r", time.Second)
			w := waitsFor(t.Context(), c, "r", time.Second)
			go func() { _, _ = lock.Extend(context.Background(), 10*time.Second) }()
			time.Sleep(ms / 2)
			return w, func() error { return lock.Release(t.Context()) }
		},
		"the lock of a hold that goes on": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			h := mustHold(t, c, "r", HoldOptions{TTL: 10 * time.Second})
			return waits(t.Context(), c, "r"), func() error {
				defer func() { _ = h.Release(context.Background()) }()
				return h.Current().Release(t.Context())
			}
		},
		"without a tenure": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			lock := mustAcquire(t, c, "r", 10*time.Second)
			return waits(t.Context(), c, "r"), func() error { return lock.Release(t.Context()) }
		},
		"MinHold lasts": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			h := mustHold(t, c, "r", HoldOptions{TTL: 10 * time.Second, MinHold: 40 * ms})
			return waits(t.Context(), c, "r"), func() error { return h.Release(t.Context()) }
		},
		"MaxHold is over": func(t *testing.T, m *memory, c *Client) (*waiting, func() error) {
			h := mustHold(t, c, "r", HoldOptions{TTL: 10 * time.Second, MaxHold: 10 * ms})
			return waits(t.Context(), c, "r"), func() error { return h.Release(t.Context()) }
		},
	} {
		simulatedAs(t, name, 3, func(t *testing.T, m *memory) {
			c := m.client(t, Config{})
			w, release := letGo(t, m, c)
			before := calls(m, "SET")
			require.NoError(t, release())
			w.got(t)
			require.GreaterOrEqual(t, calls(m, "SET")-before, 3)
			require.Zero(t, c.Stats().HandedOver)
			require.NoError(t, w.lock.Release(t.Context()))
			time.Sleep(10 * ms)
			require.Zero(t, m.keys())
		})
	}
}

// Another process that adopts what a former holder knows has no part of the
// next holder's lock (R9).
func TestAFormerHolderHasNoToken_R9(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}), m.client(t, Config{})
		first := granted(t, c, "r", 10*time.Second)
		next := waits(t.Context(), c, "r")
		require.NoError(t, first.Release(t.Context()))
		next.got(t)
		adopted, err := other.Adopt("r", first.Token(), "", 10*time.Second, first.Until())
		require.NoError(t, err)
		require.ErrorIs(t, adopted.Release(t.Context()), ErrNotHeld)
		time.Sleep(10 * ms)
		require.Len(t, m.holders("r", next.lock.grant.Token.Unveil()), 3)
	})
}

// MinHold is not cut short because the hold was handed a lock that ends sooner.
func TestAHandOverLeavesTimeForMinHold(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{HandOver: time.Minute}), m.client(t, Config{})
		lock := granted(t, c, "r", 10*time.Second)
		ended := make(chan time.Time)
		go func() {
			h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: 10 * time.Second, MinHold: 8 * time.Second})
			assert.NoError(t, err)
			assert.NoError(t, h.Release(t.Context())) // before it is renewed
			ended <- time.Now()
		}()
		time.Sleep(3 * time.Second)
		require.NoError(t, lock.Release(t.Context()))
		start := <-ended
		for time.Since(start) < 8*time.Second-10*ms {
			_, err := other.TryAcquire(t.Context(), "r", time.Second)
			require.Equal(t, ErrHeld, err, time.Since(start))
			time.Sleep(100 * ms)
		}
		time.Sleep(200 * ms)
		mustAcquire(t, other, "r", time.Second)
	})
}

// A lock that was released at the nodes is not handed over by a copy of it.
func TestAReleasedLockIsNotHandedOver(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}), m.client(t, Config{})
		lock := granted(t, c, "r", 10*time.Second)
		require.NoError(t, lock.Release(t.Context()))
		held := mustAcquire(t, other, "r", 10*time.Second)
		w := waits(t.Context(), c, "r")
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
		time.Sleep(10 * ms)
		require.False(t, w.isDone())
		require.NoError(t, held.Release(t.Context()))
		w.got(t)
	})
}

// A lock with a short TTL is extended before Acquire returns it, and the
// validity is what that quorum confirmed.
func TestAnOldLockIsExtendedWhenItIsHandedOver(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: time.Second})
		lock := granted(t, c, "r", 200*ms)
		w := waitsFor(t.Context(), c, "r", 200*ms)
		time.Sleep(30 * ms)
		start := time.Now()
		require.NoError(t, lock.Release(t.Context()))
		require.Equal(t, 2*ms, w.got(t).Sub(start))
		require.Equal(t, start.Add(200*ms-4*ms), w.lock.Until())
		require.EqualValues(t, 1, c.Stats().Extensions.Granted)
		require.NoError(t, w.lock.Release(t.Context()))
	})
}

// A renewal in flight at the hand-over counts for neither holder.
func TestARenewalInFlightIsNoValidity_R10(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: time.Second})
		h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: 300 * ms})
		require.NoError(t, err)
		confirmed := h.Until()
		got := holdsLater(t, c, HoldOptions{TTL: 300 * ms})
		before := calls(m, "EVALSHA")
		for calls(m, "EVALSHA") == before { // executed, and not answered yet
			time.Sleep(ms / 4)
		}
		require.Equal(t, confirmed, h.Until())
		require.NoError(t, h.Release(t.Context()))
		next := <-got
		requireConfirmed(t, confirmed, next)
		require.NoError(t, next.Release(t.Context()))
	})
}

// requireConfirmed requires that a hold is valid for as long as its predecessor
// was, or hardly less: the third clock, which no simulation stops, is
// imprecise.
func requireConfirmed(t *testing.T, confirmed time.Time, h *Hold) {
	t.Helper()
	require.False(t, h.Until().After(confirmed), "not more than a quorum has confirmed")
	require.WithinDuration(t, confirmed, h.Until(), ms)
}

// If the nodes have forgotten the lock, Acquire asks for a new one; a hold
// learns of the loss by its first renewal.
func TestALostLockIsHandedOver(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Forgetful: true, HandOver: time.Second})
		lock := granted(t, c, "r", 200*ms)
		w := waitsFor(t.Context(), c, "r", 200*ms)
		time.Sleep(30 * ms)
		each(m.nodes[:2], (*redistest.Node).FlushAll)
		require.NoError(t, lock.Release(t.Context()))
		w.got(t)
		require.NotEqual(t, lock.grant.Token, w.lock.grant.Token)
		time.Sleep(5 * ms)
		require.Empty(t, m.holders("r", lock.grant.Token.Unveil()), "R7")
		require.NoError(t, w.lock.Release(t.Context()))
		time.Sleep(5 * ms)

		lock = granted(t, c, "s", 200*ms)
		lost := make(chan error)
		go func() {
			lost <- c.Do(t.Context(), "s", 200*ms, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		time.Sleep(30 * ms)
		each(m.nodes[:2], (*redistest.Node).FlushAll)
		start := time.Now()
		require.NoError(t, lock.Release(t.Context()))
		require.ErrorIs(t, <-lost, ErrLost)
		require.LessOrEqual(t, time.Since(start), 10*ms)
	})
}

// A caller that gives up at the moment of the hand-over passes the lock on, and
// the last one releases it (R7).
func TestACallerThatGivesUpPassesTheLockOn_R7(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		// A select is decided by what comes first, the call or the end of ctx;
		// the waiter runs, and leaves its queue, after both.
		both := func(i int, cancel, release func()) {
			if i%2 == 0 {
				cancel()
				release()
			} else {
				release()
				cancel()
			}
		}
		for i := range 20 {
			lock := granted(t, c, "r", 10*time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			gone := []*waiting{waitsFor(ctx, c, "r", 10*time.Second), waitsFor(ctx, c, "r", 10*time.Second)}
			stays := waitsFor(t.Context(), c, "r", 10*time.Second)
			start := time.Now()
			release := func() { require.NoError(t, lock.Release(t.Context())) }
			both(i, cancel, release)
			for _, w := range gone {
				<-w.done
				if w.err == nil {
					require.NoError(t, w.lock.Release(t.Context()))
					continue
				}
				require.ErrorIs(t, w.err, context.Canceled)
			}
			require.Less(t, stays.got(t).Sub(start), 50*ms)
			ctx, cancel = context.WithCancel(t.Context())
			last := waitsFor(ctx, c, "r", 10*time.Second)
			release = func() { require.NoError(t, stays.lock.Release(t.Context())) }
			both(i, cancel, release)
			<-last.done
			if last.err == nil {
				require.NoError(t, last.lock.Release(t.Context()))
			}
			time.Sleep(10 * ms)
			require.Zero(t, m.keys())
			require.Zero(t, c.queues.waiting.Load())
		}
		require.NotZero(t, c.Stats().HandedOver)
	})
}

// A head that makes an attempt is not handed another lock: the nodes may grant
// it one, and the caller behind it would get the other.
func TestACallerThatAsksTheNodesIsHandedNothing(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Forgetful: true, HandOver: 10 * time.Second})
		forgotten := granted(t, c, "r", 10*time.Second)
		head, behind := waits(t.Context(), c, "r"), waits(t.Context(), c, "r")
		each(m.nodes, (*redistest.Node).FlushAll)
		before := calls(m, "SET")
		for calls(m, "SET") == before { // executed, and not answered yet
			time.Sleep(ms / 4)
		}
		require.ErrorIs(t, forgotten.Release(t.Context()), ErrNotHeld)
		head.got(t)
		require.NotEqual(t, forgotten.grant.Token, head.lock.grant.Token)
		time.Sleep(100 * ms)
		require.False(t, behind.isDone(), "two holders")
		require.NoError(t, head.lock.Release(t.Context()))
		behind.got(t)
	})
}

// waitsAsleep puts a caller at the end of a resource's queue that does not run:
// the test takes its steps.
func waitsAsleep(c *Client, resource string) *waiter {
	return c.queues.join(c, request{kind: c.kinds.Plain(), name: resource, ttl: 10 * time.Second}, ErrHeld, 0, false)
}

// Nodes that lose keys can grant a lock twice. Of two locks that are released
// before the next caller runs it is handed the first, and none is forgotten.
func TestACallerIsHandedOneLock(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Forgetful: true})
		first := granted(t, c, "r", 10*time.Second)
		each(m.nodes, (*redistest.Node).FlushAll)
		second := granted(t, c, "r", 10*time.Second)
		w := waitsAsleep(c, "r")
		require.NoError(t, second.Release(t.Context()))
		require.ErrorIs(t, first.Release(t.Context()), ErrNotHeld)
		lock, err := w.take(t.Context(), c.queues.begin(w), 1)
		require.NoError(t, err)
		require.Equal(t, second.grant.Token, lock.grant.Token)
		w.leave()
		require.NoError(t, lock.Release(t.Context()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// Close waits for a caller that was handed a lock and has not run since, and so
// has not decided yet whether to give it back (R7, R28).
func TestCloseWaitsForAHandedLock_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := granted(t, c, "r", 10*time.Second)
		w := waitsAsleep(c, "r")
		require.NoError(t, lock.Release(t.Context()))
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		time.Sleep(100 * ms)
		require.Empty(t, closed)
		w.leave()
		require.NoError(t, <-closed)
		require.Zero(t, m.keys())
	})
}

// A caller that was kept from running, or slept with its machine, until too
// little was left of the validity asks the nodes.
func TestAHandedLockIsTakenInTime(t *testing.T) {
	for _, c := range []struct{ late, minHold time.Duration }{
		{6 * time.Second, 0}, {11 * time.Second, 0}, {3 * time.Second, 9 * time.Second},
	} {
		late, minHold := c.late, c.minHold
		simulatedAs(t, fmt.Sprint(late, minHold), anyNumber, func(t *testing.T, m *memory) {
			c := m.client(t, Config{})
			lock := granted(t, c, "r", 10*time.Second)
			w := waitsAsleep(c, "r")
			w.minHold = minHold
			require.NoError(t, lock.Release(t.Context()))
			b := c.queues.begin(w)
			require.NotNil(t, b)
			c.keeper.clock = func() instant { return instant{time.Now(), late} }
			_, err := w.take(t.Context(), b, 1)
			require.ErrorIs(t, err, ErrExpired)
			w.leave()
			time.Sleep(10 * ms)
			require.Zero(t, m.keys(), "R7")
		})
	}
}

// A hold whose TTL is longer than that of the lock it was handed is renewed for
// its own.
func TestAHandedHoldIsRenewedForItsOwnTTL(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := granted(t, c, "r", 10*time.Second)
		got := holdsLater(t, c, HoldOptions{TTL: 15 * time.Second})
		time.Sleep(5 * ms)
		require.NoError(t, lock.Release(t.Context()))
		h := <-got
		require.EqualValues(t, 1, c.Stats().HandedOver)
		time.Sleep(10 * ms)
		require.Greater(t, h.Validity(), 14*time.Second)
		each(m.nodes, func(n *redistest.Node) { n.Pause() }) // so that no other renewal is executed
		time.Sleep(h.Validity() - ms)
		require.Len(t, m.holders("r", lock.grant.Token.Unveil()), 3, "while it is valid, the keys live")
		_ = h.Release(t.Context())
	})
}

// An extension that was on its way to the nodes when the lock was handed over
// makes it no lock of the former holder's.
func TestAnExtensionInFlightIsNotOfAHandedLock(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := granted(t, c, "r", 10*time.Second)
		next := waits(t.Context(), c, "r")
		extended := make(chan error)
		go func() {
			_, err := lock.Extend(t.Context(), 10*time.Second)
			extended <- err
		}()
		time.Sleep(ms)
		require.NoError(t, lock.Release(t.Context()))
		next.got(t)
		require.ErrorIs(t, <-extended, ErrNotHeld)
		require.Equal(t, lock.grant.Token, next.lock.grant.Token)
	})
}

// A caller whose own attempt failed can be handed the lock after it.
func TestACallerIsHandedALockAfterItsAttempt(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: 10 * time.Second})
		lock := granted(t, c, "r", 10*time.Second)
		before := calls(m, "SET")
		w := waits(t.Context(), c, "r")
		time.Sleep(2 * fallbackMost)
		require.Greater(t, calls(m, "SET"), before)
		require.NoError(t, lock.Release(t.Context()))
		w.got(t)
		require.Equal(t, lock.grant.Token, w.lock.grant.Token)
	})
}

// Close does not release the keys of a hold that was handed over and has not
// ended yet: they are another caller's.
func TestCloseLeavesAHandedHold_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{ReleaseOnClose: true})
		h := mustHold(t, c, "r", HoldOptions{TTL: 10 * time.Second})
		require.True(t, h.own.hand(tenureKept, 10*time.Second))
		require.NoError(t, c.Close(t.Context()))
		require.Len(t, m.holders("r", h.lock.grant.Token.Unveil()), 3)
	})
}

// That the machine slept before the grant takes nothing from the validity.
func TestALockIsHandedOverAgainAfterASuspend(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: time.Second})
		c.keeper.clock = func() instant { return instant{time.Now(), time.Hour} }
		lock := granted(t, c, "r", 10*time.Second)
		for range 3 {
			next := waits(t.Context(), c, "r")
			require.NoError(t, lock.Release(t.Context()))
			next.got(t)
			lock = next.lock
		}
		require.EqualValues(t, 3, c.Stats().HandedOver)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// The new holder usually lets go soon, so the next caller sleeps on for a
// while, with one timer however often the lock goes on, unless the nodes are to
// be asked.
func TestTheNextCallerSleepsAfterAHandOver(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := granted(t, c, "r", 10*time.Second)
		takes := func(w *waiter) {
			require.NoError(t, lock.Release(t.Context()))
			var err error
			lock, err = w.take(t.Context(), c.queues.begin(w), 1)
			require.NoError(t, err)
		}
		first, second, third, fourth := waitsAsleep(c, "r"), waitsAsleep(c, "r"), waitsAsleep(c, "r"), waitsAsleep(c, "r")
		takes(first)
		first.leave()
		require.Empty(t, second.call)
		later := func() *time.Timer { // the timer's own goroutine changes it
			c.queues.mu.Lock()
			defer c.queues.mu.Unlock()
			return third.queue.later
		}
		timer := later()
		require.NotNil(t, timer)
		takes(second)
		second.leave()
		require.Same(t, timer, later())
		require.Empty(t, third.call)
		time.Sleep(headRest)
		synctest.Wait()
		require.Len(t, third.call, 1)
		require.False(t, c.queues.isDue(third))
		takes(third)
		third.leave()
		time.Sleep(headRest)
		synctest.Wait()
		require.Len(t, fourth.call, 1, "again")
		require.False(t, c.queues.isDue(fourth))

		fifth := waitsAsleep(c, "r")
		takes(fourth)
		c.queues.released(c.kinds.Plain().Key("r"), nil)
		fourth.leave()
		require.Len(t, fifth.call, 1, "at once")
		require.True(t, c.queues.isDue(fifth))
		require.NoError(t, lock.Release(t.Context()))
		fifth.leave()
	})
}

// A holder that never releases a lock that it was handed does not stop those
// that wait: the next of them looks after it.
func TestAForgottenLockAfterAHandOver(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := granted(t, c, "r", 300*ms)
		forgets := waitsFor(t.Context(), c, "r", 300*ms)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		next := waitsFor(ctx, c, "r", 300*ms)
		require.NoError(t, lock.Release(t.Context()))
		forgets.got(t)
		start := time.Now()
		require.LessOrEqual(t, next.got(t).Sub(start), 300*ms+afterExpiry()+expirySpread+10*ms)
		require.NoError(t, next.lock.Release(t.Context()))
	})
}

// Clients whose callers hand the lock on, at once or after some work, get it in
// turn.
func TestHandingOverIsBounded(t *testing.T) {
	for _, work := range []time.Duration{0, ms, 20 * ms} {
		simulatedAs(t, fmt.Sprint(work), 5, func(t *testing.T, m *memory) {
			clients := []*Client{m.client(t, Config{}), m.client(t, Config{})}
			var mu sync.Mutex
			var wg sync.WaitGroup
			had, longest, since, holder := make([]time.Duration, 2), time.Duration(0), time.Now(), 0
			stop := time.Now().Add(10 * time.Second)
			for i, c := range clients {
				for range 10 {
					wg.Go(func() {
						for time.Now().Before(stop) {
							assert.NoError(t, c.Do(t.Context(), "r", 10*time.Second, func(context.Context) error {
								time.Sleep(work + ms/10)
								mu.Lock()
								defer mu.Unlock()
								had[i] += work + ms/10
								if holder != i {
									longest, since, holder = max(longest, time.Since(since)), time.Now(), i
								}
								return nil
							}))
						}
					})
				}
			}
			wg.Wait()
			share := float64(had[0]) / float64(had[0]+had[1])
			t.Logf("share %.2f, longest turn %v, %d handed over", share, longest, clients[0].Stats().HandedOver)
			require.InDelta(t, 0.5, share, 0.1)
			require.Less(t, longest, 250*ms)
			require.NotZero(t, clients[0].Stats().HandedOver)
		})
	}
}
