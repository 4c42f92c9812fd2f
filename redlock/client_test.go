package redlock

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/require"
)

// What a URL cannot be stands in the tests of package conn.
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
		"sentinels twice":       {Config{Nodes: Nodes("redis+sentinel://a,b/m", "redis+sentinel://a,b/m/1")}, "sentinel:a:26379,b:26379/m is named twice"},
		"a cluster's slots":     {Config{Nodes: Nodes("redis+cluster://a"), Prefix: "{}x{y}"}, "no hash tag"},
		"sentinels in capitals": {Config{Nodes: Nodes("redis+sentinel://a,b/m", "redis+sentinel://A,b/m")}, "named twice"},
		"… in capitals":         {Config{Nodes: Nodes("redis://Node", "redis://nOde")}, "named twice"},
		"… of another database": {Config{Nodes: Nodes("redis://a/1", "redis://a/2")}, "named twice"},
		"… with TLS":            {Config{Nodes: Nodes("redis://a", "rediss://a")}, "named twice"},
		"… as valkey":           {Config{Nodes: Nodes("redis://a", "valkey://a")}, "named twice"},
		"… as another user":     {Config{Nodes: Nodes("redis://x:hunter2@a", "redis://y:hunter2@a")}, "named twice"},
		"… as a unix socket":    {Config{Nodes: Nodes("unix:///s", "unix:///s?db=1")}, "named twice"},
		"a blank after a comma": {Config{Nodes: Nodes("redis://a", " redis://b")}, "Nodes[1]: URL: it begins with a blank"},
		"no host":               {Config{Nodes: Nodes("redis://a", "redis://:6379")}, "Nodes[1] (:6379): URL: the host is empty"},
		"a list of hosts":       {Config{Nodes: Nodes("redis://u:hunter2@a:1,b:2")}, "Nodes[0]: URL: it names several hosts"},
		"a name of a megabyte":  {Config{Nodes: Nodes(five...), Connect: Connect{ClientName: strings.Repeat("n", 1<<20)}}, "the client name has 1048576 bytes"},
		"a prefix of as much":   {Config{Nodes: Nodes(five...), Prefix: strings.Repeat("p", 1<<20)}, "the Prefix has 1048576 bytes, more than 1024"},
		"several in one":        {Config{Nodes: Nodes("redis://a,redis://b")}, "Nodes[0]: URL: it holds several URLs"},
		"the host is named":     {Config{Nodes: Nodes("redis://a", "redis://u:hunter2@b:7000/x")}, "Nodes[1] (b:7000): URL: the path: not the number"},
		"no host, no password":  {Config{Nodes: Nodes("redis://u:hunter2/@b")}, "Nodes[0]: URL: malformed; special characters"},
		"a name with a blank":   {Config{Nodes: Nodes(five...), Connect: Connect{ClientName: "my service"}}, "client name"},
		"a name in a URL":       {Config{Nodes: Nodes("redis://a?client_name=my%20service")}, "Nodes[0] (a): URL: parameter client_name"},
		"two passwords":         {Config{Nodes: Nodes(five...), Password: "hunter2", Connect: Connect{Credentials: noCredentials}}, "both Password and Connect.Credentials"},
		"a bad password":        {Config{Nodes: Nodes("redis://u:hunter2%zz@a")}, "percent-encod"},
		"negative drift":        {Config{Nodes: Nodes(five...), DriftFactor: -0.01}, "DriftFactor"},
		"a drift of all":        {Config{Nodes: Nodes(five...), DriftFactor: 1}, "DriftFactor"},
		"infinite drift":        {Config{Nodes: Nodes(five...), DriftFactor: math.Inf(1)}, "DriftFactor"},
		"negative NodeTimeout":  {Config{Nodes: Nodes(five...), NodeTimeout: -1}, "NodeTimeout is negative: -1ns"},
		"negative MinValidity":  {Config{Nodes: Nodes(five...), MinValidity: -1}, "negative"},
		"negative MaxTries":     {Config{Nodes: Nodes(five...), Retry: Retry{Tries: -1}}, "Retry.Tries is negative: -1"},
		"negative MaxWait":      {Config{Nodes: Nodes(five...), MaxWait: -1}, "negative"},
		"negative RetryDelay":   {Config{Nodes: Nodes(five...), Retry: Retry{MinDelay: -1}}, "Retry.MinDelay is negative"},
		"MaxTTL below 1 ms":     {Config{Nodes: Nodes(five...), MaxTTL: ms / 2}, "MaxTTL"},
		"negative MaxTTL":       {Config{Nodes: Nodes(five...), MaxTTL: -time.Second}, "negative"},
		"MaxTTL of an age":      {Config{Nodes: Nodes(five...), MaxTTL: pure.LongestTTL + ms}, "it must be between 1ms and"},
		"an owner with a blank": {Config{Nodes: Nodes(five...), Owner: "a b"}, "Owner"},
		"… with a break":        {Config{Nodes: Nodes(five...), Owner: "hunter2\n"}, "Owner"},
		"… of other letters":    {Config{Nodes: Nodes(five...), Owner: "\x7f"}, "Owner"},
		"… of 65 bytes":         {Config{Nodes: Nodes(five...), Owner: strings.Repeat("x", 65)}, "Owner"},
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

