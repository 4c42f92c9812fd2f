package redistest_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

const release = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"

// client is a connection that sends commands and compares raw replies.
type client struct {
	t *testing.T
	net.Conn
	r *resp.Reader
}

func dial(t *testing.T, n *redistest.Network, addr string) *client {
	t.Helper()
	c, err := n.Dial(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &client{t, c, resp.NewReader(resp.Limits{})}
}

func (c *client) send(args ...string) {
	c.t.Helper()
	send(c.t, c.Conn, string(resp.AppendCommand(nil, args...)))
}

func (c *client) next() string {
	c.t.Helper()
	for {
		v, ok, err := c.r.Next()
		require.NoError(c.t, err)
		if ok {
			return string(v.Raw())
		}
		_, err = c.r.Fill(c.Conn)
		require.NoError(c.t, err)
	}
}

func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(args...)
	return c.next()
}

// one starts a node and connects to it.
func one(t *testing.T, config redistest.NodeConfig) (*redistest.Network, *redistest.Node, *client) {
	network := redistest.NewNetwork()
	node := redistest.Nodes(t, network, 1, config)[0]
	return network, node, dial(t, network, "node0:6379")
}

func TestNodeExecutesWhatDeadClientsSent(t *testing.T) { // R8
	for _, tt := range []struct {
		name   string
		order  redistest.Order
		fence  bool
		orphan bool
	}{
		{"by arrival", redistest.ByArrival, false, false},
		{"release first", redistest.NewestFirst, false, true},
		{"fenced", redistest.NewestFirst, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network, node, old := one(t, redistest.NodeConfig{})
				node.SetOrder(tt.order)
				require.Equal(t, ":1\r\n", old.do("CLIENT", "ID"))
				node.Pause()
				old.send("SET", "k", "a", "NX", "PX", "10000")
				require.NoError(t, old.Conn.(interface{ Abort() error }).Abort())
				synctest.Wait() // it has arrived

				fresh := dial(t, network, "node0:6379")
				if tt.fence {
					fresh.send("CLIENT", "KILL", "ID", "1", "ADDR", old.LocalAddr().String(), "SKIPME", "yes")
				}
				fresh.send("DEL", "k")
				synctest.Wait()
				require.Empty(t, node.Keys())
				node.Resume()
				if tt.fence {
					require.Equal(t, ":1\r\n", fresh.next())
				}
				fresh.next()
				synctest.Wait()
				if tt.orphan {
					require.Equal(t, []string{"k"}, node.Keys())
				} else {
					require.Empty(t, node.Keys())
				}
				require.Equal(t, 1, node.Conns(), "the dead client is gone now")
			})
		})
	}
}

func TestNodeHooksDelaysRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		node.Handle(func(conn int, args []string) ([]byte, bool) {
			return fmt.Appendf(nil, "+%d saw %s\r\n", conn, args[0]), args[0] == "GET"
		})
		require.Equal(t, "+1 saw GET\r\n", c.do("GET", "k"))

		node.Delay("SET", 20*time.Millisecond)
		start := time.Now()
		c.send("SET", "k", "a")
		c.send("PING")
		synctest.Wait()
		require.Empty(t, node.Keys(), "execution waits, not only the reply")
		require.Equal(t, "+OK\r\n", c.next())
		require.Equal(t, "+PONG\r\n", c.next(), "behind it")
		require.Equal(t, 20*time.Millisecond, time.Since(start))
		node.Delay("SET", 0)

		node.Refuse("-NOREPLICAS Not enough good replicas to write.")
		require.Contains(t, c.do("SET", "k", "b"), "-NOREPLICAS ")
		require.Contains(t, c.do("EVAL", "return 1", "0"), "-NOREPLICAS ")
		require.Equal(t, "+PONG\r\n", c.do("PING"))
		node.Refuse("")
		node.Refuse("-NOPERM no", "client kill")
		require.Contains(t, c.do("CLIENT", "KILL", "ID", "7"), "-NOPERM ")
		require.Equal(t, ":1\r\n", c.do("CLIENT", "ID"))
		require.Equal(t, "+OK\r\n", c.do("SET", "k", "b"))

		log := node.Log()
		require.Equal(t, []string{"GET", "k"}, log[0].Args)
		require.Equal(t, "+OK\r\n", log[1].Reply)
		require.Equal(t, start.Add(20*time.Millisecond), log[1].At)
	})
}

