package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A call that would wait for the hold whose context it was given fails at once.
// For another resource, another client or a hold that is over, it waits.
func TestNestedCallsAreReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}), m.client(t, Config{})
		// A call that waits for itself would wait until its context ends.
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var kept context.Context
		err := c.Do(within, "a", time.Second, func(ctx context.Context) error {
			kept = context.WithoutCancel(ctx)
			return c.Do(ctx, "b", time.Second, func(ctx context.Context) error {
				for _, resource := range []string{"a", "b"} {
					start := time.Now()
					err := c.Do(ctx, resource, time.Second, nothing)
					require.ErrorIs(t, err, ErrNested)
					require.Contains(t, err.Error(), `redlock: "`+resource+`": the context of this call holds the lock already`)
					_, err = c.Acquire(ctx, resource, time.Second)
					require.ErrorIs(t, err, ErrNested)
					_, err = c.Hold(context.WithValue(ctx, new(int), 1), resource, HoldOptions{TTL: time.Second})
					require.ErrorIs(t, err, ErrNested)
					_, err = c.TryAcquire(ctx, resource, time.Second)
					require.Equal(t, ErrHeld, err)
					short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					defer cancel()
					require.ErrorIs(t, other.Do(short, resource, time.Second, nothing), context.DeadlineExceeded)
					require.LessOrEqual(t, time.Since(start), time.Second)
				}
				return c.Do(ctx, "c", time.Second, nothing)
			})
		})
		require.NoError(t, err)
		require.NoError(t, c.Do(kept, "a", time.Second, nothing), "that hold is over")

		h, err := c.Hold(t.Context(), "h", HoldOptions{TTL: time.Second})
		require.NoError(t, err)
		require.ErrorIs(t, c.Do(h.Context(), "h", time.Second, nothing), ErrNested)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, c.Do(context.WithoutCancel(h.Context()), "h", time.Second, nothing))
	})
}

// A function that has entered an outer hold still runs under those in between:
// a call for one of them would wait for itself, or enters it.
func TestNestedCallsBelowAReentrantOne_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		var outer, inner *Hold
		require.NoError(t, c.Do(within, "a", time.Second, func(ctx context.Context) error {
			outer, _ = FromContext(ctx)
			return c.Do(ctx, "b", time.Second, func(ctx context.Context) error {
				inner, _ = FromContext(ctx)
				return c.Lock("a").DoWith(ctx, again, func(ctx context.Context) error {
					h, _ := FromContext(ctx)
					require.Same(t, outer, h)
					require.ErrorIs(t, c.Do(ctx, "b", time.Second, nothing), ErrNested)
					return c.Lock("b").DoWith(ctx, again, func(ctx context.Context) error {
						h, _ := FromContext(ctx)
						require.Same(t, inner, h)
						require.ErrorIs(t, c.Do(ctx, "a", time.Second, nothing), ErrNested)
						return c.Do(ctx, "c", time.Second, func(context.Context) error { return nil })
					})
				})
			})
		}))
	})
}

// A call by another client of the process would wait for itself as well. Two
// clients lock the same if their masters say that they are one deployment.
func TestNestedCallsOfAnotherClientAreReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.opened(t, Config{MaxTTL: time.Minute})
		same := m.client(t, Config{MaxTTL: time.Minute})
		elsewhere := m.opened(t, Config{MaxTTL: time.Minute, Prefix: "another:"})
		err := c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			start := time.Now()
			require.ErrorIs(t, same.Do(ctx, "r", time.Second, nothing), ErrNested)
			require.ErrorIs(t, same.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second, Reentrant: true}, nothing), ErrNested)
			require.Zero(t, time.Since(start), "no node was asked")
			require.NoError(t, same.Do(ctx, "s", time.Second, nothing))
			return elsewhere.Do(ctx, "r", time.Second, nothing)
		})
		require.NoError(t, err)
	})
}
