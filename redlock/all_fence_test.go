package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// A lock on several resources has one number, which is higher than that of
// every lock before on any of them, and which every later lock on any of them
// is above.
func TestFenceOfSeveral_F1(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		m.ownerless()
		a, b := m.opened(t, fenced()), m.client(t, fenced())
		last := fenceOf(t, a, "y")
		rises := func(number uint64) {
			t.Helper()
			require.Greater(t, number, last)
			last = number
		}
		lock, err := b.All("x", "y", "z").TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		rises(lock.Fence())
		for _, n := range m.nodes[:3] {
			for _, key := range lock.Resources() {
				text, _ := n.Get(key + wire.FenceSuffix)
				require.Equal(t, fmt.Sprint(last), text)
			}
		}
		longer, err := lock.Extend(t.Context(), time.Second)
		require.NoError(t, err)
		require.Equal(t, last, longer.Fence(), "an extension keeps it")
		_, err = a.TryAcquire(t.Context(), "z", time.Second)
		require.Equal(t, ErrHeld, err)
		_, err = a.All("w", "z").TryAcquire(t.Context(), time.Second)
		held := (*HeldError)(nil)
		require.ErrorAs(t, err, &held)
		require.Equal(t, HeldError{Resource: "z"}, *held)
		require.NoError(t, longer.Release(t.Context()))
		for _, resource := range []string{"z", "x", "y"} {
			rises(fenceOf(t, a, resource))
		}
		hold, err := a.All("y", "z").Hold(t.Context(), HoldOptions{TTL: time.Second})
		require.NoError(t, err)
		rises(hold.Current().Fence())
		time.Sleep(5 * time.Second)
		require.Equal(t, last, hold.Current().Fence(), "renewals keep it")
		require.NoError(t, hold.Release(t.Context()))
		require.NoError(t, b.All("z", "x").DoWith(t.Context(), HoldOptions{TTL: time.Second}, func(ctx context.Context) error {
			h, ok := FromContext(ctx)
			require.True(t, ok)
			rises(h.Current().Fence())
			return nil
		}))
		require.Zero(t, a.Stats().Renumbered+b.Stats().Renumbered)
		_, err = a.All("x", "y"+wire.FenceSuffix).TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrResource)
		one, err := a.All("x").Acquire(t.Context(), time.Second)
		require.NoError(t, err)
		rises(one.Fence())
	})
}

// A number that is too low for one of several costs a second round at once, as
// it does for a single resource. If that is too low again, the error names
// none, and a caller that waits does not wait for a release.
func TestFenceOfSeveralThatIsBehind(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		ahead, behind := m.opened(t, fenced()), m.client(t, fenced())
		lag(behind, -100*ms)
		last := fenceOf(t, ahead, "z")
		start := time.Now()
		lock, err := behind.All("x", "y", "z").TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.Equal(t, last+1, lock.Fence())
		require.Less(t, time.Since(start), 10*ms)
		require.EqualValues(t, 1, behind.Stats().Renumbered)
		require.EqualValues(t, 1, behind.Stats().Attempts.Total())
		require.NoError(t, lock.Release(t.Context()))

		var raised atomic.Int64
		for _, n := range m.nodes {
			// Each attempt finds a last number that was raised meanwhile.
			n.Handle(func(_ int, args []string) ([]byte, bool) {
				if raised.Load() > 0 && args[0] == "EVALSHA" && args[1] == wire.AcquireFenced.Digest && args[3] == "x" {
					raised.Add(-1)
					return resp.AppendInteger(resp.AppendInteger(resp.AppendArray(nil, 2), 2), time.Now().UnixMicro()+1e6), true
				}
				return nil, false
			})
		}
		raised.Store(10)
		_, err = behind.All("x", "y").TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.False(t, errors.As(err, new(*HeldError)))
		raised.Store(20)
		start = time.Now()
		lock, err = behind.All("x", "y").Acquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 300*ms)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// Grants for several resources without a floor do not count, and nodes that
// lost their memory learn it again (F2, F3).
func TestFenceOfSeveralAfterRestarts_F3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced())
		both := []string{"x", "y"}
		number := func(c *Client) uint64 {
			lock, err := c.All(both...).Acquire(t.Context(), time.Second)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			return lock.Fence()
		}
		last := number(c)
		for i, n := range m.nodes {
			m.nodes[i].Restart()
			time.Sleep(100 * ms)
			m.nodes[(i+1)%3].Pause()
			_, err := c.All(both...).TryAcquire(t.Context(), 300*ms)
			require.ErrorIs(t, err, ErrNoQuorum)
			m.nodes[(i+1)%3].Resume()
			countsAgain(t, c, 3*time.Second)
			require.GreaterOrEqual(t, m.record(t, i).Floor, int64(last))
			require.Equal(t, n.Process(), m.record(t, i).Run)
		}
		m.nodes[0].FlushAll()
		m.nodes[1].Pause()
		_, err := c.All(both...).TryAcquire(t.Context(), 300*ms)
		require.ErrorIs(t, err, ErrNoFloor)
		m.nodes[1].Resume()
		countsAgain(t, c, 3*time.Second)
		late := m.client(t, fenced())
		lag(late, -time.Hour)
		require.Greater(t, number(late), last)
	})
}

// A refusal for several resources says which one is in the way and whose it is,
// with and without numbers, for as many nodes as refuse, and at no further
// command. A foreign value is not shown (R27).
func TestHeldErrorOfSeveralHasTheOwner(t *testing.T) {
	for _, number := range []bool{false, true} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			config := func(owner string) Config { return Config{Fenced: number, MaxTTL: time.Second, Owner: owner} }
			a, b, unlabelled := m.opened(t, config("web-1")), m.client(t, config("web-2")), m.client(t, config(""))
			lock, err := a.All("x", "y").TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
			asked := m.nodes[0].Calls("GET")
			_, err = b.All("w", "y", "x").TryAcquire(t.Context(), time.Second)
			held := (*HeldError)(nil)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Resource: "y", Owner: "web-1"}, *held)
			require.Equal(t, `redlock: "w, y, x": "y" is held by "web-1"`, err.Error())
			_, err = unlabelled.All("w", "y").TryAcquire(t.Context(), time.Second)
			require.ErrorAs(t, err, &held)
			require.Equal(t, "web-1", held.Owner, "whether or not the client has a label")
			require.Equal(t, asked, m.nodes[0].Calls("GET"))
			found := inspect(t, b, "x")
			require.Equal(t, "web-1", found.Owner)
			longer, err := lock.Extend(t.Context(), time.Second)
			require.NoError(t, err, "the label is a part of what is compared")
			require.NoError(t, longer.Release(t.Context()))

			single, err := a.TryAcquire(t.Context(), "x", time.Second)
			require.NoError(t, err)
			_, err = b.All("x", "y").TryAcquire(t.Context(), time.Second)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Resource: "x", Owner: "web-1"}, *held)
			_, err = b.TryAcquire(t.Context(), "x", time.Second)
			if number { // in memory, the nodes do not know SET … NX GET
				require.ErrorAs(t, err, &held)
				require.Equal(t, HeldError{Owner: "web-1"}, *held)
			}
			require.NoError(t, single.Release(t.Context()))
			time.Sleep(100 * ms)
			for _, n := range m.nodes {
				n.DB().Set("y", "the password of the program:hunter2", 0)
			}
			_, err = b.All("x", "y").TryAcquire(t.Context(), time.Second)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Resource: "y"}, *held)
		})
	}
}
