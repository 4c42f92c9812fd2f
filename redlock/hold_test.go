package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Holds of these tests have a TTL of ten seconds, and so this validity from the
// start of a grant or renewal.
const (
	holdTTL      = 10 * time.Second
	holdValidity = holdTTL - 102*ms
	holdMargin   = holdValidity / 1000
	holdThird    = holdValidity / 3
)

// exactClient returns a client whose machine never sleeps; reading its other
// clocks costs the last nanoseconds of precision.
func exactClient(t *testing.T, m *memory, config Config) *Client {
	t.Helper()
	c := m.client(t, config)
	c.keeper.clock = func() instant { return instant{at: time.Now()} }
	c.keeper.begun = c.keeper.clock()
	return c
}

func mustHold(t *testing.T, c *Client, resource string, o HoldOptions) *Hold {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = holdTTL
	}
	h, err := c.Lock(resource).TryHold(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { h.keepNoMore() })
	return h
}

// keepNoMore ends a hold that a test left behind, so that simulated time can
// end.
func (h *Hold) keepNoMore() { h.client.keeper.forget(h) }

// extensions counts the extension commands of a node.
func extensions(n *redistest.Node) int {
	count := 0
	for _, e := range n.Log() {
		if e.Args[0] != "EVALSHA" || strings.HasPrefix(e.Args[3], "redlock:trial:") {
			continue
		}
		switch e.Args[1] {
		case wire.Extend.Digest, wire.ExtendMany.Digest, wire.Heal.Digest:
			count++
		}
	}
	return count
}

// awaitEnd waits until a context ends and returns how long that took.
func awaitEnd(t *testing.T, ctx context.Context) time.Duration {
	t.Helper()
	return awaitClosed(t, ctx.Done())
}

// awaitClosed is awaitEnd for a channel that Done returned earlier: a call to
// Done reads the clocks, and so ends the context of a hold that is over.
func awaitClosed(t *testing.T, done <-chan struct{}) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the context has not ended")
	}
	return time.Since(start)
}

func TestAHoldRenewsItselfAtAThirdOfItsValidity(t *testing.T) { // R13
	simulated(t, 5, func(t *testing.T, m *memory) {
		a, b := exactClient(t, m, Config{}), m.client(t, Config{})
		start := time.Now()
		h := mustHold(t, a, "r", HoldOptions{})
		require.Equal(t, start.Add(holdValidity), h.Until())
		require.Equal(t, "r", h.Resource())
		require.Equal(t, "(hold until "+h.Until().Format("15:04:05.000")+")", fmt.Sprint(h))
		for renewals := range 20 {
			time.Sleep(time.Until(start.Add(time.Duration(renewals+1)*holdThird - ms)))
			require.Equal(t, renewals, extensions(m.nodes[0]))
			require.NoError(t, h.Err())
			_, err := b.TryAcquire(context.Background(), "r", time.Second)
			require.Equal(t, ErrHeld, err)
			time.Sleep(4 * ms)
			require.Equal(t, renewals+1, extensions(m.nodes[0]))
			require.Equal(t, start.Add(time.Duration(renewals+1)*holdThird+holdValidity), h.Until(), "from its start on (R4)")
			require.Equal(t, h.Until(), h.Current().Until())
			require.Equal(t, time.Until(h.Until()), h.Validity())
		}
		require.NoError(t, h.Release(context.Background()))
		require.Equal(t, ErrReleased, h.Err())
		require.Equal(t, ErrReleased, context.Cause(h.Context()))
		require.LessOrEqual(t, h.Validity(), time.Duration(0))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
		require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld, "twice is harmless")
		before := extensions(m.nodes[0])
		time.Sleep(time.Minute)
		require.Equal(t, before, extensions(m.nodes[0]), "nothing is renewed after the release")
	})
}

// The context carries the caller's values but does not end with it: a deadline
// for waiting must not end the work.
func TestAHoldsContextHasValuesOnly(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "value"), time.Second)
		h, err := c.Hold(ctx, "r", HoldOptions{TTL: holdTTL})
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Minute)
		require.NoError(t, h.Context().Err())
		require.Equal(t, "value", h.Context().Value(key{}))
		_, limited := h.Context().Deadline()
		require.False(t, limited)
		derived, cancelDerived := context.WithCancel(h.Context())
		defer cancelDerived()
		require.NoError(t, h.Release(context.Background()))
		require.Equal(t, ErrReleased, context.Cause(derived), "at once, by no goroutine")
	})
}

