package multiplex

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An error names the field, its value, and the bound that it breaks.
func TestBadConfigsNameTheFieldTheValueAndTheBound(t *testing.T) {
	node := conn.Config{Endpoint: conn.Endpoint{Addr: "a:1"}}
	for says, config := range map[string]Config{
		"1 to 16 nodes, not 0":                     {},
		"1 to 16 nodes, not 17":                    {Nodes: make([]conn.Config, 17)},
		"VoteTimeout is negative: -1ns":            {Nodes: []conn.Config{node}, VoteTimeout: -1},
		"ShedAfter is negative: -1ns":              {Nodes: []conn.Config{node}, ShedAfter: -1},
		"MaxPending is negative: -1":               {Nodes: []conn.Config{node}, MaxPending: -1},
		"MaxDebts is negative: -1":                 {Nodes: []conn.Config{node}, MaxDebts: -1},
		"DriftFactor is -1: it must be at least 0": {Nodes: []conn.Config{node}, DriftFactor: -1},
		"ProbeAfter is negative: -1ns":             {Nodes: []conn.Config{node}, ProbeAfter: -1},
		"MaxTTL is 1ns: it must be between 1ms":    {Nodes: []conn.Config{node}, MaxTTL: 1},
		"DB is negative: -2":                       {Nodes: []conn.Config{{Endpoint: conn.Endpoint{Addr: "a:1", DB: -2}}}},
	} {
		_, err := New(config)
		require.ErrorContains(t, err, says)
	}
}

func TestAllHealthy(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 16} {
		for _, protocol := range []int{3, 2} {
			subBubble(t, fmt.Sprintf("nodes=%d/resp%d", n, protocol), n, func(t *testing.T, c *cluster) {
				var receipt Receipt
				assert.Equal(t, trip, took(func() { receipt = c.mustClaim("k") }), "one round trip")
				assert.Equal(t, All(n), receipt.Sent)
				synctest.Wait()
				assert.Len(t, c.keys(), n, "R2: to all nodes")

				assert.Equal(t, trip, took(func() {
					_, err := c.claim(background, "k", "other", long)
					assert.Equal(t, ErrRefused, err, "the sentinel itself")
				}))
				assert.NoError(t, c.extend(background, "k", "t", 2*long))
				assert.ErrorIs(t, c.extend(background, "k", "other", long), ErrRefused)
				assert.NoError(t, c.release(background, "k", "t", long, receipt))
				assert.ErrorIs(t, c.release(background, "k", "t", long, receipt), ErrRefused, "twice is harmless (R9)")
				synctest.Wait()
				assert.Empty(t, c.keys())
				for i := range n {
					s := c.status(i)
					assert.Equal(t, Up, s.State)
					assert.Equal(t, protocol, s.Server.Protocol)
					assert.Equal(t, [4]int{1, 0, 0, 0}, [4]int{s.Connects, s.Deaths, s.Sheds, s.Debts})
					assert.NoError(t, s.Err)
					assert.Equal(t, trip, s.ReplyTime)
				}
			}, eachNode(func(n *conn.Config) { n.Protocol = protocol }))
		}
	}
}

// R5: the grant that completes the quorum releases the caller. Slow nodes cost
// nothing, and their later answers are accounted for.
func TestSlowNodesCostNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		latency(c.links[3:], 20*ms, 20*ms)
		var receipt Receipt
		assert.Equal(t, trip, took(func() { receipt = c.mustClaim("k") }))
		assert.Len(t, c.keys(), 3)
		assert.Equal(t, trip, took(func() { assert.NoError(t, c.release(background, "k", "t", long, receipt)) }))
		time.Sleep(40 * ms)
		synctest.Wait()
		assert.Empty(t, c.keys())
		for i, n := range c.nodes {
			id := c.status(i).Server.ID
			assert.Equal(t, []string{fmt.Sprintf("%d SET k t", id), fmt.Sprintf("%d release k t", id)}, story(n))
		}
		assert.Equal(t, 5, c.up())
		assert.Zero(t, c.debts())
	})
}

// unreachable makes nodes refuse connections, and drops their open ones.
func (c *cluster) unreachable(nodes ...int) {
	for _, i := range nodes {
		c.links[i].Refuse(true)
		c.nodes[i].DropConns()
	}
	synctest.Wait()
}

