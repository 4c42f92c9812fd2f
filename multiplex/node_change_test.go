package multiplex

import (
	"context"
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
	"github.com/redmux/redmux/multiplex/internal/member"
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
		assert.Equal(t, []string{"up"}, l.of(0))
		assert.Equal(t, []string{"up"}, l.of(1))
		warned := l.of(2)
		assert.Len(t, warned, 2)
		assert.Contains(t, warned[1], "allkeys-lru", "R22: it may evict keys, and serves all the same")
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
	}, l.listen, func(c *cluster) { c.replace(2, redistest.NodeConfig{EvictionPolicy: "allkeys-lru"}) })
}

// A node that was not dialed yet is not reported when another one is.
func TestConnectingIsNoNews(t *testing.T) {
	g := &Group{config: &Config{OnChange: func(change Change) { t.Error(change.Err) }}}
	g.nodes = []*node{newNode(g, 0, conn.Config{})}
	g.tellAllLocked()
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

// Each cause has a class. What is barred passes by no waiting (R31).
func TestCauseOf(t *testing.T) {
	dial := func(err error) error { return &downError{&conn.Error{Op: "dial", Addr: "a:1", Err: err}} }
	shake := func(err error) error { return &downError{&conn.Error{Op: "handshake", Addr: "a:1", Err: err}} }
	refusal := func(text string) error {
		return shake(&conn.StepError{Step: "HELLO", Err: &resp.Error{Message: text}})
	}
	for barred, classes := range map[bool]map[string][]error{
		false: {
			"": {nil}, "peer": {shake(io.EOF)}, "silent": {&downError{ErrSilent}}, "indebted": {&downError{ErrIndebted}},
			"unreachable": {dial(errors.New("connection refused")), dial(errors.New("no route to host")), dial(&net.DNSError{IsNotFound: true})},
			"LOADING":     {refusal("LOADING Redis is loading")}, "READONLY": {refusal("READONLY You can't write")},
			"unavailable": {refusal("no upstream host")}, "max clients": {refusal("ERR max number of clients reached")},
			"forgot": {&downError{errForgot}}, "quarantined": {&QuarantineError{}}, "unexpected": {&downError{errDisproved}, ErrConnecting},
		},
		true: {
			"TLS":      {dial(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})},
			"not RESP": {shake(&conn.PeerError{Speaks: "HTTP", Err: io.EOF}), shake(&conn.PeerError{Err: io.EOF})},
			"ERR":      {refusal("DENIED Redis is running in protected mode"), refusal("ERR DB index is out of range")},
			"NOPERM":   {refusal("NOPERM no")}, "NOAUTH": {refusal("NOAUTH no")}, "WRONGPASS": {refusal("WRONGPASS no")},
			"proxy": {shake(conn.ErrProxy)}, "not a master": {&downError{ErrNotMaster}},
			"same server": {&downError{fmt.Errorf("%w: more", ErrSameNode)}}, "unexpected": {&downError{ErrUnexpected}},
		},
	} {
		for want, errs := range classes {
			for _, err := range errs {
				class, is := causeOf(err)
				assert.Equal(t, want, class, "%v", err)
				assert.Equal(t, barred, is, "%v", err)
			}
		}
	}
}

// votes returns what a node's counts say about its votes.
func (c *cluster) votes(node int) (granted, refused, failed, late uint64) {
	n := c.status(node).Counts
	return n.Granted, n.Refused, n.Failed, n.Late
}

// The vote that completes the quorum is the last to count; the next node
// answers late (R5, R17).
func TestVotesAreCountedUntilTheDecision_R17(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.links[2].Latency(5*ms, 5*ms)
		c.mustClaim("k")
		time.Sleep(20 * ms)
		_, err := c.claim(background, "k", "u", long) // refused, and then undone without effect
		require.Equal(t, ErrRefused, err)
		time.Sleep(20 * ms)
		for i, want := range [][4]uint64{{1, 2, 0, 0}, {1, 2, 0, 0}, {0, 0, 0, 3}} {
			granted, refused, failed, late := c.votes(i)
			assert.Equal(t, want, [4]uint64{granted, refused, failed, late}, "node %d", i)
		}
		assert.Zero(t, c.status(2).Counts.Overdue, "its vote did not time out")
	})
}

// A vote that timed out has failed, and stays failed when the reply comes after
// all (R6, R17). A node that dies before it answers fails then, and one that is
// absent when a command is queued fails at once (R16).
func TestVotesThatFail_R6_R16(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.links[1].Latency(60*ms, 60*ms)
		c.links[2].Latency(time.Minute, 0)
		time.AfterFunc(10*ms, func() { c.links[2].Refuse(true); c.links[2].Reset() })
		_, err := c.claim(background, "k", "t", long)
		require.Equal(t, []int{1, 2}, undecided(t, err))
		timedOut, died := c.status(1).Counts, c.status(2).Counts
		assert.Equal(t, [3]uint64{1, 1, 0}, [3]uint64{timedOut.Failed, timedOut.TimedOut, timedOut.Late})
		assert.Equal(t, [3]uint64{2, 0, 1}, [3]uint64{died.Failed, died.TimedOut, died.Absent}, "from the undo it was absent")
		assert.Equal(t, map[string]uint64{"peer": 1}, died.Deaths)

		time.Sleep(time.Second) // the grant arrives, and then the reply to the undo
		granted, refused, failed, late := c.votes(1)
		assert.Equal(t, [4]uint64{0, 0, 2, 2}, [4]uint64{granted, refused, failed, late})
		timedOut = c.status(1).Counts
		assert.Equal(t, [2]uint64{2, 2}, [2]uint64{timedOut.TimedOut, timedOut.Overdue})
		assert.Zero(t, timedOut.Deaths)
	})
}

