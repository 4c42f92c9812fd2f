package multiplex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// postRelease posts the release of a key claimed with the token "t".
func (c *cluster) postRelease(inbox *Outcomes, key string, receipt Receipt, tag any) error {
	kind := releaseKind
	if c.merges {
		kind = mergingKind
	}
	return c.group.PostRelease(kind, &Command{
		Encoded: encodedRelease(key, "t"), TTL: long, Receipt: receipt,
	}, Posting{Inbox: inbox, Tag: tag})
}

func (c *cluster) postExtend(inbox *Outcomes, key, token string, tag any) error {
	_, err := c.group.PostExtension(extendKind, &Command{
		Encoded: raw(extendCommand(key, token, long)), TTL: long,
	}, Posting{Inbox: inbox, Tag: tag})
	return err
}

// take waits for n outcomes.
func take(t testing.TB, inbox *Outcomes, n int) []Outcome {
	t.Helper()
	all := make([]Outcome, 0, n)
	late := time.After(patience)
	for {
		if all = inbox.Take(all); len(all) == n {
			return all
		}
		select {
		case <-inbox.Ready():
		case <-late:
			t.Fatalf("%d outcomes of %d", len(all), n)
		}
	}
}

// Posted commands that gather travel together, although no caller waits for
// them, and each outcome has its own tag (R13).
func TestPostedCommandsTravelTogether(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(100)
		inbox := NewOutcomes()
		before := len(story(c.nodes[0]))
		start := time.Now()
		for i := range 100 {
			require.NoError(t, c.postRelease(inbox, fmt.Sprint("k", i), l.receipts[i], i))
		}
		synctest.Wait()
		require.Len(t, story(c.nodes[0]), before, "nothing is written before Flush")
		c.group.Flush()
		seen := make(map[any]bool)
		for len(seen) < 100 { // the inbox is ready again while it has more than there was room for
			<-inbox.Ready()
			for _, o := range inbox.Take(make([]Outcome, 0, 30)) {
				require.Equal(t, Outcome{Tag: o.Tag, Granted: o.Granted}, o)
				require.GreaterOrEqual(t, o.Granted.Len(), c.group.quorum)
				seen[o.Tag] = true
			}
		}
		require.Equal(t, trip, time.Since(start))
		synctest.Wait()
		lines := story(c.nodes[0])[before:]
		require.Len(t, lines, 2, "64 and 36: %v", lines)
		require.Empty(t, c.keys())
		require.NoError(t, c.group.Close(background))
		require.Zero(t, c.group.log.live, "rounds are given back (R20)")
	})
}

func TestAPostedOutcomeTellsWhatEachNodeSaid(t *testing.T) { // R13
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.mustClaim("k")
		synctest.Wait()
		time.Sleep(trip)
		c.nodes[0].DB().Delete("k")
		c.links[1].Latency(time.Second, 0)
		c.nodes[2].Refuse("-OOM command not allowed")
		c.nodes[3].DB().Delete("k")
		c.nodes[4].DB().Delete("k")
		c.links[4].Latency(2*oneWay, oneWay) // slower than the others, so that it decides
		inbox := NewOutcomes()
		require.NoError(t, c.postExtend(inbox, "k", "t", "tag"))
		c.group.Flush()
		o := take(t, inbox, 1)[0]
		require.Equal(t, "tag", o.Tag)
		require.Equal(t, ErrRefused, o.Err)
		require.Len(t, o.Answers, 5)
		assert.Equal(t, Answer{0, c.nodes[0].Addr(), Refused, nil}, o.Answers[0])
		assert.Equal(t, Answer{1, c.nodes[1].Addr(), 0, nil}, o.Answers[1], "decided before it answered")
		assert.Equal(t, Failed, o.Answers[2].Vote)
		var refusal *RefusalError
		assert.ErrorAs(t, o.Answers[2].Err, &refusal)
		assert.Equal(t, Refused, o.Answers[3].Vote)
	})
}

// A posted round has no caller and no context; its votes time out all the same
// (R6). It can wait longer by default; a configured timeout stays as it is.
func TestAPostedRoundEndsByItsVoteTimeouts(t *testing.T) {
	for _, x := range []struct{ configured, patience, want time.Duration }{
		{0, 0, longTimeout}, {0, time.Second, time.Second}, {20 * ms, time.Second, 20 * ms},
	} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.mustClaim("k")
			time.Sleep(trip)
			latency(c.links, time.Minute, 0)
			inbox := NewOutcomes()
			start := time.Now()
			_, err := c.group.PostExtension(extendKind, &Command{
				Encoded: raw(extendCommand("k", "t", long)), TTL: long,
			}, Posting{Inbox: inbox, Patience: x.patience})
			require.NoError(t, err)
			c.group.Flush()
			o := take(t, inbox, 1)[0]
			require.ErrorIs(t, o.Err, ErrUndecided)
			require.InDelta(t, x.want, time.Since(start), float64(tickMost))
			for i, a := range o.Answers {
				require.Equal(t, Answer{i, c.nodes[i].Addr(), Failed, ErrTimeout}, a)
			}
		}, withConfig(func(config *Config) { config.VoteTimeout, config.ShedAfter = x.configured, time.Minute }))
	}
}

