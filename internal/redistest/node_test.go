package redistest_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
)

const release = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"

func releaseScript(keys, args []string, db *redistest.DB) any {
	if db.DeleteIf(keys[0], args[0]) {
		return 1
	}
	return 0
}

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

func TestNodeLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		node.Script(release, releaseScript)
		sha := redistest.SHA1(release)
		for _, tt := range []struct{ command, reply string }{
			{"SET k a NX PX 100", "+OK\r\n"},
			{"SET k b NX PX 100", "$-1\r\n"},
			{"PTTL k", ":100\r\n"},
			{"GET k", "$1\r\na\r\n"},
			{"EVALSHA " + sha + " 1 k a", "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
			{"SCRIPT LOAD *", "$40\r\n" + sha + "\r\n"},
			{"EVALSHA " + sha + " 1 k b", ":0\r\n"},
			{"EVALSHA " + strings.ToUpper(sha) + " 1 k a", ":1\r\n"},
			{"PTTL k", ":-2\r\n"},
			{"SET k a PX 0", "-ERR invalid expire time in 'set' command\r\n"},
			{"SET k a PY 1", "-ERR syntax error\r\n"},
			{"SET k", "-ERR wrong number of arguments for 'set' command\r\n"},
			{"SET k a", "+OK\r\n"},
			{"PTTL k", ":-1\r\n"},
			{"PEXPIRE k 50", ":1\r\n"},
			{"DELEX k IFEQ a", "-ERR unknown command 'DELEX', with args beginning with: 'k' 'IFEQ' 'a' \r\n"},
			{"DEL k j", ":1\r\n"},
		} {
			args := strings.Split(tt.command, " ")
			if args[len(args)-1] == "*" {
				args[len(args)-1] = release
			}
			require.Equal(t, tt.reply, c.do(args...), tt.command)
		}
		require.Equal(t, 6, node.Calls("set"))
		require.Equal(t, 1, node.Calls("SCRIPT LOAD"))
	})
}

func TestNodeExpiresOnSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		c.do("SET", "k", "a", "PX", "10000")
		time.Sleep(10*time.Second - time.Nanosecond)
		require.Equal(t, []string{"k"}, node.Keys())
		time.Sleep(time.Nanosecond)
		require.Empty(t, node.Keys())
		require.Equal(t, "+OK\r\n", c.do("SET", "k", "b", "NX", "PX", "10000"))
	})
}

func TestNodeExtendOnlyLengthens(t *testing.T) { // R10
	synctest.Test(t, func(t *testing.T) {
		_, node, _ := one(t, redistest.NodeConfig{})
		db := node.DB()
		db.Set("k", "a", time.Second)
		require.False(t, db.ExtendIf("k", "b", time.Minute))
		require.True(t, db.ExtendIf("k", "a", time.Millisecond))
		ttl, _ := db.TTL("k")
		require.Equal(t, time.Second, ttl)
		require.True(t, db.ExtendIf("k", "a", time.Minute))
		ttl, _ = db.TTL("k")
		require.Equal(t, time.Minute, ttl)
	})
}

func TestNodeHandshake(t *testing.T) { // R21
	synctest.Test(t, func(t *testing.T) {
		network, node, c := one(t, redistest.NodeConfig{Password: "pw", Product: "valkey", Version: "8.1.1"})
		require.Contains(t, c.do("PING"), "-NOAUTH ")
		require.Contains(t, c.do("HELLO", "3"), "-NOAUTH ")
		require.Contains(t, c.do("HELLO", "3", "AUTH", "default", "no"), "-WRONGPASS ")
		require.Contains(t, c.do("HELLO", "9"), "-NOPROTO ")
		hello := c.do("HELLO", "3", "AUTH", "default", "pw", "SETNAME", "me")
		require.Equal(t, "%7\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n8.1.1\r\n$5\r\nproto\r\n:3\r\n"+
			"$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n", hello)
		require.Equal(t, ":1\r\n", c.do("CLIENT", "ID"))
		require.Equal(t, "+OK\r\n", c.do("CLIENT", "SETINFO", "LIB-NAME", "x"))
		info := c.do("CLIENT", "INFO")
		require.Contains(t, info, "id=1 addr="+c.LocalAddr().String()+" ")
		require.Contains(t, info, " name=me ")
		info = c.do("INFO", "server", "memory")
		require.Contains(t, info, "run_id:"+node.RunID()+"\r\n")
		require.Contains(t, info, "redis_version:7.2.4\r\n")
		require.Contains(t, info, "valkey_version:8.1.1\r\n")
		require.Contains(t, info, "maxmemory_policy:noeviction\r\n")
		require.NotContains(t, info, "role:")
		require.Contains(t, c.do("INFO"), "role:master\r\n")
		require.Equal(t, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n", c.do("ROLE"))
		require.Equal(t, "_\r\n", c.do("GET", "k"))

		d := dial(t, network, "node0:6379")
		require.Equal(t, "+OK\r\n", d.do("AUTH", "pw"))
		require.Equal(t, "$-1\r\n", d.do("GET", "k"), "RESP2 until HELLO")
		d.do("SELECT", "2")
		d.do("SET", "k", "other")
		require.Equal(t, "_\r\n", c.do("GET", "k"))
	})
}

func TestNodeWithoutHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := one(t, redistest.NodeConfig{NoHello: true, Version: "5.0.14"})
		require.Contains(t, c.do("HELLO", "3"), "-ERR unknown command ")
		require.Contains(t, c.do("CLIENT", "SETINFO", "LIB-NAME", "x"), "-ERR unknown subcommand ")
	})
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

