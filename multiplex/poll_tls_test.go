//go:build linux && !redmux_portable

package multiplex

import (
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nodes with TLS are polled as plain ones are, in both versions: no goroutine
// reads a connection. A node that is stopped under load holds up neither the
// others nor Close, is shed, and counts again when it goes on (R26, R28).
func TestPolledTLSGroup_R26_R28(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			redistest.NoLeaks(t)
			servers := redistest.Servers(t, 5, redistest.OverTLS)
			g := onServers(t, servers, func(c *Config) {
				c.VoteTimeout = 3 * time.Second
				for i := range c.Nodes {
					c.Nodes[i].TLS.MaxVersion = version
				}
			})
			require.Equal(t, All(5), g.polledNodes())
			for i := range 100 { // a lone caller
				require.NoError(t, pairOn(background, g, fmt.Sprint(i)))
			}
			var callers sync.WaitGroup
			stop := make(chan struct{})
			for i := range 32 {
				callers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
							assert.NoError(t, pairOn(background, g, fmt.Sprint(i, "-", n)))
						}
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, servers[1].Stop())
			soon(t, "the stopped node is shed", func() bool { return g.Nodes()[1].State != Up })
			require.NoError(t, servers[1].Continue())
			soon(t, "it counts again", func() bool { return g.Nodes()[1].State == Up })
			require.NoError(t, servers[2].Stop())
			time.Sleep(5 * time.Millisecond)
			close(stop)
			within(t, "callers", callers.Wait)
			require.NoError(t, servers[2].Continue())
			soon(t, "polled again", func() bool { return g.polledNodes() == All(5) })
			closesInTime(t, g)
			assert.Zero(t, g.poller.attached.Load())
		})
	}
}
