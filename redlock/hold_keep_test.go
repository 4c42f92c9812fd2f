package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A lock of each kind is kept as one that was acquired so: adopted, upgraded,
// downgraded, or from Acquire. It is renewed, and released by the hold.
func TestALockOfAnyKindBecomesAHold_R10_R13(t *testing.T) {
	ctx := context.Background()
	for name, acquire := range map[string]func(c *Client) (Lock, error){
		"a plain lock": func(c *Client) (Lock, error) { return c.TryAcquire(ctx, "r", holdTTL) },
		"several":      func(c *Client) (Lock, error) { return c.All("r", "s").TryAcquire(ctx, holdTTL) },
		"a permit":     func(c *Client) (Lock, error) { return c.Semaphore("r", 1).TryAcquire(ctx, holdTTL) },
		"adopted": func(c *Client) (Lock, error) {
			lock := mustAcquire(t, c, "r", holdTTL)
			return c.Adopt("r", lock.Token(), "", holdTTL, lock.Until())
		},
		"upgraded": func(c *Client) (Lock, error) {
			read, err := c.RW("r").Read().TryAcquire(ctx, holdTTL)
			require.NoError(t, err)
			defer func() { require.NoError(t, read.Release(ctx)) }()
			return c.RW("r").Upgrade(ctx, read, holdTTL)
		},
		"downgraded": func(c *Client) (Lock, error) {
			write, err := c.RW("r").Write().TryAcquire(ctx, holdTTL)
			require.NoError(t, err)
			return c.RW("r").Downgrade(ctx, write, holdTTL)
		},
		"a hold's, downgraded": func(c *Client) (Lock, error) {
			writes, err := c.RW("r").Write().Hold(ctx, HoldOptions{TTL: holdTTL})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			write, err := writes.Detach()
			require.NoError(t, err)
			defer func() { require.ErrorIs(t, writes.Release(ctx), ErrNotHeld) }()
			return c.RW("r").Downgrade(ctx, write, holdTTL)
		},
	} {
		simulatedAs(t, name, anyNumber, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{})
			lock, err := acquire(c)
			require.NoError(t, err)
			time.Sleep(time.Second)
			until := lock.Until()
			h, err := c.Keep(t.Context(), lock, HoldOptions{TTL: time.Second})
			require.NoError(t, err)
			require.Equal(t, until, h.Until(), "keeping it lengthens nothing")
			for range 10 {
				time.Sleep(5 * time.Second)
				require.NoError(t, h.Err())
			}
			require.Greater(t, h.Validity(), holdValidity/2)
			require.NoError(t, h.Release(t.Context()))
			require.Equal(t, ErrReleased, context.Cause(h.Context()))
			time.Sleep(2 * holdTTL) // a record of permits has a time of its own
			require.Zero(t, m.keys())
		})
	}
}

// The validity of a kept lock is never longer than the lives of its keys,
// though the hold asks for a longer TTL than the lock had.
func TestAKeptLockIsRenewedForItsWholeTTL_R4_R10(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		lock := mustAcquire(t, c, "r", time.Second)
		each(m.nodes, (*redistest.Node).Pause)
		h, err := c.Keep(t.Context(), lock, HoldOptions{TTL: time.Minute})
		require.NoError(t, err)
		require.LessOrEqual(t, h.Validity(), lock.Validity(), "no node has renewed it yet")
		each(m.nodes, (*redistest.Node).Resume)
		for range 100 {
			time.Sleep(time.Second)
			require.NoError(t, h.Err())
			for _, n := range m.nodes {
				rest, ok := n.DB().TTL("r")
				require.True(t, ok)
				require.Greater(t, rest, h.Validity()-5*ms, "the answer may be on its way")
			}
		}
		require.Greater(t, h.Validity(), 30*time.Second)
		require.NoError(t, h.Release(t.Context()))
	})
}

