package multiplex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// votes returns a node's counts of votes.
func (c *cluster) votes(node int) (granted, refused, failed, late uint64) {
	n := c.status(node).Counts
	return n.Granted, n.Refused, n.Failed, n.Late
}

// The vote that completes the quorum is the last to count; the next node
// answers late (R5, R17).
func TestVotesAreCountedUntilTheDecision_R17(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.links[2].Latency(5*ms, 5*ms)
		c.mustClaim("k")
		time.Sleep(20 * ms)
		_, err := c.claim(background, "k", "u", long) // refused, and then undone without effect
		require.Equal(t, ErrRefused, err)
		time.Sleep(20 * ms)
		for i := range 2 {
			granted, refused, failed, late := c.votes(i)
			assert.Equal(t, []uint64{1, 2, 0, 0}, []uint64{granted, refused, failed, late}, "node %d", i)
		}
		granted, refused, failed, late := c.votes(2)
		assert.Equal(t, []uint64{0, 0, 0, 3}, []uint64{granted, refused, failed, late})
		assert.Zero(t, c.status(2).Counts.Overdue, "its vote did not time out")
	})
}

// A vote that timed out has failed, and stays failed when the reply comes after
// all (R6, R17).
func TestVotesThatAreGivenUp_R6(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range 2 {
			c.links[i].Latency(60*ms, 60*ms)
		}
		_, err := c.claim(background, "k", "t", long)
		require.Equal(t, []int{0, 1}, undecided(t, err))
		for i := range 2 {
			n := c.status(i).Counts
			assert.Equal(t, []uint64{1, 1, 0}, []uint64{n.Failed, n.TimedOut, n.Late}, "node %d", i)
		}
		time.Sleep(time.Second) // the grants arrive, and then the replies to the undo
		for i := range 2 {
			n := c.status(i).Counts
			assert.Equal(t, []uint64{0, 0, 2, 2}, []uint64{n.Granted, n.Refused, n.Failed, n.TimedOut}, "node %d", i)
			assert.Equal(t, []uint64{2, 2}, []uint64{n.Late, n.Overdue}, "node %d", i)
			assert.Zero(t, n.Deaths)
		}
	})
}

// A node that is absent when a command is queued fails at once; a node that
// dies before it answers fails then (R16).
func TestVotesOfTheAbsentAndOfTheDying_R16(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, i := range []int{1, 2} {
			c.nodes[i].Pause()
		}
		time.AfterFunc(10*ms, func() {
			for _, i := range []int{1, 2} {
				c.links[i].Refuse(true)
				c.links[i].Reset()
			}
		})
		_, err := c.claim(background, "k", "t", long)
		require.Equal(t, []int{1, 2}, undecided(t, err))
		for _, i := range []int{1, 2} {
			n := c.status(i).Counts
			// The undo was queued when both were gone, and one of the deaths
			// may have decided the round already.
			assert.EqualValues(t, 1, n.Absent, "node %d", i)
			assert.Zero(t, n.TimedOut)
			assert.EqualValues(t, 2, n.Failed)
			assert.Equal(t, map[string]uint64{"peer": 1}, n.Deaths)
		}
		for _, i := range []int{1, 2} {
			c.nodes[i].Resume()
			c.links[i].Refuse(false)
		}
	})
}

// A node that dies with a command that was decided without it has failed no
// vote.
func TestADeathAfterTheDecisionIsNoVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[2].Pause()
		c.mustClaim("k")
		c.links[2].Reset()
		time.Sleep(trip)
		n := c.status(2).Counts
		assert.Equal(t, map[string]uint64{"peer": 1}, n.Deaths)
		assert.Zero(t, n.Failed+n.Granted+n.Late)
		c.nodes[2].Resume()
	})
}

