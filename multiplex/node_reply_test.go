package multiplex

import (
	"errors"
	"fmt"
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
						require.True(t, errors.Is(err, ErrUndecided) || errors.Is(err, ErrRefused), "a lie is no vote: %v", err)
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

// R16: a reply that the end of the connection cuts gives no vote, and a command
// that is cut is not executed. What may be there is owed, each part of a merged
// command singly.
func TestWhatIsCutIsNoVote_R16(t *testing.T) {
	const reply, replies = "+OK\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n"
	for _, x := range []struct {
		merged bool
		way    redistest.Direction
		cuts   []int64
	}{
		{false, redistest.Down, upToLength(reply)},
		{true, redistest.Down, upToLength(replies)},
		{false, redistest.Up, []int64{0, 1, 20, int64(len(setCommand("k", "t", long)))}},
		{true, redistest.Up, []int64{0, 1, 70, 100}},
	} {
		for _, cut := range x.cuts {
			subBubble(t, fmt.Sprintf("merged=%t/way=%v/bytes=%d", x.merged, x.way, cut), 1, func(t *testing.T, c *cluster) {
				l := c.lock(0)
				if x.merged {
					l = c.lock(3)
				}
				c.links[0].CutOnce(x.way, cut)
				for _, err := range l.freeAll() {
					assert.Equal(t, []int{0}, undecided(t, err))
				}
				if !x.merged {
					_, err := c.claim(background, "k", "t", long)
					assert.Equal(t, []int{0}, undecided(t, err))
				}
				c.settled()
				assert.Equal(t, 2, c.status(0).Connects)
				if x.merged {
					l.paidSingly(0)
				}
			}, merging(true))
		}
	}
}

func upToLength(reply string) (cuts []int64) {
	for cut := range int64(len(reply)) {
		cuts = append(cuts, cut)
	}
	return cuts
}

// Pushes and attributes are unsolicited for every kind of command (R16).
func TestUnaskedForWhateverTheKind(t *testing.T) {
	anything := &ClaimKind{Kind: Kind{Judge: func(resp.Value) Vote { return Granted }}}
	for _, reply := range []string{">1\r\n+OK\r\n", "|1\r\n+a\r\n+b\r\n+OK\r\n"} {
		subBubble(t, reply[:1], 1, func(t *testing.T, c *cluster) {
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte(reply), args[0] == "PING" })
			_, err := c.group.Claim(background, anything, &Claim{Bytes: resp.AppendCommand(nil, "PING"), TTL: long})
			assert.ErrorIs(t, err, ErrUnexpected)
			c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 }, "a new connection")
		})
	}
}

// Replies in the lane are checked as strictly (R16): to a probe, to the loading
// of a script and to a payment.
func TestAlienRepliesInTheLane(t *testing.T) {
	for _, lie := range [][2]string{
		{"PING", ":1\r\n"}, {"PING", ">1\r\n+PONG\r\n"}, {"SCRIPT", ":1\r\n"}, {"SCRIPT", ">1\r\n+PONG\r\n"}, {"EVALSHA", "+OK\r\n"},
	} {
		subBubble(t, fmt.Sprintf("%q", lie), 3, func(t *testing.T, c *cluster) {
			receipt := c.mustClaim("k")
			time.Sleep(trip)
			if lie[0] == "EVALSHA" {
				c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
			} else {
				c.nodes[0].FlushScripts()
			}
			c.nodes[0].Handle(func(id int, args []string) ([]byte, bool) { return []byte(lie[1]), id == 1 && args[0] == lie[0] })
			require.NoError(t, c.release(background, "k", "t", long, receipt))
			time.Sleep(trip)
			c.nodes[0].Refuse("", "EVALSHA")
			time.Sleep(6 * time.Second)
			assert.Equal(t, 1, c.status(0).Deaths)
			assert.Equal(t, 3, c.up())
			assert.Empty(t, c.keys())
			assert.Zero(t, c.debts())
		})
	}
}
