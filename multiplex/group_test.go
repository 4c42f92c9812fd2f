package multiplex

import (
	"context"
	"fmt"
	"slices"
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
			t.Run(fmt.Sprintf("nodes=%d/resp%d", n, protocol), func(t *testing.T) {
				inBubble(t, n, func(t *testing.T, c *cluster) {
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
				}, withConfig(func(config *Config) {
					for i := range config.Nodes {
						config.Nodes[i].Protocol = protocol
					}
				}))
			})
		}
	}
}

// R5: the grant that completes the quorum releases the caller. Slow nodes cost
// nothing, and their later answers are accounted for.
func TestSlowNodesCostNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		for _, link := range c.links[3:] {
			link.Latency(20*ms, 20*ms)
		}
		var receipt Receipt
		assert.Equal(t, trip, took(func() { receipt = c.mustClaim("k") }))
		assert.Len(t, c.keys(), 3)
		assert.Equal(t, trip, took(func() {
			assert.NoError(t, c.release(background, "k", "t", long, receipt))
		}))
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

// R5: the refusal that makes a quorum impossible also releases the caller.
func TestRefusalDecidesEarly(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes[:3] {
			n.DB().Set("k", "stranger", time.Hour)
		}
		for _, link := range c.links[3:] {
			link.Latency(20*ms, 20*ms)
		}
		assert.Equal(t, trip, took(func() {
			_, err := c.claim(background, "k", "t", long)
			assert.Equal(t, ErrRefused, err)
		}))
		// R7: the release goes everywhere, even to nodes that refused, and
		// covers late votes.
		time.Sleep(40 * ms)
		synctest.Wait()
		for i, n := range c.nodes {
			id := c.status(i).Server.ID
			assert.Equal(t, []string{fmt.Sprintf("%d SET k t", id), fmt.Sprintf("%d release k t", id)}, story(n))
		}
		assert.Equal(t, []string{"k", "k", "k"}, c.keys(), "the stranger's keys, and no other")
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

func TestDeadMinorityCostsNothing(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.unreachable(0, 4)
		time.Sleep(time.Second)
		require.Equal(t, 3, c.up())
		var receipt Receipt
		assert.Equal(t, trip, took(func() { receipt = c.mustClaim("k") }))
		assert.Equal(t, Set(0b01110), receipt.Sent)
		assert.NoError(t, c.release(background, "k", "t", long, receipt))
		assert.Zero(t, c.debts(), "they never got the claim, so they owe nothing")
		s := c.status(0)
		assert.ErrorIs(t, s.Err, ErrDown)
		assert.Contains(t, s.Err.Error(), "refused")
	})
}

// R26: what is known is answered at once, and nothing is sent that would have
// to be undone.
func TestKnownLackOfQuorum(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.unreachable(0, 2, 4)
		c.waitUp(2)
		var err error
		assert.Zero(t, took(func() { _, err = c.claim(background, "k", "t", long) }))
		assert.Equal(t, []int{0, 2, 4}, undecided(t, err))
		assert.ErrorIs(t, err, ErrDown)
		assert.Zero(t, took(func() { err = c.extend(background, "k", "t", long) }))
		assert.Equal(t, []int{0, 2, 4}, undecided(t, err))
		time.Sleep(time.Second)
		for _, n := range c.nodes {
			assert.Empty(t, story(n), "nothing was sent")
		}
		assert.Zero(t, c.debts())

		// A release goes to the nodes that are up all the same (R9).
		assert.ErrorIs(t, c.release(background, "k", "t", long, Receipt{}), ErrUndecided)
		time.Sleep(trip)
		synctest.Wait()
		assert.Len(t, story(c.nodes[1]), 1)
	})
}

// R26: three of five are connected and silent. Each caller gets the answer
// within the vote timeout + 5 ms, with the names of the three; once they are
// shed, at once.
func TestSilentMajority(t *testing.T) {
	for _, callers := range []int{1, 128} {
		t.Run(fmt.Sprintf("callers=%d", callers), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
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
				for _, i := range []int{0, 1, 3} {
					c.nodes[i].Resume()
				}
				c.waitUp(5)
				synctest.Wait()
				assert.Empty(t, c.keys(), "R8")
				assert.Zero(t, c.debts())
			})
		})
	}
}

