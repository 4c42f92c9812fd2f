package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

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

// Healing takes nothing away: another client's key stays, and is a refusal.
func TestHealingTakesNothingFromOthers(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{Heal: true})
		time.Sleep(10 * ms)
		m.nodes[0].DB().Set("r", stranger, time.Minute)
		m.nodes[1].DB().Delete("r")
		time.Sleep(holdThird + 10*ms)
		require.NoError(t, h.Err())
		require.Equal(t, []int{1, 2}, m.holders("r", h.Current().Token()))
		value, _ := m.nodes[0].Get("r")
		require.Equal(t, stranger, value)
	})
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

// A healing whose script is lost on all nodes fails, and the next one, soon
// after, finds it loaded (R13, R24).
func TestHealingOutlivesLostScripts(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{Heal: true})
		until := h.Until()
		for _, n := range m.nodes {
			n.FlushScripts()
		}
		m.nodes[0].DB().Delete("r")
		// Two round trips of 2 ms, and a random pause between them, with this
		// TTL of 100 ms at most.
		time.Sleep(holdThird + 2*ms + 100*ms + 2*ms + ms)
		require.NoError(t, h.Err())
		require.True(t, h.Until().After(until), "renewed")
		require.Len(t, m.holders("r", h.Current().Token()), 3)
		require.NoError(t, h.Release(context.Background()))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// The scripts of holds on a real server, compared with the functions of
// memory_test.go for the node in memory.
func TestScriptsOfHolds(t *testing.T) {
	const mine, others = "mine, 20 bytes long.", "another client's token"
	for name, c := range map[string]struct {
		set    []string
		script string
		ttl    string
		answer int64
		left   int64 // of the key afterwards: -2 none, -1 forever
		value  string
	}{
		"heal: ours, longer":        {[]string{mine, "PX", "60000"}, healSource, "90000", 1, 90000, mine},
		"heal: ours, shorter":       {[]string{mine, "PX", "60000"}, healSource, "30000", 1, 60000, mine},
		"heal: ours, forever":       {[]string{mine}, healSource, "30000", 1, 120_000, mine},
		"heal: another's":           {[]string{others, "PX", "60000"}, healSource, "90000", 0, 60000, others},
		"heal: an empty value":      {[]string{"", "PX", "60000"}, healSource, "90000", 0, 60000, ""},
		"heal: missing":             {nil, healSource, "90000", 2, 90000, mine},
		"shorten: ours":             {[]string{mine, "PX", "60000"}, shortenSource, "30000", 1, 30000, mine},
		"shorten: ours, not longer": {[]string{mine, "PX", "60000"}, shortenSource, "90000", 1, 60000, mine},
		"shorten: ours, forever":    {[]string{mine}, shortenSource, "30000", 1, 30000, mine},
		"shorten: another's":        {[]string{others, "PX", "60000"}, shortenSource, "1", 0, 60000, others},
		"shorten: missing":          {nil, shortenSource, "30000", 0, -2, ""},
	} {
		for side, do := range bothSides(t) {
			t.Run(name+"/"+side, func(t *testing.T) {
				do("DEL", "k")
				if c.set != nil {
					require.Equal(t, "OK", do(append([]string{"SET", "k"}, c.set...)...))
				}
				require.Equal(t, c.answer, do("EVAL", c.script, "1", "k", mine, c.ttl, "120000"))
				left := do("PTTL", "k").(int64)
				if c.left > 0 {
					require.LessOrEqual(t, left, c.left)
					require.Greater(t, left, c.left-10_000)
				} else {
					require.Equal(t, c.left, left)
				}
				if c.left != -2 {
					require.Equal(t, c.value, do("GET", "k"))
				}
			})
		}
	}
	server := redistest.Servers(t, 1)[0]
	for _, source := range []string{healSource, shortenSource} {
		_, err := server.Do("DEL", "k")
		require.NoError(t, err)
		_, err = server.Do("RPUSH", "k", mine)
		require.NoError(t, err)
		answer, err := server.Do("EVAL", source, "1", "k", mine, "1000")
		require.NoError(t, err)
		require.EqualValues(t, 0, answer, "a list is not our token")
	}
}
