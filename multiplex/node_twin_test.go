package multiplex

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
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
	const honest = "its part"
	for load, proof := range map[string]string{ // what it answers to the two commands of the test
		honest + ", loading": honest, "-ERR no\r\n": "-ERR no\r\n", "-NOSCRIPT no\r\n": "-NOSCRIPT no\r\n", "_\r\n": "_\r\n",
		"$2\r\nno\r\n": "$2\r\nno\r\n", ":1\r\n": ":1\r\n", "garbage\r\n": "garbage\r\n", "": "", honest: "-NOSCRIPT no\r\n",
	} {
		for liar, last := range map[string]int{"first": 0, "second": 1} {
			t.Run(fmt.Sprintf("%s/%q %q", liar, load, proof), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, 5, func(c *cluster) {
						c.replace(1, redistest.NodeConfig{RunID: c.nodes[0].RunID()}).Handle(func(_ int, args []string) ([]byte, bool) {
							reply := map[bool]string{true: load, false: proof}[args[0] == "SCRIPT"]
							return []byte(reply), isProof(args) && !strings.HasPrefix(reply, honest)
						})
						c.links[last].Refuse(true)
					})
					c.waitUp(4)
					c.links[last].Refuse(false)
					c.eventually(10*time.Second, func() bool { return c.status(0).State == Up }, "the honest node is up")
					if proof == honest {
						c.waitUp(5) // the liar, too: it has a vote of its own
					}
					for range 40 {
						time.Sleep(250 * ms)
						require.Equal(t, Up, c.status(0).State, "it stays: %v", c.status(0).Err)
					}
					assert.True(t, c.mustClaim("k").Sent.Has(0))
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

// A behind is a cluster of one node whose address leads to another server, too.
type behind struct {
	*cluster
	other *redistest.Node
	dials atomic.Int64
	news  []Change // only read in the bubble, when all is quiet
}

// lead runs a test on such a node. astray tells from the number of a dial,
// which begins with 1, whether it leads to the other server.
func lead(t *testing.T, astray func(b *behind, dial int64) bool, test func(t *testing.T, b *behind)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &behind{}
		newCluster(t, 1, func(c *cluster) {
			b.cluster = c // before the group dials
			b.other = redistest.NewNode(redistest.NodeConfig{})
			t.Cleanup(func() { _ = b.other.Close() })
			b.other.Serve(c.network.Listen("other:6379"))
			c.config.LookBehind = true
			c.config.OnChange = func(change Change) { b.news = append(b.news, change) }
			c.config.Nodes[0].NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if astray(b, b.dials.Add(1)) {
					addr = "other:6379"
				}
				return c.network.Dial(ctx, network, addr)
			}
		})
		b.waitUp(1)
		time.Sleep(10 * ms)
		synctest.Wait()
		test(t, b)
	})
}

// warned returns how often the news warned of several servers.
func (b *behind) warned() (count int) {
	for _, change := range b.news {
		count += strings.Count(strings.Join(change.Warnings, " "), "several servers")
	}
	return count
}

func inTurn(_ *behind, dial int64) bool { return dial%2 == 0 }

// A name that leads to two servers in turn is warned about, once, in Nodes and
// in the news, in words that name both. It costs one more connection, for a
// moment (R22).
func TestOneNameOfTwoServersIsWarnedAbout_R22(t *testing.T) {
	lead(t, inTurn, func(t *testing.T, b *behind) {
		require.Len(t, b.status(0).Warnings, 1)
		for _, part := range []string{"leads to several servers", b.nodes[0].RunID(), b.other.RunID(), b.nodes[0].Addr()} {
			assert.Contains(t, b.status(0).Warnings[0], part)
		}
		assert.Equal(t, 1, b.warned())
		assert.True(t, b.news[len(b.news)-1].Same, "the node came up before")
		b.mustClaim("k")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 2, b.dials.Load())
		assert.Equal(t, 1, b.network.Conns())
	})
}

// What proves nothing is no reason to warn (R22).
func TestOneServerBehindANameIsNotWarnedAbout_R22(t *testing.T) {
	for name, astray := range map[string]func(b *behind, dial int64) bool{
		"one server": func(*behind, int64) bool { return false },
		"no run id": func(b *behind, dial int64) bool {
			if dial == 1 {
				b.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte("-NOPERM no\r\n"), args[0] == "INFO" })
			}
			return inTurn(b, dial)
		},
		"a restart meanwhile": func(b *behind, dial int64) bool {
			if dial == 2 {
				b.nodes[0].Pause()
			}
			return inTurn(b, dial)
		},
	} {
		t.Run(name, func(t *testing.T) {
			lead(t, astray, func(t *testing.T, b *behind) {
				time.Sleep(time.Minute)
				assert.Empty(t, b.status(0).Warnings)
				assert.Zero(t, b.warned())
				b.nodes[0].Resume()
			})
		})
	}
}

