package multiplex

import (
	"context"
	"fmt"
	"regexp"
	"slices"
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
		ids = append(ids, f.sealOn(i).Open.ID)
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

// shows asserts that all nodes show the identity of one deployment of them.
func (f *fleet) shows(g *Group, nodes ...int) {
	f.t.Helper()
	id := g.Membership().ID
	assert.Len(f.t, id, 32)
	for _, i := range nodes {
		assert.Equal(f.t, id, f.sealOn(i).Open.ID, "node %d", i)
		assert.Equal(f.t, len(nodes), f.sealOn(i).Open.Nodes())
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

// Clients of one set that start together agree, whatever its size and in
// whatever order they name it.
func TestOneSetAtTheSameTime_R30(t *testing.T) {
	for _, set := range [][]int{{0}, {1, 0}, {2, 0, 1}, {4, 2, 0, 3, 1}} {
		aged(t, 5, time.Minute, func(t *testing.T, f *fleet) {
			require.NoError(t, f.group.Close(background))
			var groups []*Group
			for i := range 8 {
				turn := i % len(set)
				groups = append(groups, f.on(slices.Concat(set[turn:], set[:turn])...))
			}
			begun := time.Now()
			for _, g := range groups {
				require.NoError(t, lasts(time.Until(begun.Add(time.Second)), g.Ready))
				require.NoError(t, lasts(time.Until(begun.Add(time.Second)), g.WaitOpen))
				f.shows(g, set...)
			}
		})
	}
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
// stranger, whichever of the two sets is opened first: it is refused at once,
// and the client counts the members only.
func TestStranger_R30(t *testing.T) {
	for _, sets := range [][2][]int{{{0, 1, 2}, {0, 1, 3}}, {{3, 1, 0}, {2, 1, 0}}} {
		aged(t, 4, time.Minute, func(t *testing.T, f *fleet) {
			require.NoError(t, f.group.Close(background))
			stranger := slices.IndexFunc(sets[1], func(i int) bool { return !slices.Contains(sets[0], i) })
			require.NoError(t, lasts(time.Second, f.on(sets[0]...).WaitOpen))
			g := f.on(sets[1]...)
			require.NoError(t, lasts(100*ms, g.Ready))
			require.NoError(t, g.WaitTried(background))
			assert.NoError(t, f.claimOn(g))
			assert.Contains(t, g.Nodes()[stranger].QuarantineWhy, "its address is not that of just one member")
			f.nodes[1].Pause()
			err := f.claimOn(g)
			assert.ErrorIs(t, err, ErrUndecided)
			assert.ErrorIs(t, err, ErrDeployment)
			f.nodes[1].Resume()
			time.Sleep(10 * time.Second)
			assert.Empty(t, f.nodes[sets[1][stranger]].Keys())
		})
	}
}

// A foreign seal under a running group, on a single node, ends everything but
// releases; a look takes it in within five seconds (R30).
func TestForeignSeal_R30(t *testing.T) {
	for name, other := range map[string]pure.Seal{"another deployment": foreign(3), "another number": foreign(2)} {
		t.Run(name, func(t *testing.T) {
			aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
				f.opened()
				receipt := f.mustClaim("k")
				f.nodes[1].DB().Set(sealKey, other.String(), 0)
				f.eventually(pure.LookRarely+10*ms, func() bool { return len(f.quarantined()) == 3 }, "noticed")
				sets, scripts := f.nodes[0].Calls("SET"), f.nodes[0].Calls("EVALSHA")
				_, err := f.claim(background, "k2", "t", ms)
				assert.ErrorIs(t, err, ErrDeployment)
				assert.Contains(t, err.Error(), other.Open.ID)
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
// lost the script, or dies in any step, before or after it does what it was
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
		eachStep(t, name, func(t *testing.T, step string, i int) {
			aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
				require.NoError(t, lasts(15*time.Second, f.group.WaitOpen))
				f.shows(f.group, 0, 1, 2)
				require.NoError(t, f.group.Ready(background))
			}, func(c *cluster) { c.atStep(i, step, func() { trouble(c.nodes[i]) }) })
		})
	}
}

// A client that dies in any step is followed by another. If it has sealed the
// first node, it alone knew that the others had run for long.
func TestAClientDiesDuringAnOpening_R30(t *testing.T) {
	eachStep(t, "", func(t *testing.T, step string, i int) {
		var dies chan struct{}
		aged(t, 3, time.Minute, func(t *testing.T, f *fleet) {
			<-dies
			require.NoError(t, f.group.Close(background))
			next := f.on(2, 0, 1)
			require.NoError(t, lasts(time.Second, next.WaitOpen))
			waits := time.Second
			if step == "deployment=" {
				waits += fullNeed
			}
			require.NoError(t, lasts(waits, next.Ready))
			f.shows(next, 0, 1, 2)
		}, func(c *cluster) {
			dies = make(chan struct{})
			c.atStep(i, step, func() { close(dies) })
		})
	})
}

// eachStep runs a test for each step of an opening, at each of three nodes.
func eachStep(t *testing.T, name string, test func(t *testing.T, step string, node int)) {
	t.Helper()
	for _, step := range []string{"member=[^ ]*$", "listed=", "deployment="} {
		for i := range 3 {
			t.Run(fmt.Sprint(name, " ", step, " ", i), func(t *testing.T) { test(t, step, i) })
		}
	}
}

// atStep calls do once, when a node is told this step of an opening, before it
// does what it was told.
func (c *cluster) atStep(i int, step string, do func()) {
	var once sync.Once
	c.nodes[i].Handle(func(_ int, args []string) ([]byte, bool) {
		if args[0] == "EVALSHA" && regexp.MustCompile(step).MatchString(args[5]) {
			once.Do(do)
		}
		return nil, false
	})
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
	theirs, listed := foreign(3), foreign(3)
	listed.Listed, listed.Open = listed.Open, pure.Identity{}
	for name, c := range map[string]struct {
		value string
		says  []string
	}{
		"a foreign seal":         {theirs.String(), []string{"node 1 (node1)", "belongs to deployment " + theirs.Open.ID, "the key redlock:seal", "delete the key there"}},
		"a foreign list":         {listed.String(), []string{"node 1 (node1)", "is listed for deployment " + theirs.Open.ID, "the key redlock:seal", "delete the key there"}},
		"a seal of a later form": {"redlock-seal 99 what=ever", []string{"node 1 (node1)", "opened by a newer version", "update this client"}},
		"something else":         {"a value", []string{"redlock:seal (behind the prefix)", "holds something else", "delete that key"}},
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
			cl.nodes[1].DB().Set(sealKey, c.value, 0)
		})
	}
}

// A member that has as many names as it may, and another one for this client,
// is warned about from the first day, in Nodes and in the news (R30).
func TestMemberByTooManyNamesIsWarnedAbout_R30(t *testing.T) {
	var mu sync.Mutex
	var news []string
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		require.NoError(t, c.group.Ready(background))
		time.Sleep(time.Second)
		assert.Empty(t, c.status(0).Warnings)
		require.Len(t, c.status(1).Warnings, 1)
		assert.Contains(t, c.status(1).Warnings[0], "four other addresses of it")
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, c.status(1).Warnings, news)
	}, withTrust, func(c *cluster) {
		c.config.OnChange = func(change Change) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, change.Warnings...)
		}
		sealedAll(c)
		s := c.openSeal(1)
		own := s.Names
		s.Names = ""
		for i := range 4 {
			s.Names = s.Names.With(s.Member, pure.NameOf(fmt.Sprint("lock-b:", i), 0))
		}
		s.Names = s.Names.And(own)
		s.Run, s.MaxTTL, s.Watched = c.nodes[1].Process(), maxTTL, fullNeed
		c.nodes[1].DB().Set(sealKey, s.String(), 0)
	})
}
