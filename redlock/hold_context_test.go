package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFromContextFindsTheInnermostHold(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		_, ok := FromContext(t.Context())
		require.False(t, ok)
		a, b := m.client(t, Config{}), m.client(t, Config{})
		err := a.Do(t.Context(), "outer", time.Second, func(ctx context.Context) error {
			derived, cancel := context.WithTimeout(context.WithValue(ctx, t, "a value"), time.Minute)
			defer cancel()
			h, ok := FromContext(derived)
			require.True(t, ok)
			require.Equal(t, "outer", h.Resource())
			require.Positive(t, h.Validity())
			require.NoError(t, h.Err())
			require.Len(t, m.holders("outer", h.Current().Token()), 3)
			return b.Do(derived, "inner", time.Second, func(ctx context.Context) error {
				h, _ := FromContext(ctx)
				require.Equal(t, "inner", h.Resource())
				require.Equal(t, "outer", a.outer(ctx).hold.Resource())
				require.Equal(t, "a value", ctx.Value(t))
				return nil
			})
		})
		require.NoError(t, err)
		h := mustHold(t, a, "r", HoldOptions{})
		found, _ := FromContext(h.Context())
		require.Same(t, h, found)
	})
}

// A process that continues after a pause past the validity finds the channel of
// Done closed, before any timer has fired (R15).
func TestDoneTellsOfASuspendAtOnce_R15(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		real := c.keeper.clock
		var slept atomic.Int64
		c.keeper.clock = func() instant {
			now := real()
			now.slept += time.Duration(slept.Load())
			return now
		}
		requireEnds := func(ctx context.Context) {
			select {
			case <-ctx.Done():
				t.Error("it has ended already")
			default:
			}
			slept.Store(int64(11 * time.Second))
			select {
			case <-ctx.Done():
			default:
				t.Error("Done is open, though the validity is over")
			}
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
		}
		h := mustHold(t, c, "r", HoldOptions{TTL: 10 * time.Second})
		requireEnds(h.Context())
		slept.Store(0)
		err := c.Do(context.Background(), "s", 10*time.Second, func(ctx context.Context) error {
			requireEnds(ctx)
			return nil
		})
		require.ErrorIs(t, err, ErrLost)
	})
}