func TestNodeKillsOnlyWhoMatchesAllFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, node, a := one(t, redistest.NodeConfig{})
		b := dial(t, network, "node0:6379")
		a.do("PING")
		kill := func(args ...string) string { return b.do(append([]string{"CLIENT", "KILL"}, args...)...) }
		require.Equal(t, ":0\r\n", kill("ID", "1", "ADDR", b.LocalAddr().String()))
		require.Equal(t, ":0\r\n", kill("ID", "2", "SKIPME", "yes"))
		require.Equal(t, ":1\r\n", kill("ID", "1", "ADDR", a.LocalAddr().String()))
		require.ErrorIs(t, readError(a), io.EOF)
		require.Equal(t, ":1\r\n", kill("ID", "2", "SKIPME", "no"), "the reply still comes")
		require.ErrorIs(t, readError(b), io.EOF)
		require.Zero(t, node.Conns())
	})
}

func TestNodeRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, node, c := one(t, redistest.NodeConfig{})
		node.Script(release, releaseScript)
		c.do("SCRIPT", "LOAD", release)
		c.do("SET", "k", "a")
		before := node.RunID()
		time.Sleep(time.Hour)
		node.Restart()
		require.Error(t, readError(c))
		d := dial(t, network, "node0:6379")
		require.Equal(t, ":1\r\n", d.do("CLIENT", "ID"))
		require.Empty(t, node.Keys())
		require.NotEqual(t, before, node.RunID())
		require.Contains(t, d.do("INFO", "server"), "uptime_in_seconds:0\r\n")
		require.Contains(t, d.do("EVALSHA", redistest.SHA1(release), "1", "k", "a"), "-NOSCRIPT ")
		require.Equal(t, 2, node.Connects())
	})
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

func TestNodeNativeRelease(t *testing.T) { // R25
	synctest.Test(t, func(t *testing.T) {
		_, _, c := one(t, redistest.NodeConfig{DELEX: true, DELIFEQ: true})
		c.do("SET", "k", "a")
		require.Equal(t, ":0\r\n", c.do("DELEX", "k", "IFEQ", "b"))
		require.Equal(t, ":1\r\n", c.do("DELEX", "k", "IFEQ", "a"))
		c.do("SET", "k", "a")
		require.Equal(t, ":0\r\n", c.do("DELIFEQ", "k", "b"))
		require.Equal(t, ":1\r\n", c.do("DELIFEQ", "k", "a"))
	})
}

func TestNodePausedStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		node.Pause()
		c.SetWriteDeadline(time.Now().Add(time.Minute))
		set := resp.AppendCommand(nil, "SET", "k", strings.Repeat("x", 1000), "NX")
		sent := 0
		for {
			if _, err := c.Write(set); err != nil {
				break
			}
			sent++
		}
		require.Less(t, sent, 2000)
		node.Resume()
		for range sent {
			c.next()
		}
	})
}

func TestNodeScriptReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, c := one(t, redistest.NodeConfig{})
		for _, tt := range []struct {
			value any
			reply string
		}{
			{nil, "$-1\r\n"}, {true, ":1\r\n"}, {7, ":7\r\n"}, {"s", "$1\r\ns\r\n"},
			{redistest.Status("OK"), "+OK\r\n"}, {fmt.Errorf("ERR x"), "-ERR x\r\n"},
			{[]any{1, "a", nil}, "*3\r\n:1\r\n$1\r\na\r\n$-1\r\n"}, {[]int64{1, 0}, "*2\r\n:1\r\n:0\r\n"},
			{redistest.Raw("+raw\r\n"), "+raw\r\n"},
		} {
			node.Script("x", func([]string, []string, *redistest.DB) any { return tt.value })
			require.Equal(t, tt.reply, c.do("EVAL", "x", "0"))
		}
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