// Silence is a loss without any reply: the context ends by local time alone, a
// thousandth of the validity before its end, with each node's cause. A renewal
// in flight does not delay that (R13).
func TestSilenceEndsAHoldBeforeItsValidity(t *testing.T) {
	for timeout, causes := range map[time.Duration][]error{
		0: {multiplex.ErrTimeout, multiplex.ErrDown}, time.Minute: {errNoAnswerYet},
	} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{NodeTimeout: timeout})
			start := time.Now()
			h := mustHold(t, c, "r", HoldOptions{})
			m.silence()
			awaitEnd(t, h.Context())
			require.Equal(t, holdValidity-holdMargin, time.Since(start), "to the nanosecond")
			requireLost(t, h, false, 5, func(err error) bool {
				return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
			})
			m.recover()
		})
	}
}

// requireLost checks that a hold is lost and that the error names each node.
func requireLost(t *testing.T, h *Hold, notHeld bool, nodes int, reason func(error) bool) *LostError {
	t.Helper()
	err := h.Err()
	require.ErrorIs(t, err, ErrLost)
	require.ErrorIs(t, h.Context().Err(), context.Canceled)
	var lost *LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, err, context.Cause(h.Context()))
	require.Equal(t, notHeld, lost.NotHeld)
	require.Len(t, lost.Nodes, nodes, err)
	for i, n := range lost.Nodes {
		require.Equal(t, i, n.Node)
		require.Contains(t, err.Error(), n.Addr)
		require.True(t, reason(n.Err), "node %d: %v", i, n.Err)
	}
	token := h.Current().Token()
	require.NotContains(t, err.Error(), token.Reveal(), "R27")
	require.LessOrEqual(t, h.Validity(), time.Duration(0))
	return lost
}

// One failed renewal, or several, do no harm while there is time for another
// (R13).
func TestAFailedRenewalIsTriedAgain(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{})
		each(m.nodes[:3], func(n *redistest.Node) { n.Refuse("-OOM command not allowed") })
		time.Sleep(holdValidity - 2*time.Second)
		require.NoError(t, h.Err())
		tries := extensions(m.nodes[4])
		require.Greater(t, tries, 3)
		require.Less(t, tries, 20, "with growing pauses")
		each(m.nodes[:3], func(n *redistest.Node) { n.Refuse("") })
		time.Sleep(5 * time.Second)
		require.NoError(t, h.Err())
		require.Greater(t, h.Validity(), 3*time.Second)
	})
}

// A loss that is certain ends the context at once, and the validity with it
// (R13).
func TestADefiniteLossEndsAHoldAtOnce(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		told := make(chan HoldInfo, 2)
		c := exactClient(t, m, Config{Tracer: &Tracer{HoldLost: func(i HoldInfo) { told <- i }}})
		start := time.Now()
		h := mustHold(t, c, "r", HoldOptions{})
		time.Sleep(2 * ms)
		each(m.nodes[:3], func(n *redistest.Node) { n.DB().Set("r", stranger, 0) })
		m.delay(3, 3*ms)
		m.delay(4, 3*ms)
		awaitEnd(t, h.Context())
		require.Equal(t, holdThird+2*ms, time.Since(start), "one round after the renewal began")
		lost := requireLost(t, h, true, 5, func(err error) bool { return err == ErrNotHeld || err == errNoAnswerYet })
		require.ErrorIs(t, lost.Nodes[0].Err, ErrNotHeld)
		require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld)
		time.Sleep(5 * ms)
		require.Equal(t, 3, m.keys(), "the other's keys were not touched, and ours are gone")
		require.Len(t, told, 1)
		require.LessOrEqual(t, time.Until((<-told).Until), time.Duration(0))
	})
}