// An invalid call sends nothing and returns the reason at once, also where
// others wait. A resource has 1 to 1,024 bytes, a TTL at least a millisecond
// (R19).
func TestBadCalls(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		other, c := m.client(t, Config{}), m.client(t, Config{MinValidity: 50 * ms})
		held := mustAcquire(t, other, "r", time.Minute)
		w := waits(t.Context(), c, "r")
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
			"in 513 letters":    {t.Context(), strings.Repeat("é", 512) + "k", time.Second, ErrResource},
			"TTL of 0.9 ms":     {t.Context(), "r", 900 * time.Microsecond, ErrTTL},
			"no TTL":            {t.Context(), "r", 0, ErrTTL},
			"negative TTL":      {t.Context(), "r", -time.Second, ErrTTL},
			"the least TTL":     {t.Context(), "r", math.MinInt64, ErrTTL},
			"an age and a bit":  {t.Context(), "r", pure.LongestTTL + ms, ErrTTL},
			"TTL of 292 years":  {t.Context(), "r", math.MaxInt64, ErrTTL},
			"below MinValidity": {t.Context(), "r", 50 * ms, ErrTTL},
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
		require.NoError(t, held.Release(t.Context()))
		w.got(t)
		mustAcquire(t, c, strings.Repeat("k", 1024), pure.LongestTTL+ms-1)
		mustAcquire(t, c, "\x00", 100*ms)
	})
}

// After Close, which may be called twice, nothing is left but the locks. The
// calls of a closed client are in TestEveryErrorOfACallNamesItsResource_R12.
func TestAClosedClientRefusesEverything_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		for range 2 {
			require.NoError(t, c.Close(context.Background()))
			require.Equal(t, ErrClosed, c.Ready(context.Background()))
		}
		require.Equal(t, multiplex.Stopped, c.Nodes()[2].State)
		time.Sleep(10 * ms)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()), "held locks stay")
		require.Zero(t, m.network.Conns())
	})
}

