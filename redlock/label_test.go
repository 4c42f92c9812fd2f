package redlock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// labelled returns a Locker of each kind.
func labelled(c *Client) map[string]Locker {
	return map[string]Locker{
		"plain": c.Lock("p"), "several": c.All("a", "b"), "read": c.RW("r").Read(), "write": c.RW("w").Write(),
		"permit": c.Semaphore("s", 2), "fair": c.Fair("f"),
	}
}

// A lock with a label is renewed and released as any other, whatever its kind,
// on servers in memory and on real ones.
func TestLabelsOfAllKinds_R9(t *testing.T) {
	// The mark of waiting callers and the queue of a fair lock expire.
	remains := func(key string) bool { return strings.Contains(key, "f:redlock:") || strings.HasSuffix(key, ":wanted") }
	both := func(t *testing.T, c *Client, keys func() int) {
		for name, k := range labelled(c) {
			h, err := k.Hold(t.Context(), HoldOptions{TTL: 10 * time.Second, Label: "nightly import: 7"})
			require.NoError(t, err, name)
			require.Equal(t, "nightly import: 7", h.Current().Label())
			lock, err := h.Current().Extend(t.Context(), 20*time.Second)
			require.NoError(t, err, name)
			require.NoError(t, lock.Release(t.Context()), name)
			require.ErrorIs(t, h.Release(t.Context()), ErrNotHeld, name)
		}
		read, err := c.RW("r").Read().TryHold(t.Context(), HoldOptions{Label: "l"})
		require.NoError(t, err)
		write, err := c.RW("r").Upgrade(t.Context(), read.Current(), time.Second)
		require.NoError(t, err)
		require.Equal(t, "l", write.Label())
		read2, err := c.RW("r").Downgrade(t.Context(), write, time.Second)
		require.NoError(t, err)
		require.Equal(t, "l", read2.Label())
		require.NoError(t, read2.Release(t.Context()))
		require.NoError(t, read.Release(t.Context()))
		require.Eventually(t, func() bool { return keys() == 0 }, 10*time.Second, ms)
	}
	for _, owner := range []string{"", "web-1"} {
		t.Run("memory "+owner, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				m.ownerless()
				both(t, m.client(t, Config{Owner: owner}), func() (n int) {
					for _, node := range m.nodes {
						n += len(slices.DeleteFunc(node.DB().Keys(), remains))
					}
					return n
				})
			})
		})
		t.Run("servers "+owner, func(t *testing.T) {
			servers := redistest.Servers(t, 3)
			both(t, realClient(t, servers, owns(owner)), func() (n int) {
				for _, s := range servers {
					all, err := s.Do("KEYS", "*")
					require.NoError(t, err)
					n += len(slices.DeleteFunc(all.([]any), func(key any) bool { return remains(key.(string)) }))
				}
				return n
			})
		})
	}
}

// The values of a lock's keys have the token, the owner and the label, and the
// token says when the attempt was made, but for a lock with neither.
func TestValuesSayWho_R3(t *testing.T) {
	for _, x := range []struct{ owner, label string }{{"", ""}, {"web-1", ""}, {"", "a b"}, {"web-1", "a b"}} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			m.ownerless()
			c := m.client(t, Config{Owner: x.owner})
			time.Sleep(time.Hour)
			h, err := c.Lock("r").TryHold(t.Context(), HoldOptions{Label: x.label})
			require.NoError(t, err)
			asked := time.Now()
			time.Sleep(time.Minute) // it is renewed
			value, _ := m.nodes[0].DB().Get("r")
			v, ok := pure.ParseValue(value)
			require.True(t, ok)
			require.Equal(t, pure.Labels{Owner: x.owner, Label: x.label}, v.Labels)
			require.Equal(t, h.Current().Token().Reveal(), v.Token)
			if x.owner+x.label == "" {
				require.Equal(t, v.Token, value)
				return
			}
			require.WithinDuration(t, asked, v.Since, time.Second)
		})
	}
}

// Who waits learns what the lock is for, and the text of the error says it.
func TestHeldErrorHasTheLabel(t *testing.T) {
	for _, x := range []struct{ owner, text string }{
		{"web-1", `redlock: "r": resource is held by "web-1" for "nightly import"`},
		{"", `redlock: "r": resource is held for "nightly import"`},
	} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			m.ownerless()
			each(m.nodes, func(n *redistest.Node) { n.Native("NXGET") })
			a, b := m.client(t, Config{Owner: x.owner}), m.client(t, Config{Owner: "web-2"})
			time.Sleep(time.Second)
			_, err := a.Lock("r").TryHold(t.Context(), HoldOptions{Label: "nightly import"})
			require.NoError(t, err)
			_, err = b.TryAcquire(t.Context(), "r", time.Second)
			held := (*HeldError)(nil)
			require.ErrorAs(t, err, &held)
			require.Equal(t, "nightly import", held.Label)
			require.Equal(t, x.owner, held.Owner)
			require.EqualError(t, err, x.text)
		})
	}
}