func TestWhatCannotBeSentIsNotPosted(t *testing.T) { // R26
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		inbox := NewOutcomes()
		long := resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(extendSource), "1", strings.Repeat("k", 1000), "t", "1")
		command := &Command{Encoded: raw(long), TTL: time.Second}
		merged := &ExtendKind{Kind: scripted, Merger: mergingKind.Merger}
		queued := 0
		var err error
		for ; err == nil; queued++ {
			_, err = c.group.PostExtension(merged, command, Posting{Inbox: inbox})
		}
		require.Equal(t, ErrOverloaded, err)
		require.InDelta(t, maxUnflushed/len(long), queued, 2, "what waits to be merged is bounded too")
		c.group.Flush()
		take(t, inbox, queued-1)
		_, err = c.group.PostExtension(merged, command, Posting{Inbox: inbox})
		require.NoError(t, err, "there is room again")
		c.group.Flush()
		take(t, inbox, 1)

		for _, l := range c.links[:2] {
			l.Refuse(true)
			l.Reset()
		}
		synctest.Wait()
		require.ErrorIs(t, c.postExtend(inbox, "k", "t", nil), ErrUndecided)
		require.NoError(t, c.group.Close(background))
		require.Equal(t, ErrClosed, c.postExtend(inbox, "k", "t", nil))
		synctest.Wait()
		require.Empty(t, inbox.Take(make([]Outcome, 0, 1)), "an error is all that comes")
	})
}

// Close ends posted rounds as it does others, flushed or not, and waits no
// longer for them (R28).
func TestCloseEndsPostedRounds(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.lock(2)
			latency(c.links, time.Minute, 0)
			inbox := NewOutcomes()
			require.NoError(t, c.postExtend(inbox, "k0", "t", "extension"))
			require.NoError(t, c.postRelease(inbox, "k1", l.receipts[1], "release"))
			if flushed {
				c.group.Flush()
			}
			start := time.Now()
			require.NoError(t, c.group.Close(background))
			require.LessOrEqual(t, time.Since(start), longTimeout+5*time.Millisecond)
			got := make(map[any]error)
			for _, o := range take(t, inbox, 2) {
				got[o.Tag] = o.Err
			}
			require.Equal(t, ErrClosed, got["extension"])
			require.Error(t, got["release"])
		})
	}
}

// A healed key is a grant, but not from a node that is quarantined, nor from
// one that was when the command was queued (R10, R23).
func TestARestoredKeyCountsOnlyOutsideQuarantine(t *testing.T) {
	healed := Kind{Judge: func(resp.Value) Vote { return Restored }, Script: true}
	restore := &ExtendKind{Kind: healed}
	merged := &ExtendKind{Kind: healed, Merger: &Merger{Kind: healed, AppendHead: mergingKind.Merger.AppendHead}}
	for name, c := range map[string]struct {
		before, after Set // when the command gets its place, and then
		want          error
	}{
		"none":            {0, 0, nil},
		"one":             {1, 1, nil},
		"two":             {3, 3, ErrRefused},
		"two, until then": {3, 0, ErrRefused},
		"two, since then": {0, 3, ErrRefused},
	} {
		for _, kind := range []*ExtendKind{restore, merged} {
			subBubble(t, fmt.Sprint(name, "/merged=", kind == merged), 3, func(t *testing.T, cl *cluster) {
				inbox := NewOutcomes()
				quarantine := func(s Set) {
					cl.group.mu.Lock()
					defer cl.group.mu.Unlock()
					cl.group.members.Doubted = s
				}
				quarantine(c.before)
				for i := range 2 {
					_, err := cl.group.PostExtension(kind, &Command{Encoded: encodedRelease(fmt.Sprint("k", i), "t"), TTL: long}, Posting{Inbox: inbox})
					require.NoError(t, err)
				}
				if kind == merged {
					cl.group.Flush() // places them
					synctest.Wait()
				}
				quarantine(c.after)
				cl.group.Flush()
				for _, o := range take(t, inbox, 2) {
					require.Equal(t, c.want, o.Err)
				}
			}, merging(true))
		}
	}
}