// New returns at once where all nodes refuse, after a second at most where the
// network swallows every packet, and does not wait for the last node once a
// quorum is up. Ready waits for a quorum, and says what each node lacks (R26).
func TestNewAndReady_R26(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		each := func(do func(*redistest.Link)) {
			for i := range m.nodes {
				do(m.link(i))
			}
		}
		each(func(l *redistest.Link) { l.Refuse(true) })
		start := time.Now()
		c := m.client(t, Config{})
		require.LessOrEqual(t, time.Since(start), 10*ms)
		start = time.Now()
		_, err := c.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Zero(t, time.Since(start))
		requireCauses(t, err, 3, multiplex.ErrDown)
		require.ErrorContains(t, c.Nodes()[0].Err, "refused")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = c.Ready(ctx)
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		requireCauses(t, err, 3)
		time.AfterFunc(time.Second, func() { each(func(l *redistest.Link) { l.Refuse(false) }) })
		require.NoError(t, c.Ready(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), 2*time.Second)

		each(func(l *redistest.Link) { l.HoldDials(true) })
		start = time.Now()
		d := m.client(t, Config{})
		require.Equal(t, firstWait, time.Since(start))
		_, err = d.TryAcquire(t.Context(), "r", time.Second)
		requireCauses(t, err, 3, multiplex.ErrConnecting)
		m.link(0).HoldDials(false)
		m.link(1).HoldDials(false)
		require.NoError(t, d.Ready(t.Context()))
		start = time.Now()
		e := m.client(t, Config{})
		require.LessOrEqual(t, time.Since(start), lastWait+10*ms)
		mustAcquire(t, e, "r", time.Second)
		m.link(2).HoldDials(false)
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

// The status of nodes says what is known, also as JSON, with errors as text and
// without a secret (R27).
func TestNodesTellWhatIsKnown_R27(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.link(2).Refuse(true)
		urls := append([]string{m.url(0, "default:hunter2")}, m.urls()[1:]...)
		c := m.client(t, Config{Nodes: Nodes(urls...), Prefix: "customer-"})
		lock := mustAcquire(t, c, "customer-4711", time.Second)
		synctest.Wait() // a vote reaches its caller before its node's counters
		all := c.Nodes()
		require.Len(t, all, 3)
		require.Equal(t, m.addr(0), all[0].Addr)
		require.Equal(t, multiplex.NodeCounts{Granted: 1, Dials: 1}, all[1].Counts)
		require.NotEqual(t, NodeUp, all[2].State)
		require.ErrorIs(t, all[2].Err, multiplex.ErrDown)
		for _, v := range []any{all, c.Stats(), NodeChange{Node: 2, State: "down", Err: all[2].Err}} {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			requireSecret(t, string(text), lock.Token(), "json", v)
			requireSecret(t, fmt.Sprintf("%+v", v), lock.Token(), "%+v", v)
		}
		text, err := json.Marshal(all)
		require.NoError(t, err)
		var back []map[string]any
		require.NoError(t, json.Unmarshal(text, &back))
		require.NotContains(t, back[0], "error")
		require.Contains(t, back[2]["error"], "refused")
		require.EqualValues(t, 1, back[0]["counts"].(map[string]any)["dials"])
		require.EqualValues(t, 2000, back[1]["reply_time_us"])
		all[1].Counts = multiplex.NodeCounts{}
		require.Equal(t, NodeStatus{Addr: m.addr(1), State: "up", Server: all[1].Server, Connects: 1, ReplyTime: 2 * ms}, all[1])
		require.Equal(t, "redis 7.0.15", back[1]["product"].(string)+" "+back[1]["version"].(string))
	})
}

// A node on which the scripts do not do what they should is not asked for a
// lock (R21, R22). TestPreflight_R22 has the other kinds of nodes.
func TestNodesWithOtherScriptsAreRefused_R21_R22(t *testing.T) {
	never := func([]string, []string, *redistest.DB) any { return 1 }
	for name, arrange := range map[string]func(*redistest.Node){
		"another script's digest":      func(n *redistest.Node) { n.Handle(replyTo("SCRIPT", "$40\r\n"+strings.Repeat("0", 40)+"\r\n")) },
		"a script that never grants":   func(n *redistest.Node) { n.Handle(replyTo("EVALSHA", ":1\r\n")) },
		"a release that always grants": func(n *redistest.Node) { n.Script(releaseSource, never) },
		"an extension, just so":        func(n *redistest.Node) { n.Script(extendSource, never) },
		"no DEL":                       func(n *redistest.Node) { n.Refuse("-NOPERM no permissions to run the 'del' command", "DEL") },
	} {
		simulated(t, 2, func(t *testing.T, m *memory) {
			m.ownerless()
			odd := redistest.NewNode(redistest.NodeConfig{Arrangement: m.arrangement})
			arrange(odd)
			odd.Serve(m.network.Listen("odd:6379"))
			defer odd.Close()
			client := m.client(t, Config{Nodes: Nodes(append(m.urls(), "redis://:hunter2@odd")...)})
			require.NoError(t, mustAcquire(t, client, "r", time.Second).Release(t.Context()))
			status := client.Nodes()[2]
			require.NotEqual(t, NodeUp, status.State, name)
			require.Error(t, status.Err)
			require.NotContains(t, status.Err.Error(), "hunter2", "R27")
			require.Zero(t, odd.Calls("SET"), "it was asked for a lock")
			closeNow(t, client)
		})
	}
}

