package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDoValue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		k := c.Fair("r")
		seven := func(context.Context) (int, error) { return 7, nil }
		got, err := DoValue(t.Context(), k, HoldOptions{}, seven)
		require.NoError(t, err)
		require.Equal(t, 7, got)

		got, err = DoValue(t.Context(), k, HoldOptions{}, func(context.Context) (int, error) { return 8, errWork })
		require.Equal(t, errWork, err, "fn's error is returned as it is")
		require.Equal(t, 8, got)

		got, err = DoValue(t.Context(), k, HoldOptions{TTL: time.Second}, func(ctx context.Context) (int, error) {
			m.silence()
			<-ctx.Done()
			return 9, ctx.Err()
		})
		require.ErrorIs(t, err, ErrLost)
		require.Equal(t, 9, got)
		m.recover()

		over, cancel := context.WithCancel(t.Context())
		cancel()
		got, err = DoValue(over, k, HoldOptions{}, seven)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, got, "fn was not called")
		require.PanicsWithValue(t, "redlock: "+noFunction, func() {
			_, _ = DoValue[int](t.Context(), k, HoldOptions{}, nil)
		})
	})
}