// Of the nodes that time out, only those whose vote was missing count (R6).
func TestGiveUpReturnsWhatItCounted_R6(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		r := &round{group: c.group, verb: claimKind.verb()}
		require.True(t, r.vote(0, Granted, nil))
		assert.Equal(t, setOf(1), r.giveUp(setOf(0)|setOf(1)))
		assert.Zero(t, r.giveUp(setOf(0)|setOf(1)))
		assert.Equal(t, setOf(2), r.giveUp(All(3)), "which decides it")
		assert.Zero(t, r.giveUp(All(3)))
	})
}

// If we broke the connection, our cause stands, whatever error the reader gets
// meanwhile.
func TestADeathByOurHandKeepsItsCause(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		n := c.group.nodes[0]
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		n.life.State, n.fault = Shed, &fault{err: &downError{ErrIndebted}}
		n.countDeathLocked(&conn.Error{Op: "read", Err: io.EOF})
		n.life.State = Up
		assert.EqualValues(t, 1, n.counters.deaths["indebted"])
		assert.Zero(t, n.counters.deaths["peer"])
	})
}

// Readers count replies, and callers see their votes, even when releases travel
// merged: no vote is lost or counted twice. Each round of a healthy group gets
// one reply from each node.
func TestEachReplyIsCountedOnce(t *testing.T) {
	const callers, claims = 16, 20
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for k := range claims {
					key := fmt.Sprint(i, "-", k)
					receipt := c.mustClaim(key)
					assert.NoError(t, c.release(background, key, "t", long, receipt))
				}
			})
		}
		wg.Wait()
		time.Sleep(100 * ms)
		for i := range 3 {
			granted, refused, failed, late := c.votes(i)
			assert.EqualValues(t, 2*callers*claims, granted+late, "node %d", i)
			assert.Zero(t, refused+failed)
		}
	}, merging(true))
}

// Errors are counted by class, cures separately, and the final reply to a cured
// command is its vote (R24).
func TestErrorsAreCountedByClass_R24(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.nodes[1].FlushScripts()
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(10 * trip)
		n := c.status(1).Counts
		assert.Equal(t, map[string]uint64{"NOSCRIPT": 1}, n.Errors)
		assert.EqualValues(t, 1, n.Cures)
		assert.EqualValues(t, 2, n.Granted+n.Late, "the cured command's reply, and no other")
		assert.Zero(t, n.Failed)

		c.nodes[0].Refuse("-OOM command not allowed", "SET")
		c.nodes[2].Refuse("-whatever", "SET")
		_, err := c.claim(background, "k", "t", long)
		require.Equal(t, []int{0, 2}, undecided(t, err))
		assert.Equal(t, map[string]uint64{"OOM": 1}, c.status(0).Counts.Errors)
		assert.Equal(t, map[string]uint64{"ERR": 1}, c.status(2).Counts.Errors)
		assert.EqualValues(t, 1, c.status(0).Counts.Failed)
	})
}

// A debt is counted once when it arises, and once when it is paid or expires
// (R8).
func TestDebtsAreCounted_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		paid, expired := c.mustClaim("paid"), c.mustClaim("expired")
		time.Sleep(trip)
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "paid", "t", long, paid))
		require.Equal(t, ErrRefused, c.release(background, "paid", "t", long, paid), "twice is harmless, and owed once")
		time.Sleep(60 * ms)
		status := c.status(0)
		assert.Equal(t, []uint64{1, 0, 0}, debtsOf(status))
		assert.Equal(t, 1, status.Debts)
		assert.GreaterOrEqual(t, status.Counts.Errors["MISCONF"], uint64(3), "refused payments are errors too")
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(time.Second, func() bool { return c.debts() == 0 }, "paid")
		assert.Equal(t, []uint64{1, 1, 0}, debtsOf(c.status(0)))

		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "expired", "t", long, expired))
		c.eventually(20*time.Second, func() bool { return len(c.nodes[0].Keys()) == 0 }, "expired")
		c.eventually(5*time.Second, func() bool { return c.debts() == 0 }, "the debt ends")
		assert.Equal(t, []uint64{2, 1, 1}, debtsOf(c.status(0)))
	})
}