func replyTo(command, reply string) redistest.Hook {
	return func(_ int, args []string) ([]byte, bool) { return []byte(reply), args[0] == command }
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

// An idle connection is probed as often as the configuration says (R26), and
// the group's own bounds of a reply hold (R32).
func TestProbesAndBoundsReachTheGroup_R26_R32(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Connect: Connect{ProbeAfter: 20 * ms}})
		require.NoError(t, c.Ready(t.Context()))
		time.Sleep(time.Second)
		require.Greater(t, c.Nodes()[0].Counts.Probes, uint64(5))
		group, err := c.groupConfig()
		require.NoError(t, err)
		require.Zero(t, group.Replies)
	})
}

func TestTheURLsTLSParametersCompleteTheConfigs(t *testing.T) {
	base := &tls.Config{ServerName: "base", NextProtos: []string{"x"}, InsecureSkipVerify: true}
	for url, check := range map[string]func(*tls.Config){
		"rediss://a":                        func(c *tls.Config) { require.Equal(t, "base", c.ServerName); require.True(t, c.InsecureSkipVerify) },
		"rediss://a?tls_server_name=own":    func(c *tls.Config) { require.Equal(t, "own", c.ServerName) },
		"valkeys://a?tls_skip_verify=false": func(c *tls.Config) { require.False(t, c.InsecureSkipVerify) },
	} {
		node, err := (&Config{TLS: base}).endpoint(Node{URL: url})
		require.NoError(t, err)
		check(node.TLS)
		require.Equal(t, []string{"x"}, node.TLS.NextProtos, url)
		require.Equal(t, "base", base.ServerName, "the user's own was changed")
	}
	without, err := (&Config{}).endpoint(Node{URL: "rediss://a"})
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

// Held lists the holds that are not released, in the order of the resources;
// Err tells which of them have ended.
func TestHeldListsWhatIsNotReleased_R27(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		require.Empty(t, c.Held())
		sinceB := time.Now()
		b := mustHold(t, c, "b", HoldOptions{})
		sinceA := time.Now()
		a := mustHold(t, c, "a", HoldOptions{MaxHold: time.Second})
		mustAcquire(t, c, "a plain lock is a value", time.Minute)
		held := c.Held()
		require.Equal(t, []HoldInfo{
			{Resource: "a", Since: sinceA, Until: a.Until()}, {Resource: "b", Since: sinceB, Until: b.Until()},
		}, held)
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			requireSecret(t, fmt.Sprintf(verb, held), a.Current().Token(), verb, held)
		}
		held[0] = HoldInfo{}
		require.Equal(t, "a", c.Held()[0].Resource, "the slice is the caller's")
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, c.Held()[0].Err, ErrMaxHold)
		require.NoError(t, c.Held()[1].Err)
		require.NoError(t, a.Release(t.Context()))
		require.ErrorIs(t, a.Release(t.Context()), ErrNotHeld, "twice")
		require.Len(t, c.Held(), 1)
		require.NoError(t, b.Release(t.Context()))
		require.Empty(t, c.Held())
	})
}

