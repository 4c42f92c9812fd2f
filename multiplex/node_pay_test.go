package multiplex

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R8: what is released while a node is away is its debt, and is paid before the
// node gets new commands.
func TestDebtIsPaidOnReconnect(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipts := make([]Receipt, 600) // several batches of payments
		for i := range receipts {
			receipts[i] = c.mustClaim(fmt.Sprint("k", i))
		}
		time.Sleep(trip)
		c.unreachable(0)
		for i, r := range receipts {
			require.NoError(t, c.release(background, fmt.Sprint("k", i), "t", long, r))
		}
		synctest.Wait()
		assert.Equal(t, len(receipts), c.status(0).Debts)
		assert.Len(t, c.keys(), len(receipts))
		c.mustClaim("new")
		c.links[0].Refuse(false)
		spent := c.eventually(2*time.Second, func() bool { return c.status(0).State == Up }, "up again")
		assert.LessOrEqual(t, spent, 1500*ms, "R26")
		assert.Equal(t, []string{"new", "new"}, c.keys(), "all debts are paid before it joins")
		assert.Zero(t, c.debts())
	})
}

// The undo of an attempt is also a debt of a node that died in between.
func TestUndoBecomesADebt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].DB().Set("k", "stranger", time.Hour)
		c.nodes[1].DB().Set("k", "stranger", time.Hour)
		c.links[2].Latency(oneWay, 100*ms) // the SET arrives, its answer does not
		time.AfterFunc(trip, func() { c.links[2].Refuse(true); c.links[2].Reset() })
		_, err := c.claim(background, "k", "t", long)
		assert.Equal(t, ErrRefused, err)
		time.Sleep(10 * ms)
		assert.Equal(t, 1, c.status(2).Debts)
		assert.Equal(t, []string{"k"}, c.nodes[2].Keys())
		c.links[2].Refuse(false)
		c.links[2].Latency(oneWay, oneWay)
		c.waitUp(3)
		assert.Empty(t, c.nodes[2].Keys())
		assert.Zero(t, c.debts())
	})
}

// R8: a release that a node refuses is tried again on the same connection.
func TestRefusedReleaseIsRetried(t *testing.T) {
	for _, refusal := range []string{
		noReplicas,
		"-MISCONF Errors writing to the AOF file: No space left on device",
		"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"-LOADING Redis is loading the dataset in memory",
		"-NOPERM User default has no permissions to run the 'evalsha' command",
		"-ERR whatever",
	} {
		subBubble(t, refusal[:8], 3, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("k")
			time.Sleep(trip)
			c.nodes[0].Refuse(refusal, "EVALSHA")
			c.nodes[1].Refuse(refusal, "EVALSHA")
			err := c.release(background, "k", "t", long, receipt)
			assert.Equal(t, []int{0, 1}, undecided(t, err), "neither yes nor no (R9)")
			var why *RefusalError
			assert.ErrorAs(t, err, &why)
			assert.Equal(t, 2, c.debts())
			time.Sleep(2 * time.Second)
			assert.Len(t, c.keys(), 2)
			calls := c.nodes[0].Calls("EVALSHA")
			assert.InDelta(t, 6, calls, 1, "50 ms doubling to 1 s")
			c.nodes[0].Refuse("", "EVALSHA")
			c.nodes[1].Refuse("", "EVALSHA")
			spent := c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 }, "paid")
			assert.LessOrEqual(t, spent, 1100*ms)
			time.Sleep(trip)
			assert.Zero(t, c.debts())
			c.healthy() // on the same connection
		})
	}
}

