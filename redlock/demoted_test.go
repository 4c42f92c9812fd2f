package redlock

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

// A master that was a replica for a moment has forgotten locks. A client that
// is connected and idle does not count its grants even if no look falls into
// that moment: the server says that it has emptied its keys before it replies
// to anything later.
func TestADemotionBetweenTwoLooksIsSeen_R23(t *testing.T) {
	for name, stay := range map[string]time.Duration{"promoted at once": 0, "a moment later": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 3 * time.Second
			servers := redistest.Servers(t, 2, redistest.OfOneKind, redistest.OverTCP, redistest.Args("--repl-diskless-sync-delay", "0"))
			master, other := servers[0], servers[1]
			replicate := func(from, to *redistest.Server) {
				host, port, err := net.SplitHostPort(to.TCPAddr())
				require.NoError(t, err)
				_, err = from.Do("REPLICAOF", host, port)
				require.NoError(t, err)
				require.Eventually(t, func() bool {
					info, err := from.Do("INFO", "replication")
					text, _ := info.(string)
					return err == nil && strings.Contains(text, "master_link_status:up")
				}, 10*time.Second, time.Millisecond)
				time.Sleep(stay)
				_, err = from.Do("REPLICAOF", "NO", "ONE")
				require.NoError(t, err)
			}
			config := Config{Nodes: Nodes(master.URL()), MaxTTL: ttl}
			_, err := Init(t.Context(), config)
			require.NoError(t, err)
			replicate(other, master)
			first, second := opened(t, config), opened(t, config)
			time.Sleep(pure.LookRarely + time.Second) // until looks are rare

			lock, err := first.Acquire(t.Context(), "r", ttl)
			require.NoError(t, err)
			replicate(master, other)
			_, err = second.TryAcquire(t.Context(), "r", ttl)
			if lock.Validity() > 0 {
				require.ErrorIs(t, err, ErrNoQuorum)
			}
		})
	}
}

// opened returns a client whose nodes count.
func opened(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	require.NoError(t, c.Ready(t.Context()))
	return c
}
