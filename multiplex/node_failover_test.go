package multiplex

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	overBound = time.Second
	// overAlone is how long a former primary may still grant: the bound, and as
	// much for a silence that was not noticed.
	overAlone = 2025 * ms
	overNeed  = fullNeed + overAlone
)

// A replicated node is one that fails over, and the servers behind it.
type replicated struct {
	*cluster
	present atomic.Int64 // the server that the node leads to
}

// inFailover runs a test on one node that fails over, behind which the servers
// come and go.
func inFailover(t *testing.T, servers int, test func(t *testing.T, g *replicated), tweaks ...func(*cluster)) {
	t.Helper()
	g := new(replicated)
	behind := func(c *cluster) {
		g.cluster = c
		n := &c.config.Nodes[0]
		addr := n.Addr
		n.Failover = conn.Failover{Expected: true, Bound: overBound}
		n.NetDial = func(ctx context.Context, network, to string) (net.Conn, error) {
			if to == addr {
				to = c.nodes[g.present.Load()].Addr()
			}
			return c.network.Dial(ctx, network, to)
		}
	}
	alone := func(c *cluster) { c.config.Nodes = c.config.Nodes[:1] }
	synctest.Test(t, func(t *testing.T) {
		newCluster(t, servers, slices.Concat([]func(*cluster){withTrust, behind}, tweaks, []func(*cluster){alone})...)
		g.waitUp(1)
		test(t, g)
	})
}

// lead makes the node lead to another server. What the former one had is on it,
// as far as named.
func (g *replicated) lead(to int, kept ...string) {
	from := g.present.Load()
	for _, key := range kept {
		if value, ok := g.nodes[from].Get(key); ok {
			g.nodes[to].DB().Set(key, value, time.Minute)
		}
	}
	if seal, ok := g.nodes[from].Get(sealKey); ok {
		g.nodes[to].DB().Set(sealKey, seal, 0)
	}
	g.nodes[to].Succeed(g.nodes[from])
	met := g.status(0).Connects
	g.present.Store(int64(to))
	g.nodes[from].DropConns()
	g.eventually(time.Second, func() bool { return g.status(0).Connects > met && g.up() == 1 }, "it is met")
}

// counts waits until the node counts, and returns how long that took.
func (g *replicated) counts() time.Duration {
	g.t.Helper()
	begun := time.Now()
	require.NoError(g.t, g.group.Ready(brief(g.t, time.Minute)))
	return time.Since(begun)
}

// A new primary counts when all locks of the former one have ended: MaxTTL
// after the end of the bound. What was true of the former one says nothing of
// it, and neither does a seal that came by replication (failover.pml: no-bound,
// bound-alone, seal-replicated).
func TestANewPrimaryCountsAfterTheBound_R23(t *testing.T) {
	inFailover(t, 2, func(t *testing.T, g *replicated) {
		g.counts()
		time.Sleep(20 * time.Second) // it is sealed by then
		g.mustClaim("k")
		assert.Equal(t, pure.Failover{Expected: true, Bound: overBound}, g.sealOn(0).Failover)
		g.lead(1)
		time.Sleep(100 * ms)
		s := g.status(0)
		assert.True(t, s.Quarantined)
		assert.Equal(t, pure.WhyPromoted, s.QuarantineWhy)
		_, err := g.claim(background, "k", "u", maxTTL)
		require.ErrorIs(t, err, ErrQuarantined)
		second := g.another(g.config)
		time.Sleep(overAlone + 100*ms)
		assert.True(t, second.Nodes()[0].Quarantined, "the seal is the former primary's")
		assert.InDelta(t, overNeed, g.counts()+overAlone+200*ms, float64(20*ms))
		g.mustClaim("k2")
		g.lead(0) // which was met before
		assert.InDelta(t, overNeed, g.counts(), float64(20*ms))
	})
}

// A slot may go to another master and come back. A client that asks for no lock
// meets its absence by a look at a key, more often than another master can have
// come to count meanwhile.
func TestAnIdleNodeIsLookedAtInEachGrace_R23(t *testing.T) {
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		looks := func() (n int) {
			for _, e := range g.nodes[0].Log() {
				if slices.Contains(e.Args, sealKey) {
					n++
				}
			}
			return n
		}
		time.Sleep(20 * time.Second) // it is sealed by then
		before := looks()
		time.Sleep(20 * time.Second)
		assert.GreaterOrEqual(t, looks()-before, 19, "one in each second")
	})
}