// A node of a cluster that has given a slot away does not hold its keys any
// more: a release to it ends, and so does a debt. The node's status and the
// news say what happened, once (R8, R31).
func TestReleaseToASlotThatMovedEnds_R8_R31(t *testing.T) {
	for _, answer := range []string{"-MOVED 866 10.0.0.9:7001", "-ASK 866 10.0.0.9:7001"} {
		t.Run(answer[:4], func(t *testing.T) {
			var l listener
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				require.Equal(t, []string{"up"}, l.of(0))
				receipt := c.mustClaim("k")
				debtor := c.mustClaim("d")
				time.Sleep(trip)
				c.nodes[0].Refuse("-NOREPLICAS Not enough good replicas to write.", "EVALSHA")
				assert.NoError(t, c.release(background, "d", "t", long, debtor))
				time.Sleep(trip)
				assert.Equal(t, 1, c.status(0).Debts)
				c.nodes[0].Refuse(answer, "EVALSHA")
				assert.NoError(t, c.release(background, "k", "t", long, receipt))
				time.Sleep(2 * time.Second)
				assert.Zero(t, c.debts())
				calls := c.nodes[0].Calls("EVALSHA")
				time.Sleep(time.Minute)
				assert.Equal(t, calls, c.nodes[0].Calls("EVALSHA"), "it is not asked again")
				warnings := c.status(0).Warnings
				require.Len(t, warnings, 1)
				assert.Contains(t, warnings[0], "a slot has moved away")
				assert.Contains(t, warnings[0], answer[1:])
				assert.Zero(t, c.status(0).Deaths)
				told := l.of(0)
				require.Len(t, told, 2, "%v", told)
				assert.Contains(t, told[1], answer[1:])

				_, err := c.claim(background, "other", "t", long)
				assert.NoError(t, err)
			}, l.listen)
		})
	}
}

// Continuous releases of older locks do not keep a node out (R26): it joins,
// and they follow in order.
func TestNodeJoinsUnderReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipts := make([]Receipt, 1500)
		for i := range receipts {
			var err error
			receipts[i], err = c.claim(background, fmt.Sprint("k", i), "t", time.Hour)
			require.NoError(t, err)
		}
		time.Sleep(trip)
		c.unreachable(0)
		time.Sleep(3 * time.Second)
		c.links[0].Refuse(false)
		joined := time.Duration(0)
		start := time.Now()
		for i, r := range receipts {
			c.group.Tell(releaseKind, &Command{
				Encoded: raw(releaseCommand(fmt.Sprint("k", i), "t")), TTL: time.Hour, Receipt: r,
			})
			time.Sleep(ms)
			if joined == 0 && c.status(0).State == Up {
				joined = time.Since(start)
			}
		}
		assert.NotZero(t, joined)
		assert.LessOrEqual(t, joined, 1200*ms)
		time.Sleep(time.Second)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
		assert.Equal(t, 1, c.status(0).Deaths)
	})
}

// A payment that the node never answers ends its connection, even if no caller
// needs the node (R26).
func TestSilentPaymentIsShed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.owing("k")
		time.Sleep(trip)
		c.nodes[0].Pause()
		c.eventually(1500*ms, func() bool { return c.status(0).Sheds == 1 }, "shed")
		c.nodes[0].Refuse("", "EVALSHA")
		c.nodes[0].Resume()
		c.eventually(1500*ms, func() bool { return c.up() == 3 && len(c.keys()) == 0 && c.debts() == 0 }, "paid")
	})
}

// A refused debt waits for its time across a change of connections, and is not
// forgotten on an idle client.
func TestRefusedDebtIsRetriedAfterAReconnect(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.owing("k")
		time.Sleep(450 * ms) // the last try was 40 ms ago, the next is due in 360 ms
		c.nodes[0].Refuse("", "EVALSHA")
		c.nodes[0].DropConns()
		c.eventually(ms, func() bool { return c.status(0).Deaths == 1 }, "dead")
		other := c.mustClaim("other") // makes the watch look while the node is down
		require.NoError(t, c.release(background, "other", "t", long, other))
		spent := c.eventually(10*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "paid")
		assert.LessOrEqual(t, spent, time.Second)
		assert.Equal(t, 1, c.status(0).Deaths)
	})
}

// A release that is owed twice, because the lock was extended in between, lives
// as long as the key: its time starts again with the next connection (R8).
func TestDebtOfAnAbsentNodeBeginsAnew(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		n := c.group.nodes[0]
		r := &round{group: c.group, verb: releaseKind.verb(), ttl: time.Second, receipt: receipt, kept: kept{command: releaseCommand("k", "t")}}
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		n.oweLocked(r, time.Hour)
		require.Len(t, n.ledger.Debts, 1)
		require.NotZero(t, n.ledger.Debts[0].Until, "the node is up, and executed the SET before")
		require.Nil(t, n.ledger.Misplaced())
		c.group.live &^= setOf(0)
		n.oweLocked(r, time.Hour)
		require.Len(t, n.ledger.Debts, 1)
		require.Zero(t, n.ledger.Debts[0].Until, "not known before the next connection")
		require.Nil(t, n.ledger.Misplaced())
		n.ledger.Expire(c.group.now() + 24*time.Hour)
		require.Len(t, n.ledger.Debts, 1, "no time runs")
		n.ledger.Remove(n.ledger.Debts[0])
		c.group.live |= setOf(0)
	})
}