// A hold that is detached is not renewed, not released, and in no list.
func TestADetachedHoldIsALock_R9(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{ReleaseOnClose: true})
		h := mustHold(t, c, "r", HoldOptions{})
		lock, err := h.Detach()
		require.NoError(t, err)
		require.Empty(t, c.Held())
		_, err = h.Detach()
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, h.Release(t.Context()), ErrNotHeld)
		require.Len(t, m.holders("r", lock.Token()), 3, "the release of the hold did nothing")
		require.NoError(t, c.Close(t.Context()))
		require.Len(t, m.holders("r", lock.Token()), 3, "nor does the end of the client: it is a lock")
		before := extensions(m.nodes[0])
		time.Sleep(holdTTL)
		require.Equal(t, before, extensions(m.nodes[0]))
		require.Zero(t, m.keys())
	})
}

// Options that cannot be kept, and locks that are over or another client's, are
// refused before any node is asked.
func TestWhatCannotBeHeldOrKept_R10_R13(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := exactClient(t, m, Config{}), m.client(t, Config{})
		lock := mustAcquire(t, c, "r", holdTTL)
		time.Sleep(10 * ms)
		before := asked(m)
		for says, o := range map[string]HoldOptions{
			"MaxHold is negative: -1ns": {TTL: holdTTL, MaxHold: -1}, "MinHold is negative": {TTL: holdTTL, MinHold: -1},
			"MaxWait is negative":    {TTL: holdTTL, MaxWait: -1},
			"is longer than the TTL": {TTL: time.Second, MinHold: time.Second + ms},
		} {
			_, err := c.Hold(t.Context(), "s", o)
			require.ErrorIs(t, err, ErrHoldOptions)
			require.ErrorContains(t, err, says)
		}
		_, err := c.Hold(t.Context(), "s", HoldOptions{TTL: -1})
		require.ErrorIs(t, err, ErrTTL)
		for name, try := range map[string]struct {
			client  *Client
			lock    Lock
			options HoldOptions
			want    error
		}{
			"no lock":           {c, Lock{}, HoldOptions{TTL: holdTTL}, ErrNotHeld},
			"another client's":  {other, lock, HoldOptions{TTL: holdTTL}, ErrNotHeld},
			"MinHold":           {c, lock, HoldOptions{TTL: holdTTL, MinHold: time.Second}, ErrHoldOptions},
			"Reentrant":         {c, lock, HoldOptions{TTL: holdTTL, Reentrant: true}, ErrHoldOptions},
			"a TTL of an age":   {c, lock, HoldOptions{TTL: 200 * 365 * 24 * time.Hour}, ErrTTL},
			"a negative number": {c, lock, HoldOptions{TTL: holdTTL, MaxHold: -1}, ErrHoldOptions},
		} {
			_, err := try.client.Keep(t.Context(), try.lock, try.options)
			require.ErrorIs(t, err, try.want, name)
		}
		require.Equal(t, before, asked(m))
		require.Len(t, m.holders("r", lock.Token()), 3, "it is as it was")
		time.Sleep(holdTTL)
		_, err = c.Keep(t.Context(), lock, HoldOptions{TTL: holdTTL})
		require.ErrorIs(t, err, ErrNotHeld, "its validity is over (R15)")
		require.NoError(t, c.Close(t.Context()))
	})
}

// A Downgrade that fails says what has become of the write lock.
func TestAFailedDowngradeSaysWhatBecameOfTheLock_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		rw := c.RW("r")
		write, err := rw.Write().TryAcquire(t.Context(), holdTTL)
		require.NoError(t, err)
		_, err = c.RW("another").Downgrade(t.Context(), write, holdTTL)
		require.ErrorIs(t, err, ErrNotHeld)
		require.NotErrorIs(t, err, ErrReleased)
		write, err = write.Extend(t.Context(), holdTTL)
		require.NoError(t, err)

		m.nodes[0].DB().Delete("r")
		m.nodes[1].DB().Delete("r")
		_, err = rw.Downgrade(t.Context(), write, holdTTL)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrReleased)
		require.Equal(t, `redlock: "r": not downgraded, and the write lock was released: lock is not held`, err.Error())
		time.Sleep(time.Second)
		require.Zero(t, m.keys())

		write, err = rw.Write().TryAcquire(t.Context(), holdTTL)
		require.NoError(t, err)
		_, err = rw.Downgrade(t.Context(), write, 0)
		require.ErrorIs(t, err, ErrTTL)
		require.ErrorIs(t, err, ErrReleased, "whatever the reason")
	})
}