// Drain waits for the work under every hold and for its release, and renews
// meanwhile. It refuses new locks, even to waiting callers, but not to work
// under a hold.
func TestDrainWaitsForTheWorkUnderHolds_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		other := mustAcquire(t, b, "other", time.Minute)
		start := time.Now()
		work := make(chan error, 1)
		go func() {
			work <- a.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
				time.Sleep(10 * time.Second)
				return a.Do(ctx, "nested", time.Second, func(ctx context.Context) error {
					return a.Do(ctx, "other", time.Second, func(context.Context) error {
						time.Sleep(5 * time.Second)
						return nil
					})
				})
			})
		}()
		waiter := waits(t.Context(), a, "other")
		time.AfterFunc(30*time.Second, func() { _ = other.Release(context.Background()) })
		drained := make(chan error, 1)
		go func() { drained <- a.Drain(t.Context()) }()
		synctest.Wait()
		require.True(t, waiter.isDone(), "who waits for a lock is refused at once")
		require.ErrorIs(t, waiter.err, ErrClosed)
		_, err := a.TryAcquire(t.Context(), "free", time.Second)
		require.ErrorIs(t, err, ErrClosed)
		_, err = a.Lock("free").TryHold(t.Context(), HoldOptions{TTL: time.Second})
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, <-work, "renewed all the time, and allowed to lock more")
		require.NoError(t, <-drained)
		require.GreaterOrEqual(t, time.Since(start), 35*time.Second)
		require.NoError(t, a.Drain(t.Context()), "again")
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// A hold whose lock was granted when Drain began is released, not kept: Drain
// may have returned already (R7).
func TestAHoldGrantedDuringDrainIsGivenBack_R7(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var c *Client
		c = m.client(t, Config{Tracer: &Tracer{AcquireDone: func(context.Context, CallInfo) {
			require.NoError(t, c.Drain(t.Context()))
		}}})
		_, err := c.Hold(t.Context(), "r", HoldOptions{TTL: time.Minute})
		require.ErrorIs(t, err, ErrClosed)
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// Drain ends with its context, and says how much is still held; Close ends the
// rest.
func TestDrainEndsWithItsContext(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{ReleaseOnClose: true})
		h := mustHold(t, c, "r", HoldOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Drain(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 holds are not released")
		require.NoError(t, h.Err())
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }()
		synctest.Wait()
		closeNow(t, c)
		require.ErrorIs(t, <-drained, ErrClosed)
		require.ErrorIs(t, c.Held()[0].Err, ErrClosed)
		require.Zero(t, m.keys())
	})
}

// Drain ends after the last hold's release, so that a Close right after it cuts
// none short.
func TestDrainWaitsForTheReleaseToo_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h := mustHold(t, c, "r", HoldOptions{})
		m.far(20 * ms)
		drained := make(chan time.Time, 1)
		go func() {
			_ = c.Drain(t.Context())
			drained <- time.Now()
		}()
		synctest.Wait()
		require.NoError(t, h.Release(t.Context()))
		require.False(t, (<-drained).Before(time.Now()))
	})
}

// A value that this package did not make, a nil context and a nil function fail
// at the door: a call returns, or it panics with the package's name. A new type
// needs a specimen here.
func TestZeroValuesAndNilContextsPanicWithThePackagesName(t *testing.T) {
	m := newMemory(t, 3)
	// Time is real here: a busy machine has patience, and loses no lock.
	const ttl, patience = 20 * time.Second, 5 * time.Second
	c := m.opened(t, Config{Fenced: true, Owner: "web-1", MaxTTL: ttl, NodeTimeout: patience})
	lock := mustAcquire(t, c, "door", ttl)
	rw := c.RW("door-rw")
	_, err := rw.Read().TryAcquire(t.Context(), ttl)
	require.NoError(t, err)
	hold := mustHold(t, c, "door-hold", HoldOptions{TTL: ttl})
	defer func() { require.NoError(t, hold.Release(t.Context())) }()

	const prefix = "redlock: "
	zero := map[string][]any{
		"Client": {(*Client)(nil), new(Client)}, "Hold": {(*Hold)(nil), new(Hold)},
		"Lock": {Lock{}, new(Lock)}, "Locker": {Locker{}, new(Locker)}, "RWLock": {RWLock{}, new(RWLock)},
		"Token": {Token{}}, "Node": {Node{}}, "Config": {Config{}},
		"NodeChange": {NodeChange{}}, "NodeStatus": {NodeStatus{}}, "Stats": {Stats{}},
		"CallCounts": {CallCounts{}}, "Histogram": {Histogram{}}, "HoldInfo": {HoldInfo{}},
		"NodeAnswer":     {NodeAnswer{}},
		"UndecidedError": {new(UndecidedError)}, "NodeError": {new(NodeError)}, "ResourceError": {(*ResourceError)(nil), new(ResourceError)},
		"CancelledError": {(*CancelledError)(nil), new(CancelledError)}, "HeldError": {(*HeldError)(nil), new(HeldError)},
		"LostError": {(*LostError)(nil), new(LostError)}, "PreflightError": {new(PreflightError)}, "QuarantineError": {new(QuarantineError)},
	}
	for _, name := range redistest.ExportedTypes(t, ".") {
		switch name {
		case "Allow", "HoldOptions", "Connect", "Retry", "Tracer", "CallInfo":
			continue // no methods
		}
		require.NotEmpty(t, zero[name], "%s needs a specimen", name)
	}
	for _, all := range zero {
		for _, v := range all {
			redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
			redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), false)
		}
	}
	// Of what was made, only a nil context and a nil function are wrong.
	for _, v := range []any{c, lock, hold, rw, rw.Read(), c.Fair("f"), c.Semaphore("s", 2)} {
		redistest.MethodsFailAtTheDoor(t, prefix, v, nil, true)
		redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), true)
	}
	var none context.Context
	config := m.reach(Config{})
	for name, f := range map[string]func(){
		"New":         func() { _, _ = New(none, config) },
		"Open":        func() { _, _ = Open(none) },
		"FromContext": func() { FromContext(none) },
	} {
		require.NotEmpty(t, redistest.FailsAtTheDoor(t, name, prefix, f), "%s must panic", name)
	}
}

