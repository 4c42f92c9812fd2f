package multiplex

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	sealKey = "redlock:seal"
	maxTTL  = 2 * time.Second
	// fullNeed is needed for a MaxTTL of two seconds: 1 % drift, 5 ms margin.
	fullNeed = 2025 * ms
)

// withTrust sets a MaxTTL, and registers the script of the seal with the nodes.
func withTrust(c *cluster) {
	c.config.MaxTTL = maxTTL
	c.config.Cure = append(c.config.Cure, resp.AppendCommand(nil, "SCRIPT", "LOAD", lua.Seal))
	c.config.Seal = Seal{
		Read: resp.AppendCommand(nil, "GET", sealKey),
		Write: func(args ...string) []byte {
			return resp.AppendCommand(nil, append([]string{"EVALSHA", redistest.SHA1(lua.Seal), "1", sealKey}, args...)...)
		},
	}
	for i := range c.nodes {
		steps := c.config.Nodes[i].Prelude
		c.config.Nodes[i].Prelude = append(steps[:len(steps):len(steps)], conn.Step{Command: c.config.Cure[len(c.config.Cure)-1]})
	}
}

// openSeal returns a seal of the deployment that some node shows, or else of
// one of all nodes of the configuration.
func (c *cluster) openSeal(i int) (s pure.Seal) {
	var members []string
	var names []string
	for j := range c.config.Nodes {
		e := &c.config.Nodes[j].Endpoint
		members, names = append(members, fmt.Sprintf("%016x", j+1)), append(names, pure.NameOf(e.Home(), e.DB))
		s.Names = s.Names.With(members[j], names[j])
	}
	s.Open = pure.IdentityOf(members)
	for j := range c.config.Nodes {
		if is := c.sealOn(j); is.Open.Nodes() > 0 {
			s.Open, s.Names = is.Open, is.Names
		}
	}
	s.Member = s.Names.Member(names[i])
	return s
}

// foreign returns a seal of a deployment of n other nodes.
func foreign(n int) pure.Seal {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("f%015x", i))
	}
	return pure.Seal{
		Seat:  pure.Seat{Member: members[0], Open: pure.IdentityOf(members)},
		Names: pure.Names(members[0] + ":" + members[0]), Run: "x", MaxTTL: maxTTL, Watched: ms,
	}
}

// seal puts a seal of the deployment on a node.
func (c *cluster) seal(i int, run string, maxTTL, watched time.Duration) {
	s := c.openSeal(i)
	s.Run, s.MaxTTL, s.Watched = run, maxTTL, watched
	c.nodes[i].DB().Set(sealKey, s.String(), 0)
}

// sealed puts sufficient seals on nodes, as if another client had watched them.
func (c *cluster) sealed(nodes ...int) {
	for _, i := range nodes {
		c.seal(i, c.nodes[i].Process(), maxTTL, fullNeed)
	}
}

func sealedAll(c *cluster) {
	for i := range c.nodes {
		c.sealed(i)
	}
}

// sealedNow puts seals on all nodes that prove next to nothing.
func sealedNow(c *cluster) {
	for i := range c.nodes {
		c.seal(i, c.nodes[i].Process(), maxTTL, ms)
	}
}

// sealOn returns the seal on a node, or the zero seal.
func (c *cluster) sealOn(i int) pure.Seal {
	text, _ := c.nodes[i].Get(sealKey)
	s, _ := pure.ParseSeal(text)
	return s
}

// opened waits until all nodes show the deployment.
func (c *cluster) opened() {
	c.t.Helper()
	ctx := brief(c.t, 5*time.Second)
	require.NoError(c.t, c.group.WaitOpen(ctx))
}

// trusted waits until all nodes count.
func (c *cluster) trusted() {
	c.t.Helper()
	c.opened()
	require.NoError(c.t, c.group.Ready(background))
	time.Sleep(time.Second)
}

// another starts another group, of which each node was tried.
func (c *cluster) another(config Config) *Group {
	c.t.Helper()
	g, err := New(config)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = g.Close(background) })
	require.NoError(c.t, g.WaitTried(background))
	return g
}