// A key whose TTL was removed by hand gets the hold's again from the next
// renewal, so that the lock ends if its client dies. The TTL is never shorter
// than what a copy of the lock was promised, or another holder of the same set.
func TestPersistByHandIsMended_R10(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP)
	watched := func(c *Config) { c.Forgetful, c.NodeTimeout = false, 2*time.Second }
	c, fenced := realClient(t, servers, watched), realClient(t, servers, watched, func(c *Config) { c.Fenced = true })
	number := func(command string, key string) int64 {
		n, err := servers[0].Do(command, key)
		require.NoError(t, err)
		return n.(int64)
	}
	short := HoldOptions{TTL: 1500 * ms}
	for name, kind := range map[string]struct {
		take func() (*Hold, error)
		keys []string
	}{
		"plain":   {func() (*Hold, error) { return c.Lock("plain").TryHold(t.Context(), short) }, []string{"plain"}},
		"fenced":  {func() (*Hold, error) { return fenced.Lock("fenced").TryHold(t.Context(), short) }, []string{"fenced"}},
		"fair":    {func() (*Hold, error) { return c.Fair("fair").Hold(t.Context(), short) }, []string{"fair"}},
		"waited":  {func() (*Hold, error) { return c.Hold(t.Context(), "waited", short) }, []string{"waited"}},
		"several": {func() (*Hold, error) { return c.All("a", "b").TryHold(t.Context(), short) }, []string{"a", "b"}},
		"healing": {func() (*Hold, error) {
			return c.Lock("healing").TryHold(t.Context(), HoldOptions{TTL: short.TTL, Heal: true})
		}, []string{"healing"}},
		"writer": {func() (*Hold, error) { return c.RW("w").Write().TryHold(t.Context(), short) }, []string{"w"}},
		"reader": {func() (*Hold, error) { return c.RW("r").Read().TryHold(t.Context(), short) }, []string{"r:redlock:readers"}},
		"permit": {func() (*Hold, error) { return c.Semaphore("s", 1).TryHold(t.Context(), short) },
			[]string{"s:redlock:permits"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := kind.take()
			require.NoError(t, err)
			time.Sleep(50 * ms) // until each server has it
			for _, key := range kind.keys {
				require.EqualValues(t, 1, number("PERSIST", key))
			}
			for _, key := range kind.keys {
				require.Eventually(t, func() bool { return number("PTTL", key) > 0 }, 10*time.Second, 20*ms, key)
				left := time.Duration(number("PTTL", key)) * ms
				require.Greater(t, left, h.Validity()-100*ms)
				require.LessOrEqual(t, left, short.TTL+2*time.Second, "%s: a record outlives its holders by two seconds at most", key)
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
		require.Eventually(t, func() bool { return number("PTTL", "current") > 0 }, 10*time.Second, 20*ms)
		require.Greater(t, number("PTTL", "current"), longer.Validity().Milliseconds()-100)
		require.LessOrEqual(t, number("PTTL", "current"), int64(20_000))
		require.NoError(t, h.Release(t.Context()))
	})
	t.Run("the token was shown", func(t *testing.T) {
		h, err := c.Lock("shown").TryHold(t.Context(), short)
		require.NoError(t, err)
		heir, err := fenced.Adopt("shown", h.Current().Token(), "", short.TTL, h.Until())
		require.NoError(t, err)
		heir, err = heir.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		number("PERSIST", "shown")
		require.Eventually(t, func() bool { return number("PTTL", "shown") > 0 }, 10*time.Second, 20*ms)
		require.Greater(t, number("PTTL", "shown"), heir.Validity().Milliseconds())
		require.LessOrEqual(t, number("PTTL", "shown"), DefaultMaxTTL.Milliseconds(), "the longest of any client")
		require.NoError(t, h.Release(t.Context()))
	})
	t.Run("a copy was promised more", func(t *testing.T) {
		lock := mustAcquire(t, c, "copy", time.Second)
		longer, err := lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		number("PERSIST", "copy")
		_, err = lock.Extend(t.Context(), time.Second)
		require.NoError(t, err)
		require.Greater(t, number("PTTL", "copy"), longer.Validity().Milliseconds())
		require.LessOrEqual(t, number("PTTL", "copy"), DefaultMaxTTL.Milliseconds(), "the longest of any client")
	})
	t.Run("another reader was promised more", func(t *testing.T) {
		long, err := c.RW("two").Read().TryAcquire(t.Context(), 20*time.Second)
		require.NoError(t, err)
		for _, s := range servers {
			_, err := s.Do("PERSIST", "two:redlock:readers")
			require.NoError(t, err)
		}
		second, err := c.RW("two").Read().TryAcquire(t.Context(), 100*ms)
		require.NoError(t, err)
		require.Greater(t, number("PTTL", "two:redlock:readers"), long.Validity().Milliseconds())
		_ = second.Release(t.Context())
		time.Sleep(1500 * ms)
		_, err = c.RW("two").Write().TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrHeld, "the first still reads")
	})
}

