package redlock

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestDefaultMaxTTL_R23(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		_, err := Init(t.Context(), m.reach(Config{}))
		require.NoError(t, err)
		c, err := New(t.Context(), m.reach(Config{}))
		require.NoError(t, err)
		defer closeNow(t, c)
		lock := mustAcquire(t, c, "r", 30*time.Second)
		_, err = c.TryAcquire(t.Context(), "r2", 31*time.Second)
		require.ErrorIs(t, err, ErrTTL)
		require.Contains(t, err.Error(), "Config.MaxTTL is 30s")
		_, err = lock.Extend(t.Context(), 31*time.Second)
		require.ErrorIs(t, err, ErrTTL)
	})
}

func TestForgetfulIsLogged(t *testing.T) {
	for _, forgetful := range []bool{true, false} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			log := &records{}
			c, err := New(t.Context(), m.reach(Config{Forgetful: forgetful, Logger: slog.New(log)}))
			require.NoError(t, err)
			defer closeNow(t, c)
			synctest.Wait()
			warned := slices.ContainsFunc(log.take(), func(r map[string]string) bool {
				return r["level"] == "WARN" && strings.Contains(r["msg"], "Forgetful")
			})
			require.Equal(t, forgetful, warned)
		})
	}
}

// Addresses of this machine among others are reported: elsewhere they are those
// of other servers.
func TestAddressesOfThisMachineAreLogged_R30(t *testing.T) {
	for _, c := range []struct {
		urls   []string
		warned string
	}{
		{[]string{"redis://localhost:1", "redis://node1:6379", "unix:///run/x"}, "localhost:1, unix:/run/x"},
		{[]string{"redis://localhost:1", "redis://127.0.0.1:2", "unix:///run/x"}, ""},
		{[]string{"redis://node0:6379", "redis://node1:6379", "redis://node2:6379"}, ""},
	} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			log := &records{}
			client, err := New(t.Context(), m.reach(Config{Nodes: Nodes(c.urls...), Logger: slog.New(log)}))
			require.NoError(t, err)
			defer closeNow(t, client)
			synctest.Wait()
			warned := ""
			for _, r := range log.take() {
				if strings.Contains(r["msg"], "on another machine") {
					require.Equal(t, "WARN", r["level"])
					warned += r["nodes"]
				}
			}
			require.Equal(t, c.warned, warned)
		})
	}
}

// A forgetful client warns of nodes whose other clients are not.
func TestForgetfulAmongOthers(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.opened(t, Config{MaxTTL: time.Second})
		c := m.client(t, Config{})
		require.Contains(t, strings.Join(c.Nodes()[0].Warnings, " "), "obey MaxTTL, which this client does not")
	})
}

// Nodes that have run for longer than MaxTTL count at once. Those that were
// just started do not, and each place says for how long (R29).
func TestUptimeCounts_R29(t *testing.T) {
	const need = 30305 * ms
	for _, uptime := range []time.Duration{0, 12 * time.Second, 32 * time.Second, 33 * time.Second, time.Minute} {
		t.Run(uptime.String(), func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				time.Sleep(uptime)
				log := &records{}
				start := time.Now()
				c := m.client(t, Config{MaxTTL: DefaultMaxTTL, Logger: slog.New(log)})
				require.Less(t, time.Since(start), 50*ms, "New does not wait")
				_, err := c.TryAcquire(t.Context(), "r", 10*time.Second)
				left := max(0, need-max(0, uptime-2*time.Second))
				if left == 0 {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorIs(t, err, ErrQuarantined)
				require.Contains(t, err.Error(), "quarantined for another")
				require.InDelta(t, left, c.Nodes()[0].QuarantineLeft, float64(50*ms))
				lock, err := c.Acquire(t.Context(), "r", 10*time.Second)
				require.NoError(t, err)
				waited := time.Since(start)
				t.Log("counts after", waited)
				require.GreaterOrEqual(t, waited, left)
				require.Less(t, waited, left+250*ms)
				require.NoError(t, lock.Release(t.Context()))
				synctest.Wait()
				says := func(text string) bool {
					return slices.ContainsFunc(log.take(), func(r map[string]string) bool {
						return strings.Contains(r["msg"], text) && strings.Contains(r["error"], "quarantined for another")
					})
				}
				if left > time.Second {
					require.True(t, says("waiting, since too few nodes count"))
				}
			})
		})
	}
}

