//go:build linux && !redmux_portable

package multiplex

import (
	"testing"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// During a lookout, the poller's own goroutine stays at the sockets, whatever
// callers do in between: a push is read when it arrives, and not at the watch's
// next look.
func TestSomebodyReadsWhileSomebodyLooksOut(t *testing.T) {
	servers := redistest.Servers(t, 3)
	g := onServers(t, servers, patient)
	_, err := claimOn(background, g, "k", "t")
	require.NoError(t, err)
	l := g.Lookout([]byte("k"))
	defer l.Stop()
	for range 30 {
		require.True(t, l.Ask())
		soon(t, "the answers", func() bool {
			g.tracker.mu.Lock()
			defer g.tracker.mu.Unlock()
			return l.held.Len() == 3
		})
		require.Equal(t, roleServer, g.poller.role.Load())
		for range 3 {
			require.NoError(t, pairOn(background, g, "another"))
			soon(t, "the server takes the role again", func() bool { return g.poller.role.Load() == roleServer })
		}
	}
	for _, s := range servers {
		_, err := s.Do("DEL", "k")
		require.NoError(t, err)
	}
	<-l.Signal()
	soon(t, "the role is free again", func() bool {
		return pairOn(background, g, "another") == nil && g.poller.role.Load() == roleFree
	})
}
