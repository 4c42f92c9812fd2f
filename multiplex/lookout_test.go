package multiplex

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (c *cluster) lookout(key string) *Lookout {
	c.t.Helper()
	l := c.group.Lookout([]byte(key))
	require.NotNil(c.t, l)
	return l
}

// told reports whether the signal has come.
func told(l *Lookout) bool {
	synctest.Wait()
	select {
	case <-l.Signal():
		return true
	default:
		return false
	}
}

// arrive lets data in flight arrive, and the answers to it.
func (c *cluster) arrive() { time.Sleep(2 * trip) }

// set sets a key on all nodes, as another client.
func (c *cluster) set(key string) {
	for _, n := range c.nodes {
		n.DB().Set(key, "stranger", 0)
	}
}

func TestLookoutIsToldWhenAQuorumIsFree(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 16} {
		t.Run(fmt.Sprint("nodes=", n), func(t *testing.T) {
			inBubble(t, n, func(t *testing.T, c *cluster) {
				c.set("k")
				l := c.lookout("k")
				defer l.Stop()
				require.True(t, l.Ask())
				c.arrive()
				require.False(t, told(l), "it is held everywhere")
				for i, node := range c.nodes {
					node.DB().Delete("k")
					time.Sleep(oneWay)
					require.Equal(t, i+1 == Quorum(n), told(l), "freed on %d nodes; told once, at the quorum", i+1)
				}
				require.True(t, l.Ask())
				c.arrive()
				require.True(t, told(l), "free at once")
				assert.Zero(t, c.group.tracker.listening.Load())
				assert.Zero(t, c.status(0).Deaths)
				assert.Equal(t, 1, c.nodes[0].Calls("CLIENT TRACKING"), "once for a connection")
			})
		})
	}
}

// A key that expires is pushed late; the reply to the question says when it
// ends.
func TestLookoutKnowsWhenTheKeyExpires(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		start := time.Now()
		for i, node := range c.nodes {
			node.DB().Set("k", "stranger", time.Duration(i+1)*time.Second)
		}
		l := c.lookout("k")
		defer l.Stop()
		require.True(t, l.Ask())
		_, ok := l.Expiry()
		require.False(t, ok, "no node has answered")
		c.arrive()
		at, ok := l.Expiry()
		require.True(t, ok)
		assert.InDelta(t, 3*time.Second, at.Sub(start), float64(trip))
		time.Sleep(3*time.Second - 2*trip)
		require.False(t, told(l))
		time.Sleep(25 * ms)
		require.True(t, told(l), "it was pushed when it was found to have expired")

		c.set("k")
		require.True(t, l.Ask())
		c.arrive()
		_, ok = l.Expiry()
		require.False(t, ok, "a key without a TTL")
	})
}

// A lookout hears only of its own key, compared as a whole; FLUSHALL concerns
// every key.
func TestLookoutsOfOtherKeysAndFlush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var all []*Lookout
		for _, key := range []string{"k", "kk", "K", "k\r\n", "k"} {
			c.set(key)
			all = append(all, c.lookout(key))
			require.True(t, all[len(all)-1].Ask())
		}
		c.arrive()
		for _, n := range c.nodes {
			n.DB().Delete("k")
		}
		c.arrive()
		for i, l := range all {
			require.Equal(t, i == 0 || i == 4, told(l), "lookout %d", i)
		}
		all[4].Stop()
		c.set("k")
		c.arrive() // a push for a key without a lookout is fine
		for _, n := range c.nodes {
			n.FlushAll()
		}
		c.arrive()
		for i, l := range all[1:4] {
			require.True(t, told(l), "lookout %d", i+1)
			l.Stop()
		}
		all[0].Stop()
		assert.Empty(t, c.group.tracker.lookouts)
		assert.Zero(t, c.group.tracker.count)
		assert.Zero(t, c.status(0).Deaths)
	})
}

// The pushes include changes by our own claims and releases. Scripts that read
// register nothing.
func TestLookoutIsToldOfOurOwnRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		l := c.lookout("k")
		defer l.Stop()
		require.True(t, l.Ask())
		c.arrive()
		require.False(t, told(l))
		require.NoError(t, c.extend(background, "k", "t", 2*long))
		c.arrive()
		require.True(t, told(l), "an extension is a change")
		require.True(t, l.Ask())
		c.arrive()
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		c.arrive()
		require.True(t, told(l))
	})
}

