package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/require"
)

func TestNewRefusesAConfigurationThatCannotWork(t *testing.T) {
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("redis://node%d", i))
		}
		return all
	}
	five := many(5)
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"no nodes":              {Config{}, "1 to 16 nodes are needed, not 0"},
		"17 nodes":              {Config{Nodes: Nodes(many(17)...)}, "1 to 16 nodes are needed, not 17"},
		"the same node twice":   {Config{Nodes: Nodes(append(many(2), "redis://node1")...)}, "node1:6379 is named twice"},
		"… with its port":       {Config{Nodes: Nodes("redis://a", "redis://a:6379")}, "a:6379 is named twice"},
		"… in capitals":         {Config{Nodes: Nodes("redis://Node", "redis://nOde")}, "named twice"},
		"… of another database": {Config{Nodes: Nodes("redis://a/1", "redis://a/2")}, "named twice"},
		"… with TLS":            {Config{Nodes: Nodes("redis://a", "rediss://a")}, "named twice"},
		"… as valkey":           {Config{Nodes: Nodes("redis://a", "valkey://a")}, "named twice"},
		"… as another user":     {Config{Nodes: Nodes("redis://x:hunter2@a", "redis://y:hunter2@a")}, "named twice"},
		"… as a unix socket":    {Config{Nodes: Nodes("unix:///s", "unix:///s?db=1")}, "named twice"},
		"an empty URL":          {Config{Nodes: Nodes("")}, "Nodes[0]: URL: it is empty"},
		"a blank after a comma": {Config{Nodes: Nodes("redis://a", " redis://b")}, "Nodes[1]: URL: it begins with a blank"},
		"no host":               {Config{Nodes: Nodes("redis://a", "redis://:6379")}, "Nodes[1] (:6379): URL: the host is empty"},
		"no port":               {Config{Nodes: Nodes("redis://a:")}, "Nodes[0] (a:): URL: the port is empty"},
		"a list of hosts":       {Config{Nodes: Nodes("redis://u:hunter2@a:1,b:2")}, "Nodes[0]: URL: it names several hosts"},
		"a list with ;":         {Config{Nodes: Nodes("redis://a:1;b:2")}, "Nodes[0]: URL: it names several hosts"},
		"IPv6 without brackets": {Config{Nodes: Nodes("redis://2001:db8::5")}, "URL: there is more than one colon"},
		"a name of a megabyte":  {Config{Nodes: Nodes(five...), Connect: Connect{ClientName: strings.Repeat("n", 1<<20)}}, "the client name has 1048576 bytes"},
		"a prefix of as much":   {Config{Nodes: Nodes(five...), Prefix: strings.Repeat("p", 1<<20)}, "the Prefix has 1048576 bytes, more than 1024"},
		"several in one":        {Config{Nodes: Nodes("redis://a,redis://b")}, "Nodes[0]: URL: it holds several URLs"},
		"the host is named":     {Config{Nodes: Nodes("redis://a", "redis://u:hunter2@b:7000/x")}, "Nodes[1] (b:7000): URL: the path: not the number"},
		"no host, no password":  {Config{Nodes: Nodes("redis://u:hunter2/@b")}, "Nodes[0]: URL: malformed; special characters"},
		"no host in a password": {Config{Nodes: Nodes("redis://u:1/hunter2@b")}, "Nodes[0]: URL: malformed; special characters"},
		"a name with a blank":   {Config{Nodes: Nodes(five...), Connect: Connect{ClientName: "my service"}}, "client name"},
		"a name with a break":   {Config{Nodes: Nodes(five...), Connect: Connect{ClientName: "my\nservice"}}, "client name"},
		"a name in a URL":       {Config{Nodes: Nodes("redis://a?client_name=my%20service")}, "Nodes[0] (a): URL: parameter client_name"},
		"no URL":                {Config{Nodes: Nodes("localhost:6379")}, "scheme"},
		"another scheme":        {Config{Nodes: Nodes("http://a")}, "scheme"},
		"a bad port":            {Config{Nodes: Nodes("redis://a:99999")}, "port"},
		"a bad database":        {Config{Nodes: Nodes("redis://a/x")}, "database"},
		"an unknown parameter":  {Config{Nodes: Nodes("redis://a?colour=red")}, "colour"},
		"a bad password":        {Config{Nodes: Nodes("redis://u:hunter2%zz@a")}, "percent-encod"},
		"TLS without TLS":       {Config{Nodes: Nodes("redis://a?tls_skip_verify=true")}, "TLS"},
		"negative drift":        {Config{Nodes: Nodes(five...), DriftFactor: -0.01}, "DriftFactor"},
		"a drift of all":        {Config{Nodes: Nodes(five...), DriftFactor: 1}, "DriftFactor"},
		"infinite drift":        {Config{Nodes: Nodes(five...), DriftFactor: math.Inf(1)}, "DriftFactor"},
		"drift that is none":    {Config{Nodes: Nodes(five...), DriftFactor: math.NaN()}, "DriftFactor"},
		"negative NodeTimeout":  {Config{Nodes: Nodes(five...), NodeTimeout: -1}, "NodeTimeout is negative: -1ns"},
		"negative MinValidity":  {Config{Nodes: Nodes(five...), MinValidity: -1}, "negative"},
		"negative DialTimeout":  {Config{Nodes: Nodes(five...), Connect: Connect{Timeout: -1}}, "Connect.Timeout is negative"},
		"negative MaxTries":     {Config{Nodes: Nodes(five...), Retry: Retry{Tries: -1}}, "Retry.Tries is negative: -1"},
		"negative MaxWait":      {Config{Nodes: Nodes(five...), MaxWait: -1}, "negative"},
		"negative RetryDelay":   {Config{Nodes: Nodes(five...), Retry: Retry{MinDelay: -1}}, "Retry.MinDelay is negative"},
		"crossed RetryDelays":   {Config{Nodes: Nodes(five...), Retry: Retry{MinDelay: 2 * ms, MaxDelay: ms}}, "Retry.MinDelay is 2ms, more than Retry.MaxDelay, which is 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Connect.NetDial = func(context.Context, string, string) (net.Conn, error) {
				t.Error("it was dialed")
				return nil, errors.New("no")
			}
			client, err := New(t.Context(), c.config)
			require.ErrorIs(t, err, ErrConfig)
			require.Nil(t, client)
			require.Contains(t, err.Error(), c.says)
			require.NotContains(t, err.Error(), "hunter2", "R27")
		})
	}
	_, err := Open(t.Context(), "redis://a", "redis://a")
	require.ErrorIs(t, err, ErrConfig)
}

