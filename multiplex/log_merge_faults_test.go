package multiplex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const noReplicas = "-NOREPLICAS Not enough good replicas to write."

// paidSingly requires that a node got each lock's release on its second
// connection, singly and once.
func (l *locks) paidSingly(node int) {
	l.t.Helper()
	var want, got []string
	for i := range l.receipts {
		want = append(want, fmt.Sprintf("2 release k%d t", i))
	}
	for _, line := range releases(l.nodes[node]) {
		if strings.HasPrefix(line, "2 ") {
			got = append(got, line)
		}
	}
	assert.ElementsMatch(l.t, want, got)
}

// settled waits until all nodes are up and every key and debt is gone.
func (c *cluster) settled() {
	c.t.Helper()
	c.eventually(5*time.Second, func() bool {
		return c.up() == len(c.nodes) && len(c.keys()) == 0 && c.debts() == 0
	}, "settled")
	time.Sleep(10 * trip)
	c.conserved()
}

// R16: a reply that cannot answer three releases ends the connection. No part
// gets a vote from it, not even those before the error. Each fails once on this
// node, is owed by it, and is paid singly.
func TestMergedReplyThatIsNoAnswer(t *testing.T) {
	lies := map[string]string{
		"integer":               ":1\r\n",
		"status":                "+OK\r\n",
		"null":                  "_\r\n",
		"null array":            "*-1\r\n",
		"null bulk":             "$-1\r\n",
		"empty":                 "*0\r\n",
		"too short":             "*2\r\n:1\r\n:1\r\n",
		"too long":              "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
		"a status in it":        "*3\r\n:1\r\n:1\r\n+OK\r\n",
		"a string in it":        "*3\r\n:1\r\n$1\r\n1\r\n:1\r\n",
		"a null in it":          "*3\r\n:1\r\n:1\r\n_\r\n",
		"an error in it":        "*3\r\n:1\r\n:1\r\n-NOREPLICAS no\r\n",
		"a double in it":        "*3\r\n:1\r\n:1\r\n,1\r\n",
		"a boolean in it":       "*3\r\n:1\r\n:1\r\n#t\r\n",
		"an array in it":        "*3\r\n:1\r\n:1\r\n*1\r\n:1\r\n",
		"2":                     "*3\r\n:1\r\n:1\r\n:2\r\n",
		"-2":                    "*3\r\n:1\r\n:1\r\n:-2\r\n",
		"a set":                 "~3\r\n:1\r\n:1\r\n:1\r\n",
		"a push":                ">3\r\n:1\r\n:1\r\n:1\r\n",
		"an attribute":          "|1\r\n+a\r\n+b\r\n*3\r\n:1\r\n:1\r\n:1\r\n",
		"an attribute in it":    "*3\r\n:1\r\n:1\r\n|1\r\n+a\r\n+b\r\n:1\r\n",
		"no RESP":               "*3\r\n:1\r\n:1\r\n1\r\n",
		"no number of elements": "*x\r\n",
	}
	for name, lie := range lies {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(t *testing.T) {
				inMergingBubble(t, n, func(t *testing.T, c *cluster) {
					l := c.lock(3)
					c.links[0].Refuse(true)
					var once sync.Once
					c.nodes[0].Handle(func(_ int, args []string) (reply []byte, lied bool) {
						if args[0] == "EVALSHA" {
							once.Do(func() { reply, lied = []byte(lie), true })
						}
						return reply, lied
					})
					for _, err := range l.freeAll() {
						if n == 3 {
							assert.NoError(t, err, "the others decide")
							continue
						}
						assert.Equal(t, []int{0}, undecided(t, err))
						if !strings.HasPrefix(name, "no ") {
							assert.ErrorIs(t, err, ErrUnexpected)
						}
					}
					time.Sleep(trip)
					assert.Equal(t, 1, c.status(0).Deaths)
					assert.Equal(t, 3, c.status(0).Debts, "each once")
					assert.Equal(t, 3, c.debts())
					c.links[0].Refuse(false)
					c.settled()
					l.paidSingly(0)
				})
			})
		}
	}
}