// Uptime is no proof. A server's own seal is one of how long ago it was
// promoted: the rest each client watches for itself, as a former primary may
// have been stopped (failover.pml: uptime-at-failover, seal-unwatched). That
// needs a bound; and a slot of a cluster comes back with an old seal.
func TestEachClientWatchesANodeThatFailsOver_R29(t *testing.T) {
	for name, c := range map[string]struct {
		bound        time.Duration
		mode         string
		first, later time.Duration
	}{
		"a bound":       {overBound, "standalone", overNeed, overAlone},
		"none is known": {-1, "standalone", fullNeed, fullNeed},
		"a cluster":     {overBound, "cluster", overNeed, overNeed},
	} {
		t.Run(name, func(t *testing.T) {
			inFailover(t, 1, func(t *testing.T, g *replicated) {
				assert.InDelta(t, c.first, g.counts(), float64(time.Second), "its uptime is a day")
				time.Sleep(20 * time.Second)
				require.GreaterOrEqual(t, g.sealOn(0).Watched, c.first)
				second := g.another(g.config)
				begun := time.Now()
				require.NoError(t, second.Ready(background))
				assert.InDelta(t, c.later, time.Since(begun), float64(20*ms))
			}, func(cl *cluster) {
				cl.replace(0, redistest.NodeConfig{Mode: c.mode, Arrangement: redistest.Arrangement{DB: cl.config.Nodes[0].DB}})
				cl.config.Allow.Cluster = true
				cl.config.Nodes[0].Failover.Bound = c.bound
			})
		})
	}
}

// inCluster runs a test on one node in cluster mode that fails over.
func inCluster(t *testing.T, test func(t *testing.T, g *replicated)) {
	t.Helper()
	inFailover(t, 1, test, func(cl *cluster) {
		cl.replace(0, redistest.NodeConfig{Mode: "cluster", Arrangement: redistest.Arrangement{DB: cl.config.Nodes[0].DB}})
		cl.config.Allow.Cluster = true
	})
}

// A master of a cluster that lost its slot for a moment has lost its keys, and
// the seal among them. Grants do not count without the seal behind them, nor
// with one that states less than is known. One that states more, as another
// client writes it, is fine.
func TestGrantsInAClusterNeedTheSeal_R23(t *testing.T) {
	write := func(g *replicated, s pure.Seal) { g.nodes[0].DB().Set(sealKey, s.String(), 0) }
	for name, c := range map[string]struct {
		change func(g *replicated, s pure.Seal)
		counts bool
	}{
		"as it was":   {func(*replicated, pure.Seal) {}, true},
		"gone":        {func(g *replicated, _ pure.Seal) { g.nodes[0].DB().Delete(sealKey) }, false},
		"states less": {func(g *replicated, s pure.Seal) { s.Watched = ms; write(g, s) }, false},
		"of another":  {func(g *replicated, s pure.Seal) { s.Run = "another"; write(g, s) }, false},
		"strange":     {func(g *replicated, _ pure.Seal) { g.nodes[0].DB().Set(sealKey, "else", 0) }, false},
		"states more": {func(g *replicated, s pure.Seal) { s.Watched += time.Hour; write(g, s) }, true},
	} {
		for _, verb := range []string{"claim", "extend"} {
			t.Run(name+"/"+verb, func(t *testing.T) {
				inCluster(t, func(t *testing.T, g *replicated) {
					g.counts()
					time.Sleep(20 * time.Second) // it is sealed by then
					g.mustClaim("k")
					c.change(g, g.sealOn(0))
					ask := func() error { return g.extend(background, "k", "t", maxTTL) }
					if verb == "claim" {
						ask = func() error { _, err := g.claim(background, "k2", "t", maxTTL); return err }
					}
					err := ask()
					time.Sleep(100 * ms)
					assert.Equal(t, !c.counts, g.status(0).Quarantined)
					if c.counts {
						require.NoError(t, err)
					} else {
						require.ErrorContains(t, err, "its seal is gone, or is another")
					}
					assert.Equal(t, 1, g.status(0).Connects)
				})
			})
		}
	}
}