func (c *cluster) quarantined() (nodes []int) {
	for i, s := range c.group.Nodes() {
		if s.Quarantined {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// quarantineOf returns an error's cause for a node, which must be its
// quarantine.
func quarantineOf(t *testing.T, err error, node int) *QuarantineError {
	t.Helper()
	var u *UndecidedError
	require.ErrorAs(t, err, &u)
	for _, e := range u.Nodes {
		if e.Node == node {
			require.ErrorIs(t, e, ErrQuarantined)
			var q *QuarantineError
			require.ErrorAs(t, e, &q)
			return q
		}
	}
	t.Fatalf("node %d is not named: %v", node, err)
	return nil
}

// A fresh process grants nothing on nodes without proof for as long as an
// earlier lock could be valid. What it can know at once it answers at once,
// without sending anything, and Ready says whom it waits for. Then the nodes
// count, and the next process need not wait (R23, R26).
func TestFreshProcessWaits_R23(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		start := c.group.now() - 20*ms // the handshakes took place a little before
		c.opened()
		var err error
		assert.Zero(t, took(func() { _, err = c.claim(background, "k", "t", ms) }))
		assert.Equal(t, []int{0, 1, 2}, undecided(t, err))
		q := quarantineOf(t, err, 1)
		assert.Equal(t, pure.WhyFirst, q.Why)
		assert.InDelta(t, fullNeed-15*ms, q.Left, float64(15*ms))
		assert.Contains(t, err.Error(), c.nodes[1].Addr()+", "+c.nodes[2].Addr()+"): quarantined for another 2.0")
		quarantineOf(t, lasts(100*ms, c.group.Ready), 2)
		assert.Zero(t, c.nodes[0].Calls("SET"), "nothing is sent that would have to be undone")
		s := c.status(0)
		assert.True(t, s.State == Up && s.Quarantined && s.Sealed, "with the little that was watched")
		assert.Equal(t, pure.WhyFirst, s.QuarantineWhy)

		require.NoError(t, c.group.Ready(background))
		assert.InDelta(t, fullNeed+15*ms, c.group.now()-start, float64(15*ms), "the watch wakes for it")
		c.mustClaim("k")
		time.Sleep(5 * trip)
		for i, n := range c.nodes {
			seal, s := c.sealOn(i), c.status(i)
			assert.Equal(t, n.Process(), seal.Run)
			assert.Equal(t, maxTTL, seal.MaxTTL)
			assert.InDelta(t, fullNeed+25*ms, seal.Watched, float64(25*ms))
			assert.True(t, s.Sealed && !s.Quarantined && s.QuarantineLeft == 0)
		}
		for _, s := range c.another(c.config).Nodes() {
			assert.False(t, s.Quarantined, "the seal says it")
		}
	}, withTrust, sealedNow)
}

// A node that restarts empty counts for no claim until what it forgot must have
// expired, and soon after that it counts again. Meanwhile it gets every
// command: its key is set and released, and an extension counts (R23).
func TestRestartedNodeIsQuarantined_R23(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		time.Sleep(10 * ms)
		assert.Empty(t, c.quarantined())
		c.nodes[2].Restart()
		restarted := time.Now()
		c.eventually(time.Second, func() bool { return c.status(2).Connects == 2 && c.up() == 3 }, "connected again")
		c.opened()
		assert.Equal(t, []int{2}, c.quarantined())
		assert.Equal(t, pure.WhyRestart, c.status(2).QuarantineWhy)

		receipt := c.mustClaim("k")
		assert.Equal(t, All(3), receipt.Sent)
		time.Sleep(trip)
		_, there := c.nodes[2].Get("k")
		assert.True(t, there, "it gets the command")
		counts := c.status(2).Counts
		assert.EqualValues(t, 1, counts.Quarantined)
		assert.Zero(t, counts.Overdue, "it answered as fast as the others")
		assert.NoError(t, c.extend(background, "k", "t", 2*long))

		// Its grant does not make a quorum, and the outcome is decided as soon
		// as the others refuse.
		c.nodes[1].DB().Set("taken", "by another", 0)
		_, err := c.claim(background, "taken", "t", long)
		assert.ErrorIs(t, err, ErrRefused)
		c.links[1].Refuse(true)
		c.nodes[1].DropConns()
		c.eventually(time.Second, func() bool { return c.up() == 2 }, "one down")
		assert.Zero(t, took(func() { _, err = c.claim(background, "k2", "t", long) }), "known already (R26)")
		assert.Equal(t, []int{1, 2}, undecided(t, err))
		quarantineOf(t, err, 2)
		assert.NoError(t, c.extend(background, "k", "t", 3*long), "the token is there")
		assert.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(trip)
		_, there = c.nodes[2].Get("k")
		assert.False(t, there)

		c.eventually(fullNeed, func() bool { return len(c.quarantined()) == 0 }, "counts again")
		since := time.Since(restarted)
		assert.GreaterOrEqual(t, since, fullNeed)
		assert.Less(t, since, fullNeed+100*ms)
		time.Sleep(trip)
		_, err = c.claim(background, "k3", "t", long)
		assert.NoError(t, err, "with the one that has restarted")
	}, withTrust, sealedAll)
}