// R16: a merged reply that is cut by the end of the connection gives no vote,
// and a whole one gives all.
func TestMergedReplyIsCut(t *testing.T) {
	const reply = "*3\r\n:1\r\n:1\r\n:1\r\n"
	for cut := range int64(len(reply)) {
		t.Run(fmt.Sprint("bytes=", cut), func(t *testing.T) {
			inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
				l := c.lock(3)
				c.links[0].CutOnce(redistest.Down, cut)
				for _, err := range l.freeAll() {
					assert.Equal(t, []int{0}, undecided(t, err))
				}
				assert.Equal(t, 3, c.debts())
				c.settled()
				assert.Equal(t, 2, c.status(0).Connects)
				l.paidSingly(0)
			})
		})
	}
}

// A merged command that is cut on its way is not executed, and each part is
// owed.
func TestMergedCommandIsCut(t *testing.T) {
	for _, cut := range []int64{0, 1, 70, 100} {
		t.Run(fmt.Sprint("bytes=", cut), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(3)
				c.links[0].CutOnce(redistest.Up, cut)
				assert.Equal(t, make([]error, 3), l.freeAll())
				c.settled()
				assert.Len(t, releases(c.nodes[0]), 3)
				l.paidSingly(0)
			})
		})
	}
}

// Votes from before the anomaly stand. What is in flight behind a merged
// command without an answer fails with it, once (R16). The only node here
// answers two commands, lies to the third and falls silent.
func TestInFlightWithAMergedCommand(t *testing.T) {
	inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.lock(6)
		calls := 0
		c.nodes[0].Handle(func(id int, args []string) ([]byte, bool) {
			if args[0] != "EVALSHA" || id != 1 {
				return nil, false
			}
			switch calls++; calls {
			case 1, 2:
				return nil, false
			case 3:
				return []byte("*2\r\n:1\r\n:2\r\n"), true
			}
			return nil, true
		})
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for i := range 3 {
			flush := l.gather(2, func(j int) error { return l.free(background, 2*i+j) })
			wg.Go(func() { copy(errs[2*i:], flush()) })
			synctest.Wait()
			if i == 0 {
				wg.Go(func() { assert.NoError(t, c.extend(background, "k5", "t", long)) })
				synctest.Wait()
			}
		}
		wg.Wait()
		assert.Equal(t, []error{nil, nil}, errs[:2])
		for _, err := range errs[2:] {
			assert.Equal(t, []int{0}, undecided(t, err))
			assert.ErrorIs(t, err, ErrUnexpected)
		}
		assert.Equal(t, 4, c.debts())
		c.settled()
		assert.Equal(t, 1, c.status(0).Deaths)
	})
}

// R24: a node that lost the merging script gets it again, and answers in its
// place: one round trip more, and each caller gets its own result. Callers that
// are gone do not matter.
func TestLostScriptOfAMergedCommandIsCured(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone=", gone), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(7)
				for _, n := range c.nodes {
					n.DB().Delete("k2")
				}
				c.flushScripts()
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				if gone {
					for _, n := range c.nodes {
						n.Delay("SCRIPT LOAD", 20*ms)
					}
					time.AfterFunc(trip, cancel)
				}
				flush := c.gather(7, func(i int) error { return l.free(ctx, i) })
				var errs []error
				spent := took(func() { errs = flush() })
				for i, err := range errs {
					switch {
					case gone:
						assert.Equal(t, context.Canceled, err)
					case i == 2:
						assert.Equal(t, ErrRefused, err)
					default:
						assert.NoError(t, err)
					}
				}
				if !gone {
					assert.Equal(t, 2*trip, spent)
				}
				time.Sleep(60*ms + 2*trip)
				assert.Empty(t, c.keys())
				assert.Zero(t, c.debts())
				for _, n := range c.nodes {
					assert.Equal(t, 2, n.Calls("EVALSHA"))
				}
				c.healthy()
				c.conserved()
			})
		})
	}
}