// R16: an unrequested push ends the connection, and so does a malformed one,
// even if pushes were requested.
func TestPushesThatEndAConnection_R16(t *testing.T) {
	const flushed = ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	const key = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
	for name, push := range map[string]string{
		"another sort":        ">2\r\n$7\r\nmessage\r\n*1\r\n$1\r\nk\r\n",
		"no sort":             ">1\r\n*1\r\n$1\r\nk\r\n",
		"empty":               ">0\r\n",
		"a key alone":         ">2\r\n$10\r\ninvalidate\r\n$1\r\nk\r\n",
		"a number":            ">2\r\n$10\r\ninvalidate\r\n*1\r\n:1\r\n",
		"a null among keys":   ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\nk\r\n_\r\n",
		"three elements":      ">3\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n*1\r\n$1\r\nk\r\n",
		"one element":         ">1\r\n$10\r\ninvalidate\r\n",
		"simple string":       ">2\r\n+invalidate\r\n_\r\n",
		"attribute":           "|1\r\n+a\r\n+b\r\n" + flushed,
		"attribute of a key":  ">2\r\n$10\r\ninvalidate\r\n*1\r\n|1\r\n+a\r\n+b\r\n$1\r\nk\r\n",
		"redirection is gone": ">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n",
		"a reply":             strings.Replace(key, ">", "*", 1),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.tracked()
				c.nodes[0].Push(flushed + key)
				c.arrive()
				require.Zero(t, c.status(0).Deaths)
				c.nodes[0].Push(push)
				c.arrive()
				require.Equal(t, 1, c.status(0).Deaths)
				require.Zero(t, c.status(1).Deaths)
			})
		})
	}
	for name, push := range map[string]string{"flushed": flushed, "key": key} {
		t.Run("untracked/"+name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				c.nodes[0].Push(push)
				c.arrive()
				require.Equal(t, 1, c.status(0).Deaths)

				c.waitUp(1)
				c.nodes[0].Refuse("-NOPERM no", "CLIENT TRACKING")
				l := c.lookout("k")
				defer l.Stop()
				l.Ask()
				c.arrive()
				c.nodes[0].Push(push)
				c.arrive()
				require.Equal(t, 2, c.status(0).Deaths, "it was refused")
				c.nodes[0].Refuse("", "CLIENT TRACKING")

				c.waitUp(1)
				c.tracked()
				c.nodes[0].DropConns()
				c.arrive()
				c.waitUp(1)
				c.nodes[0].Push(push)
				c.arrive()
				require.Equal(t, 4, c.status(0).Deaths, "the connection before was tracked, not this one")
			})
		})
	}
}

// tracked turns tracking on everywhere.
func (c *cluster) tracked() {
	c.t.Helper()
	l := c.lookout("tracked")
	require.True(c.t, l.Ask())
	c.arrive()
	l.Stop()
}

// R16: a reply that cannot answer a lookout's commands ends the connection.
func TestAnswersThatEndAConnection_R16(t *testing.T) {
	for name, odd := range map[string]struct{ command, reply string }{
		"tracking": {"TRACKING", ":1\r\n"}, "caching": {"CACHING", ":1\r\n"}, "no number": {"PTTL", "+OK\r\n"},
		"null": {"PTTL", "_\r\n"}, "less than none": {"PTTL", ":-3\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					return []byte(odd.reply), args[0] == odd.command || len(args) > 1 && args[1] == odd.command
				})
				l := c.lookout("k")
				defer l.Stop()
				require.True(t, l.Ask())
				c.arrive()
				require.Equal(t, 1, c.status(0).Deaths)
				require.True(t, told(l), "too few are left to wait for")
			})
		})
	}
}