// An invalid call sends nothing and returns the reason.
func TestBadCalls(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		before := m.nodes[0].Calls("SET")
		for name, call := range map[string]struct {
			ctx      context.Context
			resource string
			ttl      time.Duration
			want     error
		}{
			"empty resource":    {t.Context(), "", time.Second, ErrResource},
			"1,025 bytes":       {t.Context(), strings.Repeat("k", 1025), time.Second, ErrResource},
			"TTL of 0.9 ms":     {t.Context(), "r", 900 * time.Microsecond, ErrTTL},
			"no TTL":            {t.Context(), "r", 0, ErrTTL},
			"negative TTL":      {t.Context(), "r", -time.Second, ErrTTL},
			"TTL of 292 years":  {t.Context(), "r", math.MaxInt64, ErrTTL},
			"cancelled context": {ended, "r", time.Second, context.Canceled},
		} {
			start := time.Now()
			lock, err := c.TryAcquire(call.ctx, call.resource, call.ttl)
			require.ErrorIs(t, err, call.want, name)
			require.Equal(t, Lock{}, lock, name)
			_, err = c.Acquire(call.ctx, call.resource, call.ttl)
			require.ErrorIs(t, err, call.want, name)
			require.Zero(t, time.Since(start), name)
		}
		require.Equal(t, before, m.nodes[0].Calls("SET"))
		require.Zero(t, m.keys())
	})
}

func TestAClosedClientRefusesEverything(t *testing.T) { // R28
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		require.NoError(t, c.Close(context.Background()))
		for range 2 {
			_, err := c.TryAcquire(context.Background(), "r2", time.Second)
			require.ErrorIs(t, err, ErrClosed)
			_, err = c.Acquire(context.Background(), "r2", time.Second)
			require.ErrorIs(t, err, ErrClosed)
			_, err = lock.Extend(context.Background(), time.Second)
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, lock.Release(context.Background()), ErrClosed)
			require.Equal(t, ErrClosed, c.Ready(context.Background()))
			require.NoError(t, c.Close(context.Background()), "twice")
		}
		for _, s := range c.Nodes() {
			require.Equal(t, "stopped", s.State)
		}
		time.Sleep(10 * ms)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()), "held locks stay")
		require.Zero(t, m.network.Conns())
	})
}