func TestMaxHoldEndsTheContext(t *testing.T) { // R13
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		start := time.Now()
		h := mustHold(t, c, "r", HoldOptions{MaxHold: 12 * time.Second})
		awaitEnd(t, h.Context())
		require.Equal(t, 12*time.Second, time.Since(start))
		require.Equal(t, ErrMaxHold, h.Err())
		require.NotErrorIs(t, h.Err(), ErrLost)
		require.Positive(t, h.Validity(), "it is not lost by that")
		require.Equal(t, 1, extensions(m.nodes[0]), "one at 3.3 s reaches to 13.2 s: others would be of no use")
		require.NoError(t, h.Release(context.Background()))
		require.Equal(t, ErrMaxHold, h.Err())
	})
}

func TestNoRenewal(t *testing.T) { // R10, R13
	simulated(t, 3, func(t *testing.T, m *memory) {
		client := exactClient(t, m, Config{})
		start := time.Now()
		h := mustHold(t, client, "r", HoldOptions{NoRenewal: true})
		awaitEnd(t, h.Context())
		require.Equal(t, holdValidity-holdMargin, time.Since(start))
		requireLost(t, h, false, 0, nil)
		require.Zero(t, extensions(m.nodes[0]))
	})
}

// A hold without a TTL has ten seconds, or MaxTTL if that is less.
func TestDefaultTTLOfAHold(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		for want, config := range map[time.Duration]Config{
			10 * time.Second: {}, 2 * time.Second: {MaxTTL: 2 * time.Second},
		} {
			c := m.client(t, config)
			h, err := c.Hold(t.Context(), "r", HoldOptions{})
			require.NoError(t, err)
			require.Equal(t, want, h.Current().grant.TTL)
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, c.Do(t.Context(), "r", 0, func(ctx context.Context) error {
				h, _ := FromContext(ctx)
				require.Equal(t, want, h.Current().grant.TTL)
				return nil
			}))
		}
	})
}

// Two schedulers start one job at nearly the same time. The first gets the lock
// at once; the second must not before the minimum is over, by any clock, and
// gets it then.
func TestMinHoldKeepsOthersOut(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		a, b := exactClient(t, m, Config{}), m.client(t, Config{})
		start := time.Now()
		h := mustHold(t, a, "job", HoldOptions{MinHold: 5 * time.Second})
		time.Sleep(100 * ms)
		require.NoError(t, h.Release(context.Background()))
		require.Equal(t, ErrReleased, h.Err())
		for time.Since(start) < 5*time.Second {
			_, err := b.TryAcquire(context.Background(), "job", time.Second)
			require.Equal(t, ErrHeld, err, time.Since(start))
			time.Sleep(100 * ms)
		}
		require.NoError(t, func() error { _, err := b.Acquire(context.Background(), "job", time.Second); return err }())
		require.LessOrEqual(t, time.Since(start), 5*time.Second+52*ms+2*ms+pure.RetryMost, "and the drift, and a retry")
		require.ErrorIs(t, h.Release(context.Background()), ErrNotHeld, "a release after the minimum deletes, and only ours")
	})
}

// A release while a renewal waits to be merged: if it overtook the renewal, the
// key would get its whole TTL again.
func TestMinHoldAndARenewalThatIsQueued(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "job", HoldOptions{MinHold: 5 * time.Second})
		other := mustHold(t, c, "other", HoldOptions{})
		time.Sleep(10 * ms)
		for _, h := range []*Hold{other, h} {
			h.mu.Lock()
			require.NoError(t, h.renewLocked(c.keeper.clock(), nil, c.keeper.inbox)) // and no Flush
			h.mu.Unlock()
		}
		require.NoError(t, h.Release(context.Background()))
		time.Sleep(5 * ms)
		for _, n := range m.nodes {
			left, ok := n.DB().TTL("job")
			require.True(t, ok)
			require.LessOrEqual(t, left, 5*time.Second+60*ms)
		}
	})
}

