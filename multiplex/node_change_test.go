package multiplex

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A listener keeps the changes that it was told.
type listener struct {
	mu  sync.Mutex
	all []Change
}

func (l *listener) listen(c *cluster) {
	c.config.OnChange = func(change Change) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, change)
	}
}

// of returns the changes told of a node and forgets them: "down peer", "up".
func (l *listener) of(node int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines, warnings []string
	var rest []Change
	for _, c := range l.all {
		if c.Node != node {
			rest = append(rest, c)
			continue
		}
		line := c.News.String()
		if c.Cause != "" {
			line += " " + c.Cause
		}
		lines = append(lines, line)
		warnings = append(warnings, c.Warnings...)
	}
	l.all = rest
	return append(lines, warnings...)
}

// A node is reported when it comes up and when it goes, once for each cause,
// however often it is dialed in vain.
func TestChangesAreTold(t *testing.T) {
	var l listener
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range 3 {
			assert.Equal(t, []string{"up"}, l.of(i))
		}
		c.links[0].Refuse(true)
		c.nodes[0].DropConns()
		time.Sleep(time.Minute)
		assert.Greater(t, c.status(0).Counts.Dials, uint64(30))
		assert.Equal(t, []string{"down peer", "down unreachable"}, l.of(0), "once each, not for each dial")
		c.nodes[0].Refuse("-LOADING Redis is loading", "CLIENT INFO", "HELLO")
		c.links[0].Refuse(false)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"down LOADING"}, l.of(0), "another cause")
		c.nodes[0].Refuse("-WRONGPASS no", "HELLO")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"refused WRONGPASS"}, l.of(0))
		c.nodes[0].Refuse("", "HELLO")
		c.nodes[0].Refuse("", "CLIENT INFO")
		c.eventually(time.Minute, func() bool { return c.up() == 3 }, "up")
		assert.Equal(t, []string{"up"}, l.of(0))

		c.nodes[1].Pause()
		c.mustClaim("k")
		time.Sleep(longShed + 20*ms)
		assert.Equal(t, []string{"shed silent"}, l.of(1), "that its connection then died goes without saying")
		c.nodes[1].Resume()
		c.waitUp(3)
		assert.Equal(t, []string{"up"}, l.of(1))

		assert.Empty(t, l.of(2))
		require.NoError(t, c.group.Close(background))
		synctest.Wait()
		for i := range 3 {
			assert.Empty(t, l.of(i), "closing is no news")
		}
	}, l.listen)
}

// A node that flaps is reported each time, since it changed each time.
func TestFlappingIsTold(t *testing.T) {
	var l listener
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		for range 3 {
			c.nodes[0].DropConns()
			time.Sleep(10 * ms)
			c.waitUp(1)
		}
		assert.Equal(t, []string{"up", "down peer", "up", "down peer", "up", "down peer", "up"}, l.of(0))
	}, l.listen)
}

// A node that was not dialed yet is not reported when another one is.
func TestConnectingIsNoNews(t *testing.T) {
	g := &Group{config: &Config{OnChange: func(change Change) { t.Error(change.Err) }}}
	g.nodes = []*node{newNode(g, 0, conn.Config{})}
	g.tellAllLocked()
}

// A refused node is reported as refused, before it ever was up (R22).
func TestRefusalIsTold_R22(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listener
		c := newCluster(t, 3, l.listen, func(c *cluster) {
			replica := redistest.NewNode(redistest.NodeConfig{Role: "slave"})
			t.Cleanup(func() { _ = replica.Close() })
			replica.Serve(c.network.Listen("replica:6379"))
			c.config.Nodes[1].Addr = "replica:6379"
			c.config.Nodes[2].Addr = c.config.Nodes[0].Addr
		})
		c.eventually(time.Second, func() bool { return c.up() == 1 }, "one up")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"refused not a master"}, l.of(1))
		first, third := l.of(0), l.of(2)
		if len(first) == 1 && first[0] != "up" {
			first, third = third, first // the first to come has the vote
		}
		assert.Equal(t, []string{"up"}, first)
		assert.Equal(t, []string{"refused same server"}, third)
	})
}

