package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests in this file examine the moment between two steps: after the grant
// and before the caller has the lock, or after the end of a hold and before its
// release. They hook into the tracer's functions and the fields of a Hold.

// A hold that was granted when Close began reaches no caller, so it is given
// back.
func TestAHoldGrantedAsCloseBeginsIsGivenBack_R7_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		closed := make(chan struct{})
		var c *Client
		c = m.client(t, Config{Tracer: &Tracer{AcquireDone: func(context.Context, CallInfo) {
			go func() {
				defer close(closed)
				assert.NoError(t, c.Close(context.Background()))
			}()
			synctest.Wait() // Close waits for the slow node's answer
		}}})
		m.delay(2, 30*ms)
		_, err := c.Hold(context.Background(), "r", HoldOptions{TTL: holdTTL})
		require.ErrorIs(t, err, ErrClosed)
		<-closed
		time.Sleep(30 * ms)
		require.Zero(t, m.keys())
	})
}

// A goroutine may stall between the grant of a hold and its registration, for
// longer than Close takes otherwise.
func TestCloseWaitsForAHoldThatIsBeingGranted_R7_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Tracer: &Tracer{AcquireDone: func(context.Context, CallInfo) { time.Sleep(900 * ms) }}})
		held := make(chan error, 1)
		go func() {
			_, err := c.Hold(context.Background(), "r", HoldOptions{TTL: holdTTL})
			held <- err
		}()
		time.Sleep(100 * ms)
		require.Equal(t, 3, m.keys(), "granted, and not kept yet")
		require.NoError(t, c.Close(context.Background()))
		require.ErrorIs(t, <-held, ErrClosed)
		require.Zero(t, m.keys())
	})
}

// Until its grant is found in time, or undone, an attempt keeps Close from
// ending the connections. Here its goroutine stalls when it asks its context.
func TestCloseWaitsForAnAttempt_R7_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		attempted := make(chan error, 1)
		go func() {
			lock := c.wanted(c.kinds.Plain(), "r", holdTTL)
			attempted <- c.attempt(stallingContext{context.Background(), 900 * ms}, &lock)
		}()
		time.Sleep(100 * ms)
		start := time.Now()
		require.NoError(t, c.Close(context.Background()))
		require.GreaterOrEqual(t, time.Since(start), 800*ms)
		require.ErrorIs(t, <-attempted, ErrClosed)
		require.Zero(t, m.keys())
	})
}

// A stallingContext sleeps whenever it is asked whether it has ended.
type stallingContext struct {
	context.Context
	stall time.Duration
}

func (c stallingContext) Err() error {
	time.Sleep(c.stall)
	return c.Context.Err()
}

// A goroutine may stall after the quorum was counted. A lock without validity
// by then is released on every node, even on one whose vote was not awaited.
func TestALockFoundTooLateAfterTheGrantIsReleased_R4_R7(t *testing.T) {
	for name, config := range map[string]Config{"no validity": {}, "too little validity": {MinValidity: 9 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.client(t, config)
				lock := mustAcquire(t, c, "r", holdTTL)
				time.Sleep(5 * ms)
				require.Len(t, m.holders("r", lock.grant.Token.Unveil()), 3)
				spent := holdValidity - config.MinValidity

				kept := newRounds(&lock)
				require.NoError(t, kept.granted(time.Now().Add(ms-spent)))
				require.Equal(t, config.MinValidity+ms, time.Until(kept.until))
				time.Sleep(5 * ms)
				require.Len(t, m.holders("r", lock.grant.Token.Unveil()), 3)

				late := newRounds(&lock)
				require.ErrorIs(t, late.granted(time.Now().Add(-ms-spent)), ErrExpired)
				time.Sleep(5 * ms)
				require.Zero(t, m.keys())
			})
		})
	}
}

