package multiplex

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
		"-NOREPLICAS Not enough good replicas to write.",
		"-MISCONF Errors writing to the AOF file: No space left on device",
		"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"-LOADING Redis is loading the dataset in memory",
		"-NOPERM User default has no permissions to run the 'evalsha' command",
		"-ERR whatever",
	} {
		t.Run(refusal[:8], func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
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
				for i := range 3 {
					assert.Zero(t, c.status(i).Deaths, "on the same connection")
				}
			})
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

// A debt ends when its key must have expired, and not before.
func TestRefusedDebtEndsWithTheKey(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt, err := c.claim(background, "k", "t", time.Second)
		require.NoError(t, err)
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		assert.NoError(t, c.release(background, "k", "t", time.Second, receipt))
		time.Sleep(trip)
		spent := c.eventually(3*time.Second, func() bool { return c.debts() == 0 }, "the debt ends")
		assert.GreaterOrEqual(t, spent, time.Second, "TTL × (1 + drift)")
		assert.Empty(t, c.keys())
	})
}

// While the node is away its debts do not end: what it has in its sockets may
// be executed at any time.
func TestDebtOutlivesTheAbsence(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Pause() // the SET is in its socket
		receipt, err := c.claim(background, "k", "t", 300*ms)
		require.NoError(t, err)
		require.NoError(t, c.release(background, "k", "t", 300*ms, receipt))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, c.status(0).Debts)
		c.nodes[0].Resume()
		c.waitUp(3)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	})
}

// R8: a node with too many debts gets no new SETs until it has paid, and no
// debt is dropped.
func TestTooManyDebts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipts := make([]Receipt, 12)
		for i := range receipts {
			receipts[i] = c.mustClaim(fmt.Sprint("k", i))
		}
		c.nodes[0].Refuse("-NOREPLICAS no", "EVALSHA")
		for i, r := range receipts {
			require.NoError(t, c.release(background, fmt.Sprint("k", i), "t", long, r))
		}
		time.Sleep(trip)
		s := c.status(0)
		assert.NotEqual(t, Up, s.State)
		assert.ErrorIs(t, s.Err, ErrIndebted)
		assert.Equal(t, len(receipts), s.Debts, "also those that came when it was full")
		sets := c.nodes[0].Calls("SET")

		receipt := c.mustClaim("new")
		assert.False(t, receipt.Sent.Has(0))
		time.Sleep(3 * time.Second)
		assert.Equal(t, sets, c.nodes[0].Calls("SET"))
		assert.Len(t, c.nodes[0].Keys(), len(receipts))
		_, err := c.claim(background, "k0", "other", long)
		assert.NoError(t, err, "the others serve")

		c.nodes[0].Refuse("", "EVALSHA")
		spent := c.eventually(2*time.Second, func() bool { return c.up() == 3 }, "it has paid")
		assert.LessOrEqual(t, spent, 1500*ms)
		synctest.Wait()
		assert.Empty(t, c.nodes[0].Keys())
		assert.Zero(t, c.debts())
	}, withConfig(func(c *Config) { c.MaxDebts = 8 }))
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

// If a connection dies while debts are in flight they stay owed, whether they
// were sent before the join or after it.
func TestPaymentsSurviveConnections(t *testing.T) {
	for _, beside := range []bool{true, false} {
		t.Run(fmt.Sprintf("beside=%v", beside), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				receipt := c.mustClaim("k")
				time.Sleep(trip)
				if beside {
					c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
				} else {
					c.unreachable(0)
				}
				require.NoError(t, c.release(background, "k", "t", long, receipt))
				time.Sleep(trip)
				c.nodes[0].Refuse("", "EVALSHA")
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					// Silent, and then gone: the answer to the payment never
					// comes.
					return nil, args[0] == "EVALSHA" && c.status(0).Deaths < 3
				})
				c.links[0].Refuse(false)
				for range 20 {
					time.Sleep(100 * ms)
					if c.status(0).Deaths < 3 {
						c.nodes[0].DropConns()
					}
				}
				c.waitUp(3)
				c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "paid in the end")
			})
		})
	}
}

// A payment that the node never answers ends its connection, even if no caller
// needs the node (R26).
func TestSilentPaymentIsShed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(trip)
		c.nodes[0].Pause()
		c.eventually(1500*ms, func() bool { return c.status(0).Sheds == 1 }, "shed")
		c.nodes[0].Refuse("", "EVALSHA")
		c.nodes[0].Resume()
		c.eventually(1500*ms, func() bool { return c.up() == 3 && len(c.keys()) == 0 && c.debts() == 0 }, "paid")
	})
}

// Each release is owed once, even if its connection is shed while others still
// release.
func TestReleaseIsOwedOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipts := make([]Receipt, 100)
		for i := range receipts {
			receipts[i] = c.mustClaim(fmt.Sprint("k", i))
		}
		c.nodes[0].Pause()
		for i, r := range receipts {
			require.NoError(t, c.release(background, fmt.Sprint("k", i), "t", long, r))
			time.Sleep(5 * ms)
		}
		assert.Equal(t, len(receipts), c.status(0).Debts)
		c.nodes[0].Resume()
		c.waitUp(3)
		assert.Empty(t, c.keys())
	})
}

// A refused debt waits for its time across a change of connections, and is not
// forgotten on an idle client.
func TestRefusedDebtIsRetriedAfterAReconnect(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", long, receipt))
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
