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
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aged runs a test on a group of the first three of n nodes that have run for
// some time.
func aged(t *testing.T, n int, age time.Duration, test func(t *testing.T, c *fleet), tweaks ...func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		f.cluster = newCluster(t, n, append(append([]func(*cluster){withTrust}, tweaks...), func(c *cluster) {
			time.Sleep(age)
			f.all = c.config.Nodes
			c.config.Nodes = c.config.Nodes[:min(3, n)]
		})...)
		test(t, f)
	})
}

// A fleet is a cluster of which groups name parts.
type fleet struct {
	*cluster
	all  []conn.Config
	keys int
}

// on starts another group, of the nodes with these indices.
func (f *fleet) on(nodes ...int) *Group { return f.with(func(*Config) {}, nodes...) }

func (f *fleet) with(tweak func(*Config), nodes ...int) *Group {
	f.t.Helper()
	config := f.config
	config.Nodes = nil
	for _, i := range nodes {
		config.Nodes = append(config.Nodes, f.all[i])
	}
	tweak(&config)
	g, err := New(config)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = g.Close(background) })
	return g
}

func lasts(limit time.Duration, wait func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	return wait(ctx)
}

// The time for which a set with a young node waits ends at a known moment. The
// watch runs then, and not at its next pass, whenever the last node came up.
func TestASetIsOpenedWhenItsWaitEnds_R26_R30(t *testing.T) {
	const young = 3 * time.Second // for how long its node waits
	for _, late := range []time.Duration{0, time.Second, 2 * time.Second, 2990 * ms, 2995 * ms, young, 3010 * ms, 3500 * ms} {
		aged(t, 3, time.Minute, func(t *testing.T, c *fleet) {
			begun := time.Now()
			time.AfterFunc(max(pure.Soon, late), func() { c.links[2].HoldDials(false) })
			c.waitUp(3)
			due := max(young, time.Since(begun))
			require.NoError(t, lasts(time.Minute, c.group.WaitOpen))
			require.LessOrEqual(t, time.Since(begun), due+20*ms, "the last node is dialed after %v", late)
		}, eachNode(func(n *conn.Config) { n.DialTimeout = time.Minute }), func(c *cluster) {
			time.AfterFunc(max(pure.Soon, time.Minute-1), c.nodes[0].Restart)
			c.links[2].HoldDials(true)
		})
	}
}

// ids returns the ids on the nodes, in order; "" for none.
func (f *fleet) ids(nodes ...int) (ids []string) {
	for _, i := range nodes {
		ids = append(ids, f.sealOn(i).Identity.ID)
	}
	return ids
}

// claimOn claims a key that no client has claimed.
func (f *fleet) claimOn(g *Group) error {
	f.keys++
	key := fmt.Sprint("k", f.keys)
	_, err := g.Claim(background, claimKind, &Claim{Bytes: setCommand(key, "t", maxTTL), TTL: maxTTL, Undo: undoing(encodedRelease(key, "t"))})
	return err
}

// shows asserts that all nodes show the identity of one deployment of them, and
// no opening.
func (f *fleet) shows(g *Group, nodes ...int) {
	f.t.Helper()
	id := g.Membership().ID
	assert.Len(f.t, id, 32)
	for _, i := range nodes {
		assert.Equal(f.t, id, f.sealOn(i).Identity.ID, "node %d", i)
		assert.Equal(f.t, len(nodes), f.sealOn(i).Identity.Nodes)
		_, opens := f.nodes[i].Get(openingKey)
		assert.False(f.t, opens, "node %d", i)
	}
}

// On nodes that have run for a while, the first client counts as soon as it has
// opened the set: a look and three steps (R29, R30).
func TestFirstClientCountsAtOnce_R29(t *testing.T) {
	aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
		require.NoError(t, f.group.Ready(background))
		assert.Less(t, f.group.now(), 12*trip+10*ms)
		f.opened()
		f.shows(f.group, 0, 1, 2)
		assert.Empty(t, f.quarantined())
		d := f.group.Membership()
		assert.Equal(t, Membership{ID: d.ID, Nodes: 3, Complete: true, Founded: true}, d)
		for i := range 3 {
			assert.GreaterOrEqual(t, f.sealOn(i).Watched, 57*time.Second, "what the uptime proves")
			assert.LessOrEqual(t, f.sealOn(i).Watched, time.Minute)
			assert.Equal(t, d.ID, f.status(i).Deployment)
			assert.WithinDuration(t, time.Now().Add(-time.Minute), f.status(i).Started, time.Second+100*ms)
		}
		f.mustClaim("k")
	})
}