// R26: three of five are connected and silent. Each caller gets the answer
// within the vote timeout + 5 ms, with the names of the three; once they are
// shed, at once and without a command.
func TestSilentMajority(t *testing.T) {
	for _, callers := range []int{1, 128} {
		subBubble(t, fmt.Sprintf("callers=%d", callers), 5, func(t *testing.T, c *cluster) {
			for _, i := range []int{0, 1, 3} {
				c.nodes[i].Pause()
			}
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					key := fmt.Sprint("k", i)
					time.Sleep(time.Duration(i) * 100 * time.Microsecond)
					var err error
					spent := took(func() { _, err = c.claim(background, key, "t", long) })
					assert.Equal(t, []int{0, 1, 3}, undecided(t, err))
					assert.ErrorIs(t, err, ErrTimeout)
					assert.GreaterOrEqual(t, spent, longTimeout)
					assert.LessOrEqual(t, spent, longTimeout+5*ms)
				})
			}
			wg.Wait()
			time.Sleep(trip)
			synctest.Wait()
			assert.Empty(t, c.keys(), "R7: nothing is left on reachable nodes")

			c.waitUp(2)
			assert.Zero(t, took(func() { _, err := c.claim(background, "k", "t", long); undecided(t, err) }))
			assert.Zero(t, took(func() { undecided(t, c.extend(background, "k", "t", long)) }))
			time.Sleep(trip)
			assert.Equal(t, callers, c.nodes[2].Calls("SET"), "nothing is sent that would have to be undone")
			for _, i := range []int{0, 1, 3} {
				c.nodes[i].Resume()
			}
			c.waitUp(5)
			synctest.Wait()
			assert.Empty(t, c.keys(), "R8")
			assert.Zero(t, c.debts())
		})
	}
}

// Callers that keep asking do not keep silent nodes from being shed (R26): each
// of their failures queues a release, but the age of the oldest unanswered
// command counts.
func TestSilentNodesAreShedUnderLoad(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		pause(c.nodes[2:])
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = c.claim(ctx, fmt.Sprint("k", i), "t", long)
					time.Sleep(time.Duration(1+i) * ms / 4)
				}
			})
		}
		spent := c.eventually(10*time.Second, func() bool { return c.up() == 2 }, "silent nodes shed")
		assert.GreaterOrEqual(t, spent, longShed)
		assert.LessOrEqual(t, spent, longShed+10*ms)
		cancel()
		wg.Wait()
	})
}

// The first claim of a fresh group gets the votes of distant nodes: the
// handshake has measured the distance, which counts up to a tenth of the TTL
// (R6).
func TestFirstVotesFromAfar_R6(t *testing.T) {
	table := []struct {
		trip, ttl time.Duration
		granted   bool
	}{
		{trip, long, true},
		{200 * ms, long, true},
		{20 * ms, time.Second, true},
		{99 * ms, time.Second, true},
		{101 * ms, time.Second, false}, // a tenth of the TTL is the most, even for four times as much
	}
	for _, tt := range table {
		subBubble(t, fmt.Sprint(tt.trip, "/", tt.ttl), 3, func(t *testing.T, c *cluster) {
			assert.InDelta(t, tt.trip, c.status(0).ReplyTime, float64(ms))
			_, err := c.claim(background, "k", "t", tt.ttl)
			if tt.granted {
				assert.NoError(t, err)
			} else {
				undecided(t, err)
			}
		}, func(c *cluster) { latency(c.links, tt.trip/2, tt.trip/2) })
	}
}

// The time of the handshake counts only until a reply was measured: a busy
// server may have delayed it.
func TestHandshakesRoundTripIsAGuess_R6(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		assert.Equal(t, 3*time.Second+trip, c.status(0).ReplyTime)
		c.nodes[0].Delay("HELLO", 0)
		c.mustClaim("k")
		time.Sleep(trip)
		synctest.Wait()
		assert.Equal(t, trip, c.status(0).ReplyTime)
	}, func(c *cluster) { c.nodes[0].Delay("HELLO", 3*time.Second) })
}

// A failed attempt's release is not a sample of a node's reply time: it was
// queued only after the failure.
func TestReplyTimeLeavesFailedAttemptsOut(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[1].Pause()
		c.nodes[2].Pause()
		for range 2 {
			_, err := c.claim(background, "k", "t", long)
			undecided(t, err)
		}
		time.Sleep(trip)
		synctest.Wait()
		assert.Equal(t, trip, c.status(0).ReplyTime)
	})
}