// Errors are counted by class, cures separately, and the final reply to a cured
// command is its vote (R24).
func TestErrorsAreCountedByClass_R24(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.nodes[1].FlushScripts()
		require.NoError(t, c.release(background, "k", "t", long, receipt))
		time.Sleep(10 * trip)
		n := c.status(1).Counts
		assert.Equal(t, map[string]uint64{"NOSCRIPT": 1}, n.Errors)
		assert.Equal(t, [3]uint64{1, 2, 0}, [3]uint64{n.Cures, n.Granted + n.Late, n.Failed}, "the cured command's reply, and no other")

		c.nodes[0].Refuse("-OOM command not allowed", "SET")
		c.nodes[2].Refuse("-whatever", "SET")
		_, err := c.claim(background, "k", "t", long)
		require.Equal(t, []int{0, 2}, undecided(t, err))
		assert.Equal(t, map[string]uint64{"OOM": 1}, c.status(0).Counts.Errors)
		assert.Equal(t, map[string]uint64{"ERR": 1}, c.status(2).Counts.Errors)
		assert.EqualValues(t, 1, c.status(0).Counts.Failed)
	})
}

// A debt is counted once when it arises, and once when it is paid or expires
// (R8).
func TestDebtsAreCounted_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		counted := func() [3]uint64 {
			n := c.status(0).Counts
			return [3]uint64{n.DebtsMade, n.DebtsPaid, n.DebtsExpired}
		}
		c.owing("paid")
		require.Equal(t, ErrRefused, c.release(background, "paid", "t", long, Receipt{Sent: All(3)}), "twice is harmless, and owed once")
		time.Sleep(60 * ms)
		assert.Equal(t, [3]uint64{1, 0, 0}, counted())
		assert.Equal(t, 1, c.status(0).Debts)
		assert.GreaterOrEqual(t, c.status(0).Counts.Errors["MISCONF"], uint64(3), "refused payments are errors too")
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(time.Second, func() bool { return c.debts() == 0 }, "paid")
		assert.Equal(t, [3]uint64{1, 1, 0}, counted())

		c.owing("expired")
		time.Sleep(trip)
		c.eventually(20*time.Second, func() bool { return c.debts() == 0 }, "the debt ends")
		assert.Equal(t, [3]uint64{2, 1, 1}, counted())
		assert.Empty(t, c.keys())
	})
}

// Each end of a connection has a cause, and their sum is Status.Deaths.
func TestDeathsAreCountedByCause(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		again := func() { c.eventually(5*time.Second, func() bool { return c.up() == 3 }, "up again") }
		c.nodes[0].DropConns()
		time.Sleep(trip)
		again()
		c.nodes[0].Pause()
		c.mustClaim("silent")
		time.Sleep(longShed + 20*ms)
		c.nodes[0].Resume()
		again()
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		for i := range 3 {
			key := fmt.Sprint("k", i)
			assert.NoError(c.t, c.release(background, key, "t", long, c.mustClaim(key)))
		}
		time.Sleep(trip)
		c.nodes[0].Refuse("", "EVALSHA")
		again()
		s := c.status(0)
		assert.Equal(t, map[string]uint64{"peer": 1, "silent": 1, "indebted": 1}, s.Counts.Deaths)
		assert.Equal(t, 3, s.Deaths)
		assert.EqualValues(t, s.Connects, s.Counts.Dials-s.Counts.DialFailures)
		assert.Nil(t, c.status(1).Counts.Deaths)
	}, withConfig(func(config *Config) { config.MaxDebts = 3 }))
}

func TestDeathOf(t *testing.T) {
	died := func(op string, err error) error { return &conn.Error{Op: op, Addr: "a:1", Err: err} }
	for want, causes := range map[string][]error{
		"peer":       {died("read", io.EOF), died("write", errors.New("reset")), died("exchange", io.ErrUnexpectedEOF)},
		"silent":     {died("break", ErrSilent), died("exchange", ErrSilent), &downError{ErrSilent}, member.ErrSilence},
		"moved":      {died("break", conn.ErrMoved)},
		"stalled":    {died("write", conn.ErrStalled)},
		"indebted":   {died("break", ErrIndebted)},
		"protocol":   {died("parse", &resp.SyntaxError{}), died("exchange", conn.ErrProtocol)},
		"unexpected": {fmt.Errorf("%w: a push", ErrUnexpected), died("exchange", ErrUnexpected), errors.New("odd")},
		"forgot":     {errForgot},
		"demoted":    {errRewritten, notMaster("x"), member.ErrNoPrimary},
		"closed":     {died("close", conn.ErrClosed), died("exchange", context.Canceled)},
	} {
		for _, cause := range causes {
			assert.Equal(t, want, deathOf(cause), "%v", cause)
		}
	}
}