// A former primary that was stopped goes on with its own seal, and accepts
// writes for the rest of its bound, while its successor counts already
// (failover.pml: seal-unwatched).
func TestAFormerPrimaryThatWasStopped_R23(t *testing.T) {
	inFailover(t, 2, func(t *testing.T, g *replicated) {
		g.counts()
		time.Sleep(20 * time.Second) // it is sealed by then
		former := g.nodes[0]
		former.Pause()
		g.lead(1)
		g.counts()
		g.mustClaim("k")
		former.Resume()
		config := g.config
		config.Nodes = slices.Clone(config.Nodes)
		config.Nodes[0].NetDial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return g.network.Dial(ctx, network, former.Addr())
		}
		second := g.another(config)
		time.Sleep(overBound * 9 / 10)
		require.Equal(t, Up, second.Nodes()[0].State)
		assert.True(t, second.Nodes()[0].Quarantined)
		former.Follow()
	})
}

// A grant counts only if the server that executed it is the one that shook
// hands: it may have become a replica, and a primary again, without a sign
// (failover.pml: replid-ignored, looked-before).
func TestAGrantCountsForTheServerThatExecutedIt_R23(t *testing.T) {
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		g.mustClaim("before")
		g.nodes[0].Rewrite()
		_, err := g.claim(background, "k", "t", maxTTL)
		require.ErrorIs(t, err, errRewritten)
		time.Sleep(100 * ms)
		assert.True(t, g.status(0).Quarantined)
	})
}

// The question follows each batch with claims or extensions, and no release; a
// lone master is not asked.
func TestOnlyNodesThatFailOverAreAsked(t *testing.T) {
	asked := func(t *testing.T, c *cluster) (claims, releases int) {
		require.NoError(t, c.group.Ready(background))
		time.Sleep(time.Second + 10*ms)
		begun, before := time.Now(), c.nodes[0].Calls("INFO")
		receipt := c.mustClaim("k")
		require.NoError(t, c.extend(background, "k", "t", maxTTL))
		claims = c.nodes[0].Calls("INFO") - before
		require.NoError(t, c.release(background, "k", "t", maxTTL, receipt))
		require.Less(t, time.Since(begun), 20*ms)
		return claims, c.nodes[0].Calls("INFO") - before - claims
	}
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		claims, releases := asked(t, g.cluster)
		assert.Equal(t, []int{2, 0}, []int{claims, releases})
	})
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		claims, releases := asked(t, c)
		assert.Zero(t, claims+releases)
	}, withTrust)
}

// Until the server has said what it is, a grant is no vote: it ends with its
// time, and with the connection (R6, R16). Then its release follows.
func TestAGrantWaitsForItsConfirmation_R6_R16(t *testing.T) {
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		time.Sleep(50 * ms)
		g.nodes[0].Delay("INFO", 200*ms)
		begun := time.Now()
		_, err := g.claim(background, "k", "t", maxTTL)
		assert.ErrorIs(t, err, ErrTimeout)
		assert.Less(t, time.Since(begun), 20*ms)
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(3*ms, cancel)
		_, err = g.claim(ctx, "k", "t2", long)
		assert.ErrorIs(t, err, context.Canceled)
		g.nodes[0].Delay("INFO", 0)
		time.Sleep(300 * ms)
		assert.NotContains(t, g.keys(), "k", "both were undone")

		g.nodes[0].Delay("INFO", 40*ms)
		time.AfterFunc(10*ms, g.nodes[0].DropConns)
		_, err = g.claim(background, "k", "t3", long)
		assert.NotErrorIs(t, err, ErrTimeout)
		g.nodes[0].Delay("INFO", 0)
		time.Sleep(2 * time.Second)
		assert.NotContains(t, g.keys(), "k")
		assert.Zero(t, g.debts())
	})
}