func TestCancellation(t *testing.T) {
	for _, silent := range []bool{true, false} {
		subBubble(t, fmt.Sprintf("silent=%v", silent), 3, func(t *testing.T, c *cluster) {
			if silent {
				c.nodes[0].Pause()
				c.nodes[1].Pause()
			} else {
				latency(c.links, 50*ms, 50*ms)
			}
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(7*ms, cancel)
			var err error
			spent := took(func() { _, err = c.claim(ctx, "k", "t", time.Hour) })
			assert.Equal(t, context.Canceled, err)
			assert.LessOrEqual(t, spent, 7*ms+15*ms, "noticed within 15 ms")
			c.nodes[0].Resume()
			c.nodes[1].Resume()
			time.Sleep(120 * ms)
			synctest.Wait()
			assert.Empty(t, c.keys(), "R7: a cancelled caller leaves nothing behind")
			for _, n := range c.nodes {
				assert.Len(t, story(n), 2)
			}
		})
	}
}

func TestContextThatHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		ctx, cancel := context.WithCancel(background)
		cancel()
		_, err := c.claim(ctx, "other", "t", long)
		assert.Equal(t, context.Canceled, err)
		assert.Equal(t, context.Canceled, c.extend(ctx, "k", "t", long))
		spent := took(func() { err = c.release(ctx, "k", "t", long, receipt) })
		assert.True(t, err == nil || err == context.Canceled, "%v", err)
		assert.LessOrEqual(t, spent, 15*ms)
		time.Sleep(trip)
		synctest.Wait()
		assert.Empty(t, c.keys(), "R9: a cancelled release was queued")
		assert.Equal(t, 1, c.nodes[0].Calls("SET"), "a cancelled claim was not")
	})
}

func TestReadyAndTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, func(c *cluster) {
			for _, link := range c.links[:3] {
				link.Refuse(true)
			}
			c.links[3].Latency(30*ms, 30*ms)
		})
		_, err := c.claim(background, "k", "t", long)
		assert.Len(t, undecided(t, err), 5)
		assert.ErrorIs(t, err, ErrConnecting)

		assert.Positive(t, took(func() { assert.NoError(t, c.group.WaitTried(background)) }))
		assert.Equal(t, 2, c.up())
		assert.NoError(t, c.group.WaitUp(background))

		ctx := brief(t, 100*ms)
		err = c.group.Ready(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []int{0, 1, 2}, undecided(t, err))

		c.links[1].Refuse(false)
		assert.NoError(t, c.group.Ready(background))
		assert.Equal(t, 3, c.up())

		go func() { time.Sleep(ms); _ = c.group.Close(background) }()
		assert.ErrorIs(t, c.group.waitUntil(background, func() bool { return false }), ErrClosed)
	})
}

// R22: a replica, a cluster node and a sentinel are not independent masters.
func TestNotMaster(t *testing.T) {
	for _, config := range []redistest.NodeConfig{{Role: "slave"}, {Mode: "cluster"}, {Mode: "sentinel"}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3, func(c *cluster) {
				// The reason must not be a command that a replica or a cluster
				// node refuses.
				c.replace(1, config).Refuse("-READONLY You can't write against a read only replica.", "SCRIPT")
			})
			c.waitUp(2)
			time.Sleep(time.Second)
			assert.ErrorIs(t, c.status(1).Err, ErrNotMaster)
			assert.Equal(t, 2, c.up())
		})
	}
}

// R26: an idle connection is probed every 5 s without side effects, and a dead
// one is found that way. A busy one is not probed.
func TestIdleConnectionsAreProbed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for range 100 {
			require.NoError(t, c.release(background, "k", "t", long, c.mustClaim("k")))
			time.Sleep(200 * ms)
		}
		assert.Zero(t, c.nodes[0].Calls("PING"))
		time.Sleep(31 * time.Second)
		for _, n := range c.nodes {
			assert.Equal(t, 6, n.Calls("PING"))
		}
		c.healthy()

		c.links[0].HalfOpen() // its peer vanished silently
		c.eventually(7*time.Second, func() bool { return c.status(0).Deaths == 1 }, "the half-open connection is found")
		assert.Equal(t, 1, c.status(0).Sheds)
		c.waitUp(3)
	})
}