// A node without tracking is noticed once per connection, and the caller learns
// that it must poll.
func TestLookoutWithoutTracking(t *testing.T) {
	for name, refuse := range map[string][2]string{
		"no permission to track": {"-NOPERM this user has no permissions", "CLIENT TRACKING"},
		"no permission to cache": {"-NOPERM this user has no permissions", "CLIENT CACHING"},
		"no permission to ask":   {"-NOPERM this user has no permissions", "PTTL"},
		"an old server":          {"-ERR unknown subcommand 'TRACKING'. Try CLIENT HELP.", "CLIENT TRACKING"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				for _, n := range c.nodes[:2] {
					n.Refuse(refuse[0], refuse[1])
				}
				c.set("k")
				l := c.lookout("k")
				defer l.Stop()
				require.True(t, l.Ask(), "not known yet")
				c.arrive()
				require.True(t, told(l))
				asked := c.nodes[0].Calls("CLIENT") + c.nodes[0].Calls("PTTL")
				for range 3 {
					require.False(t, l.Ask())
					c.arrive()
				}
				assert.Equal(t, asked, c.nodes[0].Calls("CLIENT")+c.nodes[0].Calls("PTTL"), "never in vain again")
				assert.Zero(t, c.status(0).Deaths)

				for _, n := range c.nodes[:2] {
					n.Refuse("", refuse[1])
					n.DropConns()
				}
				c.arrive()
				c.waitUp(3)
				require.True(t, l.Ask(), "another connection, another try")
			})
		})
	}
	t.Run("RESP2", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.lookout("k")
			defer l.Stop()
			require.False(t, l.Ask())
			c.arrive()
			assert.Zero(t, c.nodes[0].Calls("CLIENT TRACKING"))
			assert.Zero(t, c.nodes[0].Calls("PTTL"))
		}, withConfig(func(config *Config) {
			for i := range 2 {
				config.Nodes[i].Protocol = 2
			}
		}))
	})
	t.Run("busy", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, c *cluster) {
			c.nodes[0].Refuse("-BUSY Redis is busy running a script", "CLIENT TRACKING")
			l := c.lookout("k")
			defer l.Stop()
			require.True(t, l.Ask())
			c.arrive()
			require.True(t, told(l))
			c.nodes[0].Refuse("", "CLIENT TRACKING")
			require.True(t, l.Ask(), "that was no refusal for good")
			c.arrive()
			require.True(t, told(l), "free")
		})
	})
}

// A minority without tracking takes no part; the others suffice.
func TestLookoutWithTrackingOnSomeNodes(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse("-NOPERM no", "CLIENT TRACKING")
		c.nodes[1].Refuse("-NOPERM no", "CLIENT CACHING")
		c.set("k")
		l := c.lookout("k")
		defer l.Stop()
		require.True(t, l.Ask())
		c.arrive()
		require.False(t, told(l))
		for i := range 5 {
			c.nodes[i].DB().Delete("k")
			c.arrive()
			require.Equal(t, i == 4, told(l), "freed up to node %d", i)
		}
	})
}

// Nodes that die do not count for a lookout; when too few are left, the caller
// learns it.
func TestLookoutWhoseNodesDie(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.set("k")
		c.nodes[0].Close()
		c.eventually(time.Second, func() bool { return c.up() == 4 }, "one down")
		l := c.lookout("k")
		defer l.Stop()
		require.True(t, l.Ask())
		c.arrive()
		c.links[1].Refuse(true)
		c.links[1].Reset()
		c.arrive()
		require.False(t, told(l), "three are left")
		c.nodes[3].DB().Delete("k")
		c.nodes[4].DB().Delete("k")
		c.arrive()
		require.False(t, told(l), "two are free")
		c.links[2].Refuse(true)
		c.links[2].Reset()
		c.arrive()
		require.True(t, told(l), "two are left")
		require.False(t, l.Ask())
		c.links[1].Refuse(false)
		c.links[2].Refuse(false)
		c.waitUp(4)
		require.True(t, l.Ask())
		c.arrive()
		require.False(t, told(l))
		c.nodes[1].DB().Delete("k")
		c.arrive()
		require.True(t, told(l), "nodes that came back push again")
	})
}