// Nodes that have run for 12 s are watched for what is missing of MaxTTL, and
// say so, also while they are not opened yet.
func TestFirstClientWaitsForWhatIsMissing_R29(t *testing.T) {
	const need = 30305 * ms
	aged(t, 3, 12*time.Second, func(t *testing.T, f *fleet) {
		f.waitUp(3)
		var left time.Duration
		for range 2 {
			assert.Equal(t, []int{0, 1, 2}, f.quarantined())
			left = f.status(0).QuarantineLeft
			assert.InDelta(t, need-10*time.Second-f.group.now(), left, float64(50*ms))
			assert.Equal(t, pure.WhyYoung, f.status(0).QuarantineWhy)
			_, err := f.claim(background, "k", "t", ms)
			q := quarantineOf(t, err, 0)
			assert.Equal(t, pure.WhyYoung, q.Why)
			assert.InDelta(t, left, q.Left, float64(50*ms))
			f.opened()
		}
		assert.InDelta(t, 3*time.Second, f.group.now(), float64(50*ms))
		next := f.on(0, 1, 2)
		require.NoError(t, lasts(time.Second, next.WaitOpen))
		assert.InDelta(t, left, next.Nodes()[0].QuarantineLeft, float64(50*ms), "a seal passes on what was watched")
		require.NoError(t, f.group.Ready(background))
		assert.InDelta(t, need-10*time.Second, f.group.now(), float64(50*ms))
		require.NoError(t, lasts(50*ms, next.Ready))
	}, withConfig(func(c *Config) { c.MaxTTL = 30 * time.Second }))
}

// The account of a node that was promoted, whose clock is another, or that does
// not give one, is not believed.
func TestUptimeThatProvesNothing_R29(t *testing.T) {
	for name, c := range map[string]struct {
		does     func(c *cluster)
		believed bool
	}{
		"as it should be":      {func(c *cluster) {}, true},
		"a clock off by 0.9 s": {func(c *cluster) { c.nodes[0].Clock().Step(900 * ms) }, true},
		"a clock in advance":   {func(c *cluster) { c.nodes[0].Clock().Step(1100 * ms) }, false},
		"a clock behind":       {func(c *cluster) { c.nodes[0].Clock().Step(-1100 * ms) }, false},
		"no TIME":              {func(c *cluster) { c.nodes[0].Refuse("-NOPERM no", "TIME") }, false},
		"no INFO":              {func(c *cluster) { c.nodes[0].Refuse("-NOPERM no", "INFO") }, false},
		"it was promoted": {func(c *cluster) {
			text := "run_id:" + c.nodes[0].RunID() + "\r\nrole:master\r\nredis_mode:standalone\r\nuptime_in_seconds:60\r\nmaxmemory_policy:noeviction\r\n" +
				"master_replid2:" + strings.Repeat("ab", 20) + "\r\nsecond_repl_offset:15\r\n"
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text), args[0] == "INFO"
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			aged(t, 1, time.Minute, func(t *testing.T, f *fleet) {
				c.does(f.cluster)
				g := f.on(0)
				require.NoError(t, f.group.Close(background))
				require.NoError(t, g.Ready(background))
				if c.believed {
					assert.Less(t, g.now(), 100*ms)
				} else {
					assert.GreaterOrEqual(t, g.now(), fullNeed)
				}
			}, func(c *cluster) {
				c.links[0].HoldDials(true)
				time.AfterFunc(time.Minute+ms, func() { c.links[0].HoldDials(false) })
			})
		})
	}
}

// A node without a seal among sealed nodes was emptied: it is adopted, and
// watched in full, however long it has run (R23, R29).
func TestUnsealedAmongSealed_R29(t *testing.T) {
	aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
		require.NoError(t, f.group.Ready(background))
		f.opened()
		f.shows(f.group, 0, 1, 2)
		assert.Equal(t, []int{2}, f.quarantined())
		assert.Greater(t, f.status(2).QuarantineLeft, fullNeed-100*ms)
		assert.Less(t, f.sealOn(2).Watched, 100*ms)
	}, func(c *cluster) { c.sealed(0, 1) })
}

