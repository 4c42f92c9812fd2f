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

// asking asks about a key, and waits for the answers.
func (c *cluster) asking(key string) *Lookout {
	c.t.Helper()
	l := c.lookout(key)
	c.t.Cleanup(l.Stop)
	require.True(c.t, l.Ask())
	c.arrive()
	return l
}

// hears lets what is in flight arrive, and is told then.
func (c *cluster) hears(l *Lookout) bool {
	c.arrive()
	return told(l)
}

// vacate deletes the key k on nodes.
func (c *cluster) vacate(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].DB().Delete("k")
	}
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
		subBubble(t, fmt.Sprint("nodes=", n), n, func(t *testing.T, c *cluster) {
			c.set("k")
			l := c.asking("k")
			require.False(t, told(l), "it is held everywhere")
			for i, node := range c.nodes {
				node.DB().Delete("k")
				time.Sleep(oneWay)
				require.Equal(t, i+1 == Quorum(n), told(l), "freed on %d nodes; told once, at the quorum", i+1)
			}
			require.True(t, l.Ask())
			require.True(t, c.hears(l), "free at once")
			assert.Zero(t, c.group.tracker.listening.Load())
			assert.Zero(t, c.status(0).Deaths)
			assert.Equal(t, 1, c.nodes[0].Calls("CLIENT TRACKING"), "once for a connection")
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
		hear := func() (told []bool) {
			c.arrive()
			for _, l := range all {
				told = append(told, len(l.Signal()) > 0)
			}
			return told
		}
		for _, key := range []string{"k", "kk", "K", "k\r\n", "k"} {
			c.set(key)
			all = append(all, c.asking(key))
		}
		for i, n := range c.nodes {
			c.vacate(i)
			n.DB().Set("nobody's", "x", 0) // a push for a key without a lookout is fine
		}
		require.Equal(t, []bool{true, false, false, false, true}, hear())
		for _, n := range c.nodes {
			n.FlushAll()
		}
		require.Equal(t, []bool{true, true, true, true, true}, hear())
		assert.Zero(t, c.status(0).Deaths)
	})
}

// R16: an unrequested push ends the connection, and so does a malformed one,
// even if pushes were requested.
func TestPushesThatEndAConnection_R16(t *testing.T) {
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
		"attribute":           "|1\r\n+a\r\n+b\r\n" + flushPush,
		"attribute of a key":  ">2\r\n$10\r\ninvalidate\r\n*1\r\n|1\r\n+a\r\n+b\r\n$1\r\nk\r\n",
		"redirection is gone": ">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n",
		"a reply":             strings.Replace(invalidation, ">", "*", 1),
	} {
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
			c.tracked()
			c.nodes[0].Push(flushPush + invalidation)
			c.arrive()
			require.Zero(t, c.status(0).Deaths)
			c.nodes[0].Push(push)
			c.arrive()
			require.Equal(t, 1, c.status(0).Deaths)
			require.Zero(t, c.status(1).Deaths)
		})
	}
	for name, push := range map[string]string{"flushed": flushPush, "key": invalidation} {
		subBubble(t, "untracked/"+name, 1, func(t *testing.T, c *cluster) {
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
		subBubble(t, name, 1, func(t *testing.T, c *cluster) {
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				return []byte(odd.reply), args[0] == odd.command || len(args) > 1 && args[1] == odd.command
			})
			l := c.asking("k")
			require.Equal(t, 1, c.status(0).Deaths)
			require.True(t, told(l), "too few are left to wait for")
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
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
			for _, n := range c.nodes[:2] {
				n.Refuse(refuse[0], refuse[1])
			}
			c.set("k")
			l := c.asking("k") // it is not known yet
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
	}
}

// A minority without tracking takes no part. A node with RESP2 is not asked;
// one that is only busy is asked again.
func TestLookoutOfOtherNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse("-NOPERM no", "CLIENT TRACKING")
		c.set("k")
		l := c.asking("k")
		for i := range c.nodes {
			require.False(t, c.hears(l), "freed on less than node %d", i)
			c.vacate(i)
		}
		require.True(t, c.hears(l))
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lookout("k")
		defer l.Stop()
		require.False(t, l.Ask())
		c.arrive()
		assert.Zero(t, c.nodes[0].Calls("CLIENT TRACKING")+c.nodes[0].Calls("PTTL"))
	}, withConfig(func(config *Config) { config.Nodes[0].Protocol, config.Nodes[1].Protocol = 2, 2 }))
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse("-BUSY Redis is busy running a script", "CLIENT TRACKING")
		l := c.asking("k")
		require.True(t, told(l))
		c.nodes[0].Refuse("", "CLIENT TRACKING")
		require.True(t, l.Ask(), "that was no refusal for good")
		require.True(t, c.hears(l), "free")
	})
}

