package redlock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/require"
)

const doubtTTL, doubtMaxTTL = 3 * time.Second, 10 * time.Second

// trusting returns a client that counts all nodes.
func trusting(t *testing.T, m *memory) *Client {
	c := exactClient(t, m, Config{MaxTTL: doubtMaxTTL})
	time.Sleep(doubtMaxTTL + time.Second)
	return c
}

// requireHeldFor checks for a while that a hold goes on.
func requireHeldFor(t *testing.T, m *memory, h *Hold, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * ms) {
		require.NoError(t, h.Err(), "lost, while nodes %v have the key", m.holders("r", h.Current().Token()))
	}
}

// A quarantined node that still has an earlier key proves that it has forgotten
// nothing since. That also applies to a healing hold: it did not set that key
// itself (R10, R23).
func TestNodesThatKeptTheKeyCountThoughQuarantined_R23(t *testing.T) {
	for _, heal := range []bool{false, true} {
		t.Run(fmt.Sprintf("heal=%t", heal), func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				h := mustHold(t, trusting(t, m), "r", HoldOptions{TTL: doubtTTL, Heal: heal})
				time.Sleep(100 * ms)
				m.nodes[0].RestartDurably()
				m.nodes[1].RestartDurably()
				requireHeldFor(t, m, h, 7*time.Second)
			})
		})
	}
}

// A doubt about a key ends with the quarantine in which the key was set: in the
// next one the key may be older (R23).
func TestADoubtEndsWithTheQuarantine_R23(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := trusting(t, m)
		m.nodes[0].Restart()
		time.Sleep(150 * ms)
		h := mustHold(t, c, "r", HoldOptions{TTL: doubtTTL})
		time.Sleep(time.Minute)
		require.NoError(t, h.Err())
		m.nodes[0].RestartDurably()
		m.link(2).Refuse(true)
		m.nodes[2].DropConns()
		requireHeldFor(t, m, h, 7*time.Second)
	})
}

// A copy of a healing hold's lock does not learn of nodes that are healed
// later, so it must not count them (R23).
func TestACopyOfAHealingHoldDoubtsWhatWasHealedSince_R23(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		h := mustHold(t, trusting(t, m), "r", HoldOptions{TTL: doubtTTL, Heal: true})
		copied := h.Current()
		m.nodes[2].Restart()
		time.Sleep(1500 * ms)
		require.Contains(t, m.holders("r", copied.Token()), 2, "healed")
		m.network.At(m.nodes[1].Addr()).Latency(time.Hour, ms)
		time.Sleep(100 * ms)
		_, err := copied.Extend(context.Background(), doubtTTL)
		require.ErrorIs(t, err, multiplex.ErrQuarantined)
	})
}