// A merged command that waits for its cure has left the log. Its parts and its
// bytes are still its own (R20), its callers time out and are cancelled all the
// same, and the final reply goes to each part (R16).
func TestMergedCommandInTheLane(t *testing.T) {
	for end, cause := range map[string]error{"answer": nil, "lie": ErrUnexpected, "NOSCRIPT": new(RefusalError), "death": new(conn.Error)} {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/nodes=%d", end, n), func(t *testing.T) {
				inMergingBubble(t, n, func(t *testing.T, c *cluster) {
					l := c.lock(5)
					c.nodes[0].FlushScripts()
					c.nodes[0].Delay("SCRIPT LOAD", 20*ms)
					c.inTheLane(end)
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					time.AfterFunc(10*ms, cancel)
					errs := c.gather(5, func(i int) error {
						switch i {
						case 0:
							return l.free(ctx, i)
						case 1:
							return c.release(background, "k1", "t", time.Second, l.receipts[i]) // times out after 5 ms
						}
						return l.free(background, i)
					})()
					switch {
					case n == 3:
						assert.Equal(t, make([]error, 5), errs)
					default:
						assert.Equal(t, context.Canceled, errs[0])
						assert.ErrorIs(t, errs[1], ErrTimeout)
						for _, err := range errs[2:] {
							requireCause(t, err, cause)
						}
					}
					time.Sleep(100 * ms)
					c.nodes[0].Delay("SCRIPT LOAD", 0)
					c.settled()
					if end == "lie" || end == "death" {
						l.paidSingly(0)
						assert.Equal(t, 1, c.status(0).Deaths)
						return
					}
					c.healthy()
				})
			})
		}
	}
}

// inTheLane sets how the first node answers the second script on its first
// connection.
func (c *cluster) inTheLane(end string) {
	calls := 0
	c.nodes[0].Handle(func(id int, args []string) ([]byte, bool) {
		if args[0] != "EVALSHA" || id != 1 {
			return nil, false
		}
		switch calls++; {
		case calls != 2:
		case end == "lie":
			return []byte("*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n+1\r\n"), true
		case end == "NOSCRIPT":
			c.nodes[0].FlushScripts()
		case end == "death":
			time.AfterFunc(ms/2, c.nodes[0].DropConns)
			return nil, true
		}
		return nil, false
	})
}

// requireCause requires that an error names the first node with this cause, or
// with one of its type.
func requireCause(t *testing.T, err, cause error) {
	t.Helper()
	if cause == nil {
		require.NoError(t, err)
		return
	}
	require.Equal(t, []int{0}, undecided(t, err))
	switch cause.(type) {
	case *RefusalError:
		var why *RefusalError
		require.ErrorAs(t, err, &why)
		require.Equal(t, conn.ClassNoScript, why.Class)
	case *conn.Error:
		var why *conn.Error
		require.ErrorAs(t, err, &why)
	default:
		require.ErrorIs(t, err, cause)
	}
}