// A command that undoes another must not overtake it, even if that one waits to
// be merged and this one does not.
func TestWhatIsBehindStandsBehindWhatWaitsToBeMerged(t *testing.T) {
	inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.lock(3)
		inbox := NewOutcomes()
		before := len(story(c.nodes[0]))
		for i := range 2 {
			require.NoError(t, c.postRelease(inbox, fmt.Sprint("k", i), l.receipts[i], i))
		}
		behind := &ReleaseKind{Kind: scripted, Behind: true}
		err := c.group.Release(background, behind, &Command{Encoded: raw(releaseCommand("k2", "t")), TTL: long, Receipt: l.receipts[2]})
		require.NoError(t, err)
		take(t, inbox, 2)
		lines := story(c.nodes[0])[before:]
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "merged k0 k1")
		require.Contains(t, lines[1], "release k2")
	})
}

var pingAndGet = [][]byte{resp.AppendCommand(nil, "PING"), resp.AppendCommand(nil, "GET", "k")}

func TestQueryNamesWhoDidNotAnswer(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.mustClaim("k")
		time.Sleep(trip)
		c.nodes[0].Close()
		c.eventually(time.Second, func() bool { return c.up() == 2 }, "one node down")
		c.nodes[1].Pause()
		ctx := brief(t, 20*time.Millisecond)
		var calls []string // only node 2 calls
		errs := c.group.Query(ctx, pingAndGet, func(node, i int, v resp.Value) error {
			calls = append(calls, fmt.Sprint(node, i, string(v.Bytes())))
			return nil
		})
		assert.ErrorIs(t, errs[0], ErrDown)
		assert.ErrorIs(t, errs[1], context.DeadlineExceeded)
		assert.NoError(t, errs[2])
		c.nodes[1].Resume()
		time.Sleep(time.Second)
		assert.Equal(t, []string{"2 0PONG", "2 1t"}, calls, "replies after the return of Query are dropped")
		assert.Equal(t, Up, c.status(1).State, "a late answer is an answer (R16)")
	})
}

// A node without commands is not asked, in whatever state it is.
func TestQueryEachPassesOverNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Close()
		c.eventually(time.Second, func() bool { return c.up() == 2 }, "one node down")
		asked := c.nodes[1].Calls("PING")
		var calls []int
		errs := c.group.QueryEach(brief(t, time.Second), 2, func(node int) [][]byte {
			if node < 2 {
				return nil
			}
			return pingAndGet
		}, func(node, _ int, _ resp.Value) error {
			calls = append(calls, node)
			return nil
		})
		assert.Equal(t, []error{nil, nil, nil}, errs)
		assert.Equal(t, []int{2, 2}, calls)
		assert.Equal(t, asked, c.nodes[1].Calls("PING"))
		assert.Equal(t, trip, took(func() { c.group.Query(background, pingAndGet[:1], func(_, _ int, _ resp.Value) error { return nil }) }))
		none := func(int) [][]byte { return nil }
		assert.Zero(t, took(func() { c.group.QueryEach(background, 1, none, nil) }), "there is nothing to wait for")
	})
}

func TestQueryThatFindsAnAnomalyEndsTheConnection(t *testing.T) {
	for at := range pingAndGet {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			odd := errors.New("odd")
			ctx := brief(t, time.Second)
			var errs []error
			spent := took(func() {
				errs = c.group.Query(ctx, pingAndGet, func(node, i int, _ resp.Value) error {
					if node == 1 && i == at {
						return odd
					}
					return nil
				})
			})
			assert.Equal(t, trip, spent, "also after the last reply, when nothing is in the lane any more")
			assert.NoError(t, errs[0])
			require.ErrorIs(t, errs[1], odd)
			assert.NoError(t, errs[2])
			c.eventually(time.Second, func() bool { return c.status(1).Deaths == 1 && c.up() == 3 }, "a death and a new connection")
		})
	}
}

func TestQueryEndsWithItsConnectionsAndItsGroup(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		pause(c.nodes)
		time.AfterFunc(trip, c.nodes[0].DropConns)
		time.AfterFunc(10*time.Millisecond, func() { _ = c.group.Close(background) })
		var errs []error
		none := func(_, _ int, _ resp.Value) error { return nil }
		require.Less(t, took(func() { errs = c.group.Query(background, pingAndGet, none) }), time.Second)
		for _, err := range errs {
			assert.Error(t, err)
		}
		for _, err := range c.group.Query(background, pingAndGet, none) {
			assert.ErrorIs(t, err, ErrClosed)
		}
	})
}

func TestQueryFindsAFullLane(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.group.mu.Lock()
		for c.group.nodes[0].lane.room() > 1 {
			c.group.nodes[0].lane.add(laneEntry{purpose: probe}, ping)
		}
		c.group.mu.Unlock()
		errs := c.group.Query(background, pingAndGet, func(_, _ int, _ resp.Value) error { return nil })
		assert.ErrorIs(t, errs[0], ErrOverloaded, "half of it would be no use")
	})
}
