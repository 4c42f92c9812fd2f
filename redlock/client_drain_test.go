package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Held lists the holds that are not released, in the order of the resources;
// Err tells which of them have ended.
func TestHeldListsWhatIsNotReleased_R27(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		require.Empty(t, c.Held())
		sinceB := time.Now()
		b := mustHold(t, c, "b", HoldOptions{})
		sinceA := time.Now()
		a := mustHold(t, c, "a", HoldOptions{MaxHold: time.Second})
		mustAcquire(t, c, "a plain lock is a value", time.Minute)
		held := c.Held()
		require.Equal(t, []HoldInfo{
			{Resource: "a", Since: sinceA, Until: a.Until()}, {Resource: "b", Since: sinceB, Until: b.Until()},
		}, held)
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			requireSecret(t, fmt.Sprintf(verb, held), a.Current().Token(), verb, held)
		}
		held[0] = HoldInfo{}
		require.Equal(t, "a", c.Held()[0].Resource, "the slice is the caller's")
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, c.Held()[0].Err, ErrMaxHold)
		require.NoError(t, c.Held()[1].Err)
		require.NoError(t, a.Release(t.Context()))
		require.ErrorIs(t, a.Release(t.Context()), ErrNotHeld, "twice")
		require.Len(t, c.Held(), 1)
		require.NoError(t, b.Release(t.Context()))
		require.Empty(t, c.Held())
	})
}

// Drain waits for the work under every hold and for its release, and renews
// meanwhile. It refuses new locks, even to waiting callers, but not to work
// under a hold.
func TestDrainWaitsForTheWorkUnderHolds_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		other := mustAcquire(t, b, "other", time.Minute)
		start := time.Now()
		work := make(chan error, 1)
		go func() {
			work <- a.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
				time.Sleep(10 * time.Second)
				return a.Do(ctx, "nested", time.Second, func(ctx context.Context) error {
					return a.Do(ctx, "other", time.Second, func(context.Context) error {
						time.Sleep(5 * time.Second)
						return nil
					})
				})
			})
		}()
		waiter := waits(t.Context(), a, "other")
		time.AfterFunc(30*time.Second, func() { _ = other.Release(context.Background()) })
		drained := make(chan error, 1)
		go func() { drained <- a.Drain(t.Context()) }()
		synctest.Wait()
		require.True(t, waiter.isDone(), "who waits for a lock is refused at once")
		require.ErrorIs(t, waiter.err, ErrClosed)
		_, err := a.TryAcquire(t.Context(), "free", time.Second)
		require.ErrorIs(t, err, ErrClosed)
		_, err = a.Lock("free").TryHold(t.Context(), HoldOptions{TTL: time.Second})
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, <-work, "renewed all the time, and allowed to lock more")
		require.NoError(t, <-drained)
		require.GreaterOrEqual(t, time.Since(start), 35*time.Second)
		require.NoError(t, a.Drain(t.Context()), "again")
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// A hold whose lock was granted when Drain began is released, not kept: Drain
// may have returned already (R7).
func TestAHoldGrantedDuringDrainIsGivenBack_R7(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var c *Client
		c = m.client(t, Config{Tracer: &Tracer{AcquireDone: func(context.Context, CallInfo) {
			require.NoError(t, c.Drain(t.Context()))
		}}})
		_, err := c.Hold(t.Context(), "r", HoldOptions{TTL: time.Minute})
		require.ErrorIs(t, err, ErrClosed)
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// Drain ends with its context, and says how much is still held; Close ends the
// rest.
func TestDrainEndsWithItsContext(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{ReleaseOnClose: true})
		h := mustHold(t, c, "r", HoldOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Drain(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 holds are not released")
		require.NoError(t, h.Err())
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }()
		synctest.Wait()
		closeNow(t, c)
		require.ErrorIs(t, <-drained, ErrClosed)
		require.ErrorIs(t, c.Held()[0].Err, ErrClosed)
		require.Zero(t, m.keys())
	})
}

// Drain ends after the last hold's release, so that a Close right after it cuts
// none short.
func TestDrainWaitsForTheReleaseToo_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h := mustHold(t, c, "r", HoldOptions{})
		for i := range m.nodes {
			m.delay(i, 20*ms)
		}
		drained := make(chan time.Time, 1)
		go func() {
			_ = c.Drain(t.Context())
			drained <- time.Now()
		}()
		synctest.Wait()
		require.NoError(t, h.Release(t.Context()))
		require.False(t, (<-drained).Before(time.Now()))
	})
}