// Work under a hold ends with its context, so the context ends before any node
// can give the lock to another client.
func TestAHoldsContextEndsBeforeItsReleaseIsSent_R13_R14(t *testing.T) {
	for _, o := range []HoldOptions{{}, {Heal: true}, {MinHold: 5 * time.Second}} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{})
			h := mustHold(t, c, "r", o)
			time.Sleep(5 * ms)
			before := m.nodes[0].Calls("EVALSHA")
			end, ended := h.cancel, false
			h.cancel = func(cause error) {
				time.Sleep(10 * ms) // what was queued before this is executed meanwhile
				require.Equal(t, before, m.nodes[0].Calls("EVALSHA"), "the release was sent first")
				require.NoError(t, h.context.Err())
				end(cause)
				ended = true
			}
			require.NoError(t, h.Release(context.Background()))
			require.True(t, ended)
			time.Sleep(6 * time.Second) // until MinHold is over
			require.Zero(t, m.keys())
		})
	}
}

// The keeper has found that a renewal is due, and the hold is released before
// it sends that: no renewal may follow the release, where it would lengthen the
// life of keys that MinHold keeps.
func TestNoRenewalFollowsTheRelease_R13(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{MinHold: 5 * time.Second})
		time.Sleep(5 * ms)
		require.NoError(t, h.Release(context.Background()))
		require.False(t, c.keeper.look(h, instant{at: time.Now().Add(holdThird)}))
		c.group.Flush()
		time.Sleep(5 * ms)
		require.Zero(t, extensions(m.nodes[0]))
	})
}

// The first look at the clocks that finds the loss reports it. The keeper,
// whose look comes a moment later, does not.
func TestALossIsToldOnce_R13(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var told atomic.Int32
		c := m.client(t, Config{Tracer: &Tracer{HoldLost: func(HoldInfo) { told.Add(1) }}})
		s := new(sleeper)
		c.keeper.clock = s.read
		c.keeper.begun = s.read()
		h := mustHold(t, c, "r", HoldOptions{})
		s.slept.Store(int64(holdTTL))
		require.ErrorIs(t, h.Err(), ErrLost)
		time.Sleep(2 * pure.LookMost)
		require.EqualValues(t, 1, told.Load())
	})
}

// A loss reports what the nodes answered to the last answered renewal, and
// nothing if that one was granted.
func TestALossTellsOfTheLastRenewalOnly_R13(t *testing.T) {
	for name, granted := range map[string]bool{"granted": true, "under way": false} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c, s := sleepyClient(t, m)
				h := mustHold(t, c, "r", HoldOptions{})
				for _, n := range m.nodes {
					n.Refuse("-OOM command not allowed")
				}
				time.Sleep(holdThird + 10*ms)
				require.NoError(t, h.Err())
				if granted {
					for _, n := range m.nodes {
						n.Refuse("")
					}
				} else {
					m.silence()
				}
				time.Sleep(200 * ms) // the second try has been granted, or is in flight
				s.slept.Store(int64(holdTTL))
				var lost *LostError
				require.ErrorAs(t, h.Err(), &lost)
				if granted {
					require.Empty(t, lost.Nodes)
					return
				}
				require.Len(t, lost.Nodes, 3)
				refusals := 0 // the second refusal decided, before the third node answered
				for _, n := range lost.Nodes {
					var refusal *multiplex.RefusalError
					if errors.As(n.Err, &refusal) && refusal.Class == conn.ClassOOM {
						refusals++
					}
				}
				require.GreaterOrEqual(t, refusals, 2, lost)
				m.recover()
			})
		})
	}
}

// The context ends while only the slowest node has not answered: what a quorum
// answered is the result.
func TestInspectThatAQuorumAnsweredIsNotCancelled_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		time.Sleep(5 * ms)
		m.nodes[2].Pause()
		defer m.nodes[2].Resume()
		ctx, cancel := context.WithTimeout(context.Background(), 30*ms)
		defer cancel()
		found, err := Inspect(ctx, c, "r")
		require.Error(t, ctx.Err())
		require.NoError(t, err)
		require.Equal(t, StateHeld, found.State)
		require.Equal(t, lock.Token().Fingerprint(), found.Holder)
		require.Error(t, found.Nodes[2].Err)
	})
}

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