// R26: a node that was only stopped counts again within 200 ms after it
// continues, however long it was stopped and whatever it was doing; one that
// refused connections, within 1.2 s and with a single dial.
func TestANodeCountsAgain_R26(t *testing.T) {
	stopped := func(c *cluster) { c.nodes[0].Pause(); c.mustClaim("k") }
	for _, x := range []struct {
		name   string
		goes   func(c *cluster)
		away   []time.Duration
		within time.Duration
	}{
		{"it was stopped", stopped, []time.Duration{300 * ms, time.Second, 4 * time.Second, 5200 * ms, 5600 * ms, 17 * time.Second}, 200 * ms},
		{"it was stopped between handshake and fence", func(c *cluster) {
			c.nodes[0].Delay("SET", time.Second)
			c.mustClaim("k")
			c.eventually(time.Second, func() bool { return c.status(0).State == Fencing }, "fencing")
			c.nodes[0].Pause()
		}, []time.Duration{time.Second, 5200 * ms, 5900 * ms, 12 * time.Second}, 200 * ms},
		{"it refused connections", func(c *cluster) { c.unreachable(0) },
			[]time.Duration{100 * ms, 3 * time.Second, 20*time.Second + 330*ms, 3 * time.Minute}, 1200 * ms},
	} {
		for _, away := range x.away {
			subBubble(t, fmt.Sprint(x.name, " for ", away), 3, func(t *testing.T, c *cluster) {
				x.goes(c)
				time.Sleep(away)
				require.NotEqual(t, Up, c.status(0).State)
				dials := c.links[0].Dials()
				c.links[0].Refuse(false)
				c.nodes[0].Resume()
				spent := c.eventually(2*time.Second, func() bool { return c.status(0).State == Up }, "counts again")
				assert.LessOrEqual(t, spent, x.within)
				assert.LessOrEqual(t, c.links[0].Dials(), dials+1)
			})
		}
	}
}

// A node that completes the handshake and then dies of every command is not
// dialed at full speed forever (R26).
func TestDialsOfADyingNodeAreBounded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte("+WHAT\r\n"), args[0] == "SET" })
		ctx := brief(t, 70*time.Second)
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = c.claim(ctx, fmt.Sprint("k", i), "t", long)
			time.Sleep(20 * ms)
		}
		assert.LessOrEqual(t, c.links[0].Dials(), 15+70+1)
		assert.GreaterOrEqual(t, c.links[0].Dials(), 60)
	})
}

func TestOverload(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("held")
		time.Sleep(trip)
		latency(c.links, 20*ms, 20*ms)
		var wg sync.WaitGroup
		var mu sync.Mutex
		errs := make(map[error]int)
		for i := range 100 {
			wg.Go(func() {
				var err error
				spent := took(func() { _, err = c.claim(background, fmt.Sprint("k", i), "t", long) })
				if err == ErrOverloaded {
					assert.Zero(t, spent, "R26: at once")
				}
				mu.Lock()
				defer mu.Unlock()
				errs[err]++
			})
		}
		synctest.Wait()
		assert.Equal(t, ErrOverloaded, c.extend(background, "held", "t", long), "extensions are refused too")
		assert.NoError(t, c.release(background, "held", "t", long, receipt), "releases pass")
		wg.Wait()
		synctest.Wait() // the slowest of three nodes has answered too
		assert.Equal(t, map[error]int{nil: 64, ErrOverloaded: 36}, errs)
		assert.Equal(t, 3*64, len(c.keys()))

		// Refused commands were not sent, and there is room again.
		_, err := c.claim(background, "again", "t", long)
		assert.NoError(t, err)
	}, withConfig(func(c *Config) { c.MaxPending = 64 }))
}

// Only rounds that wait for answers take room: answered rounds take none, even
// before the watch looks.
func TestAnsweredRoundsTakeNoRoom(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range 10 {
			_, err := c.claim(background, fmt.Sprint("k", i), "t", long)
			require.NoError(t, err)
			synctest.Wait()
		}
	}, withConfig(func(c *Config) { c.MaxPending = 1 }))
}