// R8, R24: an error to a merged command is an error to each part: one debt for
// each, retried singly on the same connection.
func TestRefusedMergedCommand(t *testing.T) {
	for refusal, class := range map[string]conn.Class{
		noReplicas: conn.ClassNoReplicas,
		"-MISCONF Errors writing to the AOF file: No space left on device":                        conn.ClassMisconf,
		"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": conn.ClassBusy,
		"-LOADING Redis is loading the dataset in memory":                                         conn.ClassLoading,
		"-ERR user_script:9: -OOM command not allowed when used memory > 'maxmemory'. script: 1":  conn.ClassOther,
		"-NOPERM User default has no permissions to run the 'evalsha' command":                    conn.ClassNoPerm,
	} {
		t.Run(strings.Fields(refusal)[0], func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(5)
				c.nodes[0].Refuse(refusal, "EVALSHA")
				c.nodes[2].Refuse(refusal, "EVALSHA")
				for _, err := range l.freeAll() {
					assert.Equal(t, []int{0, 2}, undecided(t, err))
					var why *RefusalError
					require.ErrorAs(t, err, &why)
					assert.Equal(t, class, why.Class)
					assert.NotContains(t, err.Error(), "user_script", "R27")
				}
				assert.Equal(t, 10, c.debts())
				time.Sleep(300 * ms)
				assert.Equal(t, 10, c.debts())
				for _, line := range releases(c.nodes[0])[1:] {
					assert.Contains(t, line, " release ", "tried again singly")
				}
				assert.Equal(t, 1+5*3, c.nodes[0].Calls("EVALSHA"), "after 50, 150 and (not yet) 350 ms")
				c.nodes[0].Refuse("", "EVALSHA")
				c.nodes[2].Refuse("", "EVALSHA")
				c.eventually(time.Second, func() bool { return c.debts() == 0 && len(c.keys()) == 0 }, "paid")
				c.healthy()
				c.conserved()
			})
		})
	}
}

// An unreadable key affects only its own release: that is undecided and owed,
// and the other 63 are done. The debt ends when the key becomes readable.
func TestOddKeyAmongMerged(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(64)
		for _, n := range c.nodes[:2] {
			n.DB().Set("k40", odd, time.Hour)
		}
		c.nodes[2].DB().Set("k41", odd, time.Hour)
		for i, err := range l.freeAll() {
			if i != 40 {
				assert.NoError(t, err)
				continue
			}
			assert.Equal(t, []int{0, 1}, undecided(t, err))
			var why *RefusalError
			require.ErrorAs(t, err, &why)
			assert.Equal(t, conn.ClassOther, why.Class)
		}
		time.Sleep(trip)
		assert.Equal(t, []string{"k40", "k40", "k41"}, c.keys())
		assert.Equal(t, 3, c.debts())
		for _, n := range c.nodes {
			assert.Equal(t, 1, n.Calls("EVALSHA"))
			n.DB().Set("k40", "t", time.Hour)
			n.DB().Delete("k41")
		}
		c.nodes[2].DB().Delete("k40")
		c.settled()
		c.healthy()
	})
}

// A node that owes too much after a merged command leaves with all debts, and
// comes back when it has paid (R8).
func TestMergedDebtsFillTheLedger(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(20)
		c.nodes[0].Refuse(noReplicas, "EVALSHA")
		assert.Equal(t, make([]error, 20), l.freeAll())
		time.Sleep(trip)
		assert.Equal(t, 20, c.debts(), "none is dropped, none counted twice")
		assert.NotEqual(t, Up, c.status(0).State)
		c.nodes[0].Refuse("", "EVALSHA")
		c.settled()
	}, withConfig(func(c *Config) { c.MaxDebts = 8 }))
}

