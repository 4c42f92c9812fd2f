package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const wrongPassword = "-WRONGPASS invalid username-password pair or user is disabled."

// waitingCalls returns the calls that wait for a quorum.
func waitingCalls(ctx context.Context, c *Client) map[string]func() error {
	return map[string]func() error{
		"Acquire": func() error {
			_, err := c.Acquire(ctx, "a", time.Second)
			return err
		},
		"Hold": func() error {
			_, err := c.Hold(ctx, "h", HoldOptions{TTL: time.Second})
			return err
		},
		"Do": func() error {
			return c.Do(ctx, "d", time.Second, func(context.Context) error { return nil })
		},
		"Locker.Acquire": func() error {
			_, err := c.Fair("f").Acquire(ctx, time.Second)
			return err
		},
		"Ready": func() error { return c.Ready(ctx) },
	}
}

// If a cause that waiting cannot fix affects so many nodes that the rest is no
// quorum, each waiting call ends with ErrNoQuorum after one round of tries.
// With fewer such nodes, beside one that refuses connections, the call keeps
// waiting (R31).
func TestWaitingEndsWhereItCannotHelp_R31(t *testing.T) {
	for name, bad := range map[string]struct {
		node    redistest.NodeConfig
		arrange func(*redistest.Node)
		within  time.Duration
	}{
		"wrong password": {arrange: func(n *redistest.Node) { n.Refuse(wrongPassword, "HELLO") }, within: 1100 * ms},
		"no password":    {arrange: func(n *redistest.Node) { n.Refuse("-NOAUTH Authentication required.", "HELLO") }, within: 1100 * ms},
		"no permission":  {arrange: func(n *redistest.Node) { n.Refuse(noEvalsha, "EVALSHA") }, within: 1100 * ms},
		"replica":        {node: redistest.NodeConfig{Role: "slave"}, within: 200 * ms},
		"cluster":        {node: redistest.NodeConfig{Mode: "cluster"}, within: 200 * ms},
		"sentinel":       {node: redistest.NodeConfig{Mode: "sentinel"}, within: 200 * ms},
		"another MaxTTL": {arrange: func(n *redistest.Node) {
			n.DB().Set(wire.SealName, sealOf(pure.Identity{}, n.Process(), time.Hour, 2*time.Hour), 0)
		}, within: 200 * ms},
		"another protocol": {arrange: func(n *redistest.Node) {
			n.Handle(func(int, []string) ([]byte, bool) { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), true })
		}, within: 200 * ms},
	} {
		for call := range waitingCalls(t.Context(), nil) {
			for _, set := range [][2]int{{1, 3}, {2, 3}, {2, 4}} {
				many, of := set[0], set[1]
				t.Run(fmt.Sprintf("%s/%s/%d of %d", name, call, many, of), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := newMemory(t, of)
						for i := range many {
							bad.node.Arrangement = m.arrangement
							odd := redistest.NewNode(bad.node)
							if bad.arrange != nil {
								bad.arrange(odd)
							}
							defer odd.Close()
							m.nodes[i].Close()
							odd.Serve(m.network.Listen(fmt.Sprintf("odd%d:6379", i)))
							m.nodes[i] = odd
						}
						m.link(2).Refuse(true)
						c := m.client(t, Config{MaxTTL: 10 * time.Second, Logger: slog.New(new(records))})
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						start := time.Now()
						err := waitingCalls(ctx, c)[call]()
						took := time.Since(start)
						require.ErrorIs(t, err, ErrNoQuorum)
						if many == 1 {
							require.ErrorIs(t, err, context.DeadlineExceeded, "a listener may come back")
							return
						}
						require.NotErrorIs(t, err, context.DeadlineExceeded)
						require.Contains(t, err.Error(), "waiting cannot fix this")
						require.LessOrEqual(t, took, bad.within)
					})
				})
			}
		}
	}
}

// The answers of connected nodes count as well: waiting does not help a user
// who may no longer SET (R31).
func TestWaitingEndsWithoutPermissionToSet_R31(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for _, n := range m.nodes[:2] {
			n.Refuse("-NOPERM this user has no permissions to run the 'set' command", "SET")
		}
		_, err := c.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Contains(t, err.Error(), "waiting cannot fix this")
	})
}