// R26: before commands are refused for lack of room, the node furthest behind
// is shed, and the others continue.
func TestLaggingNodeIsShedBeforeOverload(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[2].Pause()
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := 0; time.Since(start) < 100*ms; j++ {
					_, err := c.claim(background, fmt.Sprint("k", i, "-", j), "t", long)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 1, c.status(2).Sheds)
	}, withConfig(func(c *Config) { c.MaxPending = 128 }))
}

// All nodes get the same commands in the same order (R2), from a single log.
func TestSameOrderEverywhere(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%7) * 300 * time.Microsecond)
				_, _ = c.claim(background, "k", fmt.Sprint("t", i), long)
			})
		}
		wg.Wait()
		time.Sleep(trip)
		synctest.Wait()
		var orders [5][]string
		for i, n := range c.nodes {
			for _, line := range story(n) {
				_, what, _ := strings.Cut(line, " ") // without the client's id
				orders[i] = append(orders[i], what)
			}
			assert.Equal(t, orders[0], orders[i])
		}
		assert.Len(t, orders[0], 50+49)
	})
}

// R26: if so many nodes are behind that the others are no quorum, or none that
// counts for claims, claims are refused before the backlogs are full. Releases
// pass, and there is room again when one of them reads.
func TestBehindNodesRefuseClaims(t *testing.T) {
	for quarantined, behind := range map[int][]int{0: {0, 1}, 1: {0}} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("held")
			time.Sleep(trip)
			if quarantined > 0 {
				c.nodes[2].Restart()
				c.eventually(time.Second, func() bool { return c.status(2).Connects == 2 && c.up() == 3 }, "connected again")
				c.opened()
			}
			require.Len(t, c.quarantined(), quarantined)
			for _, i := range behind {
				c.links[i].Window(redistest.Up, 512)
				c.links[i].Pause(redistest.Up)
			}
			refused := 0
			for i := range 200 {
				if _, err := c.claim(brief(t, ms), fmt.Sprintf("%0500d", i), "t", long); err == ErrOverloaded {
					refused++
				}
			}
			assert.Positive(t, refused)
			assert.Zero(t, c.status(0).Deaths+c.status(1).Deaths)
			assert.NotErrorIs(t, c.release(brief(t, ms), "held", "t", long, receipt), ErrOverloaded)
			c.links[0].Resume(redistest.Up)
			time.Sleep(trip)
			_, err := c.claim(background, "again", "t", long)
			assert.NoError(t, err)
		}, withTrust, sealedAll, withConfig(func(c *Config) { c.ShedAfter = time.Hour }), eachNode(func(n *conn.Config) { n.Backlog = 65536 }))
	}
}

// R26: a node that does not read is shed because of the memory that it costs.
func TestFullBacklogSheds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.links[0].Window(redistest.Up, 512)
		c.links[0].Pause(redistest.Up)
		for i := range 200 {
			c.mustClaim(fmt.Sprint("k", i))
		}
		time.Sleep(trip)
		s := c.status(0)
		assert.NotEqual(t, Up, s.State)
		assert.ErrorIs(t, s.Err, conn.ErrStalled)
		assert.Equal(t, 1, s.Sheds)
		c.links[0].Resume(redistest.Up)
		c.waitUp(3)
	}, withConfig(func(c *Config) {
		c.ShedAfter = time.Hour
		c.Nodes[0].Backlog = 4096
	}))
}

// Many callers, many commands in one batch: each caller gets its own answer.
func TestManyCallers(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		const callers, each = 100, 10
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range each {
					key, token := fmt.Sprint("k", j), fmt.Sprint("t", i)
					receipt, err := c.claim(background, key, token, long)
					switch err {
					case nil:
						// A caller with a quorum is the only one.
						holders := 0
						for _, n := range c.nodes {
							if v, _ := n.Get(key); v == token {
								holders++
							}
						}
						assert.GreaterOrEqual(t, holders, 3)
						assert.NoError(t, c.release(background, key, token, long, receipt))
					case ErrRefused:
					default:
						assert.NoError(t, err)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(10 * trip)
		synctest.Wait()
		assert.Empty(t, c.keys())
		for i, n := range c.nodes {
			assert.Zero(t, c.status(i).Deaths)
			assert.Equal(t, callers*each, n.Calls("SET"))
		}
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		c.group.trimLocked()
		c.group.log.collect()
		assert.Zero(t, c.group.log.live, "every round was given back (R20)")
	})
}