// A node without a seal among sealed ones was flushed or started anew: its
// uptime proves nothing (R29).
func TestUptimeDoesNotCountAmongSealedNodes_R29(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		time.Sleep(time.Hour)
		m.opened(t, Config{MaxTTL: DefaultMaxTTL})
		m.nodes[1].FlushAll()
		c := m.client(t, Config{MaxTTL: DefaultMaxTTL})
		s := c.Nodes()[1]
		require.True(t, s.Quarantined)
		require.Greater(t, s.QuarantineLeft, 29*time.Second)
		mustAcquire(t, c, "r", time.Second)
	})
}

// Two clients whose sets overlap or have another size, in either order and at
// the same time: at most one of them counts, and the other ends Acquire at once
// with an error that names both sides (R30, R31).
func TestOverlappingSets_R30(t *testing.T) {
	for name, sets := range map[string][2][]int{
		"ABC, CDE":     {{0, 1, 2}, {2, 3, 4}},
		"ABC, ABCDE":   {{0, 1, 2}, {0, 1, 2, 3, 4}},
		"ABCDE, ABC":   {{0, 1, 2, 3, 4}, {0, 1, 2}},
		"one of three": {{0, 1, 2}, {1}},
	} {
		for _, together := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				simulated(t, 5, func(t *testing.T, m *memory) {
					time.Sleep(time.Minute)
					var all [2]*Client
					var errs [2]error
					open := func(i int) {
						config := Config{MaxTTL: DefaultMaxTTL}
						for _, n := range sets[i] {
							config.Nodes = append(config.Nodes, Node{URL: m.nodes[n].URL()})
						}
						all[i] = m.client(t, config)
					}
					for i := range all {
						open(i)
						if !together {
							mustAcquireFirst(t, all[0])
						}
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					start := time.Now()
					for i, c := range all {
						_, errs[i] = c.Acquire(ctx, "r", 10*time.Second)
					}
					won := 0
					for i, err := range errs {
						if err == nil {
							won++
							continue
						}
						t.Log(i, time.Since(start), err)
						require.ErrorIs(t, err, ErrNoQuorum)
						require.ErrorIs(t, err, ErrDeployment)
						require.NotErrorIs(t, err, context.DeadlineExceeded, "it is no use to wait")
						require.Regexp(t, "deployment [0-9a-f]{32} of . nodes", err.Error())
						require.Regexp(t, "this client has|belongs to no deployment|belongs to deployment .* and node . ", err.Error(), "the other side")
					}
					require.Equal(t, 1, won)
				})
			})
		}
	}
}

func mustAcquireFirst(t *testing.T, c *Client) {
	t.Helper()
	if c != nil {
		lock := mustAcquire(t, c, "first", time.Second)
		require.NoError(t, lock.Release(t.Context()))
	}
}

// All nodes lose power at once and come back empty. Clients that were there and
// fresh ones get no second lock within the first's validity, and one of them
// gets it at most MaxTTL × 1.01 + 1 s after the start (R23, R29).
func TestPowerFailure_R23_R29(t *testing.T) {
	for i, ready := range []time.Duration{0, 0, 5 * time.Second, 40 * time.Second} {
		simulated(t, []int{1, 5, 5, 5}[i], func(t *testing.T, m *memory) {
			config := Config{MaxTTL: DefaultMaxTTL}
			c := m.opened(t, config)
			time.Sleep(ready)
			first := mustAcquire(t, c, "r", DefaultMaxTTL)
			for _, n := range m.nodes {
				n.Restart()
			}
			start := time.Now()
			granted := make(chan time.Time, 2)
			for _, client := range []*Client{c, m.client(t, config)} {
				go func() {
					lock, err := client.Acquire(t.Context(), "r", time.Second)
					if err == nil {
						granted <- time.Now()
						_ = lock.Release(t.Context())
					}
				}()
			}
			at := <-granted
			require.False(t, at.Before(first.Until()), "two holders")
			require.LessOrEqual(t, at.Sub(start), DefaultMaxTTL*101/100+time.Second)
			t.Log(at.Sub(start), "after the start")
			<-granted
		})
	}
}