// Only tries since the start of the call can end it. A call right after the
// password was corrected gets its lock, although the nodes have not been dialed
// since, and may not be for half a minute (R31).
func TestACauseThatWasRemovedIsForgotten_R31(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		for _, n := range m.nodes {
			n.Refuse(wrongPassword, "HELLO")
		}
		c := m.client(t, Config{Logger: slog.New(new(records))})
		_, err := c.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(100 * time.Second) // the pauses between dials have reached their maximum
		start := time.Now()
		_, err = c.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.LessOrEqual(t, time.Since(start), 31*time.Second, "and each call looks for itself")
		for _, n := range m.nodes {
			n.Refuse("", "HELLO")
		}
		for _, c := range waitingCalls(t.Context(), c) {
			require.NoError(t, c())
		}
	})
}

// All callers that wait for a resource are told soon, not only the one that
// asks the nodes (R31).
func TestWaitingInTurnEndsToo_R31(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Logger: slog.New(new(records))})
		mustAcquire(t, c, "r", 3*time.Second)
		var all []*waiting
		for range 100 {
			all = append(all, waits(t.Context(), c, "r"))
		}
		time.Sleep(time.Second)
		for _, n := range m.nodes {
			n.Refuse(wrongPassword, "HELLO")
			n.DropConns()
		}
		start := time.Now()
		for _, w := range all {
			<-w.done
			require.ErrorIs(t, w.err, ErrNoQuorum)
			require.LessOrEqual(t, w.at.Sub(start), 3*time.Second)
		}
	})
}

// If calls wait because nodes do not count, the log says so once, with the
// cause for each node, however many calls wait; and once more when that happens
// again (R31).
func TestWaitingIsReportedOnce_R31(t *testing.T) {
	for name, configured := range map[string]bool{"Logger": true, "slog.Default": false} {
		t.Run(name, func(t *testing.T) {
			log := &records{}
			config := Config{MaxTTL: 10 * time.Second}
			if configured {
				config.Logger = slog.New(log)
			} else {
				before := slog.Default()
				slog.SetDefault(slog.New(log))
				defer slog.SetDefault(before)
			}
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.opened(t, config)
				require.NoError(t, c.Ready(t.Context()))
				synctest.Wait()
				reports := func() (all []map[string]string) {
					for _, r := range log.take() {
						if r["msg"] == "redlock: waiting, since too few nodes count" {
							all = append(all, r)
						} else {
							require.True(t, configured, "nothing else is told to the default logger: %v", r)
						}
					}
					return all
				}
				require.Empty(t, reports())
				outage := func(lasts time.Duration) {
					m.link(0).Refuse(true)
					m.nodes[0].DropConns()
					m.nodes[1].Refuse(wrongPassword, "HELLO")
					m.nodes[1].DropConns()
					m.nodes[2].Restart() // quarantined
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					for i := range 100 {
						wg.Go(func() {
							lock, err := c.Acquire(ctx, fmt.Sprint("secret-", i), 2*time.Second)
							assert.ErrorIs(t, err, context.Canceled, "%v", lock)
						})
					}
					time.Sleep(lasts)
					cancel()
					wg.Wait()
					m.link(0).Refuse(false)
					m.nodes[1].Refuse("", "HELLO")
					require.NoError(t, c.Ready(t.Context()))
				}
				for _, n := range m.nodes {
					n.DropConns()
				}
				lock, err := c.Acquire(t.Context(), "r", time.Second)
				require.NoError(t, err)
				require.NoError(t, lock.Release(t.Context()))
				require.Empty(t, reports(), "a moment is nothing to report")
				outage(8 * time.Second)
				got := reports()
				require.Len(t, got, 1)
				require.Equal(t, "WARN", got[0]["level"])
				for _, part := range []string{"node 0 (node0)", "refused", "node 1 (node1)", "WRONGPASS", "node 2 (node2)", "quarantined"} {
					require.Contains(t, got[0]["error"], m.named(part))
				}
				require.NotContains(t, fmt.Sprint(got), "secret-", "R27")
				require.Equal(t, "3", got[0]["missing"])
				time.Sleep(30 * time.Second)
				mustAcquire(t, c, "r", time.Second)
				outage(8 * time.Second)
				require.Len(t, reports(), 1, "the nodes were there meanwhile, so it is news")
			})
		})
	}
}