// A server that was silent for too long may have been stopped. Its bound did
// not pass meanwhile, whether or not the connection lived
// (failover.pml: silence-ignored).
func TestSilenceBeginsTheWatchAnew_R23(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration
		shed   time.Duration // ShedAfter
		again  bool
	}{
		"for a moment":           {silent: 500 * ms},
		"too long":               {silent: overBound + 100*ms, again: true},
		"and the connection too": {silent: overBound + 100*ms, shed: time.Minute, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			inFailover(t, 1, func(t *testing.T, g *replicated) {
				g.counts()
				g.links[0].Pause(redistest.Both)
				time.Sleep(c.silent)
				g.links[0].Resume(redistest.Both)
				time.Sleep(200 * ms)
				s := g.status(0)
				require.Equal(t, Up, s.State)
				require.Equal(t, c.again, s.Quarantined)
				if c.again {
					assert.Equal(t, pure.WhySilent, s.QuarantineWhy)
					assert.InDelta(t, overAlone, g.counts()+200*ms, float64(100*ms), "its promotion is as long ago as before")
				}
			}, withConfig(func(config *Config) { config.ShedAfter = c.shed }))
		})
	}
}

// An idle node is in contact all the time.
func TestAnIdleNodeStaysInContact(t *testing.T) {
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		time.Sleep(time.Minute)
		assert.False(t, g.status(0).Quarantined)
		assert.Equal(t, 1, g.status(0).Connects)
		g.mustClaim("k")
	})
}

// An extension on a server too young for claims counts if the node's own vote
// for the lock lasts until no former primary can let in another client; so does
// healing (failover.pml: extend-at-once, vote-of-lock, heal-at-once).
func TestExtensionsOnANewPrimary_R10(t *testing.T) {
	healing := &ExtendKind{Kind: Kind{Judge: func(v resp.Value) Vote { return Restored }, Script: true}}
	for name, c := range map[string]struct {
		voted  Set
		ends   time.Duration // after the new primary was met
		counts bool
	}{
		"its vote lasts":         {voted: 1, ends: overAlone + 50*ms, counts: true},
		"its vote ends too soon": {voted: 1, ends: overAlone - 50*ms},
		"it did not vote":        {voted: 2, ends: time.Minute},
		"its vote is over":       {voted: 1, ends: -time.Second},
	} {
		for what, kind := range map[string]*ExtendKind{"extends": extendKind, "heals": healing} {
			t.Run(name+"/"+what, func(t *testing.T) {
				inFailover(t, 2, func(t *testing.T, g *replicated) {
					g.counts()
					receipt := g.mustClaim("k")
					require.Equal(t, Set(1), receipt.Voted)
					g.lead(1, "k")
					receipt.Voted = c.voted
					command := Command{Encoded: raw(extendCommand("k", "t", maxTTL)), TTL: maxTTL, Receipt: receipt, Ends: time.Now().Add(c.ends)}
					granted, err := g.group.Extend(background, kind, &command)
					if !c.counts {
						require.ErrorIs(t, err, ErrQuarantined)
						return
					}
					require.NoError(t, err)
					assert.Equal(t, Set(1), granted)
					_, err = g.claim(background, "k2", "t", maxTTL)
					require.ErrorIs(t, err, ErrQuarantined, "claims do not count yet")
				})
			})
		}
	}
}

// A client that knows of another bound, or of none, is refused, as one with
// another MaxTTL is: for it the node counts too early.
func TestTheBoundBelongsToTheDeployment_R23(t *testing.T) {
	failover := func(bound time.Duration) func(*Config) {
		return func(c *Config) { c.Nodes[0].Failover = conn.Failover{Expected: true, Bound: bound} }
	}
	for name, c := range map[string]struct {
		change  func(*Config)
		refused bool
		bound   time.Duration
	}{
		"the same":              {change: failover(overBound), bound: overBound},
		"a shorter one":         {change: failover(overBound / 2), refused: true},
		"none":                  {change: failover(-1), refused: true},
		"a lone master":         {change: func(c *Config) { c.Nodes[0].Failover = conn.Failover{} }, refused: true},
		"a longer one, allowed": {change: func(c *Config) { failover(2 * overBound)(c); c.Allow.OtherMaxTTL = true }, bound: 2 * overBound},
		"a shorter one, allowed": {
			change: func(c *Config) { failover(overBound / 2)(c); c.Allow.OtherMaxTTL = true }, bound: overBound,
		},
		"a lone master, allowed": {
			change: func(c *Config) { c.Nodes[0].Failover = conn.Failover{}; c.Allow.OtherMaxTTL = true }, refused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFailover(t, 1, func(t *testing.T, g *replicated) {
				g.counts()
				config := g.config
				config.Nodes = append([]conn.Config(nil), config.Nodes...)
				c.change(&config)
				other := g.another(config)
				if c.refused {
					assert.ErrorIs(t, other.Ready(brief(t, 20*time.Second)), ErrMaxTTL)
					return
				}
				begun := time.Now()
				require.NoError(t, other.Ready(brief(t, 20*time.Second)))
				alone := pure.Failover{Expected: true, Bound: c.bound}.Alone(0.01)
				assert.InDelta(t, alone, time.Since(begun), float64(20*ms))
			})
		})
	}
}

