package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
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

// New warns of Forgetful, and of addresses of this machine among others, which
// elsewhere are those of other servers (R30).
func TestWarningsOfNew_R30(t *testing.T) {
	mixed := Nodes("redis://localhost:1", "redis://node1:6379", "unix:///run/x")
	for _, c := range []struct {
		config Config
		warned string
	}{
		{Config{Forgetful: true}, "Forgetful"},
		{Config{}, ""},
		{Config{Nodes: mixed}, "on another machine localhost:1, unix:/run/x"},
		{Config{Nodes: Nodes("redis://localhost:1", "redis://127.0.0.1:2", "unix:///run/x")}, ""},
		{Config{Nodes: Nodes("redis://node0:6379", "redis://node1:6379", "redis://node2:6379")}, ""},
	} {
		simulated(t, anyNumber, func(t *testing.T, m *memory) {
			log := &records{}
			c.config.Logger = slog.New(log)
			client, err := New(t.Context(), m.reach(c.config))
			require.NoError(t, err)
			defer closeNow(t, client)
			synctest.Wait()
			warned := ""
			for _, r := range log.take() {
				for _, words := range []string{"Forgetful", "on another machine"} {
					if strings.Contains(r["msg"], words) {
						require.Equal(t, "WARN", r["level"])
						warned = strings.TrimSpace(words + " " + r["nodes"])
					}
				}
			}
			require.Equal(t, c.warned, warned)
		})
	}
}

// A forgetful client obeys and writes no seal, and warns of nodes whose other
// clients do (R23 is off).
func TestForgetfulClientsWriteNoSeal_R23(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		mustAcquire(t, c, "r", time.Hour)
		time.Sleep(30 * time.Second)
		for i, n := range m.nodes {
			require.Equal(t, []string{"r"}, n.Keys())
			require.Empty(t, c.Nodes()[i].Warnings)
			require.False(t, c.Nodes()[i].Quarantined)
		}
		m.opened(t, Config{MaxTTL: time.Second})
		again := m.client(t, Config{})
		require.Contains(t, strings.Join(again.Nodes()[0].Warnings, " "), "obey MaxTTL, which this client does not")
	})
}

// Nodes that have run for longer than MaxTTL count at once. Those that were
// just started do not, and each place says for how long (R29).
func TestUptimeCounts_R29(t *testing.T) {
	const need = 30305 * ms
	for _, uptime := range []time.Duration{0, 12 * time.Second, 32 * time.Second, 33 * time.Second, time.Minute} {
		simulatedAs(t, uptime.String(), 3, func(t *testing.T, m *memory) {
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
	}
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
			config := m.set(nodes...)
			config.MaxTTL = time.Second
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
		first := m.client(t, m.set(2, 3, 4))
		lock := mustAcquire(t, first, "r", DefaultMaxTTL)
		closeNow(t, first)
		m.nodes[2].Restart()
		time.Sleep(5 * time.Second) // until its uptime counts
		second := m.client(t, m.set(0, 1, 2))
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
	_, err = Init(t.Context(), mixed)
	require.ErrorIs(t, err, ErrConfig, "a server belongs to a deployment with one of them")
	mixed.Forgetful = true
	mixed.complete()
	_, err = mixed.endpoints(nil)
	require.NoError(t, err, "two databases of one server, in tests")
}

// set returns a configuration that names some of the nodes.
func (m *memory) set(nodes ...int) Config {
	config := Config{MaxTTL: DefaultMaxTTL}
	for _, i := range nodes {
		config.Nodes = append(config.Nodes, Node{URL: m.nodes[i].URL()})
	}
	return config
}

// A proxy answers PING and AUTH, and not much else; twemproxy ends the
// connection. It is refused with the advice to name the masters, and a wait for
// it to become a server ends (R22, R31).
func TestProxiesAreRefused_R22_R31(t *testing.T) {
	for name, unknown := range map[string]string{
		"twemproxy":                    "",
		"envoy":                        "-ERR unknown command '%s', with args beginning with: \r\n",
		"envoy, older":                 "-unsupported command '%s'\r\n",
		"envoy, with the wrong number": "-invalid request\r\n",
	} {
		for _, user := range []string{"", ":hunter2"} {
			simulated(t, 1, func(t *testing.T, m *memory) {
				m.usual()
				m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					switch strings.ToUpper(args[0]) {
					case "PING":
						return []byte("+PONG\r\n"), true
					case "AUTH":
						return []byte("+OK\r\n"), true
					}
					if unknown == "" {
						m.nodes[0].DropConns()
					}
					return []byte(strings.ReplaceAll(unknown, "%s", args[0])), true
				})
				c := m.client(t, Config{Nodes: Nodes(m.url(0, user))})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_, err := c.Acquire(ctx, "r", 10*time.Second)
				require.ErrorIs(t, err, ErrNoQuorum, name)
				require.ErrorIs(t, err, conn.ErrProxy, name)
				require.ErrorContains(t, err, "looks like a proxy")
				require.ErrorContains(t, err, "name the masters themselves")
				require.NotContains(t, err.Error(), "hunter2")
			})
		}
	}
}