// The deciding vote of three is forgotten: neither the client that saw the
// restart nor a fresh one gets a second lock while the first is valid. Without
// MaxTTL both do, which is why R23 exists.
func TestForgottenVote_R23(t *testing.T) {
	for name, tweaks := range map[string][]func(*cluster){"quarantine": {withTrust, sealedAll}, "none": nil} {
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
			c.nodes[2].DB().Set("k", "foreign", time.Second) // so that exactly a quorum grants
			_, err := c.claim(background, "k", "first", maxTTL)
			require.NoError(t, err)
			granted := time.Now()
			c.nodes[1].Restart()
			fresh := c.another(c.config)
			c.eventually(time.Second, func() bool { return c.status(1).Connects == 2 && c.up() == 3 }, "connected again")
			time.Sleep(time.Second)
			second := 0
			for i := 0; time.Since(granted) < maxTTL-25*ms && second == 0; i++ {
				g := []*Group{c.group, fresh}[i%2]
				token := fmt.Sprint("second", i)
				_, err := g.Claim(background, claimKind, &Claim{
					Bytes: setCommand("k", token, maxTTL), TTL: maxTTL, Undo: undoing(raw(releaseCommand("k", token))),
				})
				if err == nil {
					second++
				}
				time.Sleep(ms)
			}
			assert.Equal(t, len(tweaks) == 0, second > 0, "a second grant within the validity of the first")
		}, tweaks...)
	}
}

// Reconnects that show the same process do not interrupt the watch; if the run
// id must not be queried, each starts it again.
func TestReconnectsOfAWatchedNode_R23(t *testing.T) {
	for name, hidden := range map[string]bool{"run id known": false, "run id unknown": true} {
		subBubble(t, name, 1, func(t *testing.T, c *cluster) {
			time.Sleep(time.Second)
			c.nodes[0].DropConns()
			c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 && c.up() == 1 }, "connected again")
			again := time.Now()
			require.NoError(t, c.group.Ready(background))
			if !hidden {
				assert.Less(t, time.Since(again), fullNeed-900*ms)
				return
			}
			assert.GreaterOrEqual(t, time.Since(again), fullNeed-10*ms)
			assert.Equal(t, []string{warnNoRunID}, c.status(0).Warnings)
			time.Sleep(time.Second)
			assert.Equal(t, pure.NoRun, c.sealOn(0).Run)
			assert.Zero(t, c.sealOn(0).Watched, "it identifies, and proves nothing")
			c.nodes[0].DropConns()
			c.eventually(time.Second, func() bool { return c.status(0).Connects == 3 && c.up() == 1 }, "connected again")
			assert.Equal(t, pure.WhyUnknown, c.status(0).QuarantineWhy, "it could have restarted")
		}, withTrust, sealedNow, func(c *cluster) {
			if hidden {
				c.seal(0, pure.NoRun, maxTTL, 0)
				c.nodes[0].Refuse("-NOPERM no", "INFO")
			}
		})
	}
}

