package redlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// A slot that another master takes by hand, and gives back at once, comes back
// without its keys. Neither run ids nor replication histories nor epochs tell
// of that, and no connection need have heard MOVED. But the seal is gone, too.
func TestASlotThatComesBackWithoutItsKeys_R23(t *testing.T) {
	t.Parallel()
	g := redistest.Cluster(t)
	const ttl = 5 * time.Second
	c := clusterClient(t, redlock.Config{
		Prefix: "{06S}:" /* of slot 0 */, MaxTTL: ttl, Logger: slog.New(slog.DiscardHandler), Nodes: redlock.Nodes(g.URL() + "?failover=1s"),
	})
	eventually(t, inTheEnd, func() error {
		l, err := c.TryAcquire(t.Context(), "sealed", time.Second)
		_ = l.Release(t.Context())
		return err
	})
	held, err := c.Acquire(t.Context(), "r", ttl)
	require.NoError(t, err)
	before := identities(g)
	require.NoError(t, g.LoseSlot(0, g.Servers[1]))
	require.Equal(t, before, identities(g))
	for held.Validity() > 0 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		second, err := c.Acquire(ctx, "r", time.Second)
		cancel()
		require.False(t, err == nil && held.Validity() > 0, "two clients have the lock for %v", min(held.Validity(), second.Validity()))
	}
}

// identities returns what could name the servers of a cluster.
func identities(g *redistest.ClusterGroup) (all []string) {
	for _, s := range g.Servers {
		said, err := s.Do("CLUSTER", "INFO")
		for line := range strings.Lines(fmt.Sprint(said, err)) {
			if strings.Contains(line, "_epoch:") {
				all = append(all, line)
			}
		}
		for _, field := range []string{"master_replid", "master_replid2", "second_repl_offset"} {
			all = append(all, s.Info("replication", field))
		}
		all = append(all, s.Info("server", "run_id"))
	}
	return all
}