// A node that may evict keys serves, and is warned about once, not each time
// that it comes up (R22).
func TestEvictionIsWarnedOf_R22(t *testing.T) {
	var l listener
	synctest.Test(t, func(t *testing.T) {
		var evicting *redistest.Node
		c := newCluster(t, 1, l.listen, func(c *cluster) {
			evicting = redistest.NewNode(redistest.NodeConfig{EvictionPolicy: "allkeys-lru"})
			t.Cleanup(func() { _ = evicting.Close() })
			evicting.Serve(c.network.Listen("evicting:6379"))
			c.config.Nodes[0].Addr = "evicting:6379"
		})
		c.waitUp(1)
		told := l.of(0)
		require.Len(t, told, 2)
		assert.Contains(t, told[1], "allkeys-lru")
		evicting.DropConns()
		time.Sleep(10 * ms)
		c.waitUp(1)
		assert.Equal(t, []string{"down peer", "up"}, l.of(0))
	})
}

// A replica is a passing cause only where the node was up before, and only for
// as long as a failover may take. An attempt from before the call, and the end
// of a connection that had joined, prove nothing (R31).
func TestWhichCausesLast_R31(t *testing.T) {
	replica := &downError{(&Allow{}).check(&conn.Server{Role: "replica"})}
	sentinel := &downError{(&Allow{}).check(&conn.Server{Mode: "sentinel"})}
	readOnly := &RefusalError{conn.ClassReadOnly}
	call := time.Now()
	before, after := call.Add(-1), call.Add(1)
	for _, c := range []struct {
		e      NodeError
		waited time.Duration
		want   bool
	}{
		{NodeError{Err: replica, tried: after}, 0, true},
		{NodeError{Err: replica, tried: after, known: true}, 0, false},
		{NodeError{Err: replica, tried: after, known: true}, failoverTakes - 1, false},
		{NodeError{Err: replica, tried: after, known: true}, failoverTakes, true},
		{NodeError{Err: replica, tried: before, known: true}, failoverTakes, false},
		{NodeError{Err: sentinel, tried: after, known: true}, 0, true},
		{NodeError{Err: readOnly, known: true}, 0, false},
		{NodeError{Err: readOnly, known: true}, failoverTakes, true},
		{NodeError{Err: readOnly, known: true, replicas: true}, time.Hour, false},
		{NodeError{Err: &RefusalError{conn.ClassNoReplicas}}, time.Hour, false},
		{NodeError{Err: &RefusalError{conn.ClassMoved}}, 0, true},
		{NodeError{Err: &RefusalError{conn.ClassOther}}, 0, true},
		{NodeError{Err: ErrTimeout, tried: after}, time.Hour, false},
		{NodeError{Err: &QuarantineError{}, tried: after}, time.Hour, false},
		{NodeError{Err: &downError{ErrUnexpected}, tried: after}, 0, true},
	} {
		require.Equal(t, c.want, c.e.Lasting(call, c.waited), "%v known %v waited %v", c.e.Err, c.e.known, c.waited)
	}
	require.Negative(t, ended(io.EOF).tried)
}

// Envoy says that it is a cluster, and gives no connection an id: the advice is
// to name the masters (R22).
func TestAProxyThatCallsItselfACluster_R22(t *testing.T) {
	for _, c := range []struct {
		server conn.Server
		allow  Allow
		proxy  bool
		master bool
	}{
		{conn.Server{Mode: "cluster", Role: "master"}, Allow{}, true, false},
		{conn.Server{Mode: "cluster", Role: "master", RunID: "f"}, Allow{}, true, false},
		{conn.Server{Mode: "cluster", Role: "master"}, Allow{Cluster: true}, true, false},
		{conn.Server{Mode: "cluster", Role: "master", RunID: "f"}, Allow{Cluster: true}, false, true},
		{conn.Server{Mode: "cluster", Role: "master", ID: 7}, Allow{Cluster: true}, false, true},
		{conn.Server{Mode: "cluster", Role: "master", ID: 7}, Allow{}, false, false},
		{conn.Server{Mode: "standalone", Role: "master"}, Allow{}, false, true},
	} {
		err := c.allow.check(&c.server)
		require.Equal(t, c.proxy, errors.Is(err, conn.ErrProxy), "%+v %v", c.server, err)
		require.Equal(t, c.master, err == nil, "%+v %v", c.server, err)
	}
}