// Holds that are due within a few milliseconds are renewed together with the
// first (R13), but none is early by more than a small part of its validity.
func TestRenewalsThatFallTogetherTravelTogether(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		for i := range 20 {
			mustHold(t, c, fmt.Sprint("r", i), HoldOptions{})
			time.Sleep(200 * time.Microsecond)
		}
		time.Sleep(holdThird + 50*ms)
		require.LessOrEqual(t, extensions(m.nodes[0]), 20*2200/5000+1, "2.2 ms apart, 5 ms together")
	})
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		validity := 100*ms - 3*ms
		begun := time.Now()
		mustHold(t, c, "early", HoldOptions{TTL: 100 * ms})
		late := mustHold(t, c, "late", HoldOptions{TTL: 100 * ms})
		require.Equal(t, begun.Add(2*ms+validity), late.Until())
		time.Sleep(time.Until(begun.Add(validity/3 + 4*ms)))
		require.Equal(t, 2, extensions(m.nodes[0]), "2 ms are too much for a TTL of 100 ms")
	})
}

// However many locks are held, there is one more goroutine than with none, and
// none after the client is closed. While nothing is held, it does not wake.
func TestHoldsTakeOneGoroutine(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		var looks atomic.Int64
		c.keeper.clock = func() instant { looks.Add(1); return instant{at: time.Now()} }
		synctest.Wait()
		before := runtime.NumGoroutine()
		var holds []*Hold
		for i := range 200 {
			holds = append(holds, mustHold(t, c, fmt.Sprint("r", i), HoldOptions{}))
		}
		synctest.Wait()
		now := runtime.NumGoroutine() // of the whole process: the runtime's finalizer goroutine may be among them for a moment
		// No clock advances meanwhile: a goroutine started for a renewal would
		// stay.
		for try := 0; try < 1_000_000 && now > before+1; try++ {
			runtime.Gosched()
			now = runtime.NumGoroutine()
		}
		require.LessOrEqual(t, now, before+1)
		time.Sleep(time.Minute)
		for _, h := range holds {
			require.NoError(t, h.Err())
			require.NoError(t, h.Release(context.Background()))
		}
		c.keeper.mu.Lock()
		require.Zero(t, c.keeper.schedule.Len(), "what was released is kept no longer")
		c.keeper.mu.Unlock()
		time.Sleep(time.Second)
		last := looks.Load()
		time.Sleep(time.Hour)
		require.Equal(t, last, looks.Load())
	})
}

func TestCloseEndsHoldsAndLeavesTheirKeys(t *testing.T) { // R28
	for _, releases := range []bool{false, true} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{ReleaseOnClose: releases})
			var holds []*Hold
			for i := range 100 {
				holds = append(holds, mustHold(t, c, fmt.Sprint("r", i), HoldOptions{}))
			}
			least := mustHold(t, c, "least", HoldOptions{MinHold: 5 * time.Second})
			over := mustHold(t, c, "over", HoldOptions{MaxHold: ms})
			plain := mustAcquire(t, c, "plain", holdTTL)
			time.Sleep(10 * ms)
			calls := m.nodes[0].Calls("EVALSHA")
			start := time.Now()
			require.NoError(t, c.Close(context.Background()))
			require.LessOrEqual(t, time.Since(start), 5*ms)
			for _, h := range holds {
				require.ErrorIs(t, h.Err(), ErrClosed)
			}
			require.Equal(t, ErrMaxHold, over.Err())
			require.Len(t, m.holders("plain", plain.Token()), 3, "a plain lock is its owner's")
			if !releases {
				require.Equal(t, 3*103, m.keys())
				return
			}
			require.Equal(t, 3*2, m.keys())
			left, _ := m.nodes[0].DB().TTL("least")
			require.InDelta(t, 5*time.Second, left, float64(100*ms))
			require.LessOrEqual(t, m.nodes[0].Calls("EVALSHA")-calls, 4, "all in one batch")
			_, err := c.Hold(context.Background(), "r", HoldOptions{TTL: holdTTL})
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, least.Release(context.Background()), ErrClosed)
		})
	}
}

// A context that has ended already does not keep Close from releasing all holds
// and waiting for that. It refuses new work from the start, also that of
// callers who wait: their lock could no longer be released (R28).
func TestReleaseOnCloseWithAnEndedContext_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{ReleaseOnClose: true})
		holdMany(t, c, 2*releasesAtOnce)
		w := waits(t.Context(), c, "r0")
		m.far(10 * ms)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		time.AfterFunc(ms, func() {
			_, err := c.TryAcquire(t.Context(), "other", holdTTL)
			assert.ErrorIs(t, err, ErrClosed)
		})
		start := time.Now()
		require.NoError(t, c.Close(ended))
		require.True(t, w.isDone())
		require.ErrorIs(t, w.err, ErrClosed)
		require.Zero(t, m.keys(), "all is answered when Close returns")
		require.False(t, c.keeper.hurried, "no more releases at once than sockets hold")
		require.LessOrEqual(t, time.Since(start), 102*ms)
	})
}