// The next renewal sets a key again that a node has forgotten, so a lock
// survives when a quorum of nodes forgets its keys one after another.
func TestHealingSetsAgainWhatIsMissing(t *testing.T) { // R10
	for _, heal := range []bool{false, true} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			a, b := exactClient(t, m, Config{}), m.client(t, Config{})
			h := mustHold(t, a, "r", HoldOptions{Heal: heal})
			time.Sleep(10 * ms)
			for i := range m.nodes { // one after another, as in a rolling restart
				m.nodes[i].DB().Delete("r")
				time.Sleep(holdThird + 10*ms)
				require.Equal(t, heal || i < 2, h.Err() == nil, i)
				if !heal {
					continue
				}
				require.Len(t, m.holders("r", h.Current().Token()), 5)
				_, err := b.TryAcquire(context.Background(), "r", time.Second)
				require.Equal(t, ErrHeld, err)
			}
			if !heal {
				require.ErrorIs(t, h.Err(), ErrLost)
				return
			}
			require.NoError(t, h.Release(context.Background()))
			time.Sleep(5 * ms)
			require.Zero(t, m.keys())
		})
	}
}

// A node that was away when the lock was granted, or restarted empty, gets the
// key by a renewal. From then on it owes the release, although it never got the
// SET (R8).
func TestAHealedNodeOwesTheRelease(t *testing.T) {
	for _, answered := range []bool{true, false} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{})
			m.link(2).Refuse(true)
			m.link(2).Reset()
			time.Sleep(10 * ms)
			h := mustHold(t, c, "r", HoldOptions{Heal: true, TTL: 20 * time.Second})
			pos := h.Current().grant.Receipt.Pos
			require.False(t, h.Current().grant.Receipt.Sent.Has(2))
			m.link(2).Refuse(false)
			time.Sleep(2 * time.Second)
			require.Equal(t, NodeUp, c.Nodes()[2].State)
			time.Sleep(time.Until(h.begun.at.Add(19798*ms/3 - 10*ms))) // right before the renewal
			if !answered {
				m.link(2).Latency(ms, time.Hour) // it executes, but its replies never arrive
			}
			time.Sleep(30 * ms)
			require.Equal(t, []int{0, 1, 2}, m.holders("r", h.Current().Token()))
			require.True(t, h.Current().grant.Receipt.Sent.Has(2))
			require.Equal(t, pos, h.Current().grant.Receipt.Pos, "the older place is the safe one")
			m.delay(2, 2*ms)
			m.link(2).Refuse(true)
			m.link(2).Reset()
			time.Sleep(10 * ms)
			require.NoError(t, h.Release(context.Background()))
			require.Equal(t, 1, c.Nodes()[2].Debts)
			m.link(2).Refuse(false)
			time.Sleep(2500 * ms)
			require.Zero(t, m.keys(), "it was paid, long before the TTL is over")
		})
	}
}
