//go:build !race

package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A quarantined node costs no allocations either (R12, R23).
func TestNothingIsAllocatedInQuarantine(t *testing.T) {
	redistest.Alone(t)
	servers := redistest.Servers(t, 5, redistest.OverTCP)
	config := Config{Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, MaxTTL: 2 * time.Hour}
	_, err := Init(t.Context(), config)
	require.NoError(t, err)
	c, err := New(t.Context(), config)
	require.NoError(t, err)
	defer closeNow(t, c)
	counting := func(n int) func() bool {
		return func() bool {
			count := 0
			for _, s := range c.Nodes() {
				if s.State == "up" && !s.Quarantined {
					count++
				}
			}
			return count == n
		}
	}
	require.Eventually(t, counting(5), 15*time.Second, ms)
	require.NoError(t, servers[3].Restart())
	require.Eventually(t, func() bool { return c.Nodes()[3].Quarantined && c.Nodes()[3].State == "up" }, 15*time.Second, ms)
	require.Eventually(t, counting(4), 15*time.Second, ms)
	require.NoError(t, c.Ready(context.Background()))
	requireNoAllocs(t, c)
}