// These tests are about the moment between two steps: what happens there must
// not be lost, and must not count for more than it is.

// A release that a node comes to owe while it pays its other debts is written
// before the first command after the join, although the join does not wait for
// it (R8). Otherwise the next claim of that key would find the old one.
func TestWhatIsOwedDuringThePaymentIsPaidFirst_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		one, two := c.mustClaim("one"), c.mustClaim("two")
		time.Sleep(trip)
		c.unreachable(0)
		require.NoError(t, c.release(background, "one", "t", long, one))
		c.nodes[0].Delay("EVALSHA", 20*ms)
		c.links[0].Refuse(false)
		c.eventually(time.Second, func() bool { return c.status(0).State == Paying }, "it pays")
		require.NoError(t, c.release(background, "two", "t", long, two))
		c.nodes[0].Delay("EVALSHA", 0)
		c.waitUp(3)
		_, err := c.claim(background, "two", "next", long)
		require.NoError(t, err)
		time.Sleep(20 * trip)
		last := story(c.nodes[0])
		last = last[len(last)-3:]
		assert.Contains(t, last[0], "release one t")
		assert.Contains(t, last[1], "release two t")
		assert.Contains(t, last[2], "SET two next")
		value, _ := c.nodes[0].Get("two")
		assert.Equal(t, "next", value)
	})
}

// If the lane has no room for a debt, it stays owed, and is tried again (R8).
func TestADebtThatFindsNoRoomIsTriedAgain_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.owing("k")
		time.Sleep(trip)
		require.Equal(t, 1, c.status(0).Debts)
		g, n := c.group, c.group.nodes[0]
		g.mu.Lock()
		for n.lane.add(laneEntry{purpose: probe}, ping) {
		}
		n.payBesideLocked(g.now() + time.Second) // it is due by then
		misplaced, next := n.ledger.Misplaced(), n.ledger.Debts[0]
		sent := next.Sent
		g.promptLocked()
		g.mu.Unlock()
		assert.Nil(t, misplaced)
		assert.False(t, sent, "it was not written")
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(3*time.Second, func() bool { return c.debts() == 0 }, "it is paid")
		assert.Empty(t, c.keys())
	}, withConfig(func(config *Config) { config.ShedAfter = time.Minute }))
}

// A reply that cannot answer a release ends the connection and counts for
// nothing: the release is owed, although it was the one at the cursor (R8,
// R16). The same applies to a release that was sent again after its script, and
// has left the lane when its reply is examined.
func TestAReleaseWhoseReplyIsNoAnswerIsOwed_R8(t *testing.T) {
	for name, cured := range map[string]bool{"in the log": false, "in the lane": true} {
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("k")
			time.Sleep(trip)
			if cured {
				c.flushScripts()
			}
			var answered atomic.Bool
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				known := c.nodes[0].Calls("SCRIPT LOAD") > len(scripts())
				if args[0] != "EVALSHA" || answered.Load() || cured && !known {
					return nil, false
				}
				answered.Store(true)
				return []byte("+what\r\n"), true
			})
			require.NoError(t, c.release(background, "k", "t", long, receipt))
			time.Sleep(5 * trip)
			require.True(t, answered.Load())
			require.Equal(t, 1, c.status(0).Deaths)
			require.EqualValues(t, 1, c.status(0).Counts.DebtsMade)
			c.waitUp(3)
			assert.Zero(t, c.debts())
			assert.Empty(t, c.keys())
		})
	}
}

// A decided round does not hide an older one that is undecided: the latter's
// votes time out when they should (R6).
func TestAYoungerRoundThatIsDecidedHidesNoOlder_R6(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		pause(c.nodes)
		done := make(chan time.Duration)
		go func() {
			done <- took(func() {
				_, err := c.claim(background, "older", "t", long)
				assert.ErrorIs(t, err, ErrUndecided)
			})
		}()
		time.Sleep(ms)
		_, err := c.claim(background, "younger", "t", time.Second) // its votes have 5 ms
		require.ErrorIs(t, err, ErrUndecided)
		spent := <-done
		assert.GreaterOrEqual(t, spent, longTimeout)
		assert.LessOrEqual(t, spent, longTimeout+tickMost)
		resume(c.nodes)
	})
}