// Of two sets that overlap one is opened. The client of the other one is told
// both sides, and gets nothing; this also holds after a member was emptied
// (R30).
func TestOverlappingSetsOfNodes_R30(t *testing.T) {
	for name, apart := range map[string]time.Duration{"at the same time": 0, "one after the other": time.Second} {
		for _, set := range [][]int{{2, 3, 4}, {0, 1, 2, 3, 4}, {4, 2, 3}} {
			t.Run(fmt.Sprint(name, set), func(t *testing.T) {
				aged(t, 5, time.Minute, func(t *testing.T, f *fleet) {
					time.Sleep(apart)
					second := f.on(set...)
					time.Sleep(3 * time.Second)
					count := func() (counting int, loser *Group) {
						for _, g := range []*Group{f.group, second} {
							if f.claimOn(g) == nil {
								counting++
							} else {
								loser = g
							}
						}
						return counting, loser
					}
					won, loser := count()
					assert.Equal(t, 1, won)
					require.NotNil(t, loser)
					if apart > 0 {
						assert.Same(t, second, loser)
					}
					err := f.claimOn(loser)
					assert.ErrorIs(t, err, ErrDeployment)
					ids := f.ids(2)
					assert.Contains(t, err.Error(), ids[0])
					for range 5 {
						f.nodes[2].Restart()
						for range 500 {
							f.arrive()
							won, who := count()
							assert.LessOrEqual(t, won, 1)
							if won == 1 {
								assert.Same(t, loser, who)
							}
						}
						time.Sleep(3 * time.Second)
						assert.Equal(t, ids, f.ids(2), "it was adopted")
					}
				})
			})
		}
	}
}

// Clients of one set that start together agree.
func TestOneSetAtTheSameTime_R30(t *testing.T) {
	aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
		groups := []*Group{f.group}
		for range 8 {
			groups = append(groups, f.on(2, 0, 1))
		}
		for _, g := range groups {
			require.NoError(t, lasts(time.Second, g.WaitOpen))
			f.shows(g, 0, 1, 2)
			require.NoError(t, lasts(100*ms, g.Ready))
		}
	})
}

// A client has watched two of its nodes for long when the third comes back
// empty, which it saw in another set. It counts none of them before the locks
// of that set have run out: whether it opens its own set, or finds it opened by
// another client (R29).
func TestOwnWatchIsNoProof_R29(t *testing.T) {
	const longest = 10 * time.Second
	for _, another := range []bool{false, true} {
		aged(t, 5, time.Minute, func(t *testing.T, f *fleet) {
			f.opened() // 0, 1 and 2
			second := f.on(4, 3, 2)
			f.links[2].Refuse(true)
			f.nodes[2].DropConns()
			time.Sleep(2 * longest)
			f.mustClaim("k")
			claimed := time.Now()
			require.NoError(t, f.group.Close(background))
			f.nodes[2].Restart()
			f.links[2].Refuse(false)
			if another {
				f.on(2, 3, 4)
			}
			require.NoError(t, lasts(time.Minute, second.Ready))
			assert.GreaterOrEqual(t, time.Since(claimed), longest, "two holders")
			assert.Equal(t, !another, second.Membership().Founded)
		}, withConfig(func(c *Config) { c.MaxTTL = longest }))
	}
}

// A node that the deployment does not list, and that shows nothing, is a
// stranger: the client counts the members only.
func TestStranger_R30(t *testing.T) {
	aged(t, 4, time.Minute, func(t *testing.T, f *fleet) {
		f.opened()
		g := f.on(1, 2, 3)
		require.NoError(t, lasts(time.Second, g.Ready))
		assert.NoError(t, f.claimOn(g))
		f.nodes[2].Pause()
		err := f.claimOn(g)
		assert.ErrorIs(t, err, ErrUndecided)
		assert.ErrorIs(t, err, ErrDeployment)
		assert.Contains(t, err.Error(), "which does not list its address")
		f.nodes[2].Resume()
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{""}, f.ids(3))
	})
}

