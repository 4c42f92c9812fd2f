package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/stretchr/testify/require"
)

// A key whose TTL was removed by hand gets the hold's again from the next
// renewal, so that the lock ends if its client dies. The TTL is never shorter
// than what a copy of the lock was promised, or another holder of the same set.
func TestPersistByHandIsMended_R10(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	config := redlock.Config{Nodes: redlock.Nodes(urls...), NodeTimeout: 2 * time.Second}
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	c, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	defer c.Close(context.Background())
	number := func(command string, key string) int64 {
		n, err := servers[0].Do(command, key)
		require.NoError(t, err)
		return n.(int64)
	}
	config.Fenced = true
	fenced, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	defer fenced.Close(context.Background())
	short := redlock.HoldOptions{TTL: 1500 * time.Millisecond}
	for name, kind := range map[string]struct {
		take func() (*redlock.Hold, error)
		keys []string
	}{
		"plain":   {func() (*redlock.Hold, error) { return c.Lock("plain").TryHold(t.Context(), short) }, []string{"plain"}},
		"fenced":  {func() (*redlock.Hold, error) { return fenced.Lock("fenced").TryHold(t.Context(), short) }, []string{"fenced"}},
		"fair":    {func() (*redlock.Hold, error) { return c.Fair("fair").Hold(t.Context(), short) }, []string{"fair"}},
		"waited":  {func() (*redlock.Hold, error) { return c.Hold(t.Context(), "waited", short) }, []string{"waited"}},
		"several": {func() (*redlock.Hold, error) { return c.All("a", "b").TryHold(t.Context(), short) }, []string{"a", "b"}},
		"healing": {func() (*redlock.Hold, error) {
			return c.Lock("healing").TryHold(t.Context(), redlock.HoldOptions{TTL: short.TTL, Heal: true})
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
				left := time.Duration(number("PTTL", key)) * time.Millisecond
				require.Greater(t, left, h.Validity()-100*time.Millisecond)
				require.LessOrEqual(t, left, short.TTL+time.Second, "%s: a record outlives its holders by a second", key)
				t.Logf("%s: %v of %v", key, left, short.TTL)
			}
			require.NoError(t, h.Err())
			require.NoError(t, h.Release(t.Context()))
		})
	}

	t.Run("a copy of a hold's lock was promised more", func(t *testing.T) {
		h, err := c.Lock("current").TryHold(t.Context(), short)
		require.NoError(t, err)
		longer, err := h.Current().Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		number("PERSIST", "current")
		require.Eventually(t, func() bool { return number("PTTL", "current") > 0 }, 10*time.Second, 20*time.Millisecond)
		require.Greater(t, number("PTTL", "current"), longer.Validity().Milliseconds()-100)
		require.LessOrEqual(t, number("PTTL", "current"), int64(20_000))
		require.NoError(t, h.Release(t.Context()))
	})
	t.Run("the token was shown", func(t *testing.T) {
		h, err := c.Lock("shown").TryHold(t.Context(), short)
		require.NoError(t, err)
		heir, err := fenced.Adopt("shown", h.Current().Token(), short.TTL, h.Until())
		require.NoError(t, err)
		heir, err = heir.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		number("PERSIST", "shown")
		require.Eventually(t, func() bool { return number("PTTL", "shown") > 0 }, 10*time.Second, 20*time.Millisecond)
		require.Greater(t, number("PTTL", "shown"), heir.Validity().Milliseconds())
		require.LessOrEqual(t, number("PTTL", "shown"), redlock.DefaultMaxTTL.Milliseconds(), "the longest of any client")
		require.NoError(t, h.Release(t.Context()))
	})
	t.Run("a copy was promised more", func(t *testing.T) {
		lock, err := c.TryAcquire(t.Context(), "copy", time.Second)
		require.NoError(t, err)
		longer, err := lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		number("PERSIST", "copy")
		_, err = lock.Extend(t.Context(), time.Second)
		require.NoError(t, err)
		require.Greater(t, number("PTTL", "copy"), longer.Validity().Milliseconds())
		require.LessOrEqual(t, number("PTTL", "copy"), redlock.DefaultMaxTTL.Milliseconds(), "the longest of any client")
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