// Nodes change between the moment when releases gather and the moment when they
// are packed. The nodes that are up count when they are packed
// (docs/internals/design.md, "Voters are fixed with the place"), and each
// caller is answered.
func TestNodesChangeWhileReleasesGather(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		t.Run(fmt.Sprint("down before/", n), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(n)
				c.unreachable(0)
				time.Sleep(trip)
				assert.Equal(t, make([]error, n), l.freeAll())
				assert.Equal(t, n, c.status(0).Debts)
				c.links[0].Refuse(false)
				c.settled()
				l.paidSingly(0)
			})
		})
		t.Run(fmt.Sprint("one dies/", n), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(n)
				flush := c.gather(n, func(i int) error { return l.free(background, i) })
				c.unreachable(0)
				time.Sleep(trip)
				assert.Zero(t, c.debts())
				assert.Equal(t, make([]error, n), flush())
				assert.Equal(t, n, c.debts())
				c.links[0].Refuse(false)
				c.settled()
				l.paidSingly(0)
			})
		})
		t.Run(fmt.Sprint("all die/", n), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(n)
				flush := c.gather(n, func(i int) error { return l.free(background, i) })
				c.unreachable(0, 1, 2)
				time.Sleep(trip)
				var errs []error
				assert.Zero(t, took(func() { errs = flush() }), "known at once (R26)")
				for _, err := range errs {
					assert.Equal(t, []int{0, 1, 2}, undecided(t, err))
					assert.ErrorIs(t, err, ErrDown)
				}
				assert.Equal(t, 3*n, c.debts())
				for _, link := range c.links {
					link.Refuse(false)
				}
				c.settled()
				for i := range c.nodes {
					l.paidSingly(i)
				}
			})
		})
		t.Run(fmt.Sprint("a majority dies/", n), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(n)
				flush := c.gather(n, func(i int) error { return l.free(background, i) })
				c.unreachable(0, 1)
				time.Sleep(trip)
				for _, err := range flush() {
					assert.Equal(t, []int{0, 1}, undecided(t, err))
				}
				time.Sleep(trip)
				assert.Empty(t, c.nodes[2].Keys())
				c.links[0].Refuse(false)
				c.links[1].Refuse(false)
				c.settled()
			})
		})
		t.Run(fmt.Sprint("one joins/", n), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(n)
				c.unreachable(0, 1)
				time.Sleep(trip)
				flush := c.gather(n, func(i int) error { return l.free(background, i) })
				c.links[0].Refuse(false)
				c.eventually(time.Second, func() bool { return c.status(0).State == Up }, "up")
				assert.Equal(t, make([]error, n), flush(), "its votes count")
				time.Sleep(trip)
				assert.Empty(t, c.nodes[0].Keys())
				assert.Equal(t, n, c.debts())
				c.links[1].Refuse(false)
				c.settled()
				assert.Equal(t, 1, c.status(0).Deaths, "nothing is out of step")
			}, withConfig(func(c *Config) { c.VoteTimeout = time.Minute }))
		})
	}
}

// A node that never got a claim does not owe its release, merged or not (R8).
func TestMergedReleaseIsOwedWhereItsClaimWent(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		c.unreachable(0)
		time.Sleep(trip)
		for i := 2; i < 4; i++ {
			l.receipts = append(l.receipts, c.mustClaim(fmt.Sprint("k", i)))
		}
		assert.Equal(t, make([]error, 4), l.freeAll())
		assert.Equal(t, 2, c.debts())
		c.links[0].Refuse(false)
		c.settled()
	})
}

// R28: releases that gather while the group closes end with ErrClosed at the
// latest, and are written if there is time.
func TestCloseWhileReleasesGather(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		t.Run(fmt.Sprint("in time=", inTime), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(5)
				flush := c.gather(5, func(i int) error { return l.free(background, i) })
				var wg sync.WaitGroup
				wg.Go(func() {
					spent := took(func() { assert.NoError(t, c.group.Close(background)) })
					assert.LessOrEqual(t, spent, unwindMost+longTimeout) // only here does the flush take this long
				})
				time.Sleep(10 * ms)
				if !inTime {
					wg.Wait()
				}
				for _, err := range flush() {
					if inTime {
						assert.NoError(t, err)
						continue
					}
					assert.Equal(t, ErrClosed, err)
				}
				wg.Wait()
				c.closed()
				if inTime {
					assert.Empty(t, c.keys())
				}
				c.conserved()
			})
		})
	}
}

// R28: merged commands in flight to silent nodes delay Close by no more than
// the vote timeout.
func TestCloseWithMergedCommandsInFlight(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(5)
		flush := c.gather(5, func(i int) error { return l.free(background, i) })
		for _, n := range c.nodes {
			n.Pause()
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, err := range flush() {
				assert.True(t, errors.Is(err, ErrUndecided) || err == ErrClosed, "%v", err)
			}
		})
		synctest.Wait()
		assert.LessOrEqual(t, took(func() { assert.NoError(t, c.group.Close(background)) }), longTimeout)
		wg.Wait()
		for _, n := range c.nodes {
			n.Resume()
		}
		c.closed()
		assert.Empty(t, c.keys(), "what was queued was written")
		c.conserved()
	})
}