// nothing is for calls that fail before they run it.
func nothing(context.Context) error { return nil }

// guarded returns three nodes with a password.
func guarded(t *testing.T, password string) *memory {
	t.Helper()
	m := &redistest.Masters{Network: redistest.NewNetwork()}
	for i := range 3 {
		node := redistest.NewNode(redistest.NodeConfig{User: "alice", Password: password})
		node.Serve(m.Network.Listen(fmt.Sprintf("node%d:6379", i)))
		m.Nodes = append(m.Nodes, node)
	}
	t.Cleanup(m.Close)
	return &memory{m, m.Network, m.Nodes, m.Arrangement}
}

func noCredentials(context.Context, Node) (conn.Credentials, error) { return conn.Credentials{}, nil }

// The function is asked for nodes without a password in their URL, each by
// itself, and Config.Username completes its answer.
func TestCredentialsAreAskedForEachNode(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		for i, n := range m.nodes {
			n.SetPassword("ann", fmt.Sprint("hunter", i))
		}
		config := m.reach(Config{Nodes: Nodes(m.url(0, ""), m.url(1, "ann:hunter1"), m.url(2, "")), Username: "ann"})
		asked := make(chan string, 10)
		config.Connect.Credentials = func(_ context.Context, n Node) (conn.Credentials, error) {
			i := slices.Index(config.Nodes, n)
			asked <- fmt.Sprint(i)
			return conn.Credentials{Password: fmt.Sprint("hunter", i)}, nil
		}
		c, err := New(t.Context(), config)
		require.NoError(t, err)
		defer closeNow(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, c.Ready(ctx))
		require.Len(t, asked, 2)
		require.ElementsMatch(t, []string{"0", "2"}, []string{<-asked, <-asked})
		for _, n := range c.Nodes() {
			require.Equal(t, NodeUp, n.State, "%v", n.Err)
		}
	})
}