// A node whose bound is not known works, and says so. So does one whose
// failover outlasts each lock.
func TestFailoverWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		bound time.Duration
		want  string
	}{
		"unknown":      {-1, "nothing is known to bound"},
		"auto":         {0, "nothing is known to bound"},
		"long":         {overBound, "outlasts every lock: a former primary may grant for 2.025s, and a lock of MaxTTL, renewed in time, has 1.333"},
		"short enough": {overBound / 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inFailover(t, 1, func(t *testing.T, g *replicated) {
				g.counts()
				g.mustClaim("k")
				s := g.status(0)
				assert.True(t, s.FailsOver)
				assert.Equal(t, max(0, c.bound), s.FailoverBound)
				if c.want == "" {
					assert.Empty(t, s.Warnings)
					return
				}
				require.Len(t, s.Warnings, 1)
				assert.Contains(t, s.Warnings[0], c.want)
			}, withConfig(func(config *Config) { config.Nodes[0].Failover.Bound = c.bound }))
		})
	}
}

// What would make a node that fails over unsafe is refused at once.
func TestUnsafeFailoverIsRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"durable": func(c *Config) { c.Durable = 1 },
		"fencing": func(c *Config) { c.Floors.Read = ping },
		"between": func(c *Config) { c.Nodes[0].Failover.Bound = 900 * time.Microsecond },
	} {
		c := Config{MaxTTL: maxTTL, Nodes: []conn.Config{{Endpoint: conn.Endpoint{Addr: "h:1", Failover: conn.Failover{Expected: true}}}}}
		change(&c)
		_, err := New(c)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "fails over")
	}
}

// A group without MaxTTL watches no server. Where one fails over it looks and
// releases, and claims and extends nothing (R23).
func TestWithoutMaxTTLNothingIsClaimedWhereANodeFailsOver_R23(t *testing.T) {
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		_, err := g.claim(background, "k", "t", maxTTL)
		require.ErrorIs(t, err, ErrUnwatched)
		require.ErrorIs(t, g.extend(background, "k", "t", maxTTL), ErrUnwatched)
		_, err = g.group.PostExtension(extendKind, &Command{Encoded: raw(extendCommand("k", "t", maxTTL)), TTL: maxTTL}, Posting{Inbox: NewOutcomes()})
		require.ErrorIs(t, err, ErrUnwatched)
		g.nodes[0].DB().Set("k", "t", time.Minute)
		require.NoError(t, g.release(background, "k", "t", maxTTL, Receipt{Sent: 1}))
		assert.False(t, g.status(0).Quarantined)
	}, withConfig(func(config *Config) { config.MaxTTL = 0 }))
}

// Servers that replicate are one vote, also after one of them was promoted
// (R22). Behind one node they may take each other's place.
func TestAPrimaryAndItsReplicaAreOneVote_R22(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, withTrust, func(c *cluster) {
			c.nodes[1].Succeed(c.nodes[0])
			c.config.Nodes[1].Failover = conn.Failover{Expected: true, Bound: overBound}
		})
		time.Sleep(time.Second)
		require.Equal(t, 1, c.up())
		for i := range 2 {
			if s := c.status(i); s.State != Up {
				assert.ErrorIs(t, s.Err, ErrSameNode)
			}
		}
	})
}

