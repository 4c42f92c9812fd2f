package multiplex

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (c *cluster) flushScripts() {
	for _, n := range c.nodes {
		n.FlushScripts()
	}
}

// healthy requires that no connection was lost.
func (c *cluster) healthy() {
	c.t.Helper()
	for i := range c.nodes {
		s := c.status(i)
		require.Equal(c.t, [3]int{1, 0, 0}, [3]int{s.Connects, s.Deaths, s.Sheds}, "node %d: %v", i, s.Err)
	}
}

// R24: a lost script is cured on the same connection, and costs one more round
// trip; for a release that no caller waits for, without another call.
func TestLostScriptIsCured(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.flushScripts()
		assert.Equal(t, 2*trip, took(func() { assert.NoError(t, c.extend(background, "k", "t", 2*long)) }))
		assert.Equal(t, trip, took(func() { assert.NoError(t, c.extend(background, "k", "t", 2*long)) }))
		c.flushScripts()
		assert.Equal(t, 2*trip, took(func() { assert.NoError(t, c.release(background, "k", "t", long, receipt)) }))
		receipt = c.mustClaim("k")
		time.Sleep(trip)
		c.flushScripts()
		c.group.Tell(releaseKind, &Command{Encoded: encodedRelease("k", "t"), TTL: long, Receipt: receipt})
		time.Sleep(2 * trip)
		synctest.Wait()
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
		c.healthy()
	})
}

// If there are more cures than a lane holds, the rest become debts (R26), and
// nothing is lost.
func TestMoreCuresThanTheLaneHolds(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		const keys = maxLane + 500
		receipts := make([]Receipt, keys)
		for i := range receipts {
			receipts[i] = Receipt{Sent: All(1)}
			c.nodes[0].DB().Set(fmt.Sprint("k", i), "t", time.Hour)
		}
		c.flushScripts()
		for i, r := range receipts {
			c.group.Tell(releaseKind, &Command{
				Encoded: raw(releaseCommand(fmt.Sprint("k", i), "t")), TTL: time.Hour, Receipt: r,
			})
		}
		c.eventually(10*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "all released")
	})
}

// If the scripts are flushed again between their load and the command, the
// release is a debt, and is paid.
func TestScriptFlushedInTheMiddleOfALoad(t *testing.T) {
	for _, times := range []int{1, 3, 7} {
		subBubble(t, fmt.Sprint("times=", times), 3, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("k")
			time.Sleep(trip)
			for _, n := range c.nodes {
				flushes := 0
				n.Handle(func(_ int, args []string) ([]byte, bool) {
					if args[0] == "EVALSHA" && flushes < 2*times {
						flushes++
						n.FlushScripts() // whatever was loaded before it
					}
					return nil, false
				})
			}
			err := c.release(background, "k", "t", long, receipt)
			undecided(t, err)
			c.eventually(20*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "released")
			c.healthy()
		})
	}
}

// A node that falls silent during a cure costs its callers the vote timeout, as
// any silent node does (R26).
func TestSilenceInTheMiddleOfACure(t *testing.T) {
	for _, n := range []int{1, 3} {
		subBubble(t, fmt.Sprint("nodes=", n), n, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("k")
			time.Sleep(time.Second)
			c.flushScripts()
			for _, node := range c.nodes {
				node.Delay("SCRIPT LOAD", 10*time.Second)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				var err error
				spent := took(func() { err = c.extend(background, "k", "t", long) })
				assert.Len(t, undecided(t, err), n)
				assert.ErrorIs(t, err, ErrTimeout)
				assert.LessOrEqual(t, spent, longTimeout+5*ms)
			})
			wg.Go(func() {
				ctx := brief(t, 10*ms)
				var err error
				spent := took(func() { err = c.release(ctx, "k", "t", long, receipt) })
				assert.Equal(t, context.DeadlineExceeded, err)
				assert.LessOrEqual(t, spent, 25*ms)
			})
			wg.Wait()
			for _, node := range c.nodes {
				node.Delay("SCRIPT LOAD", 0)
			}
			c.eventually(20*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "released")
		})
	}
}