// A user with the documented rights is denied nothing that a client does with
// plain locks, Inspect among it, so that ACL LOG shows what matters (R22).
func TestTheDocumentedRightsLeaveNoDenial_R22(t *testing.T) {
	server := redistest.Servers(t, 1, redistest.OverTCP)[0]
	user := append([]string{"ACL", "SETUSER", "locker", "on", ">hunter2", "~lock:*"}, strings.Fields(pure.Rights)...)
	_, err := server.Do(user...)
	require.NoError(t, err)
	for _, newer := range []string{"+client|setinfo", "+delex", "+delifeq"} {
		_, _ = server.Do("ACL", "SETUSER", "locker", newer) // an error where it is unknown
	}
	config := Config{Nodes: Nodes("redis://" + server.TCPAddr()), Username: "locker", Password: "hunter2", Prefix: "lock:", Connect: Connect{ClientName: "me"}}
	_, err = Init(t.Context(), config)
	require.NoError(t, err)
	for name, change := range map[string]func(*Config){
		"plain": func(*Config) {}, "Owner": func(c *Config) { c.Owner = "host-1" }, "Fenced": func(c *Config) { c.Fenced = true },
		"RESP2": func(c *Config) { c.Nodes = Nodes(c.Nodes[0].URL + "?protocol=2") }, "Forgetful": func(c *Config) { c.Forgetful = true },
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			change(&config)
			c, err := New(t.Context(), config)
			require.NoError(t, err)
			defer closeNow(t, c)
			require.NoError(t, c.Ready(t.Context()))
			lock, err := c.Acquire(t.Context(), name, 10*time.Second)
			require.NoError(t, err)
			seen, err := Inspect(t.Context(), c, name)
			require.NoError(t, err)
			require.NoError(t, seen.Nodes[0].Err)
			lock, err = lock.Extend(t.Context(), 20*time.Second)
			require.NoError(t, err)
			other, err := New(t.Context(), config)
			require.NoError(t, err)
			defer closeNow(t, other)
			w := waits(t.Context(), other, name)
			time.Sleep(50 * ms)
			require.NoError(t, lock.Release(context.Background()))
			<-w.done
			require.NoError(t, w.err)
			require.NoError(t, w.lock.Release(context.Background()))
		})
	}
	log, err := server.Do("ACL", "LOG")
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(log), "reason", "%v", log)
}

// A user with the rights of an older rule may not run CLIENT INFO. A client
// finds out once, and not with each connect (R22).
func TestWhatTheUserMayNotDoIsTriedOnce_R22(t *testing.T) {
	server := redistest.Servers(t, 1, redistest.OverTCP)[0]
	user := append([]string{"ACL", "SETUSER", "locker", "on", ">hunter2", "~lock:*"}, strings.Fields(pure.Rights)...)
	_, err := server.Do(append(user, "-client|info")...)
	require.NoError(t, err)
	c, err := New(t.Context(), Config{
		Nodes: Nodes("redis://" + server.TCPAddr()), Username: "locker", Password: "hunter2", Prefix: "lock:", Forgetful: true,
	})
	require.NoError(t, err)
	defer closeNow(t, c)
	for range 3 {
		require.NoError(t, c.Ready(t.Context()))
		before := c.Nodes()[0].Connects
		_, err = server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return c.Nodes()[0].Connects > before && c.Nodes()[0].State == NodeUp }, 10*time.Second, ms)
	}
	log, err := server.Do("ACL", "LOG")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(fmt.Sprint(log), "object client|info"), "%v", log)
	require.Contains(t, fmt.Sprint(log), "[count 1 reason command context toplevel object client|info", "%v", log)
}

// The rights in documents and manifests are those of the tests' users.
func TestRightsAreTheSameEverywhere_R22(t *testing.T) {
	for _, c := range []struct{ file, says string }{
		{"docs/deploy.md", "ACL SETUSER redlock reset on >PASSWORD resetchannels ~lock:* " + pure.Rights + " ```"},
		{"docs/deploy.md", "ACL SETUSER redlock " + pure.RightToIntroduce + " ```"},
		{"docs/deploy.md", "[fair locks](guide.md#in-order) need `" + pure.RightsOfQueues + "`"},
		{"docs/deploy.md", "[semaphores](guide.md#a-few-at-a-time) `" + pure.RightsOfPermits + "`"},
		{"docs/deploy.md", "`redlock list` and `admin.List` need `" + pure.RightToList + "` besides"},
		{"contrib/kubernetes/masters.yaml", "user redlock on >CHANGE-ME resetchannels ~lock:* " + pure.Rights + " " + pure.RightToIntroduce + " ---"},
	} {
		text, err := os.ReadFile("../" + c.file)
		require.NoError(t, err)
		require.True(t, strings.Contains(strings.Join(strings.Fields(string(text)), " "), c.says), "%s does not say: %s", c.file, c.says)
	}
}

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
			var clients [2]*Client
			for i := range clients {
				clients[i], err = New(t.Context(), config)
				require.NoError(t, err)
				defer closeNow(t, clients[i])
				require.NoError(t, clients[i].Ready(t.Context()))
			}
			time.Sleep(pure.LookRarely + time.Second) // until looks are rare

			lock, err := clients[0].Acquire(t.Context(), "r", ttl)
			require.NoError(t, err)
			replicate(master, other)
			_, err = clients[1].TryAcquire(t.Context(), "r", ttl)
			if lock.Validity() > 0 {
				require.ErrorIs(t, err, ErrNoQuorum)
			}
		})
	}
}