// A client whose nodes are all dead is created at once, and each attempt
// returns the reason at once (R26).
func TestNewWithAllNodesDown(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		for i := range m.nodes {
			m.link(i).Refuse(true)
		}
		start := time.Now()
		c := m.client(t, Config{})
		require.LessOrEqual(t, time.Since(start), 10*ms)
		start = time.Now()
		_, err := c.TryAcquire(context.Background(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Zero(t, time.Since(start))
		requireCauses(t, err, 3, multiplex.ErrDown)
		for i, s := range c.Nodes() {
			require.Equal(t, m.nodes[i].Addr(), s.Addr)
			require.NotEqual(t, NodeUp, s.State)
			require.ErrorContains(t, s.Err, "refused")
		}

		for i := range m.nodes {
			m.link(i).Refuse(false)
		}
		require.NoError(t, c.Ready(context.Background()))
		mustAcquire(t, c, "r", time.Second)
	})
}

func requireCauses(t *testing.T, err error, nodes int, causes ...error) {
	t.Helper()
	var undecided *multiplex.UndecidedError
	require.ErrorAs(t, err, &undecided)
	require.Len(t, undecided.Nodes, nodes)
	for _, n := range undecided.Nodes {
		for _, cause := range causes {
			require.ErrorIs(t, n, cause)
		}
	}
}

// The network swallows every packet: New waits a second at most, and does not
// wait for the other nodes once a quorum is up.
func TestNewWithNodesThatDoNotAnswerTheDial(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		for i := range m.nodes {
			m.link(i).HoldDials(true)
		}
		start := time.Now()
		c := m.client(t, Config{})
		require.Equal(t, firstWait, time.Since(start))
		_, err := c.TryAcquire(context.Background(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		requireCauses(t, err, 3, multiplex.ErrConnecting)

		m.link(0).HoldDials(false)
		m.link(1).HoldDials(false)
		require.NoError(t, c.Ready(context.Background()))
		start = time.Now()
		d := m.client(t, Config{})
		require.LessOrEqual(t, time.Since(start), lastWait+10*ms)
		mustAcquire(t, d, "r", time.Second)
		m.link(2).HoldDials(false)
	})
}

func TestReady(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		require.NoError(t, c.Ready(context.Background()))
		for i := range 2 {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		err := c.Ready(ctx)
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		requireCauses(t, err, 2)

		time.AfterFunc(time.Second, func() { m.link(1).Refuse(false) })
		require.NoError(t, c.Ready(context.Background()))
		require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
	})
}

func TestNodesTellWhatIsKnown(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.link(2).Refuse(true)
		c := m.client(t, Config{Nodes: Nodes(append([]string{m.url(0, "default:hunter2")}, m.urls()[1:]...)...)})
		mustAcquire(t, c, "r", time.Second)
		synctest.Wait() // a vote reaches its caller before its node's counters
		all := c.Nodes()
		require.Len(t, all, 3)
		require.Equal(t, m.addr(0), all[0].Addr, "without credentials (R27)")
		require.Equal(t, multiplex.NodeCounts{Granted: 1, Dials: 1}, all[1].Counts)
		all[1].Counts = multiplex.NodeCounts{}
		require.Equal(t, NodeStatus{Addr: m.addr(1), State: "up", Product: "redis", Version: "7.0.15", Connects: 1, ReplyTime: 2 * ms}, all[1])
		require.Equal(t, m.addr(2), all[2].Addr)
		require.NotEqual(t, NodeUp, all[2].State)
		require.ErrorIs(t, all[2].Err, multiplex.ErrDown)
		require.NotContains(t, fmt.Sprint(all), "hunter2")
	})
}

// Whatever listens at the address, the client reports what it found there, and
// leaves nothing behind: a leaked goroutine fails the test.
func TestStrangersAtTheAddress(t *testing.T) {
	for name, c := range map[string]struct {
		serve  func(net.Conn)
		speaks string // of a conn.PeerError
		says   string
	}{
		"HTTP":    {answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), "HTTP", "speaks HTTP"},
		"TLS":     {answer("\x15\x03\x01\x00\x02\x02\x46"), "TLS", "speaks TLS"},
		"SSH":     {answer("SSH-2.0-OpenSSH_9.6\r\n"), "SSH", "speaks SSH"},
		"garbage": {answer("\x00\xff\x00\xffgarbage"), "", "does not speak RESP"},
		"closes":  {func(nc net.Conn) { nc.Close() }, "-", ""},
		"hangs":   {func(net.Conn) {}, "-", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := redistest.NewNetwork()
				defer network.Close()
				for i := range 3 {
					serve(t, network.Listen(fmt.Sprintf("node%d:6379", i)), c.serve)
				}
				start := time.Now()
				client, err := New(t.Context(), Config{
					Nodes:   Nodes("redis://node0", "redis://node1", "redis://node2"),
					Connect: Connect{NetDial: network.Dial, Timeout: 500 * ms},
				})
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(start), firstWait)
				_, err = client.TryAcquire(context.Background(), "r", time.Second)
				require.ErrorIs(t, err, ErrNoQuorum)
				requireCauses(t, err, 3, multiplex.ErrDown)
				require.ErrorContains(t, err, c.says)
				var peer *conn.PeerError
				if c.speaks != "-" {
					require.ErrorAs(t, err, &peer)
					require.Equal(t, c.speaks, peer.Speaks)
				}
				closeNow(t, client)
				synctest.Wait() // the strangers close their ends when ours are closed
				require.Zero(t, network.Conns(), "a connection is open")
			})
		})
	}
}