// The watch starts when the run id was received, not when it was requested: a
// handshake may take long.
func TestTheWatchBeginsWithTheReply_R23(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, withTrust, sealedNow, func(c *cluster) { c.nodes[0].Delay("CLIENT INFO", time.Second) })
		require.NoError(t, c.group.Ready(background))
		// Without its seal it would be watched from when it gets one.
		c.nodes[0].RestartDurably()
		c.eventually(time.Second, func() bool { return c.up() == 0 }, "the restart is noticed")
		c.waitUp(1)
		up := c.group.now()
		require.NoError(t, c.group.Ready(background))
		assert.GreaterOrEqual(t, c.group.now()-up, fullNeed-2*trip)
		assert.Less(t, c.group.now()-up, fullNeed+10*ms)
	})
}

// Another process may have watched for longer: a quarantined node's seal is
// read again and again.
func TestQuarantineEndsWithAnothersSeal_R23(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.opened()
		time.Sleep(500 * ms)
		c.sealed(0, 1)
		start := time.Now()
		require.NoError(t, c.group.Ready(background))
		assert.Less(t, time.Since(start), pure.LookOften+10*ms)
		assert.Equal(t, []int{2}, c.quarantined())
	}, withTrust, sealedNow)
}

// If keys are flushed without a restart, the missing seal shows it: within five
// seconds, or at once on a new connection (R23).
func TestFlushedKeysAreNoticed_R23(t *testing.T) {
	for name, reconnect := range map[string]bool{"while connected": false, "at the next handshake": true} {
		subBubble(t, name, 1, func(t *testing.T, c *cluster) {
			require.NoError(t, c.group.Ready(background))
			time.Sleep(time.Second)
			require.True(t, c.status(0).Sealed)
			for range 5 {
				c.nodes[0].DB().Delete(sealKey)
				flushed := time.Now()
				if reconnect {
					c.nodes[0].DropConns()
				}
				c.eventually(pure.LookRarely+10*ms, func() bool { return len(c.quarantined()) == 1 }, "quarantined")
				noticed := time.Since(flushed)
				c.opened() // anew
				assert.Equal(t, pure.WhyVanished, c.status(0).QuarantineWhy)
				if reconnect {
					assert.Less(t, noticed, 200*ms)
					c.waitUp(1)
					assert.Equal(t, []int{0}, c.quarantined(), "the node never counted in between")
				}
				require.NoError(t, c.group.Ready(background))
				assert.GreaterOrEqual(t, time.Since(flushed)-noticed, fullNeed-100*ms)
				c.eventually(time.Second, func() bool { return c.status(0).Sealed }, "sealed again")
				time.Sleep(time.Duration(float64(pure.LookRarely) * 0.7))
			}
		}, withTrust)
	}
}

// A node that refuses to write the seal is trusted all the same, and asked
// again; so is one that lost the script (R23, R24).
func TestSealThatIsRefused_R23(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		asked := c.nodes[0].Calls("EVALSHA")
		require.NoError(t, c.group.Ready(background))
		time.Sleep(12 * time.Second)
		assert.Empty(t, c.quarantined())
		assert.False(t, c.status(0).Sealed)
		assert.InDelta(t, 3, c.nodes[0].Calls("EVALSHA")-asked, 1, "each five seconds")
		c.nodes[0].FlushScripts()
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(pure.LookRarely+200*ms, func() bool { return c.status(0).Sealed }, "sealed")
		assert.GreaterOrEqual(t, c.sealOn(0).Watched, 12*time.Second)
		assert.Zero(t, c.status(0).Deaths)
	}, withTrust, func(c *cluster) {
		c.seal(0, c.nodes[0].Process(), maxTTL, 0)
		c.nodes[0].Refuse("-OOM command not allowed when used memory > 'maxmemory'.", "EVALSHA")
	})
}

// A reply that answers neither the reading of the seal nor its writing ends the
// connection (R16).
func TestStrangeRepliesToTheSeal_R16(t *testing.T) {
	for _, command := range []string{"GET", "EVALSHA"} {
		subBubble(t, command, 1, func(t *testing.T, c *cluster) {
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				return []byte("+QUEUED\r\n"), args[0] == command
			})
			c.eventually(pure.LookRarely, func() bool { return c.status(0).Deaths > 0 }, "dead")
			assert.ErrorIs(t, c.status(0).Err, ErrUnexpected)
		}, withTrust)
	}
}

