package multiplex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R16: a reply that cannot answer its command ends the connection, and costs
// one vote at most; the other nodes serve on. The first of n nodes lies.
func TestHostileNode(t *testing.T) {
	type lie struct {
		redistest.Hostile
		mayGrant bool
	}
	var lies []lie
	for _, h := range redistest.HostileReplies {
		lies = append(lies, lie{h, false})
	}
	for _, h := range redistest.SurplusReplies {
		lies = append(lies, lie{h, true})
	}
	for _, l := range lies {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/nodes=%d", l.Name, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, n, func(c *cluster) {
						liar := redistest.NewHostileNode(c.network.Listen("liar:6379"), l.Hostile, false)
						t.Cleanup(func() { _ = liar.Close() })
						c.config.Nodes[0].Addr = "liar:6379"
						c.network.At("liar:6379").Latency(oneWay, oneWay)
					})
					c.waitUp(n)
					receipt, err := c.claim(background, "k", "t", long)
					if n == 1 && !l.mayGrant {
						require.Error(t, err, "a lie is no vote")
						undecidedOrRefused(t, err)
					}
					if n == 3 {
						require.NoError(t, err)
						assert.NoError(t, c.release(background, "k", "t", long, receipt))
						assert.Zero(t, c.status(1).Deaths+c.status(2).Deaths)
					}
					time.Sleep(20 * ms) // longer than the hostile node waits before it speaks unasked
					if !l.MayLive {
						assert.Positive(t, c.status(0).Deaths, "the connection dies")
					}
					_ = c.group.Close(background)
				})
			})
		}
	}
}

func undecidedOrRefused(t *testing.T, err error) {
	t.Helper()
	require.True(t, errors.Is(err, ErrUndecided) || errors.Is(err, ErrRefused), "%v", err)
}

// Each command in flight fails exactly once, and what was answered before the
// anomaly stands (R16).
func TestInFlightFailsOnce(t *testing.T) {
	anomalies := map[string]string{
		"surplus":        "+OK\r\n+OK\r\n",
		"push":           ">2\r\n+message\r\n+x\r\n",
		"attribute":      "|1\r\n+a\r\n+b\r\n+OK\r\n",
		"wrong type":     ":1\r\n",
		"no RESP":        "OK\r\n",
		"null array":     "*-1\r\n",
		"too many at 7":  "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
		"error and data": "-ERR no\r\n$3\r\nfoo\r\n",
	}
	const answered, asked = 5, 12
	for name, anomaly := range anomalies {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				sets := 0
				c.nodes[0].Handle(func(id int, args []string) ([]byte, bool) {
					if args[0] != "SET" || id != 1 {
						return nil, false
					}
					switch sets++; {
					case sets == answered+1:
						return []byte(anomaly), true
					case sets > answered:
						return nil, true // silence: otherwise wrong replies would answer the rest
					}
					return nil, false
				})
				var wg sync.WaitGroup
				var granted, failed, other atomic.Int32
				for i := range asked {
					wg.Go(func() {
						_, err := c.claim(background, fmt.Sprint("k", i), "t", long)
						switch {
						case err == nil:
							granted.Add(1)
						case errors.Is(err, ErrUndecided):
							failed.Add(1)
						default:
							other.Add(1)
						}
					})
				}
				wg.Wait()
				assert.GreaterOrEqual(t, granted.Load(), int32(answered))
				if name == "wrong type" || name == "push" || name == "no RESP" || name == "null array" || name == "attribute" {
					assert.EqualValues(t, answered, granted.Load())
				}
				assert.EqualValues(t, asked, granted.Load()+failed.Load())
				assert.Zero(t, other.Load())
				c.eventually(2*time.Second, func() bool {
					return c.status(0).Deaths == 1 && c.up() == 1 && c.debts() == 0
				}, "healed")
				assert.Len(t, c.keys(), answered, "those that were told so hold a key")
			})
		})
	}
}

// A reply that is cut at any byte is not a vote.
func TestReplyIsCut(t *testing.T) {
	for cut := range int64(len("+OK\r\n")) {
		t.Run(fmt.Sprint("bytes=", cut), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				c.links[0].CutOnce(redistest.Down, cut)
				_, err := c.claim(background, "k", "t", long)
				assert.Equal(t, []int{0}, undecided(t, err))
				c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 && c.up() == 1 }, "healed")
				assert.Empty(t, c.keys())
				assert.Zero(t, c.debts())
			})
		})
	}
}

// A command that is cut on its way is not executed, and its undo is owed.
func TestCommandIsCut(t *testing.T) {
	for _, cut := range []int64{0, 1, 20, int64(len(setCommand("k", "t", long)))} {
		t.Run(fmt.Sprint("bytes=", cut), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				c.links[0].CutOnce(redistest.Up, cut)
				_, err := c.claim(background, "k", "t", long)
				assert.Equal(t, []int{0}, undecided(t, err))
				c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 && c.up() == 1 }, "healed")
				assert.Empty(t, c.keys())
				assert.Zero(t, c.debts())
			})
		})
	}
}

