package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// A key whose TTL was removed by hand gets one again from the next renewal, so
// that the lock ends some day if its client dies. The TTL is never shorter than
// what a copy of the lock was promised, or another holder of the same set.
func TestPersistByHandIsMended_R10(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	config := redlock.Config{Nodes: redlock.Nodes(urls...), NodeTimeout: 2 * time.Second}
	_, err := redlock.Init(t.Context(), config)
	require.NoError(t, err)
	c, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	defer c.Close(context.Background())
	number := func(command string, key string) int64 {
		n, err := servers[0].Do(command, key)
		require.NoError(t, err)
		return n.(int64)
	}
	short := redlock.HoldOptions{TTL: 1500 * time.Millisecond}
	for name, kind := range map[string]struct {
		take func() (*redlock.Hold, error)
		keys []string
	}{
		"plain":   {func() (*redlock.Hold, error) { return c.TryHold(t.Context(), "plain", short) }, []string{"plain"}},
		"several": {func() (*redlock.Hold, error) { return c.TryHoldAll(t.Context(), []string{"a", "b"}, short) }, []string{"a", "b"}},
		"healing": {func() (*redlock.Hold, error) {
			return c.TryHold(t.Context(), "healing", redlock.HoldOptions{TTL: short.TTL, Heal: true})
		}, []string{"healing"}},
		"writer": {func() (*redlock.Hold, error) { return c.RW("w").Write().TryHold(t.Context(), short) }, []string{"w"}},
		"reader": {func() (*redlock.Hold, error) { return c.RW("r").Read().TryHold(t.Context(), short) }, []string{"r:redlock:readers"}},
		"permit": {func() (*redlock.Hold, error) { return c.Semaphore("s", 1).TryHold(t.Context(), short) },
			[]string{"s#0", "s:redlock:permits"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := kind.take()
			require.NoError(t, err)
			time.Sleep(50 * time.Millisecond) // until each server has it
			for _, key := range kind.keys {
				require.EqualValues(t, 1, number("PERSIST", key))
			}
			for _, key := range kind.keys {
				require.Eventually(t, func() bool { return number("PTTL", key) > 0 }, 10*time.Second, 20*time.Millisecond, key)
				require.Greater(t, time.Duration(number("PTTL", key))*time.Millisecond, h.Validity()-100*time.Millisecond)
			}
			require.NoError(t, h.Err())
			require.NoError(t, h.Release(t.Context()))
		})
	}

	t.Run("a copy was promised more", func(t *testing.T) {
		lock, err := c.TryAcquire(t.Context(), "copy", time.Second)
		require.NoError(t, err)
		longer, err := lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		number("PERSIST", "copy")
		_, err = lock.Extend(t.Context(), time.Second)
		require.NoError(t, err)
		require.Greater(t, number("PTTL", "copy"), longer.Validity().Milliseconds())
	})
	t.Run("another reader was promised more", func(t *testing.T) {
		long, err := c.RW("two").Read().TryAcquire(t.Context(), 20*time.Second)
		require.NoError(t, err)
		for _, s := range servers {
			_, err := s.Do("PERSIST", "two:redlock:readers")
			require.NoError(t, err)
		}
		second, err := c.RW("two").Read().TryAcquire(t.Context(), 100*time.Millisecond)
		require.NoError(t, err)
		require.Greater(t, number("PTTL", "two:redlock:readers"), long.Validity().Milliseconds())
		_ = second.Release(t.Context())
		time.Sleep(1500 * time.Millisecond)
		_, err = c.RW("two").Write().TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, redlock.ErrHeld, "the first still reads")
	})
}