// Callers that keep asking do not keep silent nodes from being shed (R26): each
// of their failures queues a release, but the age of the oldest unanswered
// command counts.
func TestSilentNodesAreShedUnderLoad(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes[2:] {
			n.Pause()
		}
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

// A short TTL has a short timeout, and never more than a tenth of it (R6).
func TestTimeoutFollowsTTL(t *testing.T) {
	table := map[time.Duration]time.Duration{
		20 * time.Second:      50 * ms,
		4 * time.Second:       20 * ms,
		time.Second:           5 * ms,
		40 * time.Millisecond: 4 * ms,
	}
	for ttl, timeout := range table {
		t.Run(ttl.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				for _, n := range c.group.nodes {
					n.replyTime.Store(0)
				}
				c.nodes[0].Pause()
				c.nodes[1].Pause()
				spent := took(func() { _, err := c.claim(background, "k", "t", ttl); undecided(t, err) })
				assert.GreaterOrEqual(t, spent, timeout)
				assert.Less(t, spent, timeout+ms)
			})
		})
	}
}

// A distant node gets four times its usual reply time (R6).
func TestTimeoutFollowsReplyTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, link := range c.links {
			link.Latency(20*ms, 20*ms)
		}
		for i := range 100 {
			receipt, err := c.claim(background, fmt.Sprint("k", i), "t", long)
			require.NoError(t, err)
			require.NoError(t, c.release(background, fmt.Sprint("k", i), "t", long, receipt))
		}
		assert.InDelta(t, 40*ms, c.status(0).ReplyTime, float64(ms))
		c.nodes[0].Pause()
		c.nodes[1].Pause()
		spent := took(func() { _, err := c.claim(background, "k", "t", long); undecided(t, err) })
		assert.InDelta(t, 160*ms, spent, float64(5*ms))
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
		t.Run(fmt.Sprint(tt.trip, "/", tt.ttl), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				assert.InDelta(t, tt.trip, c.status(0).ReplyTime, float64(ms))
				_, err := c.claim(background, "k", "t", tt.ttl)
				if tt.granted {
					assert.NoError(t, err)
				} else {
					undecided(t, err)
				}
			}, func(c *cluster) {
				for _, link := range c.links {
					link.Latency(tt.trip/2, tt.trip/2)
				}
			})
		})
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
		t.Run(fmt.Sprintf("silent=%v", silent), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				if silent {
					c.nodes[0].Pause()
					c.nodes[1].Pause()
				} else {
					for _, link := range c.links {
						link.Latency(50*ms, 50*ms)
					}
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

func TestDeadlineOfContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Pause()
		c.nodes[1].Pause()
		ctx, cancel := context.WithTimeout(background, 20*ms)
		defer cancel()
		var err error
		spent := took(func() { _, err = c.claim(ctx, "k", "t", long) })
		assert.Equal(t, context.DeadlineExceeded, err)
		assert.LessOrEqual(t, spent, 35*ms)
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

		ctx, cancel := context.WithTimeout(background, 100*ms)
		defer cancel()
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

// R22: two addresses of one server are one vote.
func TestSameNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(c *cluster) {
			c.nodes[0].Serve(c.network.Listen("alias:6379"))
			c.config.Nodes[2].Addr = "alias:6379"
		})
		c.waitUp(2)
		time.Sleep(time.Second)
		require.Equal(t, 2, c.up())
		var twin *Status
		for _, s := range c.group.Nodes() {
			if s.State != Up {
				twin = &s
			}
		}
		assert.ErrorIs(t, twin.Err, ErrSameNode)
		receipt := c.mustClaim("k")
		assert.Equal(t, 2, receipt.Sent.Len())
		assert.Equal(t, 1, c.nodes[0].Calls("SET"))
	})
}

// R22: a replica, a cluster node and a sentinel are not independent masters.
func TestNotMaster(t *testing.T) {
	table := map[string]redistest.NodeConfig{
		"replica": {Role: "slave"}, "cluster": {Mode: "cluster"}, "sentinel": {Mode: "sentinel"},
	}
	for name, config := range table {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, func(c *cluster) {
					other := redistest.NewNode(config)
					t.Cleanup(func() { _ = other.Close() })
					// The reason must not be a command that a replica or a
					// cluster node refuses.
					other.Refuse("-READONLY You can't write against a read only replica.", "SCRIPT")
					other.Serve(c.network.Listen("other:6379"))
					c.config.Nodes[1].Addr = "other:6379"
				})
				c.waitUp(2)
				time.Sleep(time.Second)
				assert.ErrorIs(t, c.status(1).Err, ErrNotMaster)
				assert.Equal(t, 2, c.up())
			})
		})
	}
}

func TestWrongPasswordIsTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(c *cluster) {
			locked := redistest.NewNode(redistest.NodeConfig{Password: "right"})
			t.Cleanup(func() { _ = locked.Close() })
			locked.Serve(c.network.Listen("locked:6379"))
			c.config.Nodes[1].Addr, c.config.Nodes[1].Password = "locked:6379", "wrong"
		})
		c.waitUp(2)
		time.Sleep(5 * time.Minute)
		dials := c.network.At("locked:6379").Dials()
		assert.GreaterOrEqual(t, dials, 10)
		assert.LessOrEqual(t, dials, 20, "R26: wrong credentials to 30 s")
		assert.NotContains(t, c.status(1).Err.Error(), "wrong-", "R27")
		assert.NotContains(t, c.status(1).Err.Error(), `"wrong"`, "R27")
	})
}

// R26: an idle connection is probed every 5 s without side effects, and a dead
// one is found that way.
func TestIdleConnectionsAreProbed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		time.Sleep(31 * time.Second)
		for i, n := range c.nodes {
			assert.Equal(t, 6, n.Calls("PING"))
			assert.Equal(t, Status{State: Up, Connects: 1}, Status{
				State: c.status(i).State, Connects: c.status(i).Connects, Deaths: c.status(i).Deaths,
			})
		}
		// A connection whose peer vanished silently.
		c.links[0].HalfOpen()
		c.eventually(7*time.Second, func() bool { return c.status(0).Deaths == 1 }, "the half-open connection is found")
		assert.Equal(t, 1, c.status(0).Sheds)
		c.waitUp(3)
	})
}

func TestBusyConnectionsAreNotProbed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for range 100 {
			receipt := c.mustClaim("k")
			require.NoError(t, c.release(background, "k", "t", long, receipt))
			time.Sleep(200 * ms)
		}
		assert.Zero(t, c.nodes[0].Calls("PING"))
	})
}

// R26: a node that was only stopped counts again within 200 ms after it
// continues, however long it was stopped and whatever it was doing; and it has
// executed nothing that stays.
func TestStoppedNodeCountsAgain(t *testing.T) {
	for _, pause := range []time.Duration{300 * ms, time.Second, 4 * time.Second, 5200 * ms, 5600 * ms, 17 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.nodes[0].Pause()
				c.mustClaim("k")
				time.Sleep(pause)
				require.NotEqual(t, Up, c.status(0).State)
				c.nodes[0].Resume()
				spent := c.eventually(time.Second, func() bool { return c.status(0).State == Up }, "counts again")
				assert.LessOrEqual(t, spent, 200*ms)
			})
		})
	}
}

// The same if it stops between the handshake and the fence.
func TestNodeStoppedWhileFencingCountsAgain(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 5200 * ms, 5900 * ms, 12 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					if args[0] == "CLIENT" && args[1] == "KILL" {
						c.nodes[0].Pause()
					}
					return nil, false
				})
				c.nodes[0].Delay("SET", time.Second)
				c.mustClaim("k")
				c.eventually(time.Second, func() bool { return c.status(0).State == Fencing }, "fencing")
				c.nodes[0].Handle(func(int, []string) ([]byte, bool) { return nil, false })
				time.Sleep(pause)
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					c.nodes[0].Resume() // the first hook pauses once more; this resumes it
					return nil, false
				})
				c.nodes[0].Resume()
				spent := c.eventually(2*time.Second, func() bool { return c.status(0).State == Up }, "counts again")
				assert.LessOrEqual(t, spent, 200*ms)
			})
		})
	}
}

// R26: a node that refused connections counts again within 1.2 s.
func TestRefusingNodeCountsAgain(t *testing.T) {
	for _, away := range []time.Duration{100 * ms, 3 * time.Second, 20*time.Second + 330*ms, 3 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.unreachable(0)
				time.Sleep(away)
				dials := c.links[0].Dials()
				c.links[0].Refuse(false)
				spent := c.eventually(2*time.Second, func() bool { return c.status(0).State == Up }, "counts again")
				assert.LessOrEqual(t, spent, 1200*ms)
				assert.Equal(t, dials+1, c.links[0].Dials())
			})
		})
	}
}

// A node that completes the handshake and then dies of every command is not
// dialed at full speed forever (R26).
func TestDialsOfADyingNodeAreBounded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte("+WHAT\r\n"), args[0] == "SET" })
		ctx, cancel := context.WithTimeout(background, 70*time.Second)
		defer cancel()
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = c.claim(ctx, fmt.Sprint("k", i), "t", long)
			time.Sleep(20 * ms)
		}
		assert.LessOrEqual(t, c.links[0].Dials(), 15+70+1)
		assert.GreaterOrEqual(t, c.links[0].Dials(), 60)
	})
}