// serve reads what each client sends, calls behave once, and closes when the
// client does.
func serve(t *testing.T, l net.Listener, behave func(net.Conn)) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				behave(nc)
				for room := make([]byte, 4096); ; {
					if _, err := nc.Read(room); err != nil {
						return
					}
				}
			}()
		}
	}()
}

func answer(text string) func(net.Conn) {
	return func(nc net.Conn) { nc.Write([]byte(text)) }
}

// The kind of a node, or a missing permission, excludes it (R21, R22).
func TestNodesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		node    redistest.NodeConfig
		arrange func(*redistest.Node)
		is      error
		class   conn.Class
	}{
		"wrong password": {node: redistest.NodeConfig{Password: "hunter3"}, class: conn.ClassWrongPass},
		"a replica":      {node: redistest.NodeConfig{Role: "slave"}, is: multiplex.ErrNotMaster},
		"a cluster node": {node: redistest.NodeConfig{Mode: "cluster"}, is: multiplex.ErrNotMaster},
		"a sentinel":     {node: redistest.NodeConfig{Mode: "sentinel"}, is: multiplex.ErrNotMaster},
		"no EVALSHA": {arrange: func(n *redistest.Node) {
			n.Refuse("-NOPERM this user has no permissions to run the 'evalsha' command", "EVALSHA")
		}, class: conn.ClassNoPerm},
		"no SCRIPT LOAD": {arrange: func(n *redistest.Node) {
			n.Refuse("-NOPERM this user has no permissions to run the 'script|load' command", "SCRIPT LOAD")
		}, class: conn.ClassNoPerm},
		"another script's digest": {arrange: func(n *redistest.Node) {
			n.Handle(replyTo("SCRIPT", "$40\r\n"+strings.Repeat("0", 40)+"\r\n"))
		}},
		"a script that never grants": {arrange: func(n *redistest.Node) { n.Handle(replyTo("EVALSHA", ":1\r\n")) }},
		"a release that is never granted": {arrange: func(n *redistest.Node) {
			n.Script(releaseSource, func([]string, []string, *redistest.DB) any { return 1 })
		}},
		"an extension that is never granted": {arrange: func(n *redistest.Node) {
			n.Script(extendSource, func([]string, []string, *redistest.DB) any { return 1 })
		}},
		"no DEL": {arrange: func(n *redistest.Node) {
			n.Refuse("-NOPERM this user has no permissions to run the 'del' command", "DEL")
		}, class: conn.ClassNoPerm},
		"loading": {arrange: func(n *redistest.Node) { n.Refuse("-LOADING Redis is loading", "CLIENT INFO") }, class: conn.ClassLoading},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, 2)
				m.ownerless()
				c.node.Arrangement = m.arrangement
				odd := redistest.NewNode(c.node)
				if c.arrange != nil {
					c.arrange(odd)
				}
				odd.Serve(m.network.Listen("odd:6379"))
				defer odd.Close()
				client := m.client(t, Config{Nodes: Nodes(append(m.urls(), "redis://:hunter2@odd")...)})
				lock := mustAcquire(t, client, "r", time.Second)
				require.NoError(t, lock.Release(context.Background()))
				status := client.Nodes()[2]
				require.NotEqual(t, NodeUp, status.State)
				require.Error(t, status.Err)
				require.NotContains(t, status.Err.Error(), "hunter2", "R27")
				if c.is != nil {
					require.ErrorIs(t, status.Err, c.is)
				}
				require.Equal(t, c.class, conn.ErrorClass(status.Err), "%v", status.Err)
				require.Zero(t, odd.Calls("SET"), "it was asked for a lock")
				closeNow(t, client)
			})
		})
	}
}