// A node of which a former run id comes back is two servers, and gets no vote
// any more, whichever answers (R22). Restarts alone have new ones.
func TestARunIDThatComesBackIsRefused_R22(t *testing.T) {
	lead(t, func(_ *behind, dial int64) bool { return dial == 3 || dial > 4 }, func(t *testing.T, b *behind) {
		b.nodes[0].DropConns()
		time.Sleep(time.Second)
		assert.Equal(t, Up, b.status(0).State, "another run id is a restart")
		b.other.DropConns()
		for range 10 {
			time.Sleep(time.Second)
			err := b.status(0).Err
			require.ErrorIs(t, err, ErrNotMaster)
			assert.Contains(t, err.Error(), "several servers")
		}
		assert.Greater(t, b.dials.Load(), int64(4), "both were refused")
	})
	lead(t, func(*behind, int64) bool { return false }, func(t *testing.T, b *behind) {
		for range 2 * mostFormer {
			b.nodes[0].Restart()
			time.Sleep(10 * time.Second)
			require.Equal(t, Up, b.status(0).State)
		}
		assert.Len(t, b.group.nodes[0].dialer.former, mostFormer)
	})
}

// A second connection that hangs delays neither the join nor Close (R28).
func TestCloseEndsTheLookBehindAName_R28(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		c := newCluster(t, 1, func(c *cluster) {
			c.config.LookBehind = true
			c.config.Nodes[0].NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) == 2 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return c.network.Dial(ctx, network, addr)
			}
		})
		c.waitUp(1)
		c.mustClaim("k")
		began := time.Now()
		require.NoError(t, c.group.Close(background))
		assert.Less(t, time.Since(began), time.Second)
	})
}

// If a name has several addresses, each is dialed, with the name for its
// certificate; an application that dials by itself gets the name (R22).
func TestEachAddressOfANameIsDialed_R22(t *testing.T) {
	resolves(t, "127.0.0.1", "127.0.0.2")
	first, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(first.Addr().String())
	second, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		_ = first.Close()
		t.Skip("one loopback address: ", err)
	}
	var nodes []*redistest.Node
	for _, l := range []net.Listener{first, second} {
		n := redistest.NewNode(redistest.NodeConfig{})
		t.Cleanup(func() { _ = n.Close() })
		n.Serve(l)
		nodes = append(nodes, n)
	}
	config := conn.Config{Endpoint: conn.Endpoint{Addr: "locks.test:" + port, TLS: &tls.Config{}}}
	behind := endpointsBehind(background, &config)
	require.Len(t, behind, 2)
	for i, e := range behind {
		assert.Equal(t, []string{"127.0.0.1:", "127.0.0.2:"}[i]+port, e.Addr)
		assert.Equal(t, "locks.test", e.TLS.ServerName)
	}
	assert.Empty(t, config.TLS.ServerName, "it is the application's")
	config.NetDial = func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	assert.Equal(t, []conn.Endpoint{config.Endpoint}, endpointsBehind(background, &config))

	g, err := New(Config{Nodes: []conn.Config{{Endpoint: conn.Endpoint{Addr: "locks.test:" + port}}}, LookBehind: true})
	require.NoError(t, err)
	defer g.Close(background)
	require.Eventually(t, func() bool { return len(g.Nodes()[0].Warnings) > 0 }, 5*time.Second, ms)
	for _, n := range nodes {
		assert.Contains(t, g.Nodes()[0].Warnings[0], n.RunID())
	}
}

// The addresses of a name that are dialed are bounded (R26).
func TestFewAddressesOfANameAreDialed_R26(t *testing.T) {
	resolves(t, "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6")
	config := conn.Config{Endpoint: conn.Endpoint{Addr: "locks.test:6379"}}
	assert.Len(t, endpointsBehind(background, &config), mostAddresses)
}

// resolves makes every name have these addresses, for the time of the test.
func resolves(t *testing.T, addrs ...string) {
	was := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = was })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			var length [2]byte
			if _, err := io.ReadFull(ours, length[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(ours, query); err != nil {
				return
			}
			end := 12 + bytes.IndexByte(query[12:], 0) + 5 // of the question
			isA := query[end-3] == 1
			answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
			for _, addr := range addrs {
				if isA {
					answer[7]++
					answer = append(append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4), net.ParseIP(addr).To4()...)
				}
			}
			_, _ = ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}()
		return theirs, nil
	}}
}