// A connection that dies with the question unanswered counts as one that was
// never asked.
func TestLookoutWhoseAnswersAreLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.tracked()
		c.set("k")
		l := c.lookout("k")
		defer l.Stop()
		for _, n := range c.nodes[:2] {
			n.Pause()
		}
		require.True(t, l.Ask())
		c.arrive()
		c.links[0].Reset()
		c.arrive()
		require.False(t, told(l))
		c.links[1].Reset()
		c.arrive()
		require.True(t, told(l))
		for _, n := range c.nodes[:2] {
			n.Resume()
		}
		c.waitUp(3)
		require.True(t, l.Ask())
		c.arrive()
		require.False(t, told(l))
		c.nodes[0].DB().Delete("k")
		c.nodes[1].DB().Delete("k")
		c.arrive()
		require.True(t, told(l))
	})
}

// A stopped node has one question in its lane, however often it is asked, and
// answers when it continues.
func TestLookoutAsksAStalledNodeOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.tracked()
		c.set("k")
		c.nodes[0].Pause()
		l := c.lookout("k")
		defer l.Stop()
		for range 100 {
			require.True(t, l.Ask())
		}
		c.arrive()
		c.group.mu.Lock()
		assert.Equal(t, maxLane-2, c.group.nodes[0].lane.room())
		c.group.mu.Unlock()
		c.nodes[0].Resume()
		c.arrive()
		c.nodes[0].DB().Delete("k")
		c.arrive()
		require.True(t, told(l))
	}, withConfig(func(c *Config) { c.ShedAfter = time.Minute }))
}

// A push that came before the answer is about the time before the question; the
// answer is about now.
func TestLookoutBelievesNoPushBeforeTheAnswer(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.tracked()
		c.set("k")
		c.nodes[0].Pause()
		l := c.lookout("k")
		defer l.Stop()
		require.True(t, l.Ask())
		c.nodes[0].Push(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n")
		c.arrive()
		require.False(t, told(l))
		c.nodes[0].Resume()
		c.arrive()
		require.False(t, told(l), "it is held")
		c.nodes[0].DB().Delete("k")
		c.arrive()
		require.True(t, told(l))
	})
}

// A question after queued was called stands behind the release, although that
// is not written yet and its kind is merged (R8).
func TestAHandOverHasItsPlaceWhenItIsQueued(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		next := make(chan error, 1)
		err := c.group.HandOver(background, mergingKind, &Command{
			Encoded: encodedRelease("k", "t"), TTL: long, Receipt: receipt,
		}, func() {
			go func() {
				_, err := c.claim(background, "k", "next", long)
				next <- err
			}()
			synctest.Wait()
		})
		require.NoError(t, err)
		require.NoError(t, <-next)
		for _, n := range c.nodes {
			assert.Equal(t, []string{"1 SET k t", "1 release k t", "1 SET k next"}, story(n))
		}
	})
}

func TestLookoutsAreBounded(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		var all []*Lookout
		for i := range maxLookouts {
			all = append(all, c.lookout(fmt.Sprint(i%1000)))
		}
		require.Nil(t, c.group.Lookout([]byte("k")))
		c.nodes[0].Pause()
		asked := 0
		for _, l := range all {
			if l.Ask() {
				asked++
			}
		}
		assert.InDelta(t, maxLane/4, asked, 2, "half of the lane is for others")
		for _, l := range all {
			l.Stop()
		}
		assert.Empty(t, c.group.tracker.lookouts)
		assert.Zero(t, c.group.tracker.listening.Load())
		c.nodes[0].Resume()
		c.arrive()
		c.lookout("k").Stop()
		c.mustClaim("k")
	}, withConfig(func(c *Config) { c.ShedAfter = time.Minute }))
}

func TestLookoutThatRestsOrStopsIsToldNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.set("k")
		resting, stopped := c.lookout("k"), c.lookout("k")
		require.True(t, resting.Ask())
		require.True(t, stopped.Ask())
		stopped.Stop() // with its answer in flight
		c.arrive()
		resting.Rest()
		c.nodes[0].DB().Delete("k")
		c.arrive()
		assert.False(t, told(resting))
		assert.False(t, told(stopped))
		require.True(t, resting.Ask())
		c.arrive()
		assert.True(t, told(resting))
		resting.Stop()
		require.NoError(t, c.group.Close(background))
		late := c.lookout("k")
		assert.False(t, late.Ask(), "R28")
		late.Stop()
	})
}