func holdMany(t *testing.T, c *Client, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, err := c.Lock(fmt.Sprint("r", i)).TryHold(context.Background(), HoldOptions{TTL: holdTTL})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
}

// Close waits for silent nodes for a vote timeout at most, and if its context
// has ended, no longer than Close may outlast that (R28).
func TestReleaseOnCloseIsBounded_R28(t *testing.T) {
	for _, ended := range []bool{false, true} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{ReleaseOnClose: true, NodeTimeout: map[bool]time.Duration{true: time.Second}[ended]})
			h := mustHold(t, c, "r", HoldOptions{})
			m.silence()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if ended {
				cancel()
			}
			start := time.Now()
			require.Equal(t, ended, errors.Is(c.Close(ctx), context.Canceled))
			require.LessOrEqual(t, time.Since(start), 120*ms)
			require.ErrorIs(t, h.Err(), ErrClosed)
		})
	}
}

// A Close without time leaves unread more answers than the keeper takes at
// once: a second Close must not wait for them.
func TestCloseAfterAHastyClose(t *testing.T) { // R28
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{ReleaseOnClose: true, NodeTimeout: time.Second})
		k, real := c.keeper, c.keeper.clock
		k.clock = func() instant {
			select {
			case <-k.winding.queued:
				time.Sleep(10 * ms) // its goroutine is not scheduled while the group is closed
			default:
			}
			return real()
		}
		holdMany(t, c, 8*keeperBatch)
		m.silence()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, c.Close(ended), context.Canceled)
		require.NoError(t, c.Close(context.Background()))
		m.recover()
	})
}

// The way to the nodes becomes longer under a hold than a vote may ever take.
// Each node still answers each renewal before the old validity has ended, so
// the lock is kept, and no node is shed for it.
func TestAHoldOutlivesRoundTripsOfMoreThanATenthOfItsTTL_R6_R10_R13(t *testing.T) {
	for _, c := range []struct {
		ttl, trip time.Duration
	}{
		{10 * time.Second, 1100 * ms},
		{10 * time.Second, 3 * time.Second},
		{time.Second, 120 * ms},
		{time.Second, 300 * ms},
	} {
		simulatedAs(t, fmt.Sprint(c.ttl, c.trip), 3, func(t *testing.T, m *memory) {
			client := exactClient(t, m, Config{})
			h := mustHold(t, client, "r", HoldOptions{TTL: c.ttl})
			for i := range m.nodes {
				m.delay(i, c.trip+time.Duration(i)*c.trip/50) // each comes after another
			}
			for range 100 {
				time.Sleep(c.ttl / 10)
				require.NoError(t, h.Err())
				require.Positive(t, h.Validity())
			}
			for _, n := range client.Nodes() {
				require.Equal(t, 1, n.Connects, "no connection was given up")
			}
			m.far(2 * ms)
		})
	}
}

// A lock that is lost does not look like a request that was cancelled: neither
// where the function returns the error of its context, nor within another call.
func TestALossIsNoCancellation_R12_R14(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, c *Client, fn func(context.Context) error) error{
		"Do": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.Do(ctx, "r", holdTTL, fn)
		},
		"DoAll": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.All("r", "s").DoWith(ctx, HoldOptions{TTL: holdTTL}, fn)
		},
		"a Locker": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.RW("r").Write().DoWith(ctx, HoldOptions{TTL: holdTTL}, fn)
		},
		"a reentrant call": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.Do(ctx, "r", holdTTL, func(ctx context.Context) error {
				return c.Lock("r").DoWith(ctx, HoldOptions{TTL: holdTTL, Reentrant: true}, fn)
			})
		},
		"another within it": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.Do(ctx, "r", holdTTL, func(ctx context.Context) error {
				return c.Do(ctx, "s", holdTTL, fn)
			})
		},
	} {
		simulatedAs(t, name, 3, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{})
			err := do(t.Context(), c, func(ctx context.Context) error {
				m.silence()
				<-ctx.Done()
				return ctx.Err()
			})
			require.ErrorIs(t, err, ErrLost)
			require.NotErrorIs(t, err, context.Canceled)
			for i := range m.nodes {
				require.LessOrEqual(t, strings.Count(err.Error(), m.nodes[i].Addr()), strings.Count(err.Error(), "all 3 nodes"),
					"each node once for each lock: %v", err)
			}
			m.recover()
		})
	}
}

