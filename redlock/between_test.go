package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests are about the moment between two steps, like those of the same
// name in package multiplex.

// meddling is a context that runs a function once, when its error is first
// asked for, and returns nil.
type meddling struct {
	context.Context
	meddle func()
}

func (m *meddling) Err() error {
	if meddle := m.meddle; meddle != nil {
		m.meddle = nil
		meddle()
	}
	return nil
}

// A caller that finds others waiting joins them without an attempt. If they
// have all gone meanwhile, it is the first of a new queue, in which nothing was
// tried, and tries at once.
func TestTheQueueIsGoneWhenACallerJoins(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		held := mustAcquire(t, c, "r", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		waits(ctx, c, "r")
		require.NoError(t, c.group.Ready(t.Context()))
		start := time.Now()
		lock, err := c.Acquire(&meddling{context.Background(), func() {
			cancel()
			require.NoError(t, held.Release(context.Background()))
			for c.queues.has(c.kinds.Plain().Key("r")) {
				time.Sleep(ms)
			}
			start = time.Now()
		}}, "r", time.Second)
		require.NoError(t, err)
		require.Equal(t, 2*ms, time.Since(start))
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A second release of the previous lock while the next caller makes its attempt
// is no reason to try again once that attempt was granted.
func TestAReleaseBeforeTheGrantIsNoReasonAfterIt(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		held := mustAcquire(t, c, "r", time.Minute)
		first := waits(t.Context(), c, "r")
		next := waits(t.Context(), c, "r")
		go func() { _ = held.Release(context.Background()) }()
		time.Sleep(ms)
		require.False(t, first.isDone(), "its attempt is under way")
		require.ErrorIs(t, held.Release(t.Context()), ErrNotHeld)
		first.got(t)
		before := calls(m, "SET")
		time.Sleep(100 * ms)
		require.Equal(t, before, calls(m, "SET"), "the lock is held here")
		require.NoError(t, first.lock.Release(t.Context()))
		next.got(t)
	})
}

// One release here causes one attempt: if another client was faster, the
// leftover of the signal does not cause another.
func TestOneReleaseMakesOneAttempt(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		for _, n := range m.nodes {
			n.DB().Set("r", "stranger", time.Minute)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := waits(ctx, c, "r")
		before := m.nodes[0].Calls("SET")
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
		time.Sleep(100 * ms)
		require.Equal(t, before+1, m.nodes[0].Calls("SET"))
		cancel()
		<-w.done
	})
}

// A signal that comes together with its cause is consumed with it: a waiter
// that was just woken otherwise does not wake for it again.
func TestACallIsHeardWithWhatItIsFor(t *testing.T) {
	var qs queues
	c := encoding(Config{})
	w := qs.join(c, request{kind: c.kinds.Plain(), name: "r"}, ErrHeld, 0, false)
	require.False(t, qs.isDue(w), "its turn has come, and nothing is due")
	require.Empty(t, w.call)
	qs.released(c.kinds.Plain().Key("r"), nil)
	require.Len(t, w.call, 1)
	require.True(t, qs.isDue(w))
	require.Empty(t, w.call)
	require.Nil(t, qs.begin(w))
	require.False(t, qs.isDue(w))
	require.Nil(t, qs.remove(w))
}

// A hold that the keeper would take while Close begins is refused: nothing
// would end it.
func TestAHoldIsNotKeptOnceCloseHasBegun_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		h := c.newHold(t.Context(), lock, c.keeper.clock(), c.keeper.clock(), HoldOptions{TTL: time.Minute})
		closing := false
		c.keeper.clock = func() instant {
			if !closing {
				closing = true
				closeNow(t, c)
			}
			return readClocks()
		}
		require.False(t, c.keeper.keep(h))
		require.False(t, c.keeper.started, "its goroutine would not end")
	})
}

// A keeper without holds renews the next one in time.
func TestAHoldAfterAPauseIsRenewed_R13(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for range 3 {
			h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: 3 * time.Second})
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.NoError(t, h.Err())
			require.Greater(t, h.Validity(), time.Second)
			require.NoError(t, h.Release(t.Context()))
			time.Sleep(time.Second) // the keeper finds that there are no holds
		}
	})
}
