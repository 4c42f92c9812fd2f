package multiplex

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// isProof reports whether a command belongs to the test for twins: a script
// that returns a text, or a call of a script that is not one of the tests.
func isProof(args []string) bool {
	switch args[0] {
	case "SCRIPT":
		return len(args) > 2 && strings.HasPrefix(args[2], "return '")
	case "EVALSHA":
		return args[1] != redistest.SHA1(releaseSource) && args[1] != redistest.SHA1(extendSource)
	}
	return false
}

// A hostile node that claims another's run id does not keep that one out,
// whether it comes first or second, and whatever it answers to the test for
// twins: one liar, one vote (R22).
func TestALiarKeepsNoOtherOut_R22(t *testing.T) {
	answering := func(reply string) func(string) []byte {
		return func(string) []byte { return []byte(reply) }
	}
	for name, lie := range map[string]func(command string) []byte{
		"plays its part": nil,
		"an error":       answering("-ERR no\r\n"),
		"NOSCRIPT":       answering("-NOSCRIPT no\r\n"),
		"null":           answering("_\r\n"),
		"a text":         answering("$2\r\nno\r\n"),
		"another type":   answering(":1\r\n"),
		"garbage":        answering("garbage\r\n"),
		"silence":        answering(""),
		"fails at the end": func(command string) []byte {
			if command == "SCRIPT" {
				return nil
			}
			return []byte("-NOSCRIPT no\r\n")
		},
	} {
		for _, first := range []bool{true, false} {
			t.Run(map[bool]string{true: "first/", false: "second/"}[first]+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, 5, func(c *cluster) {
						liar := redistest.NewNode(redistest.NodeConfig{RunID: c.nodes[0].RunID()})
						t.Cleanup(func() { _ = liar.Close() })
						if lie != nil {
							liar.Handle(func(_ int, args []string) ([]byte, bool) {
								if !isProof(args) {
									return nil, false
								}
								reply := lie(args[0])
								return reply, reply != nil
							})
						}
						liar.Serve(c.network.Listen("liar:6379"))
						c.config.Nodes[1].Addr = "liar:6379"
						c.network.At("liar:6379").Latency(oneWay, oneWay)
						if first {
							c.links[0].Refuse(true)
						} else {
							c.network.At("liar:6379").Refuse(true)
						}
					})
					c.waitUp(4)
					c.links[0].Refuse(false)
					c.network.At("liar:6379").Refuse(false)
					c.eventually(10*time.Second, func() bool { return c.status(0).State == Up }, "the honest node is up")
					if lie == nil {
						c.waitUp(5) // the liar, too: it has a vote of its own
					}
					for range 40 {
						time.Sleep(250 * ms)
						require.Equal(t, Up, c.status(0).State, "it stays: %v", c.status(0).Err)
					}
					receipt := c.mustClaim("k")
					assert.True(t, receipt.Sent.Has(0))
				})
			})
		}
	}
}

// Two addresses of one server are one vote, in any order and in any database
// (R22): scripts, which tell them apart, belong to the server.
func TestTwinsAreOneVote_R22(t *testing.T) {
	for name, tweak := range map[string]func(c *cluster){
		"another database":    func(c *cluster) { c.config.Nodes[2].DB = 1 },
		"the alias is slower": func(c *cluster) { c.network.At("alias:6379").Latency(10*ms, 10*ms) },
		"scripts are flushed meanwhile": func(c *cluster) {
			var flushed atomic.Bool
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				if args[0] == "EVALSHA" && isProof(args) && !flushed.Swap(true) {
					c.nodes[0].FlushScripts()
				}
				return nil, false
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, func(c *cluster) {
					c.nodes[0].Serve(c.network.Listen("alias:6379"))
					c.config.Nodes[2].Addr = "alias:6379"
					tweak(c)
				})
				c.waitUp(2)
				for range 200 {
					time.Sleep(10 * ms)
					require.LessOrEqual(t, c.up(), 2)
				}
				assert.ElementsMatch(t, []bool{true, false}, []bool{c.status(0).State == Up, c.status(2).State == Up})
				c.eventually(time.Second, func() bool { return c.status(2).Err != nil || c.status(0).Err != nil }, "one is refused")
				for _, i := range []int{0, 2} {
					if err := c.status(i).Err; err != nil {
						assert.ErrorIs(t, err, ErrSameNode)
					}
				}
				loads := 0
				for _, e := range c.nodes[0].Log() {
					if e.Args[0] == "SCRIPT" && isProof(e.Args) {
						loads++
					}
				}
				assert.Positive(t, loads)
			})
		})
	}
}

// A proof that two servers with one run id are two ends with its connections:
// an address that has become an alias of another since has no vote (R22).
func TestAProofEndsWithItsConnection_R22(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listener net.Listener
		c := newCluster(t, 3, func(c *cluster) {
			clone := redistest.NewNode(redistest.NodeConfig{RunID: c.nodes[0].RunID()})
			t.Cleanup(func() { _ = clone.Close() })
			listener = c.network.Listen("clone:6379")
			clone.Serve(listener)
			c.config.Nodes[2].Addr = "clone:6379"
			c.network.At("clone:6379").Refuse(true) // so that it comes second, and has the proof
		})
		c.waitUp(2)
		c.network.At("clone:6379").Refuse(false)
		c.waitUp(3)
		require.NoError(t, listener.Close())
		c.nodes[0].Serve(c.network.Listen("clone:6379"))
		c.network.At("clone:6379").Reset()
		time.Sleep(5 * time.Second)
		require.LessOrEqual(t, c.up(), 2)
	})
}