// A foreign seal under a running group, on a single node, ends everything but
// releases; a look takes it in within five seconds (R30).
func TestForeignSeal_R30(t *testing.T) {
	for name, other := range map[string]pure.Identity{
		"another deployment": {ID: strings.Repeat("f", 32), Nodes: 3, Members: pure.MembersOf([]string{"a", "b", "c"})},
		"another number":     {ID: strings.Repeat("f", 32), Nodes: 2, Members: pure.MembersOf([]string{"a", "b"})},
	} {
		t.Run(name, func(t *testing.T) {
			aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
				f.opened()
				receipt := f.mustClaim("k")
				f.nodes[1].DB().Set(sealKey, pure.Seal{Identity: other, Run: "x", MaxTTL: maxTTL, Watched: ms}.String(), 0)
				f.eventually(pure.LookRarely+10*ms, func() bool { return len(f.quarantined()) == 3 }, "noticed")
				sets, scripts := f.nodes[0].Calls("SET"), f.nodes[0].Calls("EVALSHA")
				_, err := f.claim(background, "k2", "t", ms)
				assert.ErrorIs(t, err, ErrDeployment)
				assert.Contains(t, err.Error(), other.ID)
				assert.ErrorIs(t, f.extend(background, "k", "t", 2*long), ErrDeployment)
				time.Sleep(time.Second)
				assert.Equal(t, sets, f.nodes[0].Calls("SET"), "nothing is sent")
				assert.Equal(t, scripts, f.nodes[0].Calls("EVALSHA"))
				assert.ErrorIs(t, f.group.Membership().Err, ErrDeployment)
				assert.NoError(t, f.release(background, "k", "t", long, receipt), "it is ours to release")
				f.nodes[1].Restart()
				f.eventually(2*time.Second, func() bool { return f.group.Membership().Err == nil }, "adopted")
			})
		})
	}
}

// Found asserts that no lock is held: young nodes count at once. With Replace
// they are used anew, and watched.
func TestFoundAndReplace_R30(t *testing.T) {
	found := func(c *Config) { c.Found = true }
	aged(t, 3, 0, func(t *testing.T, f *fleet) {
		f.opened()
		assert.Empty(t, f.quarantined())
		assert.True(t, f.group.Membership().Founded)
		assert.Less(t, f.group.now(), 100*ms)
		old := f.ids(0)[0]

		again := f.with(found, 0, 1, 2)
		require.NoError(t, lasts(time.Second, again.WaitOpen))
		assert.Equal(t, Membership{ID: old, Nodes: 3, Complete: true}, again.Membership())

		require.NoError(t, f.group.Close(background))
		require.NoError(t, again.Close(background))
		f.nodes[1].FlushAll()
		half := f.with(found, 0, 1, 2)
		assert.Error(t, lasts(3*time.Second, half.WaitOpen), "it adopts nothing")
		require.NoError(t, half.Close(background))

		time.Sleep(time.Minute)
		anew := f.with(func(c *Config) { c.Found, c.Replace = true, []string{old} }, 0, 1, 2)
		require.NoError(t, lasts(time.Second, anew.WaitOpen))
		assert.NotEqual(t, old, anew.Membership().ID)
		f.shows(anew, 0, 1, 2)
		for _, s := range anew.Nodes() {
			assert.True(t, s.Quarantined, "earlier locks may be there")
		}
	}, withConfig(found))
}

// The set is opened in the end though a node refuses to change for a while, has
// lost the script, or dies in any stage, before or after it does what it was
// told.
func TestAnOpeningIsDelayed_R30(t *testing.T) {
	troubles := map[string]func(n *redistest.Node){
		"-OOM": func(n *redistest.Node) {
			n.Refuse("-OOM command not allowed", "EVALSHA")
			time.AfterFunc(2*time.Second, func() { n.Refuse("", "EVALSHA") })
		},
		"NOSCRIPT": (*redistest.Node).FlushScripts, "it restarts": (*redistest.Node).Restart, "it hangs up": (*redistest.Node).DropConns,
	}
	for name, trouble := range troubles {
		for _, verb := range []string{"propose", "lock", "seal"} {
			for i := range 3 {
				t.Run(fmt.Sprint(name, " ", verb, " ", i), func(t *testing.T) {
					aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
						require.NoError(t, lasts(15*time.Second, f.group.WaitOpen))
						f.shows(f.group, 0, 1, 2)
						require.NoError(t, f.group.Ready(background))
					}, func(c *cluster) {
						first := true
						c.nodes[i].Handle(func(_ int, args []string) ([]byte, bool) {
							if args[0] == "EVALSHA" && args[5] == verb && first {
								first = false
								trouble(c.nodes[i])
							}
							return nil, false
						})
					})
				})
			}
		}
	}
}