func replyTo(command, reply string) redistest.Hook {
	return func(_ int, args []string) ([]byte, bool) { return []byte(reply), args[0] == command }
}

// One server with two addresses has one vote (R1, R22).
func TestOneServerUnderTwoAddressesIsOneVote(t *testing.T) {
	simulated(t, 2, func(t *testing.T, m *memory) {
		m.nodes[0].Serve(m.network.Listen("alias:6379"))
		c := m.client(t, Config{Nodes: Nodes(append(m.urls(), "redis://alias")...)})
		time.Sleep(time.Second)
		up := 0
		for _, s := range c.Nodes() {
			if s.State == "up" {
				up++
			} else {
				require.ErrorIs(t, s.Err, multiplex.ErrSameNode)
			}
		}
		require.Equal(t, 2, up)
	})
}

func TestCredentialsAndNamesReachTheNodes(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.client(t, Config{
			Nodes:    Nodes(m.urls()[0], m.url(1, "default:own"), m.urls()[2]+"?client_name=special"),
			Username: "default", Password: "common", Connect: Connect{ClientName: "worker-7"},
		})
		for i, want := range [][]string{
			{"HELLO", "3", "AUTH", "default", "common", "SETNAME", "worker-7"},
			{"HELLO", "3", "AUTH", "default", "own", "SETNAME", "worker-7"},
			{"HELLO", "3", "AUTH", "default", "common", "SETNAME", "special"},
		} {
			require.Equal(t, want, m.nodes[i].Log()[0].Args)
		}
	})
}

func TestTheURLsTLSParametersCompleteTheConfigs(t *testing.T) {
	base := &tls.Config{ServerName: "base", NextProtos: []string{"x"}, InsecureSkipVerify: true}
	for url, check := range map[string]func(*tls.Config){
		"rediss://a":                        func(c *tls.Config) { require.Equal(t, "base", c.ServerName); require.True(t, c.InsecureSkipVerify) },
		"rediss://a?tls_server_name=own":    func(c *tls.Config) { require.Equal(t, "own", c.ServerName) },
		"valkeys://a?tls_skip_verify=false": func(c *tls.Config) { require.False(t, c.InsecureSkipVerify) },
	} {
		node, err := (&Config{TLS: base}).endpoint(url)
		require.NoError(t, err)
		check(node.TLS)
		require.Equal(t, []string{"x"}, node.TLS.NextProtos, url)
		require.Equal(t, "base", base.ServerName, "the user's own was changed")
	}
	without, err := (&Config{}).endpoint("rediss://a")
	require.NoError(t, err)
	require.NotNil(t, without.TLS)
}

// A Config with TLS and a URL without would send the password in clear, and no
// one would notice (R27).
func TestConfigTLSNeedsURLsWithTLS_R27(t *testing.T) {
	for _, url := range []string{"redis://a", "valkey://u:hunter2@a:1/2", "unix:///s", "redis://a?protocol=2"} {
		for _, nodes := range [][]string{{url}, {"rediss://b", url}, {url, "rediss://b"}} {
			client, err := New(t.Context(), Config{
				Nodes: Nodes(nodes...), Password: "hunter2", TLS: &tls.Config{},
				Connect: Connect{NetDial: func(context.Context, string, string) (net.Conn, error) {
					t.Error("it was dialed")
					return nil, errors.New("no")
				}},
			})
			require.ErrorIs(t, err, ErrConfig)
			require.Nil(t, client)
			require.ErrorContains(t, err, "asks for no TLS")
			require.ErrorContains(t, err, "rediss://")
			require.NotContains(t, err.Error(), "hunter2")
		}
	}
}

// The context of New bounds only New: it ends the wait for the first
// connections, and then nothing is left; the client does not end with it.
func TestContextOfNew(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := New(ended, m.reach(Config{}))
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, m.nodes[0].Calls("HELLO"), "it was not even dialed")

		m.silence()
		short, cancel := context.WithTimeout(context.Background(), 100*ms)
		defer cancel()
		start := time.Now()
		_, err = New(short, m.reach(Config{}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.IsType(t, (*CancelledError)(nil), err)
		require.Less(t, time.Since(start), 200*ms) // the bubble fails if a goroutine is left
		m.recover()

		living, cancel := context.WithCancel(context.Background())
		c, err := New(living, m.reach(Config{Forgetful: true}))
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Second)
		mustAcquire(t, c, "r", time.Second)
		closeNow(t, c)
	})
}