// TestNodeOverTCP shows that a node also serves real sockets, and that Close
// leaves nothing behind.
func TestNodeOverTCP(t *testing.T) {
	redistest.NoLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	node := redistest.NewNode(redistest.NodeConfig{})
	node.Serve(l)
	defer node.Close()
	conn, err := net.Dial("tcp", node.Addr())
	require.NoError(t, err)
	defer conn.Close()
	c := &client{t, conn, resp.NewReader(resp.Limits{})}
	require.Equal(t, "+PONG\r\n", c.do("PING"))
	send(t, conn, "garbage\r\n")
	receive(t, conn, "-ERR Protocol error\r\n")
	require.ErrorIs(t, readError(conn), io.EOF)
}

// A node that restarts is another process, with its keys or without.
func TestNodeRestart(t *testing.T) {
	for pttl, restart := range map[string]func(*redistest.Node){":-2\r\n": (*redistest.Node).Restart, ":6000\r\n": (*redistest.Node).RestartDurably} {
		synctest.Test(t, func(t *testing.T) {
			network, node, c := one(t, redistest.NodeConfig{})
			c.do("SCRIPT", "LOAD", release)
			c.do("SET", "k", "a", "PX", "10000")
			before := node.RunID()
			time.Sleep(4 * time.Second)
			restart(node)
			require.Error(t, readError(c))
			d := dial(t, network, "node0:6379")
			require.Equal(t, pttl, d.do("PTTL", "k"), "its life goes on meanwhile")
			require.Equal(t, ":1\r\n", d.do("CLIENT", "ID"))
			require.NotEqual(t, before, node.RunID())
			require.Contains(t, d.do("INFO", "server"), "uptime_in_seconds:0\r\n")
			require.Contains(t, d.do("EVALSHA", redistest.SHA1(release), "1", "k", "a"), "-NOSCRIPT ")
		})
	}
}

// Keys, PTTL, TIME and the uptime follow the node's clock, for native commands
// and scripts alike.
func TestNodeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		start := node.Clock().Now()
		require.Equal(t, start, time.Now(), "one that was not set is the world's")
		node.Clock().SetRate(2)
		c.do("SET", "a", "x", "PX", "10000")
		time.Sleep(5*time.Second - time.Millisecond)
		require.Equal(t, ":2\r\n", c.do("PTTL", "a"))
		time.Sleep(time.Millisecond)
		require.Equal(t, ":-2\r\n", c.do("PTTL", "a"))
		require.Equal(t, 10*time.Second, node.Clock().Now().Sub(start))
		require.Contains(t, c.do("INFO", "server"), "uptime_in_seconds:10\r\n")

		node.Clock().SetRate(0.5)
		c.do("SET", "b", "x", "PX", "5000")
		require.Equal(t, ":1\r\n", c.do("EVAL", "return redis.call('PEXPIRE', KEYS[1], 10000)", "1", "b"))
		require.Equal(t, ":10000\r\n", c.do("PTTL", "b"))
		time.Sleep(20*time.Second - time.Millisecond)
		require.Equal(t, []string{"b"}, node.Keys())
		require.Equal(t, time.Minute, node.Clock().Lasts(30*time.Second))
		time.Sleep(time.Millisecond)
		require.Empty(t, node.Keys())

		node.Clock().SetRate(1)
		c.do("SET", "c", "x", "PX", "10000")
		node.Clock().Step(-5 * time.Second)
		require.Equal(t, ":15000\r\n", c.do("PTTL", "c"))
		node.Clock().Step(15 * time.Second)
		require.Empty(t, node.Keys())
		require.Equal(t, time.Minute, node.Clock().Lasts(time.Minute))
	})
}

// A tracked key that expires at another time than expected is pushed when it
// expires.
func TestNodePushesByItsClock(t *testing.T) {
	for name, set := range map[string]struct {
		clock func(*redistest.NodeClock)
		after time.Duration
	}{
		"as it is":     {func(*redistest.NodeClock) {}, 10 * time.Second},
		"faster":       {func(c *redistest.NodeClock) { c.SetRate(2) }, 5 * time.Second},
		"slower":       {func(c *redistest.NodeClock) { c.SetRate(0.5) }, 20 * time.Second},
		"jumped":       {func(c *redistest.NodeClock) { c.Step(time.Hour) }, 0},
		"jumped there": {func(c *redistest.NodeClock) { c.Step(-5 * time.Second) }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, node, c := one(t, redistest.NodeConfig{})
				c.do("HELLO", "3")
				c.do("CLIENT", "TRACKING", "ON", "OPTIN")
				c.do("SET", "k", "x", "PX", "10000")
				c.do("CLIENT", "CACHING", "YES")
				c.do("GET", "k")
				start := time.Now()
				set.clock(node.Clock())
				require.Equal(t, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", c.next())
				require.InDelta(t, set.after.Seconds(), time.Since(start).Seconds(), 0.02)
			})
		})
	}
}