// Close in the middle of proposing takes back what was proposed, at once.
func TestCloseDuringAnOpening_R30(t *testing.T) {
	aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
		f.eventually(time.Second, func() bool {
			count := 0
			for _, n := range f.nodes {
				if _, there := n.Get(openingKey); there {
					count++
				}
			}
			return count == 3
		}, "proposed")
		require.NoError(t, f.group.Close(background))
		time.Sleep(200 * ms)
		assert.Empty(t, f.cluster.keys())
	}, func(c *cluster) { latency(c.links, oneWay, 100*ms) })
}

// Clients that each live for a moment see the end of a quarantine together: the
// seal that the first of them writes says how long the process had run (R23,
// R29). It never ends early, nor much later than by the margin.
func TestShortLivedClientsEndAQuarantine_R23(t *testing.T) {
	aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
		require.NoError(t, f.group.Ready(background))
		require.NoError(t, f.group.Close(background))
		f.nodes[2].Restart()
		started := time.Now()
		quarantined := func() bool {
			g := f.on(0, 1, 2)
			time.Sleep(200 * ms)
			is := g.Nodes()[2].Quarantined
			require.NoError(t, g.Close(background))
			return is
		}
		for quarantined() {
			require.Less(t, time.Since(started), 10*time.Second)
			time.Sleep(300 * ms)
		}
		lasted := time.Since(started)
		assert.GreaterOrEqual(t, lasted, fullNeed)
		assert.Less(t, lasted, fullNeed+5*time.Second)
	})
}

// What stands on a node and keeps clients out is named, with the node and the
// key, and so is a way out (R27, R30).
func TestWhatKeepsClientsOutIsNamed_R30(t *testing.T) {
	foreign := pure.Identity{ID: strings.Repeat("f0", 16), Nodes: 3, Members: pure.MembersOf([]string{"x:1", "y:1", "z:1"})}
	for name, c := range map[string]struct {
		key, value string
		says       []string
	}{
		"a foreign seal": {sealKey, pure.Seal{Identity: foreign, Run: "a", MaxTTL: maxTTL}.String(),
			[]string{"node 1 (node1)", "deployment " + foreign.ID, "the key redlock:seal", "delete the key there"}},
		"a locked opening": {openingKey, pure.Opening{Stage: pure.Locked, Identity: foreign}.String(),
			[]string{"node 1 (node1)", "is locked for deployment " + foreign.ID, "the key redlock:opening", "delete the key there"}},
		"a seal of a later form": {sealKey, "redlock-seal 99 what=ever",
			[]string{"node 1 (node1)", "opened by a newer version", "update this client"}},
		"a later opening": {openingKey, "redlock-opening 2 what=ever", []string{"opened by a newer version"}},
		"something else":  {sealKey, "a value", []string{"redlock:seal (behind the prefix)", "holds something else", "delete that key"}},
	} {
		subBubble(t, name, 3, func(t *testing.T, cl *cluster) {
			require.NoError(t, cl.group.WaitTried(background))
			time.Sleep(5 * time.Second)
			err := cl.group.Membership().Err
			require.ErrorIs(t, err, ErrDeployment)
			for _, words := range c.says {
				assert.ErrorContains(t, err, strings.ReplaceAll(words, "node1", cl.nodes[1].Addr()))
			}
			assert.NotContains(t, err.Error(), c.value, "R27")
		}, withTrust, func(cl *cluster) {
			cl.sealed(0, 2)
			if c.key == openingKey {
				cl.sealed(1)
				cl.nodes[1].DB().Delete(sealKey)
			}
			cl.nodes[1].DB().Set(c.key, c.value, 0)
		})
	}
}

// A member that this client names by another address than its deployment does
// is warned about from the first day, in Nodes and in the news (R30).
func TestMemberByAnotherNameIsWarnedAbout_R30(t *testing.T) {
	var mu sync.Mutex
	var news []string
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		require.NoError(t, c.group.Ready(background))
		assert.Empty(t, c.status(0).Warnings)
		require.Len(t, c.status(1).Warnings, 1)
		assert.Contains(t, c.status(1).Warnings[0], "by another address")
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, c.status(1).Warnings, news)
	}, withTrust, func(c *cluster) {
		c.config.OnChange = func(change Change) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, change.Warnings...)
		}
		who := c.identity()
		who.Members = pure.MembersOf([]string{c.nodes[0].Addr(), "lock-b:6379", c.nodes[2].Addr()})
		for _, n := range c.nodes {
			n.DB().Set(sealKey, pure.Seal{Identity: who, Run: n.Process(), MaxTTL: maxTTL, Watched: fullNeed}.String(), 0)
		}
	})
}