// R28: a Close that is cut short fails each part, in the log and in a lane.
func TestCloseFailsEachPart(t *testing.T) {
	for _, cured := range []bool{false, true} {
		t.Run(fmt.Sprint("cured=", cured), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(5)
				for _, n := range c.nodes {
					if cured {
						n.FlushScripts()
						n.Delay("SCRIPT LOAD", time.Hour)
					} else {
						n.Delay("EVALSHA", time.Hour)
					}
				}
				flush := c.gather(5, func(i int) error { return l.free(background, i) })
				var wg sync.WaitGroup
				wg.Go(func() {
					for _, err := range flush() {
						assert.Equal(t, ErrClosed, err)
					}
				})
				time.Sleep(2 * trip)
				ctx, cancel := context.WithTimeout(background, 10*ms)
				defer cancel()
				assert.Equal(t, context.DeadlineExceeded, c.group.Close(ctx))
				wg.Wait()
				for _, n := range c.nodes {
					n.Restart() // ends its delays
				}
				c.closed()
				c.conserved()
			}, withConfig(func(c *Config) { c.VoteTimeout = time.Second })) // otherwise Close would wait for its end
		})
	}
}

// R8: if CLIENT KILL is forbidden, a SET on the old connection may arrive after
// the merged command that undid it was answered on the new one. Each such
// release is repeated.
func TestMergedReleaseIsRepeatedWhereNothingIsFenced(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse(noPerm, "CLIENT KILL")
		const late = 2 * time.Second
		l := c.lock(2) // answered before, so not in doubt
		l.receipts = append(l.receipts, c.lateSet(0, "k2", late))
		c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "shed")
		c.waitUp(3)
		assert.Equal(t, make([]error, 3), l.freeAll())
		assert.Contains(t, releases(c.nodes[0]), "2 merged k0 k1 k2")
		time.Sleep(late)
		require.Equal(t, 3, c.nodes[0].Calls("SET"), "the SET came late, as it was meant to")
		c.eventually(6*time.Second, func() bool { return len(c.keys()) == 0 }, "no key without a holder")
		c.eventually(11*time.Second, func() bool { return c.debts() == 0 }, "the repetitions end with the TTL")
	})
}

// R8 across connections: a node's old connection executes a merged command
// late, after it was given up. By then its parts were owed and paid, its claims
// are fenced, and nothing is left.
func TestMergedCommandsOfAStoppedNode(t *testing.T) {
	for _, forbidden := range []bool{false, true} {
		t.Run(fmt.Sprint("forbidden=", forbidden), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				if forbidden {
					c.nodes[0].Refuse(noPerm, "CLIENT KILL")
				}
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(background)
				for i := range 30 {
					wg.Go(func() {
						for j := 0; ctx.Err() == nil; j++ {
							key := fmt.Sprint(i, "-", j)
							receipt, err := c.claim(background, key, "t", long)
							if assert.NoError(t, err) {
								assert.NoError(t, c.release(background, key, "t", long, receipt))
							}
						}
					})
				}
				time.Sleep(21 * ms)
				c.nodes[0].SetOrder(redistest.NewestFirst) // the worst order for a server that continues
				c.nodes[0].Pause()
				c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "shed")
				time.Sleep(20 * ms)
				c.nodes[0].Resume()
				c.eventually(time.Second, func() bool { return c.status(0).State == Up }, "up")
				time.Sleep(10 * ms)
				cancel()
				wg.Wait()
				if forbidden {
					time.Sleep(2 * long)
				}
				c.settled()
				assert.True(t, slices.ContainsFunc(releases(c.nodes[0]), func(s string) bool {
					return strings.HasPrefix(s, "2 merged")
				}))
			})
		})
	}
}