// If there are more debts than one turn handles, all are fenced and started,
// including those that arise while another goroutine has the mutex.
func TestEachDebtIsMet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		n := c.group.nodes[0]
		owe := func(i int) {
			n.ledger.OweAbsent(pure.Release{Command: fmt.Append(nil, "release ", i), TTL: time.Second}, time.Hour)
		}
		c.group.mu.Lock()
		for i := range 2*debtsAtOnce + 10 {
			owe(i)
		}
		c.group.mu.Unlock()
		met, more := make(map[*pure.Debt]bool), 5*debtsAtOnce
		n.eachDebt(func(d *pure.Debt, _ time.Duration) {
			require.False(t, met[d])
			met[d] = true
			if len(n.ledger.Debts) < more {
				owe(len(n.ledger.Debts))
			}
		})
		require.Len(t, met, len(n.ledger.Debts))
		require.Greater(t, len(met), 4*debtsAtOnce)
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		for len(n.ledger.Debts) > 0 {
			n.ledger.Remove(n.ledger.Debts[0])
		}
	})
}

// A debt whose key has expired is gone at once, although its next try would be
// much later and the client is idle.
func TestDebtEndsInTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt, err := c.claim(background, "k", "t", 3*time.Second)
		require.NoError(t, err)
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", 3*time.Second, receipt))
		time.Sleep(trip)
		spent := c.eventually(5*time.Second, func() bool { return c.debts() == 0 }, "the debt ends")
		require.GreaterOrEqual(t, spent, 3*time.Second, "TTL × (1 + drift)")
		require.LessOrEqual(t, spent, 3032*ms+2*tickMost)
		require.Empty(t, c.keys())
	})
}

// A node with a full table of debts gets no new claims, over however many
// connections, while releases of what it holds are still owed: each key singly,
// none dropped. When it obeys again it has 1.5 s to pay and come back (R8,
// R26).
func TestFullTableOverManyConnections_R8(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(60)
		claims := c.nodes[0].Calls("SET")
		c.nodes[0].Refuse(noReplicas, "EVALSHA")
		var fresh []Receipt
		for wave := range 3 {
			assert.Equal(t, make([]error, 20), l.freeWave(20*wave, 20), "two of three answer")
			time.Sleep(trip)
			s := c.status(0)
			require.Equal(t, 20*(wave+1), s.Debts, "each key is a debt, also where the table is full already")
			require.NotEqual(t, Up, s.State)
			fresh = append(fresh, c.mustClaim(fmt.Sprint("new", wave)))
			assert.False(t, fresh[wave].Sent.Has(0))
			time.Sleep(700 * ms)
			assert.Equal(t, 20*(wave+1), c.status(0).Debts, "refused ones are kept")
			c.nodes[0].DropConns()
			time.Sleep(300 * ms)
		}
		assert.ErrorIs(t, c.status(0).Err, ErrIndebted, "and not that a connection ended some time ago")
		assert.Equal(t, claims, c.nodes[0].Calls("SET"), "no new claim")
		assert.Len(t, c.nodes[0].Keys(), 60)
		assert.GreaterOrEqual(t, c.status(0).Connects, 4)

		c.nodes[0].Refuse("", "EVALSHA")
		spent := c.eventually(3*time.Second, func() bool { return c.status(0).State == Up && c.status(0).Debts == 0 }, "paid")
		assert.LessOrEqual(t, spent, 1500*ms, "R26")
		assert.Empty(t, c.nodes[0].Keys())
		for i, r := range fresh {
			require.NoError(t, c.release(background, fmt.Sprint("new", i), "t", long, r))
		}
		c.settled()
	}, withConfig(func(c *Config) { c.MaxDebts = 16 }))
}

// freeWave releases n of the locks at once, starting with from.
func (l *locks) freeWave(from, n int) []error {
	l.t.Helper()
	return l.gather(n, func(i int) error { return l.free(background, from+i) })()
}