// The words of a refusal are shown without what may be a token (R27, R31).
func TestWordsOfARefusal_R27(t *testing.T) {
	token := "bh3RqKl6OY0pObVfovwyhv3Hhe8"
	for said, want := range map[string]string{
		"ERR DB index is out of range":                              "ERR DB index is out of range",
		"MOVED 866 127.0.0.1:7001":                                  "MOVED 866 127.0.0.1:7001",
		"ASK 866 [::1]:7001":                                        "ASK 866 [::1]:7001",
		"MOVED 866 r1.example:7001":                                 "MOVED 866 r1.example:7001",
		"MOVED 866 " + token:                                        "MOVED 866 ***",
		"MOVED 866 a:" + token:                                      "MOVED 866 ***",
		"ERR no " + token + ":1 here":                               "ERR no *** here",
		"ERR bhRqKlOYpObVfovwyhvHhewwwww":                           "ERR ***",
		"NOPERM User u has no permissions to run the 'set' command": "NOPERM User u has no permissions to run the 'set' command",
	} {
		require.Equal(t, want, harmless(said))
	}
}

func TestCauseOf(t *testing.T) {
	dial := func(err error) error { return &downError{&conn.Error{Op: "dial", Addr: "a:1", Err: err}} }
	shake := func(err error) error { return &downError{&conn.Error{Op: "handshake", Addr: "a:1", Err: err}} }
	refusal := func(text string) error {
		return shake(&conn.StepError{Step: "HELLO", Err: &resp.Error{Message: text}})
	}
	for _, c := range []struct {
		err    error
		class  string
		barred bool
	}{
		{nil, "", false},
		{dial(errors.New("connection refused")), "unreachable", false},
		{dial(errors.New("no route to host")), "unreachable", false},
		{dial(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "TLS", true},
		{shake(&conn.PeerError{Speaks: "HTTP", Err: io.EOF}), "not RESP", true},
		{shake(io.EOF), "peer", false},
		{dial(&net.DNSError{IsNotFound: true}), "unreachable", false},
		{shake(&conn.PeerError{Err: io.EOF}), "not RESP", true},
		{shake(conn.ErrProxy), "proxy", true},
		{refusal("LOADING Redis is loading"), "LOADING", false},
		{refusal("READONLY You can't write"), "READONLY", false},
		{refusal("DENIED Redis is running in protected mode"), "ERR", true},
		{refusal("ERR DB index is out of range"), "ERR", true},
		{refusal("no upstream host"), "unavailable", false},
		{refusal("NOPERM no"), "NOPERM", true},
		{refusal("NOAUTH no"), "NOAUTH", true},
		{refusal("WRONGPASS no"), "WRONGPASS", true},
		{refusal("ERR max number of clients reached"), "max clients", false},
		{&downError{ErrNotMaster}, "not a master", true},
		{&downError{fmt.Errorf("%w: more", ErrSameNode)}, "same server", true},
		{&downError{ErrSilent}, "silent", false},
		{&downError{ErrIndebted}, "indebted", false},
		{&downError{ErrUnexpected}, "unexpected", true},
		{&downError{errForgot}, "forgot", false},
		{&downError{errDisproved}, "unexpected", false},
		{ErrConnecting, "unexpected", false},
		{&QuarantineError{}, "quarantined", false},
	} {
		class, barred := causeOf(c.err)
		assert.Equal(t, c.class, class, "%v", c.err)
		assert.Equal(t, c.barred, barred, "%v", c.err)
	}
}
