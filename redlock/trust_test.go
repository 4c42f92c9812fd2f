package redlock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// sealOf returns the text of a seal of a deployment of three nodes, of which
// clients know the last two by the addresses of the memory's.
func (m *memory) sealOf(run string, maxTTL, watched time.Duration) string {
	members := []string{"0123456789abcde0", "0123456789abcde1", "0123456789abcde2"}
	s := pure.Seal{Seat: pure.Seat{Member: members[0], Open: pure.IdentityOf(members)}, Run: run, MaxTTL: maxTTL, Watched: watched}
	for i := 1; i < min(3, len(m.nodes)); i++ {
		s.Names = s.Names.With(members[i], pure.NameOf(m.addr(i), m.arrangement.DB))
	}
	return s.String()
}

func TestMaxTTLBoundsWhatIsAskedFor_R23(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.opened(t, Config{MaxTTL: 2*time.Second + ms/2, MinValidity: ms})
		lock := mustAcquire(t, c, "r", 2*time.Second+ms/2)
		require.Equal(t, 2*time.Second, lock.grant.TTL, "cut to whole milliseconds, as the limit is (R4)")
		for _, ttl := range []time.Duration{2*time.Second + ms, time.Hour} {
			_, err := c.TryAcquire(t.Context(), "r2", ttl)
			require.ErrorIs(t, err, ErrTTL)
			_, err = c.Acquire(t.Context(), "r2", ttl)
			require.ErrorIs(t, err, ErrTTL)
			_, err = lock.Extend(t.Context(), ttl)
			require.ErrorIs(t, err, ErrTTL)
		}
		_, err := lock.Extend(t.Context(), 2*time.Second)
		require.NoError(t, err)
		_, err = Lock{}.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		_, err = c.TryAcquire(t.Context(), wire.SealName, time.Second)
		require.ErrorIs(t, err, ErrResource, "the seal is no lock")
	})
}

const doubtTTL, doubtMaxTTL = 3 * time.Second, 10 * time.Second

// trusting returns a client that counts all nodes.
func trusting(t *testing.T, m *memory) *Client {
	c := exactClient(t, m, Config{MaxTTL: doubtMaxTTL})
	time.Sleep(doubtMaxTTL + time.Second)
	return c
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

// A node that restarted empty may have forgotten a vote for a client whose
// attempt is still in progress. A key that was set there since proves nothing,
// so its extension does not make a lock while the node is quarantined (R10,
// R23). The model of issue 5 found it (docs/internals/safety.md, "Found by the
// model").
func TestExtensionOfAKeySetInQuarantineDoesNotCount_R23(t *testing.T) {
	for _, heal := range []bool{false, true} {
		t.Run(fmt.Sprintf("heal=%t", heal), func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) { testForgottenVote(t, m, heal) })
		})
	}
}

func testForgottenVote(t *testing.T, m *memory, heal bool) {
	const maxTTL, short = 10 * time.Second, 300 * ms
	var urls []string // the other client has separate links, which are slow to two of the nodes
	for i, n := range m.nodes {
		addr := fmt.Sprintf("node%d.slow:6379", i)
		n.Serve(m.network.Listen(addr))
		urls = append(urls, "redis://"+addr)
	}
	quick := exactClient(t, m, Config{MaxTTL: maxTTL})
	slow := m.client(t, Config{MaxTTL: maxTTL, Nodes: Nodes(urls...), NodeTimeout: 2 * time.Second})
	time.Sleep(maxTTL + time.Second) // until both trust all nodes
	m.network.At("node0.slow:6379").Latency(250*ms, ms)
	m.network.At("node1.slow:6379").Latency(500*ms, ms)

	type result struct {
		lock Lock
		err  error
	}
	slowly := make(chan result, 1)
	go func() {
		lock, err := slow.TryAcquire(context.Background(), "r", maxTTL)
		slowly <- result{lock, err}
	}()
	time.Sleep(5 * ms)
	_, voted := m.nodes[2].Get("r")
	require.True(t, voted)
	if heal {
		// The lock is older than the restart, but not on this node, which has
		// voted for another client.
		lockedThenHealed(t, m, quick, short)
	} else {
		m.nodes[2].Restart()
		time.Sleep(150 * ms) // it connects again
		lock := mustAcquire(t, quick, "r", short)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()), "a quarantined node has the key, too")
		m.network.At(m.nodes[1].Addr()).Latency(time.Hour, ms)
		time.Sleep(200 * ms)
		longer, err := lock.Extend(context.Background(), short)
		if err == nil {
			lock = longer // this was the mistake
		}
		r := <-slowly
		require.NoError(t, r.err, "the vote from before the restart counts, and so does that of node 1, where the lock has ended")
		require.Positive(t, r.lock.Validity())
		require.LessOrEqual(t, lock.Validity(), time.Duration(0), "two holders")
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, multiplex.ErrQuarantined)
		return
	}
	r := <-slowly
	require.NoError(t, r.err)
}

// lockedThenHealed takes a hold on two nodes, whose healing sets the key again
// on the third after its restart.
func lockedThenHealed(t *testing.T, m *memory, quick *Client, short time.Duration) {
	h := mustHold(t, quick, "r", HoldOptions{TTL: short, Heal: true})
	m.nodes[2].Restart()
	time.Sleep(80 * ms) // connected again before the first renewal, which is due at a third of the validity
	m.network.At(m.nodes[1].Addr()).Latency(time.Hour, ms)
	time.Sleep(100 * ms)
	require.Contains(t, m.holders("r", h.Current().Token()), 2, "it was healed")
	time.Sleep(150 * ms) // past the first validity; renewals have been retried meanwhile
	require.ErrorIs(t, h.Err(), ErrLost)
}