// A seal refuses clients with another MaxTTL, before and after they have
// joined, with an explanation (R23).
func TestOtherMaxTTLIsRefused_R23(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		other := c.config
		other.MaxTTL = 3 * time.Second
		g := c.another(other)
		for _, s := range g.Nodes() {
			assert.Equal(t, Down, s.State)
			require.ErrorIs(t, s.Err, ErrMaxTTL)
			var p *PreflightError
			require.ErrorAs(t, s.Err, &p)
			assert.Equal(t, "MaxTTL", p.Check)
			assert.Equal(t, "its seal says 2s, this client 3s", p.Found)
		}
		_, err := g.Claim(background, claimKind, &Claim{Bytes: setCommand("k", "t", ms), TTL: ms})
		require.ErrorIs(t, err, ErrMaxTTL)
		assert.Equal(t, 3, c.up())

		c.seal(1, c.nodes[1].Process(), 3*time.Second, time.Hour)
		c.eventually(pure.LookRarely+10*ms, func() bool { return c.up() == 2 }, "out")
		assert.ErrorIs(t, c.status(1).Err, ErrMaxTTL)
	}, withTrust, sealedAll)
}

// With the override the longer MaxTTL applies, on all nodes, and is never
// lowered (R23).
func TestOtherMaxTTLIsAllowed_R23(t *testing.T) {
	const longer = 3 * time.Second
	longerNeed := pure.NeedFor(longer, 0.01)
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		start := c.group.now()
		assert.Equal(t, []int{1, 2}, c.quarantined(), "what sufficed for two seconds does not for three")
		require.NoError(t, c.group.Ready(background))
		assert.GreaterOrEqual(t, c.group.now()-start, longerNeed-fullNeed-20*ms)
		time.Sleep(pure.LookRarely + time.Second)
		for i := range c.nodes {
			assert.Equal(t, longer, c.sealOn(i).MaxTTL, "node %d", i)
			assert.GreaterOrEqual(t, c.sealOn(i).Watched, longerNeed)
		}
		// A client that also allows it and has a shorter one lowers nothing.
		short := c.config
		short.MaxTTL = time.Second
		require.NoError(t, c.another(short).Ready(background))
		time.Sleep(2 * pure.LookRarely)
		for i := range c.nodes {
			assert.Equal(t, longer, c.sealOn(i).MaxTTL)
		}
	}, withTrust, withConfig(func(c *Config) { c.Allow.OtherMaxTTL = true }), sealedAll, func(c *cluster) {
		c.seal(0, c.nodes[0].Process(), longer, longerNeed)
	})
}

// Durable nodes need no quarantine when they restart; one whose configuration
// contradicts that is warned about (R22, R23).
func TestDurableNodes_R23(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.opened()
		assert.Equal(t, []int{2}, c.quarantined())
		require.NoError(t, c.group.Ready(background))
		assert.Less(t, c.group.now(), 100*ms)
		c.nodes[0].Restart()
		c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 && c.up() == 3 }, "connected again")
		c.opened()
		assert.Equal(t, []int{2}, c.quarantined())
		assert.Equal(t, []string{warnNotDurable}, c.status(0).Warnings)
		assert.Empty(t, c.status(1).Warnings, "what may not be asked is unknown")
		assert.Equal(t, c.sealOn(1).Open, c.sealOn(0).Open, "it belongs to the deployment all the same")
	}, withTrust, withConfig(func(c *Config) { c.Durable = setOf(0) | setOf(1) }), func(c *cluster) {
		c.seal(0, "earlier", maxTTL, fullNeed)
		c.sealed(1)
		c.seal(2, "earlier", maxTTL, fullNeed)
		c.nodes[1].Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte("-NOPERM no\r\n"), args[0] == "INFO" && args[1] == "persistence"
		})
	})
}

// Without seals there are no deployments, and durable nodes count at once.
func TestDurableNodesWithoutSeals_R23(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		assert.Equal(t, []int{2}, c.quarantined())
	}, withConfig(func(c *Config) { c.MaxTTL, c.Durable = maxTTL, setOf(0)|setOf(1) }))
}