// replicas makes a server say what it has for replicas, and how many of them it
// needs. Both may change.
type replicas struct {
	maxLag int

	mu     sync.Mutex // guards the following
	needed int
	lags   []int
}

func (r *replicas) become(lags ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = lags
}

func (r *replicas) need(needed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.needed = needed
}

func (r *replicas) answer(node *redistest.Node) redistest.Hook {
	return func(_ int, args []string) ([]byte, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch strings.Join(args, " ") {
		case "CONFIG GET min-replicas-*":
			return resp.AppendCommand(nil, "min-replicas-to-write", strconv.Itoa(r.needed), "min-replicas-max-lag", strconv.Itoa(r.maxLag)), true
		case "INFO replication":
			histories := strings.Split(node.Process(), ":")[1:]
			text := fmt.Sprintf("role:master\r\nconnected_slaves:%d\r\n", len(r.lags))
			for i, lag := range r.lags {
				text += fmt.Sprintf("slave%d:ip=redis-replica-%d.redis.production.svc.cluster.local,port=6379,state=online,offset=123456789012,lag=%d,io-thread=0\r\n",
					i, i, lag)
			}
			for i, field := range []string{"master_replid", "master_replid2", "second_repl_offset"}[:len(histories)] {
				text += field + ":" + histories[i] + "\r\n"
			}
			return resp.AppendBulkString(nil, text), true
		}
		return nil, false
	}
}

// With failover=auto, the bound is that of min-replicas. It is one only if all
// replicas are needed: the others may stay with the former primary
// (failover.pml: fence-lifted).
func TestBoundFromReplicas_R23(t *testing.T) {
	for name, c := range map[string]struct {
		says  *replicas
		bound time.Duration
	}{
		"all are needed":    {&replicas{needed: 2, maxLag: 1, lags: []int{0, 1}}, 3 * time.Second},
		"one may stay":      {&replicas{needed: 1, maxLag: 1, lags: []int{0, 1}}, 0},
		"none is needed":    {&replicas{maxLag: 1, lags: []int{0}}, 0},
		"none is there":     {&replicas{needed: 1, maxLag: 1}, 3 * time.Second},
		"lags do not count": {&replicas{needed: 1, lags: []int{0}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inFailover(t, 1, func(t *testing.T, g *replicated) {
				g.counts()
				assert.Equal(t, c.bound, g.status(0).FailoverBound)
				assert.Equal(t, c.bound == 0, len(g.status(0).Warnings) > 0 && strings.Contains(g.status(0).Warnings[0], "nothing is known"))
			}, func(cl *cluster) {
				cl.config.Nodes[0].Failover.Bound = 0
				cl.nodes[0].Handle(c.says.answer(cl.nodes[0]))
			})
		})
	}
}

// INFO behind each batch, and in each look, has a line for each replica (R32).
func TestAPrimaryWithManyReplicas_R32(t *testing.T) {
	says := &replicas{needed: 200, maxLag: 1, lags: make([]int, 200)}
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		g.mustClaim("k")
		time.Sleep(20 * time.Second) // some looks
		assert.Equal(t, 1, g.status(0).Connects)
		assert.Equal(t, 3*time.Second, g.status(0).FailoverBound)
	}, func(cl *cluster) {
		cl.config.Nodes[0].Failover.Bound = 0
		cl.nodes[0].Handle(says.answer(cl.nodes[0]))
	})
}

// A primary whose replicas are too few, or too many, may not be fenced in time:
// what it grants does not count, and it counts again when they are back.
func TestGrantsNeedTheReplicas_R23(t *testing.T) {
	says := &replicas{needed: 1, maxLag: 1, lags: []int{1}}
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		g.mustClaim("k")
		for _, lags := range [][]int{{2}, nil, {0, 0}} {
			says.become(lags...)
			_, err := g.claim(background, "k2", "t", maxTTL)
			require.ErrorIs(t, err, ErrQuarantined, lags)
			time.Sleep(100 * ms)
			says.become(1)
			assert.Equal(t, 1, g.status(0).Connects)
			receipt, err := g.claim(background, "k2", "t", maxTTL)
			require.NoError(t, err)
			require.NoError(t, g.release(background, "k2", "t", maxTTL, receipt))
		}
	}, func(cl *cluster) {
		cl.config.Nodes[0].Failover.Bound = 0
		cl.nodes[0].Handle(says.answer(cl.nodes[0]))
	})
}