// The caller's own cancellation is reported as it is. So is the end of a
// context that the function has made itself: its work was not done, though the
// lock was held all the time.
func TestACancellationUnderAHoldIsReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		own := func(ctx context.Context) error {
			within, cancel := context.WithCancel(ctx)
			cancel()
			return within.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, context.Canceled, c.Do(ctx, "r", time.Second, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}))
		require.Equal(t, context.Canceled, c.Do(t.Context(), "r", time.Second, own))
		require.Equal(t, context.Canceled, c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			return c.Lock("r").DoWith(ctx, again, own)
		}), "reentrant")
	})
}

// The text of a loss names the nodes that are at fault, each once, and no node
// that was up.
func TestALossNamesTheNodesAtFault_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{})
		for _, i := range []int{0, 2} {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		awaitEnd(t, h.Context())
		var lost *LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.Len(t, lost.Nodes, 3)
		require.Error(t, lost.Nodes[1].Err, "it has not renewed the lock")
		text := lost.Error()
		require.NotContains(t, text, m.addr(1))
		for _, addr := range []string{m.addr(0), m.addr(2)} {
			require.Equal(t, 1, strings.Count(text, addr), text)
		}
	})
}

// The first renewal that fails is reported while there is still time to do
// something about it: once, however many locks are held, and again only after
// one was renewed.
func TestARenewalThatFailsIsReportedInTime_R13_R31(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		var log redistest.Text
		logger := slog.New(slog.NewTextHandler(&log, nil))
		told := make(chan HoldInfo, 8)
		c := exactClient(t, m, Config{Logger: logger, Tracer: &Tracer{RenewalFailed: func(i HoldInfo) { told <- i }}})
		for i := range 50 {
			mustHold(t, c, fmt.Sprint("customer-4711-", i), HoldOptions{})
		}
		time.Sleep(holdThird - 10*ms)
		for i := range m.nodes {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		time.Sleep(2 * time.Second)
		warned := func() int { return strings.Count(log.String(), "not renewed") }
		require.Equal(t, 1, warned(), log.String())
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "connection refused")
		require.NotContains(t, log.String(), "hold lost")
		require.NotContains(t, log.String(), "customer", "R27")
		require.Regexp(t, `left=6\.\d+s`, log.String())
		require.Len(t, told, 1)
		hold := <-told
		require.Contains(t, hold.Resource, "customer-4711-")
		require.ErrorIs(t, hold.Err, ErrNoQuorum)
		require.WithinDuration(t, time.Now().Add(5*time.Second), hold.Until, time.Second)
		for i := range m.nodes {
			m.link(i).Refuse(false)
		}
		time.Sleep(holdTTL)
		require.Equal(t, 1, warned())
		require.Len(t, c.Held(), 50)
		for _, h := range c.Held() {
			require.NoError(t, h.Err)
		}
		for i := range m.nodes {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		time.Sleep(holdThird)
		require.Equal(t, 2, warned(), "it is another failure")
		require.Len(t, told, 1)
		for i := range m.nodes {
			m.link(i).Refuse(false)
		}
	})
}

// A failure is reported again after all locks were lost: none was renewed
// since.
func TestARenewalThatFailsAfterALossIsReported_R13_R31(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var log redistest.Text
		c := exactClient(t, m, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 3 {
			h := mustHold(t, c, "r", HoldOptions{})
			m.silence()
			awaitEnd(t, h.Context())
			require.ErrorIs(t, h.Err(), ErrLost)
			require.Equal(t, i+1, strings.Count(log.String(), "not renewed"), log.String())
			m.recover()
			time.Sleep(time.Hour)
		}
	})
}