// A durable node waits like any other for the locks of another set: until its
// own has been open for long enough, which it tells clients that come later,
// also if its run id may not be asked (R29, R30).
func TestDurableNodesOfANewSet_R30(t *testing.T) {
	for name, hidden := range map[string]bool{"run id known": false, "run id unknown": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				c.opened()
				assert.Equal(t, []int{0}, c.quarantined())
				require.NoError(t, c.group.Ready(background))
				assert.GreaterOrEqual(t, c.group.now(), fullNeed)
				assert.Less(t, c.group.now(), fullNeed+50*ms)
				time.Sleep(time.Second)
				assert.GreaterOrEqual(t, c.sealOn(0).Watched, fullNeed)
				assert.Equal(t, hidden, c.sealOn(0).Run == pure.NoRun)
				writes := c.nodes[0].Calls("EVALSHA")
				for range 3 { // it is sealed, and counts
					c.nodes[0].DropConns()
					c.eventually(time.Second, func() bool { return c.up() == 0 }, "down")
					c.waitUp(1)
					assert.Empty(t, c.quarantined())
				}
				next := c.another(c.config)
				require.NoError(t, lasts(50*ms, next.Ready))
				time.Sleep(time.Minute)
				assert.False(t, next.Nodes()[0].Quarantined)
				assert.Equal(t, writes, c.nodes[0].Calls("EVALSHA"), "nothing is left to write")
			}, withTrust, sealedNow, withConfig(func(c *Config) { c.Durable = setOf(0) }), func(c *cluster) {
				if hidden {
					c.seal(0, pure.NoRun, maxTTL, 0)
					c.nodes[0].Refuse("-NOPERM no", "INFO")
				}
			})
		})
	}
}

// A node's debts are paid even if it is then refused for its seal: debts go
// first (R8).
func TestDebtsArePaidBeforeTheSealIsLookedAt_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.links[0].Refuse(true)
		c.nodes[0].DropConns()
		c.eventually(time.Second, func() bool { return c.up() == 2 }, "down")
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		c.seal(0, "x", time.Hour, ms)
		c.links[0].Refuse(false)
		c.eventually(2*time.Second, func() bool { return errors.Is(c.status(0).Err, ErrMaxTTL) }, "refused")
		_, there := c.nodes[0].Get("k")
		assert.False(t, there)
		assert.Zero(t, c.status(0).Debts)
	}, withTrust, sealedAll)
}

// A server that was a replica for a moment has the same run id and a seal that
// came back by replication, and has lost keys: it is quarantined, for a client
// that was connected all the time and for one that starts. So is a master whose
// history began anew for another reason; nothing else happens to it (R23).
func TestServerThatWasAReplica_R23(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *redistest.Node)
		why    string
		known  time.Duration // to the client that was connected
	}{
		"for a moment":       {func(n *redistest.Node) { n.Demote(sealKey) }, pure.WhyDemoted, 0},
		"a replica attached": {(*redistest.Node).Rewrite, pure.WhyHistory, pure.LookRarely},
	} {
		subBubble(t, name, 3, func(t *testing.T, cl *cluster) {
			cl.trusted()
			run := cl.nodes[0].RunID()
			c.change(cl.nodes[0])
			require.Equal(t, run, cl.nodes[0].RunID())
			next := cl.another(cl.config)
			time.Sleep(100 * ms)
			found := next.Nodes()
			require.NoError(t, next.Close(background))
			assert.True(t, found[0].Quarantined, "the seal says nothing of this history")
			assert.Equal(t, c.why, found[0].QuarantineWhy)
			assert.False(t, found[1].Quarantined)

			time.Sleep(c.known)
			s := cl.status(0)
			assert.True(t, s.Quarantined, "a look finds it on the connection")
			assert.Equal(t, c.why, s.QuarantineWhy)
			assert.Equal(t, 2, s.Connects)
			assert.Equal(t, []int{0}, cl.quarantined())
			cl.mustClaim("k")
			time.Sleep(fullNeed + time.Second)
			assert.Empty(t, cl.quarantined())
			assert.Equal(t, cl.nodes[0].Process(), cl.sealOn(0).Run)
		}, withTrust, sealedAll)
	}
}