// Before a replica is added, the number that is needed is raised. No client
// begins anew.
func TestTheNumberOfReplicasMayGrow_R23(t *testing.T) {
	says := &replicas{needed: 1, maxLag: 1, lags: []int{1}}
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		says.need(2)
		says.become(0, 0)
		time.Sleep(pure.LookRarely + time.Second)
		g.mustClaim("k")
		says.become(0)
		_, err := g.claim(background, "k2", "t", maxTTL)
		require.ErrorIs(t, err, ErrQuarantined, "two are needed now")
		assert.Equal(t, 1, g.status(0).Connects)
	}, func(cl *cluster) {
		cl.config.Nodes[0].Failover.Bound = 0
		cl.nodes[0].Handle(says.answer(cl.nodes[0]))
	})
}

// A deployment that was opened without a bound has none, also while a later
// primary lacks a replica, and so would have one.
func TestADeploymentWithoutABoundHasNone(t *testing.T) {
	inFailover(t, 2, func(t *testing.T, g *replicated) {
		g.counts()
		time.Sleep(20 * time.Second)
		require.Equal(t, pure.Failover{Expected: true}, g.sealOn(0).Failover)
		g.lead(1)
		g.counts()
		g.mustClaim("k")
		s := g.status(0)
		assert.Zero(t, s.FailoverBound)
		assert.Equal(t, 2, s.Connects)
	}, func(cl *cluster) {
		cl.config.Nodes[0].Failover.Bound = 0
		cl.nodes[0].Handle((&replicas{needed: 1, maxLag: 1, lags: []int{0, 0}}).answer(cl.nodes[0]))
		cl.nodes[1].Handle((&replicas{needed: 1, maxLag: 1, lags: []int{0}}).answer(cl.nodes[1]))
	})
}

// Where a deployment has no bound, its seals prove nothing, also to a client
// that reads one off the server.
func TestASealWithoutABoundProvesNothing_R23(t *testing.T) {
	says := &replicas{needed: 1, maxLag: 1, lags: []int{0, 0}}
	inFailover(t, 1, func(t *testing.T, g *replicated) {
		g.counts()
		time.Sleep(20 * time.Second) // it is sealed by then
		says.become(0)
		second := g.another(g.config)
		begun := time.Now()
		require.NoError(t, second.Ready(background))
		alone := pure.Failover{Expected: true, Bound: pure.BoundByReplicas(1, 1, time.Second)}.Alone(0.01)
		assert.InDelta(t, fullNeed+alone, time.Since(begun), float64(20*ms))
		assert.Zero(t, second.Nodes()[0].FailoverBound)
	}, func(cl *cluster) {
		cl.config.Nodes[0].Failover.Bound = 0
		cl.nodes[0].Handle(says.answer(cl.nodes[0]))
	})
}

// A bound holds by the replication history alone. A user who may not ask for
// it waits for nothing (R31). With failover=auto there is no bound then.
func TestABoundNeedsTheHistory_R31(t *testing.T) {
	for bound, refused := range map[time.Duration]bool{overBound: true, 0: false, -1: false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1, withTrust, func(c *cluster) {
				c.config.Nodes[0].Failover = conn.Failover{Expected: true, Bound: bound}
				says := (&replicas{needed: 1, maxLag: 1}).answer(c.nodes[0])
				c.nodes[0].Handle(func(id int, args []string) ([]byte, bool) {
					if args[0] != "CONFIG" {
						return nil, false
					}
					return says(id, args)
				})
				c.nodes[0].Refuse("NOPERM no", "INFO")
			})
			err := c.group.Ready(brief(t, 20*time.Second))
			if !refused {
				require.NoError(t, err, bound)
				require.Zero(t, c.status(0).FailoverBound)
				return
			}
			require.ErrorIs(t, err, ErrPermissions)
			var undecided *UndecidedError
			require.ErrorAs(t, err, &undecided)
			require.Equal(t, 1, undecided.Lasting(time.Time{}, 0))
		})
	}
}