// A node whose scripts are flushed while it pays is connected again, since the
// handshake loads them (R24, R26). With a full ledger it would otherwise stay
// out until its debts have expired.
func TestScriptsFlushedWhilePaying(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var receipts []Receipt
		keys := []string{"a", "b", "c", "d"}
		for _, key := range keys {
			receipts = append(receipts, c.mustClaim(key))
		}
		c.links[0].HoldDials(true)
		c.nodes[0].DropConns()
		c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "down")
		for i, key := range keys {
			require.NoError(t, c.release(background, key, "t", long, receipts[i]))
		}
		require.Equal(t, len(keys), c.status(0).Debts)
		c.nodes[0].Refuse("-BUSY a script runs", "EVALSHA")
		c.links[0].HoldDials(false)
		time.Sleep(500 * ms)
		require.NotEqual(t, Up, c.status(0).State, "it owes too much")
		c.nodes[0].FlushScripts()
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(1500*ms, func() bool { return c.status(0).State == Up && c.status(0).Debts == 0 }, "up and even")
		require.Empty(t, c.nodes[0].Keys())
	}, withConfig(func(c *Config) { c.MaxDebts = 4 }))
}

// R26: a lost script also does not make a debt wait for another pause, which
// may have grown to a second by earlier refusals.
func TestRefusedDebtIsCuredAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.owing("k")
		time.Sleep(900 * ms) // it was tried after 50, 100, 200 and 400 ms, and is due after another 800
		c.nodes[0].FlushScripts()
		c.nodes[0].Refuse("", "EVALSHA")
		spent := c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "paid")
		require.LessOrEqual(t, spent, 850*ms)
		c.healthy()
	})
}

const restoreSource = "restore"

// restoreKind sets a missing key again, as a healing extension does.
var restoreKind = &ExtendKind{Kind: scripted, Creates: true}

func withRestore(c *cluster) {
	c.config.Cure = append(c.config.Cure, resp.AppendCommand(nil, "SCRIPT", "LOAD", restoreSource))
	for _, n := range c.nodes {
		n.Script(restoreSource, func(keys, args []string, db *redistest.DB) any {
			db.Set(keys[0], args[0], long)
			return 1
		})
	}
}

func restoreCommand(key, token string) []byte {
	return resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(restoreSource), "1", key, token)
}

// A command that sets a key is not sent again if its script was lost: it would
// come after its own release, which may be native and need no script, or may
// find one that another client has loaded meanwhile. Then no release would undo
// it (R8, R24).
func TestNoCureOvertakesTheRelease_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) { // the handshake does not load this script
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		inbox := NewOutcomes()
		post := func() {
			_, err := c.group.PostExtension(restoreKind, &Command{Encoded: raw(restoreCommand("k", "t")), TTL: long}, Posting{Inbox: inbox})
			require.NoError(t, err)
		}
		post()
		require.NoError(t, c.release(background, "k", "t", long, receipt)) // native, and right behind
		time.Sleep(10 * trip)
		assert.Empty(t, c.keys(), "what was released stays released")
		assert.Zero(t, c.debts())
		o := take(t, inbox, 1)[0]
		assert.ErrorIs(t, o.Err, ErrUndecided)
		var why *RefusalError
		require.ErrorAs(t, o.Err, &why)
		assert.Equal(t, conn.ClassNoScript, why.Class)

		post() // and the next one finds its script
		c.group.Flush()
		assert.NoError(t, take(t, inbox, 1)[0].Err)
		c.healthy()
	}, native("DELEX"), withRestore)
}

// The same for a claim by script. Its caller gives up before the node answers,
// so that its release, which is native, is right behind it.
func TestNoCureOfAClaimOvertakesItsRelease_R8(t *testing.T) {
	claimByScript := &ClaimKind{Kind: scripted, Undo: releaseKind}
	inBubble(t, 3, func(t *testing.T, c *cluster) { // the handshake does not load this script
		claim := func(ctx context.Context) error {
			_, err := c.group.Claim(ctx, claimByScript, &Claim{
				Bytes: restoreCommand("k", "t"), TTL: long, Undo: undoing(raw(releaseCommand("k", "t"))),
			})
			return err
		}
		for _, n := range c.nodes {
			n.Delay("EVALSHA", 10*trip)
		}
		ctx := brief(t, trip)
		require.ErrorIs(t, claim(ctx), context.DeadlineExceeded)
		time.Sleep(50 * trip)
		assert.Empty(t, c.keys(), "what was released stays released")
		assert.Zero(t, c.debts())
		assert.NoError(t, claim(background), "and the next one finds its script")
		c.healthy()
	}, withRestore)
}