// Acquire waits where the set may yet be opened, and says why (R31).
func TestAcquireWaitsForTheOpening_R30_R31(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		time.Sleep(time.Minute)
		m.link(2).Refuse(true)
		log := &records{}
		c := m.client(t, Config{MaxTTL: DefaultMaxTTL, Logger: slog.New(log)})
		_, err := c.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrUnopened)
		require.Contains(t, err.Error(), "missing: node 2 ("+m.addr(2)+")")
		w := waits(t.Context(), c, "r")
		time.Sleep(5 * time.Second)
		require.True(t, slices.ContainsFunc(log.take(), func(r map[string]string) bool {
			return strings.Contains(r["msg"], "waiting, since too few nodes count") && strings.Contains(r["error"], m.addr(2))
		}))
		m.link(2).Refuse(false)
		<-w.done
		require.NoError(t, w.err)
	})
}

// A client with another MaxTTL is refused, and does not write its own into a
// node that comes back empty (R23).
func TestAnotherMaxTTLAdoptsNothing_R30(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, Config{MaxTTL: 2 * time.Second})
		odd := m.client(t, Config{MaxTTL: time.Second})
		closeNow(t, c)
		m.nodes[1].Restart()
		time.Sleep(5 * time.Second)
		require.Empty(t, m.nodes[1].Keys())
		_, err := odd.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrMaxTTL)
		c = m.client(t, Config{MaxTTL: 2 * time.Second})
		mustAcquire(t, c, "r", time.Second)
		synctest.Wait()
		seal, _ := m.nodes[1].Get(wire.SealName)
		require.Contains(t, seal, "max_ttl_ms=2000")
	})
}

// A node that comes back empty stays in its deployment: a client that saw it
// there does not take it for its own set (R30).
func TestAnEmptiedNodeIsNotTaken_R30(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		time.Sleep(time.Minute)
		set := func(nodes ...int) Config {
			config := Config{MaxTTL: time.Second}
			for _, i := range nodes {
				config.Nodes = append(config.Nodes, Node{URL: m.nodes[i].URL()})
			}
			return config
		}
		first := m.client(t, set(2, 3, 4))
		mustAcquire(t, first, "r", time.Second)
		closeNow(t, first) // so that it is not the one that adopts the node
		second := m.client(t, set(0, 1, 2))
		m.nodes[2].Restart()
		time.Sleep(20 * time.Second)
		require.Empty(t, slices.Concat(m.nodes[0].Keys(), m.nodes[1].Keys(), m.nodes[2].Keys()))
		_, err := second.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Contains(t, err.Error(), "node 2 ("+m.addr(2)+") belonged to deployment ")
		first = m.client(t, set(2, 3, 4))
		require.NoError(t, first.Ready(t.Context()))
		time.Sleep(10 * time.Second)
		require.False(t, first.Nodes()[0].Quarantined)
		_, err = second.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrDeployment)
	})
}

// The same for a client that did not see it there: the locks of the first set
// have run out before it counts (R29).
func TestAnEmptiedNodeIsTakenOnlyInTime_R29(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		time.Sleep(time.Minute)
		set := func(nodes ...int) Config {
			config := Config{MaxTTL: DefaultMaxTTL}
			for _, i := range nodes {
				config.Nodes = append(config.Nodes, Node{URL: m.nodes[i].URL()})
			}
			return config
		}
		first := m.client(t, set(2, 3, 4))
		lock := mustAcquire(t, first, "r", DefaultMaxTTL)
		closeNow(t, first)
		m.nodes[2].Restart()
		time.Sleep(5 * time.Second) // until its uptime counts
		second := m.client(t, set(0, 1, 2))
		_, err := second.Acquire(t.Context(), "r", time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, lock.Validity(), time.Duration(0), "two holders")
	})
}

// A lock is looked for in one database, so all nodes must name the same (R30).
func TestMixedDatabasesAreRefused_R30(t *testing.T) {
	mixed := Config{Nodes: Nodes("redis://user:secret@a:1", "redis://a:2/0", "redis://a:3/1")}
	_, err := New(t.Context(), mixed)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "Nodes[0] (a:1) names database 0, and Nodes[2] (a:3) database 1")
	require.NotContains(t, err.Error(), "secret")
	_, err = Init(t.Context(), mixed)
	require.ErrorIs(t, err, ErrConfig)
	for _, alike := range [][]Node{Nodes("redis://a:1/3", "redis://a:2?db=3"), Nodes("redis://a:1", "redis://a:2/0")} {
		config := Config{Nodes: alike}
		config.complete()
		_, err := config.endpoints(nil)
		require.NoError(t, err)
	}
	mixed.Allow.SameServer = true
	mixed.complete()
	_, err = mixed.endpoints(nil)
	require.NoError(t, err, "two databases of one server, in tests")
}