// The longest labels reach those that wait for a lock of each kind whose
// refusals name a holder.
func TestHeldErrorHasTheLongestLabels(t *testing.T) {
	owner, label := strings.Repeat("o", pure.LongestOwner), strings.Repeat("l", pure.LongestLabel)
	for name, x := range map[string]struct{ holds, waits func(*Client) Locker }{
		"plain":   {func(c *Client) Locker { return c.Lock("r") }, func(c *Client) Locker { return c.Lock("r") }},
		"several": {func(c *Client) Locker { return c.All("a", "b") }, func(c *Client) Locker { return c.All("b", "c") }},
		"read":    {func(c *Client) Locker { return c.RW("r").Read() }, func(c *Client) Locker { return c.RW("r").Write() }},
		"write":   {func(c *Client) Locker { return c.RW("r").Write() }, func(c *Client) Locker { return c.RW("r").Read() }},
		"fair":    {func(c *Client) Locker { return c.Fair("r") }, func(c *Client) Locker { return c.Fair("r") }},
	} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			m.ownerless()
			each(m.nodes, func(n *redistest.Node) { n.Native("NXGET") })
			a, b := m.client(t, Config{Owner: owner}), m.client(t, Config{Owner: owner})
			time.Sleep(time.Second)
			_, err := x.holds(a).TryHold(t.Context(), HoldOptions{Label: label})
			require.NoError(t, err)
			_, err = x.waits(b).TryHold(t.Context(), HoldOptions{})
			held := (*HeldError)(nil)
			require.ErrorAs(t, err, &held, name)
			require.Equal(t, owner, held.Owner, name)
			require.Equal(t, label, held.Label, name)
		})
	}
}

// The keys keep their values when a lock is handed over. So a caller with
// another label asks the nodes, and one with the same does not.
func TestALockIsHandedOverWithItsLabel(t *testing.T) {
	for label, handed := range map[string]bool{"a": true, "b": false, "": false} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			c := m.client(t, Config{})
			held := mustAcquire(t, c, "r", time.Minute)
			first := holdsLater(t, c, HoldOptions{Label: "a"})
			time.Sleep(5 * ms)
			second := holdsLater(t, c, HoldOptions{Label: label})
			time.Sleep(5 * ms)
			require.NoError(t, held.Release(t.Context()))
			h := <-first
			require.NoError(t, h.Release(t.Context()))
			next := <-second
			require.Equal(t, label, next.Current().Label())
			require.Equal(t, handed, c.Stats().HandedOver == 1, "%q", label)
			value, _ := m.nodes[0].DB().Get("r")
			v, _ := pure.ParseValue(value)
			require.Equal(t, label, v.Label)
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

// An adopted lock is the one with its label, and no other.
func TestLabelIsCompared_R9(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h, err := c.Lock("r").TryHold(t.Context(), HoldOptions{Label: "a"})
		require.NoError(t, err)
		lock, err := h.Detach()
		require.NoError(t, err)
		for _, label := range []string{"", "b", "aa"} {
			other, err := c.Adopt("r", lock.Token(), label, time.Second, lock.Until())
			require.NoError(t, err)
			require.ErrorIs(t, other.Release(t.Context()), ErrNotHeld, label)
		}
		heir, err := c.Adopt("r", lock.Token(), lock.Label(), time.Second, lock.Until())
		require.NoError(t, err)
		require.NoError(t, heir.Release(t.Context()))
	})
}

// What cannot be shown is no label, and the error does not show it (R27). Keep
// cannot give a lock another one.
func TestBadLabels_R27(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		sent := m.nodes[0].Calls("SET")
		for _, bad := range []string{" secret", "secret ", "sec\nret", "secret\x1b[2J", "sécret", "secret\x7f", strings.Repeat("secret", 11)} {
			_, err := c.Hold(t.Context(), "r", HoldOptions{Label: bad})
			require.ErrorIs(t, err, ErrHoldOptions, "%q", bad)
			require.NotContains(t, err.Error(), "cret")
			_, err = c.Adopt("r", Token{1}, bad, time.Second, time.Now())
			require.ErrorIs(t, err, ErrHoldOptions, "%q", bad)
		}
		require.Equal(t, sent, m.nodes[0].Calls("SET"), "nothing was sent")
		h, err := c.Lock("r").TryHold(t.Context(), HoldOptions{Label: "a"})
		require.NoError(t, err)
		lock, err := h.Detach()
		require.NoError(t, err)
		_, err = c.Keep(t.Context(), lock, HoldOptions{Label: "b"})
		require.ErrorIs(t, err, ErrHoldOptions)
		h, err = c.Keep(t.Context(), lock, HoldOptions{Label: "a"})
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
	})
}