// A server that loses all its keys says so, before it answers what comes after.
// What it grants from then on does not count until a look has shown that it is
// the process that it was, with its seal (R23). A flush of another database
// costs one look.
func TestNothingCountsAfterAFlush_R23(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(n *redistest.Node)
		why     string
		refuses string
	}{
		"a replica for a moment": {change: func(n *redistest.Node) { n.Demote(sealKey) }, why: pure.WhyDemoted},
		"its keys were flushed":  {change: (*redistest.Node).FlushAll, why: pure.WhyVanished},
		"another database":       {change: (*redistest.Node).Flushed},
		"the user may not know":  {change: (*redistest.Node).Flushed, refuses: "CLIENT TRACKING"},
	} {
		subBubble(t, name, 1, func(t *testing.T, cl *cluster) {
			if c.refuses != "" {
				cl.nodes[0].Refuse("-NOPERM this user has no permissions", c.refuses)
				cl.nodes[0].DropConns()
				time.Sleep(time.Second)
			}
			cl.trusted()
			cl.mustClaim("before")
			c.change(cl.nodes[0])
			_, err := cl.claim(background, "k", "t", maxTTL)
			if c.refuses != "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrQuarantined, "it was granted after the flush")
			time.Sleep(100 * ms)
			if c.why == "" {
				cl.mustClaim("after")
				assert.Empty(t, cl.quarantined())
				return
			}
			_, err = cl.claim(background, "k", "t", maxTTL)
			why := quarantineOf(t, err, 0).Why
			assert.Contains(t, []string{c.why, pure.WhyYoung}, why) // the only node's deployment has to be opened again
			time.Sleep(fullNeed + time.Second)
			cl.mustClaim("after")
		}, withTrust, sealedAll)
	}
}

// A look of which a reply came before the last flush says nothing about it.
func TestALookThatBeganBeforeAFlushExplainsNothing_R23(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.trusted()
		c.nodes[0].Delay("INFO", 20*ms)
		c.nodes[0].Flushed() // of another database, but a look begins
		time.Sleep(10 * ms)
		c.nodes[0].FlushAll()
		time.Sleep(15 * ms)
		_, err := c.claim(background, "k", "t", maxTTL)
		require.Error(t, err, "another look is under way")
		time.Sleep(100 * ms)
		_, err = c.claim(background, "k", "t", maxTTL)
		require.ErrorIs(t, err, ErrQuarantined)
	}, withTrust, sealedAll)
}

// A claim that was sent before a look found that the keys are gone, and is
// answered after it, does not count.
func TestRoundsInFlightDoNotCountAfterAFlush_R23(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.trusted()
		c.nodes[0].Delay("INFO", 10*ms)
		c.nodes[0].FlushAll()
		time.Sleep(5 * ms)
		require.Empty(t, c.quarantined())
		_, err := c.claim(background, "k", "t", maxTTL)
		require.ErrorIs(t, err, ErrQuarantined)
		require.NotEmpty(t, c.quarantined())
	}, withTrust, sealedAll)
}

// The answer READONLY shows that the server is a replica. It ends the
// connection, so that no later answer on it counts: the server may be a master
// again by then, without what it had granted (R16, R23).
func TestReadOnlyEndsTheConnection_R23(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.opened()
		require.NoError(t, c.group.Ready(background))
		c.nodes[0].Refuse("-READONLY You can't write against a read only replica.", "SET")
		_, err := c.claim(background, "k", "t", maxTTL)
		var refusal *RefusalError
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, conn.ClassReadOnly, refusal.Class)
		synctest.Wait()
		assert.Equal(t, uint64(1), c.status(0).Counts.Deaths["demoted"], "before any push")
		c.nodes[0].Refuse("", "SET")
		c.nodes[0].Demote(sealKey)
		time.Sleep(100 * ms)
		_, err = c.claim(background, "k", "t", maxTTL)
		assert.Equal(t, pure.WhyDemoted, quarantineOf(t, err, 0).Why)
	}, withTrust, sealedAll)
}
