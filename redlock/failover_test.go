package redlock

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node fails over again and again, and its former primary goes on accepting
// writes for most of the bound: no two callers have a lock at one time.
func TestFailoverKeepsExclusion_R23(t *testing.T) {
	redistest.Alone(t)
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			w := newTrial(t, nodes, 4)
			failovers := redistest.Few(2, 4)
			all := w.run(failovers)
			t.Logf("%d spells, grants by failover: %v", len(w.truth.spells), w.grants)
			for i := range failovers {
				assert.NotZero(t, w.grants[i])
			}
			if w.late {
				t.Skip("this machine was too slow for the bound of the trial")
			}
			assert.Empty(t, all)
		})
	}
}

// The votes that a lock goes by are those of the last round that lengthened it:
// the keys of other nodes end earlier (failover.pml: vote-of-lock).
func TestVotesOfALock_R10(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		until time.Duration // after an extension of a lock with a minute left
		want  multiplex.Set
	}{
		"longer":     {time.Hour, 0b110},
		"as it was":  {time.Minute, 0b010},
		"by no time": {time.Minute + 1, 0b110},
	} {
		l := Lock{until: now.Add(c.until)}
		l.grant.Receipt.Voted = 0b011
		l.votedBy(0b110, now.Add(time.Minute))
		assert.Equal(t, c.want, l.grant.Receipt.Voted, name)
	}
}

// A Forgetful client looks at a node that fails over, and takes no locks there.
func TestForgetfulClientsTakeNoLocksAfterAFailover_R23(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	c, err := New(t.Context(), Config{Forgetful: true, Logger: slog.New(slog.DiscardHandler), Nodes: Nodes(redistest.URLs(servers)[0] + "?failover=unknown")})
	require.NoError(t, err)
	defer c.Close(t.Context())
	_, err = c.Acquire(t.Context(), "r", time.Second)
	require.ErrorIs(t, err, errForgetful)
	require.Equal(t, multiplex.Up, c.Nodes()[0].State)
}

// The grants of a lock, of its extension and of a renewal are remembered.
func TestReceiptsNameTheVoters(t *testing.T) {
	servers := redistest.Servers(t, 3)
	c, err := New(t.Context(), Config{MaxTTL: 2 * time.Second, NodeTimeout: time.Second, Nodes: Nodes(redistest.URLs(servers)...)})
	require.NoError(t, err)
	defer c.Close(t.Context())
	lock, err := c.Acquire(t.Context(), "r", time.Second)
	require.NoError(t, err)
	require.GreaterOrEqual(t, lock.grant.Receipt.Voted.Len(), 2)
	lock.grant.Receipt.Voted = 0
	longer, err := lock.Extend(t.Context(), 2*time.Second)
	require.NoError(t, err)
	require.GreaterOrEqual(t, longer.grant.Receipt.Voted.Len(), 2)
	require.NoError(t, longer.Release(t.Context()))
	h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: time.Second})
	require.NoError(t, err)
	defer h.Release(t.Context())
	h.mu.Lock()
	first := h.lock.until
	h.lock.grant.Receipt.Voted = 0
	h.mu.Unlock()
	require.Eventually(t, func() bool { return h.Until().After(first) }, 10*time.Second, 10*time.Millisecond)
	require.GreaterOrEqual(t, h.Current().grant.Receipt.Voted.Len(), 2)
}

// A hold whose key has not reached the new primary says why it is lost.
func TestAHoldThatIsLostInAFailoverSaysSo(t *testing.T) {
	t.Parallel()
	servers := redistest.Servers(t, 2, redistest.OverTCP, redistest.OfOneKind)
	name := newSwitchboard(t, servers[0].TCPAddr())
	require.NoError(t, servers[1].Follow(servers[0])) // and gets the seal
	require.Eventually(t, func() bool { return servers[1].Info("replication", "master_link_status") == "up" }, time.Minute, 10*time.Millisecond)
	c, err := New(t.Context(), Config{MaxTTL: 6 * time.Second, Logger: slog.New(slog.DiscardHandler), Nodes: Nodes("redis://" + name.addr() + "?failover=1s")})
	require.NoError(t, err)
	defer c.Close(t.Context())
	require.NoError(t, c.Ready(t.Context()))
	h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: 6 * time.Second})
	require.NoError(t, err)
	for _, command := range [][]string{{"REPLICAOF", "NO", "ONE"}, {"DEL", "r"}} {
		_, err = servers[1].Do(command...)
		require.NoError(t, err)
	}
	name.lead(servers[1].TCPAddr())
	<-h.Context().Done()
	var lost *LostError
	require.ErrorAs(t, h.Err(), &lost)
	require.True(t, lost.NotHeld, "%v", lost)
	require.ErrorIs(t, lost, ErrNotHeld)
	require.ErrorIs(t, lost.Nodes[0].Err, ErrQuarantined)
	require.ErrorContains(t, lost, "it is not ours any more")
	require.ErrorContains(t, lost, "lock is not held: quarantined for another")
	require.ErrorContains(t, lost, "another server took the node's place")
}