// Events of one node do not disturb the others: callers keep their round trip
// while a node comes and goes.
func TestOtherNodesAreUnaffected(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(30 * ms):
					c.nodes[0].DropConns()
				}
			}
		}()
		for i := range 300 {
			key := fmt.Sprint("k", i)
			assert.Equal(t, trip, took(func() { c.mustClaim(key) }))
		}
		close(stop)
		for i := 1; i < 3; i++ {
			assert.Zero(t, c.status(i).Deaths)
			assert.Equal(t, 300, c.nodes[i].Calls("SET"))
		}
		assert.Positive(t, c.status(0).Deaths)
	})
}

func TestOverload(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("held")
		time.Sleep(trip)
		for _, link := range c.links {
			link.Latency(20*ms, 20*ms)
		}
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

// R26: if so many nodes are behind that the others are no quorum, claims are
// refused before the backlogs are full. Releases pass, and there is room again
// when one of them reads.
func TestBehindNodesRefuseClaims(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("held")
		time.Sleep(trip)
		for i := range 2 {
			c.links[i].Window(redistest.Up, 512)
			c.links[i].Pause(redistest.Up)
		}
		claim := func(key string) (err error) {
			ctx, cancel := context.WithTimeout(background, ms)
			defer cancel()
			_, err = c.claim(ctx, key, "t", long)
			return err
		}
		refused := 0
		for i := range 200 {
			if claim(fmt.Sprintf("%0500d", i)) == ErrOverloaded {
				refused++
			}
		}
		assert.Positive(t, refused)
		for i := range 2 {
			assert.Zero(t, c.status(i).Deaths, i)
		}
		ctx, cancel := context.WithTimeout(background, ms)
		defer cancel()
		assert.NotErrorIs(t, c.release(ctx, "held", "t", long, receipt), ErrOverloaded)
		c.links[0].Resume(redistest.Up)
		time.Sleep(trip)
		_, err := c.claim(background, "again", "t", long)
		assert.NoError(t, err)
	}, withConfig(func(c *Config) {
		c.ShedAfter = time.Hour
		for i := range c.Nodes {
			c.Nodes[i].Backlog = 65536
		}
	}))
}

// R26: a quarantined node that reads makes no quorum of claims with the rest.
func TestBehindNodesRefuseClaimsAmongQuarantined(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		time.Sleep(10 * ms)
		c.nodes[2].Restart()
		c.eventually(time.Second, func() bool { return c.status(2).Connects == 2 && c.up() == 3 }, "connected again")
		c.opened()
		require.Equal(t, []int{2}, c.quarantined())
		c.links[0].Window(redistest.Up, 512)
		c.links[0].Pause(redistest.Up)
		refused := 0
		for i := range 200 {
			ctx, cancel := context.WithTimeout(background, ms)
			if _, err := c.claim(ctx, fmt.Sprintf("%0500d", i), "t", long); err == ErrOverloaded {
				refused++
			}
			cancel()
		}
		assert.Positive(t, refused)
		assert.Zero(t, c.status(0).Deaths)
		c.links[0].Resume(redistest.Up)
	}, withTrust, sealedAll, withConfig(func(c *Config) {
		c.ShedAfter = time.Hour
		for i := range c.Nodes {
			c.Nodes[i].Backlog = 65536
		}
	}))
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
		bare := func(i int) []string {
			lines := story(c.nodes[i])
			for j := range lines {
				_, lines[j], _ = cutSpace(lines[j])
			}
			return lines
		}
		first := bare(0)
		for i := 1; i < 5; i++ {
			assert.True(t, slices.Equal(first, bare(i)))
		}
	})
}

// A server without HELLO costs a second connection once, not at each redial
// (R21, R26).
func TestOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := redistest.NewNode(redistest.NodeConfig{NoHello: true, Version: "5.0.14"})
		t.Cleanup(func() { _ = old.Close() })
		c := newCluster(t, 3, func(c *cluster) {
			old.Serve(c.network.Listen("old:6379"))
			c.config.Nodes[1].Addr = "old:6379"
		})
		c.waitUp(3)
		assert.Equal(t, 2, old.Connects())
		assert.Equal(t, 2, c.status(1).Server.Protocol)
		for i := range 3 {
			receipt := c.mustClaim("k")
			assert.NoError(t, c.release(background, "k", "t", long, receipt))
			old.DropConns()
			time.Sleep(2 * time.Second)
			assert.Equal(t, 3+i, old.Connects())
		}
		c.waitUp(3)
	})
}
