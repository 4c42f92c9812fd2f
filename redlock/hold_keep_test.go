package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock of each kind is kept as one that was acquired so: adopted, upgraded,
// downgraded, or from Acquire. It is renewed, and released by the hold.
func TestALockOfAnyKindBecomesAHold_R10_R13(t *testing.T) {
	for name, acquire := range map[string]func(t *testing.T, c *Client) Lock{
		"a plain lock": func(t *testing.T, c *Client) Lock { return mustAcquire(t, c, "r", holdTTL) },
		"adopted": func(t *testing.T, c *Client) Lock {
			lock := mustAcquire(t, c, "r", holdTTL)
			adopted, err := c.Adopt("r", lock.Token(), holdTTL, lock.Until())
			require.NoError(t, err)
			return adopted
		},
		"several": func(t *testing.T, c *Client) Lock {
			lock, err := c.All("r", "s").TryAcquire(t.Context(), holdTTL)
			require.NoError(t, err)
			return lock
		},
		"upgraded": func(t *testing.T, c *Client) Lock {
			read, err := c.RW("r").Read().TryAcquire(t.Context(), holdTTL)
			require.NoError(t, err)
			write, err := c.RW("r").Upgrade(t.Context(), read, holdTTL)
			require.NoError(t, err)
			require.NoError(t, read.Release(t.Context()))
			return write
		},
		"downgraded": func(t *testing.T, c *Client) Lock {
			write, err := c.RW("r").Write().TryAcquire(t.Context(), holdTTL)
			require.NoError(t, err)
			read, err := c.RW("r").Downgrade(t.Context(), write, holdTTL)
			require.NoError(t, err)
			return read
		},
		"a permit": func(t *testing.T, c *Client) Lock {
			lock, err := c.Semaphore("r", 1).TryAcquire(t.Context(), holdTTL)
			require.NoError(t, err)
			return lock
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				c := exactClient(t, m, Config{})
				lock := acquire(t, c)
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
		})
	}
}

// The validity of a kept lock is never longer than the lives of its keys,
// though the hold asks for a longer TTL than the lock had.
func TestAKeptLockIsRenewedForItsWholeTTL_R4_R10(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h, err := c.Keep(t.Context(), mustAcquire(t, c, "r", time.Second), HoldOptions{TTL: time.Minute})
		require.NoError(t, err)
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

// A hold that writes is downgraded, and reads on, without a moment in which
// another writer could get in.
func TestAHoldIsDowngraded_R10(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := exactClient(t, m, Config{}), m.client(t, Config{})
		writes, err := c.RW("r").Write().Hold(t.Context(), HoldOptions{TTL: holdTTL})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		write, err := writes.Detach()
		require.NoError(t, err)
		require.Positive(t, write.Validity())
		require.Equal(t, ErrReleased, context.Cause(writes.Context()))
		read, err := c.RW("r").Downgrade(t.Context(), write, holdTTL)
		require.NoError(t, err)
		reads, err := c.Keep(t.Context(), read, HoldOptions{TTL: holdTTL})
		require.NoError(t, err)
		require.ErrorIs(t, writes.Release(t.Context()), ErrNotHeld, "it is the hold's no more")
		time.Sleep(time.Minute)
		require.NoError(t, reads.Err())
		_, err = other.RW("r").Write().TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrHeld)
		_, err = other.RW("r").Read().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.NoError(t, reads.Release(t.Context()))
		require.Empty(t, c.Held())
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

func TestWhatCannotBeKept_R10_R13(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := exactClient(t, m, Config{}), m.client(t, Config{})
		lock := mustAcquire(t, c, "r", holdTTL)
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
			if try.options.MaxHold < 0 {
				require.ErrorContains(t, err, "MaxHold is negative: -1ns")
			}
		}
		require.Len(t, m.holders("r", lock.Token()), 3, "it is as it was")
		time.Sleep(holdTTL)
		_, err := c.Keep(t.Context(), lock, HoldOptions{TTL: holdTTL})
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