// Nodes that die do not count for a lookout; when too few are left, the caller
// learns it.
func TestLookoutWhoseNodesDie(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.set("k")
		c.nodes[0].Close()
		c.eventually(time.Second, func() bool { return c.up() == 4 }, "one down")
		l := c.asking("k")
		c.links[1].Refuse(true)
		c.links[1].Reset()
		require.False(t, c.hears(l), "three are left")
		c.vacate(3, 4)
		require.False(t, c.hears(l), "two are free")
		c.links[2].Refuse(true)
		c.links[2].Reset()
		require.True(t, c.hears(l), "two are left")
		require.False(t, l.Ask())
		c.links[1].Refuse(false)
		c.links[2].Refuse(false)
		c.waitUp(4)
		require.True(t, l.Ask())
		require.False(t, c.hears(l))
		c.vacate(1)
		require.True(t, c.hears(l), "nodes that came back push again")
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
		c.vacate(0)
		require.True(t, c.hears(l))
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
		c.nodes[0].Push(invalidation)
		require.False(t, c.hears(l))
		c.nodes[0].Resume()
		require.False(t, c.hears(l), "it is held")
		c.vacate(0)
		require.True(t, c.hears(l))
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
		c.vacate(0)
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

const (
	invalidation = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
	flushPush    = ">2\r\n$10\r\ninvalidate\r\n_\r\n"
)

// A node may push as much as its questions can cause, and a server may push
// twice. More than that ends its connection, and no other (R32).
func TestMoreInvalidationsThanWereAskedFor_R32(t *testing.T) {
	for pushes, deaths := range map[int]int{pushesPerQuestion: 0, pushesPerQuestion + 1: 1} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.set("k")
			c.asking("k")
			c.nodes[0].Push(strings.Repeat(invalidation, pushes))
			c.arrive()
			require.Equal(t, deaths, c.status(0).Deaths, "%d pushes", pushes)
			require.Zero(t, c.status(1).Deaths+c.status(2).Deaths)
		})
	}
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.set("k")
		c.asking("k")
		c.nodes[0].Push(">2\r\n$10\r\ninvalidate\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n")
		c.arrive()
		require.Equal(t, uint64(1), c.status(0).Counts.Deaths["unexpected"], "each key counts")
	})
}

// Each FLUSHALL pushes a null, as often as another client flushes; but there is
// a limit (R32).
func TestFlushesAreBounded_R32(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.set("k")
		c.asking("k")
		for range 3 {
			c.nodes[0].Push(strings.Repeat(flushPush, flushesPerSecond))
			time.Sleep(time.Second)
		}
		require.Zero(t, c.status(0).Deaths, "a thousand a second")
		c.nodes[0].Push(strings.Repeat(flushPush, flushesPerSecond+100))
		c.arrive()
		require.Equal(t, uint64(1), c.status(0).Counts.Deaths["unexpected"])
	})
}

// After a flush, a lookout that asks again hears of the next one.
func TestEachFlushIsToldAfterAQuestion(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lookout("k")
		defer l.Stop()
		for range 3 {
			c.set("k")
			require.True(t, l.Ask())
			require.False(t, c.hears(l))
			for _, n := range c.nodes {
				n.Push(flushPush + flushPush)
			}
			require.True(t, c.hears(l))
		}
	})
}

// A reply that is larger than any requested one ends the connection before it
// is complete (R32). One that fits does not.
func TestRepliesAreBounded_R32(t *testing.T) {
	for reply, deaths := range map[string]int{
		"-ERR " + strings.Repeat("x", 4000) + "\r\n": 0,
		"-ERR " + strings.Repeat("x", 4096) + "\r\n": 1,
		"*65\r\n":                        1,
		"*1000000\r\n":                   1,
		"$65537\r\n":                     1,
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n": 1,
	} {
		subBubble(t, fmt.Sprintf("%.12q and %d bytes", reply, len(reply)), 3, func(t *testing.T, c *cluster) {
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte(reply), args[0] == "SET" })
			_, err := c.claim(background, "k", "t", long)
			require.NoError(t, err, "two of three")
			c.arrive()
			require.Equal(t, uint64(deaths), c.status(0).Counts.Deaths["protocol"])
		})
	}
}

// A signal that was not taken before the next Ask belongs to the previous
// question. If Ask left it, the caller would take it for an answer, and the
// next signal would find no room: the goroutine that reads the node would wait
// for room under the tracker's mutex, and the client with it, forever.
func TestAskForgetsASignalThatWasNotTaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lookout("k")
		defer l.Stop()
		for range 3 {
			require.True(t, l.Ask())
			assert.False(t, told(l), "no node has answered yet") // this also makes room
			c.arrive()
			assert.Len(t, l.Signal(), 1, "the key is free, and the signal stays where it is")
			l.Rest() // as a caller does that was woken otherwise meanwhile
		}
	})
}

// A node that has refused to push, but has yet to answer the question, is not
// asked again by the next Ask, which must not forget the refusal: the answer
// alone would count, and the lookout would wait for pushes that never come.
func TestAskRemembersWhoWillNotPush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.set("k")
		for _, n := range c.nodes[:2] {
			n.Refuse("-NOPERM no", "CLIENT CACHING")
			n.Handle(func(_ int, args []string) ([]byte, bool) { return nil, args[0] == "PTTL" })
		}
		l := c.asking("k")
		require.True(t, l.Ask(), "their answers are on their way")
		for _, n := range c.nodes[:2] {
			n.Push(":60000\r\n")
		}
		require.True(t, c.hears(l), "too few will push")
		require.Zero(t, c.status(0).Deaths)
	})
}