// The result is the same for every split of the replies (R18).
func TestRepliesByTheByte(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, link := range c.links {
			link.Chunk(redistest.Both, 1)
		}
		for i := range 20 {
			key := fmt.Sprint("k", i)
			receipt := c.mustClaim(key)
			assert.NoError(t, c.release(background, key, "t", long, receipt))
		}
		time.Sleep(trip)
		assert.Empty(t, c.keys())
		c.healthy()
	})
}

// identify is a kind whose reply tells which command it answers: PING with a
// text returns the text.
func identify(id string, mixed *atomic.Int32) *ClaimKind {
	want := []byte(id)
	return &ClaimKind{Kind: Kind{Judge: func(v resp.Value) Vote {
		if v.Type() != resp.BulkString || !bytes.Equal(v.Bytes(), want) {
			mixed.Add(1)
			return Alien
		}
		return Granted
	}}}
}

// A node that joins under load gets whole commands only, and each reply belongs
// to its command. Connections are dropped at random moments, and every reply is
// compared with its request.
func TestRepliesAreNeverMixedUp(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				rng := seeded(t, seed)
				var mixed, won, lost atomic.Int32
				var protocolErrors atomic.Int32
				for _, link := range c.links {
					link.Latency(time.Duration(rng.IntN(3))*ms, time.Duration(rng.IntN(3))*ms)
				}
				ctx, cancel := context.WithTimeout(background, 2*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				for i := range 6 {
					wg.Go(func() {
						for j := 0; ctx.Err() == nil; j++ {
							id := fmt.Sprintf("%d-%d-%s", i, j, bytes.Repeat([]byte("x"), i*j%300))
							_, err := c.group.Claim(background, identify(id, &mixed), &Claim{
								Bytes: resp.AppendCommand(nil, "PING", id), TTL: long,
							})
							time.Sleep(time.Duration(1+i) * ms / 3)
							if err == nil {
								won.Add(1)
							} else {
								lost.Add(1)
							}
						}
					})
				}
				for ctx.Err() == nil {
					time.Sleep(time.Duration(rng.IntN(400_000)) * time.Microsecond)
					switch i := rng.IntN(5); rng.IntN(4) {
					case 0:
						c.links[i].Reset()
					case 1:
						c.links[i].CutOnce(redistest.Up, int64(rng.IntN(500)))
					default:
						c.nodes[i].DropConns()
					}
				}
				wg.Wait()
				assert.Zero(t, mixed.Load(), "a reply was taken for another's")
				assert.Greater(t, won.Load(), int32(500))
				for i, n := range c.nodes {
					assert.Greater(t, c.status(i).Connects, 1)
					for _, e := range n.Log() {
						if bytes.HasPrefix([]byte(e.Reply), []byte("-")) && e.Args[0] != "CLIENT" {
							protocolErrors.Add(1)
						}
					}
				}
				assert.Zero(t, protocolErrors.Load(), "a node got half a command")
				t.Logf("%d granted, %d not", won.Load(), lost.Load())
			})
		})
	}
}

// Pushes and attributes are unsolicited for every kind of command (R16).
func TestUnaskedForWhateverTheKind(t *testing.T) {
	anything := &ClaimKind{Kind: Kind{Judge: func(resp.Value) Vote { return Granted }}}
	for _, reply := range []string{">1\r\n+OK\r\n", "|1\r\n+a\r\n+b\r\n+OK\r\n"} {
		t.Run(reply[:1], func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *cluster) {
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte(reply), args[0] == "PING" })
				_, err := c.group.Claim(background, anything, &Claim{
					Bytes: resp.AppendCommand(nil, "PING"), TTL: long,
				})
				assert.ErrorIs(t, err, ErrUnexpected)
				c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 }, "a new connection")
			})
		})
	}
}

// Replies in the lane are checked as strictly (R16).
func TestAlienRepliesInTheLane(t *testing.T) {
	table := map[string]struct{ command, reply string }{
		"probe":        {"PING", ":1\r\n"},
		"load":         {"SCRIPT", ":1\r\n"},
		"payment":      {"EVALSHA", "+OK\r\n"},
		"push":         {"PING", ">1\r\n+PONG\r\n"},
		"push to load": {"SCRIPT", ">1\r\n+PONG\r\n"},
	}
	for name, lie := range table {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				receipt := c.mustClaim("k")
				time.Sleep(trip)
				if lie.command == "EVALSHA" {
					c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
				} else {
					c.nodes[0].FlushScripts()
				}
				var once sync.Once
				lied := func() (yes bool) { once.Do(func() { yes = true }); return yes }
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					return []byte(lie.reply), args[0] == lie.command && lied()
				})
				require.NoError(t, c.release(background, "k", "t", long, receipt))
				time.Sleep(trip)
				c.nodes[0].Refuse("", "EVALSHA")
				time.Sleep(6 * time.Second)
				assert.Equal(t, 1, c.status(0).Deaths)
				assert.Equal(t, 3, c.up())
				assert.Empty(t, c.keys())
				assert.Zero(t, c.debts())
			})
		})
	}
}