// starve makes the next look of the watch late, as it is in a process that gets
// no CPU.
func (c *cluster) starve() {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.watcher.at.Add(-int64(5 * ms))
}

// A client that gets no CPU waits for the votes on which its outcome hinges,
// until they are there, or their nodes are shed, or a tenth of the TTL is over
// (R6). Otherwise it does not, so a lone dead node costs as little as ever.
func TestStarvedClientWaits_R6(t *testing.T) {
	const late = 100 * ms
	const silent = time.Minute
	table := []struct {
		name    string
		away    []time.Duration // how late each node is
		starved bool
		ttl     time.Duration
		took    time.Duration
		err     error // nil: granted
	}{
		{"late", []time.Duration{0, 0, late, late, late}, true, long, late, nil},
		{"all late", []time.Duration{late, late, late, late, late}, true, long, late, nil},
		{"late, and it had CPU", []time.Duration{0, 0, late, late, late}, false, long, longTimeout, ErrTimeout},
		{"three are silent", []time.Duration{0, 0, silent, silent, silent}, true, long, longShed, ErrSilent},
		{"all are silent", []time.Duration{silent, silent, silent}, true, time.Second, 100 * ms, ErrTimeout},
		{"two refuse, one is silent", []time.Duration{0, 0, 0, 0, silent}, true, long, longTimeout, ErrRefused},
	}
	for _, tt := range table {
		subBubble(t, tt.name, len(tt.away), func(t *testing.T, c *cluster) {
			if tt.err == ErrRefused {
				for _, node := range c.nodes[:2] {
					node.Handle(func(_ int, args []string) ([]byte, bool) {
						return []byte("_\r\n"), args[0] == "SET" // another holds it
					})
				}
			}
			for i, away := range tt.away {
				c.links[i].Latency(oneWay, oneWay+away)
			}
			if tt.starved {
				time.AfterFunc(trip+ms, c.starve)
			}
			var err error
			spent := took(func() { _, err = c.claim(background, "k", "t", tt.ttl) })
			require.ErrorIs(t, err, tt.err)
			assert.InDelta(t, tt.took, spent, float64(tickMost+trip))
		})
	}
}

// What was before a command was queued excuses nothing, and a configured
// timeout is used as it is (R6).
func TestStarvedClientDoesNotWait_R6(t *testing.T) {
	for configured, want := range map[time.Duration]time.Duration{0: longTimeout, 20 * ms: 20 * ms} {
		subBubble(t, fmt.Sprint("configured=", configured), 3, func(t *testing.T, c *cluster) {
			c.mustClaim("before")
			c.starve()
			time.Sleep(time.Minute)
			latency(c.links, oneWay, time.Minute)
			if configured > 0 {
				time.AfterFunc(ms, c.starve)
			}
			var err error
			spent := took(func() { _, err = c.claim(background, "k", "t", long) })
			require.ErrorIs(t, err, ErrTimeout)
			assert.InDelta(t, want, spent, float64(tickMost))
		}, withConfig(func(config *Config) { config.VoteTimeout = configured }))
	}
}

// A call whose nodes are silent returns when its context's deadline is over,
// and not at the next regular look.
func TestACallEndsWithItsDeadline_R5(t *testing.T) {
	for _, after := range []time.Duration{300 * time.Microsecond, 700 * time.Microsecond, 2200 * time.Microsecond, 7900 * time.Microsecond, 13100 * time.Microsecond, 40300 * time.Microsecond} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			latency(c.links, time.Minute, 0)
			ctx := brief(t, after)
			var err error
			spent := took(func() { _, err = c.claim(ctx, "k", "t", long) })
			require.ErrorIs(t, err, context.DeadlineExceeded, after)
			require.GreaterOrEqual(t, spent, after)
			require.Less(t, spent-after, ms, after)
		})
	}
}

// A release that is sent after its context's deadline waits for the answers for
// as long as one whose context was cancelled.
func TestAReleaseAfterItsDeadlineMayBeAnswered_R9(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		ctx := brief(t, 10*ms)
		time.Sleep(10*ms + trip) // and nothing is unanswered
		require.NoError(t, c.release(ctx, "k", "t", long, receipt))
	})
}