// No exported type shows a password, a token or the prefix of keys when it is
// printed, whatever the verb and wherever the value is. A new type needs a
// specimen here.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const password, prefix, resource = "hunter2!hunter2!", "pr3fix-0f-keys:", "customer-4711"
	m := guarded(t, password)
	var urls []string
	for _, n := range m.nodes {
		urls = append(urls, "redis://alice:"+password+"@"+n.Addr())
	}
	config := m.reach(Config{Nodes: Nodes(urls...), Password: password, Prefix: prefix, Fenced: true, Owner: "web-1", MaxTTL: time.Minute})
	_, err := Init(t.Context(), config)
	require.NoError(t, err)
	c, err := New(t.Context(), config)
	require.NoError(t, err)
	defer closeNow(t, c)

	lock := mustAcquire(t, c, resource, time.Minute)
	several, err := c.All(resource+"a", resource+"b").TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	hold := mustHold(t, c, resource+"c", HoldOptions{TTL: time.Minute})
	read, err := c.RW(resource+"d").Read().TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	write, err := c.RW(resource+"d").Upgrade(t.Context(), read, time.Minute)
	require.NoError(t, err)
	turn, err := c.Fair(resource+"e").Acquire(t.Context(), time.Minute)
	require.NoError(t, err)
	adopted, err := c.Adopt(resource, lock.Token(), "", time.Minute, time.Now())
	require.NoError(t, err)
	_, held := c.RW(resource+"d").Write().TryAcquire(t.Context(), time.Minute)
	require.ErrorIs(t, held, ErrHeld)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, cancelled := c.Acquire(over, "another", time.Minute)
	lost := lostError(resource, true, &account{err: errNoAnswerYet}, c.keeper.addrs)
	cause := &NodeError{Addr: m.nodes[0].Addr(), Err: ErrNodeDown}

	secrets := []string{password, prefix}
	for _, l := range []Lock{lock, several, hold.Current(), read, write, turn} {
		secrets = append(secrets, l.Token().Reveal())
	}
	_ = hold.Current().Token()
	specimens := map[string][]redistest.Specimen{
		"Client": {{Value: c}},
		"Lock":   {{Value: lock}, {Value: several}, {Value: read}, {Value: write}, {Value: turn}, {Value: adopted}},
		"Hold":   {{Value: hold}, {Value: hold.Context()}},
		"RWLock": {{Value: c.RW(resource)}},
		"Locker": {{Value: c.RW(resource).Read()}, {Value: c.Semaphore(resource, 2)}, {Value: c.Fair(resource)}},
		"Token":  {{Value: lock.Token(), Open: true}},
		"Config": {{Value: config, Open: true}, {Value: &config, Open: true}},
		"Node":   {{Value: config.Nodes[0], Open: true}},

		"UndecidedError": {{Value: &UndecidedError{Nodes: []*NodeError{cause}}}}, "NodeError": {{Value: cause}},
		"ResourceError":   {{Value: named("r", cancelled)}},
		"CancelledError":  {{Value: cancelled}},
		"HeldError":       {{Value: held}},
		"LostError":       {{Value: lost}},
		"NodeAnswer":      {{Value: lost.Nodes[0]}},
		"PreflightError":  {{Value: &PreflightError{}}},
		"QuarantineError": {{Value: &QuarantineError{}}},

		"Allow": {{Value: Allow{}}}, "HoldOptions": {{Value: HoldOptions{}}},
		"Tracer":    {{Value: &Tracer{}}},
		"Histogram": {{Value: c.Stats().Quorum}}, "Stats": {{Value: c.Stats()}}, "CallCounts": {{Value: c.Stats().Attempts}},
		"NodeChange": {{Value: NodeChange{Err: cause}}}, "NodeStatus": {{Value: c.Nodes()[0]}},
		"Connect": {{Value: config.Connect}}, "Retry": {{Value: config.Retry}},
		"CallInfo": {{Value: CallInfo{Err: held}}, {Value: CallInfo{Err: cancelled}}}, "HoldInfo": {{Value: c.Held()[0]}},
	}
	for _, name := range redistest.ExportedTypes(t, ".") {
		require.NotEmpty(t, specimens[name], "%s needs a specimen", name)
	}
	for name, all := range specimens {
		t.Run(name, func(t *testing.T) {
			for _, s := range all {
				s.ShowsNone(t, secrets...)
			}
		})
	}
	for _, v := range []any{c, lock, hold, c.RW(resource), c.Fair(resource)} {
		redistest.Specimen{Value: v, Open: true}.ShowsNone(t, resource)
	}
}

// Sentinels tell masters apart by the case of their names.
func TestMastersWhoseNamesDifferInCase_R1(t *testing.T) {
	nodes, err := (&Config{Nodes: Nodes("redis+sentinel://a,b/m", "redis+sentinel://a,b/M")}).endpoints(nil)
	require.NoError(t, err)
	require.Len(t, nodes, 2)
}