func debtsOf(s Status) []uint64 {
	return []uint64{s.Counts.DebtsMade, s.Counts.DebtsPaid, s.Counts.DebtsExpired}
}

// Each end of a connection has a cause, and their sum is Status.Deaths.
func TestDeathsAreCountedByCause(t *testing.T) {
	for want, kill := range map[string]func(c *cluster){
		"peer": func(c *cluster) { c.nodes[0].DropConns() },
		"silent": func(c *cluster) {
			c.nodes[0].Pause()
			c.mustClaim("k")
			time.Sleep(longShed + 20*ms)
			c.nodes[0].Resume()
		},
		"unexpected": func(c *cluster) { c.answer(":1\r\n") },
		"protocol":   func(c *cluster) { c.answer("OK\r\n") },
		"indebted": func(c *cluster) {
			c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
			for i := range 3 {
				receipt := c.mustClaim(fmt.Sprint("k", i))
				assert.NoError(c.t, c.release(background, fmt.Sprint("k", i), "t", long, receipt))
			}
			time.Sleep(trip)
			c.nodes[0].Refuse("", "EVALSHA")
		},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				kill(c)
				c.eventually(5*time.Second, func() bool { return c.status(0).Deaths > 0 && c.up() == 3 }, "dead, and up again")
				s := c.status(0)
				assert.Equal(t, map[string]uint64{want: uint64(s.Deaths)}, s.Counts.Deaths)
				assert.EqualValues(t, s.Connects, s.Counts.Dials-s.Counts.DialFailures)
				for i := range 3 {
					assert.Equal(t, i == 0, c.status(i).Counts.Deaths != nil)
				}
			}, withConfig(func(config *Config) { config.MaxDebts = 3 }))
		})
	}
}

// answer makes the first node answer the next SET with these bytes.
func (c *cluster) answer(reply string) {
	var once sync.Once
	c.nodes[0].Handle(func(_ int, args []string) (odd []byte, handled bool) {
		if args[0] == "SET" {
			once.Do(func() { odd, handled = []byte(reply), true })
		}
		return odd, handled
	})
	c.mustClaim("k")
}

func TestDeathOf(t *testing.T) {
	died := func(op string, err error) error { return &conn.Error{Op: op, Addr: "a:1", Err: err} }
	for want, causes := range map[string][]error{
		"peer":       {died("read", io.EOF), died("write", errors.New("reset")), died("exchange", io.ErrUnexpectedEOF)},
		"silent":     {died("break", ErrSilent), died("exchange", ErrSilent), &downError{ErrSilent}},
		"stalled":    {died("write", conn.ErrStalled)},
		"indebted":   {died("break", ErrIndebted)},
		"protocol":   {died("parse", &resp.SyntaxError{}), died("exchange", conn.ErrProtocol)},
		"unexpected": {fmt.Errorf("%w: a push", ErrUnexpected), died("exchange", ErrUnexpected), errors.New("odd")},
		"forgot":     {errForgot},
		"demoted":    {errRewritten, notMaster("x")},
		"closed":     {died("close", conn.ErrClosed), died("exchange", context.Canceled)},
	} {
		for _, cause := range causes {
			assert.Equal(t, want, deathOf(cause), "%v", cause)
		}
	}
}

// Dials, failed dials and probes are counted (R26).
func TestDialsAndProbesAreCounted_R26(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, c *cluster) {
		c.links[0].Refuse(true)
		c.nodes[0].DropConns()
		time.Sleep(time.Second)
		n := c.status(0).Counts
		assert.EqualValues(t, 1, n.Dials-n.DialFailures)
		assert.GreaterOrEqual(t, n.DialFailures, uint64(4))
		c.links[0].Refuse(false)
		c.waitUp(2)
		n = c.status(0).Counts
		assert.EqualValues(t, 2, n.Dials-n.DialFailures)

		before := c.status(1).Counts.Probes
		time.Sleep(21 * time.Second)
		assert.EqualValues(t, 4, c.status(1).Counts.Probes-before, "one each 5 s")
	})
}
