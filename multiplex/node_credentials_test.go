package multiplex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An issuer is a Config.Credentials with an answer that changes.
type issuer struct {
	mu       sync.Mutex
	password string
	user     string
	lasts    time.Duration // of what it issues; zero for ever
	err      error
	blocks   bool // until its context ends
	calls    int
}

func (i *issuer) issue(ctx context.Context) (conn.Credentials, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls++
	if i.blocks {
		i.mu.Unlock()
		<-ctx.Done()
		i.mu.Lock()
		return conn.Credentials{}, ctx.Err()
	}
	cr := conn.Credentials{Username: i.user, Password: i.password}
	if i.lasts != 0 {
		cr.Expires = time.Now().Add(i.lasts)
	}
	return cr, i.err
}

// set changes the issuer, and returns how often it was asked before.
func (i *issuer) set(change func(*issuer)) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if change != nil {
		change(i)
	}
	return i.calls
}

// issued is a cluster whose nodes want the password "p0", which the issuer
// gives for a minute.
func issued(i *issuer) func(*cluster) {
	*i = issuer{password: "p0", lasts: time.Minute}
	return func(c *cluster) {
		for n := range c.nodes {
			c.nodes[n].SetPassword("default", "p0")
			c.config.Nodes[n].Credentials = i.issue
		}
	}
}

// rotate changes the password of nodes and issuer.
func (c *cluster) rotate(i *issuer, password string) {
	for _, n := range c.nodes {
		n.SetPassword("default", password)
	}
	i.set(func(i *issuer) { i.password = password })
}

// renew has the first node's credentials asked for now.
func (c *cluster) renew() {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.nodes[0].dialer.renewal.due = 0
	c.group.wakeWatchAtLocked(0)
}

// auths lists the passwords that a node was given by AUTH, with the client's
// id and whether they were right.
func auths(n *redistest.Node) (all []string) {
	for _, e := range n.Log() {
		if e.Args[0] == "AUTH" {
			said := append(strings.Fields(e.Reply), "silence")
			all = append(all, fmt.Sprintf("%d %s %s", e.Conn, strings.Join(e.Args[1:], " "), said[0]))
		}
	}
	return all
}

// silentAuth is the hook of a server that says nothing to a refused AUTH, as
// those from redis 7.2 on while earlier replies are not written yet.
func silentAuth(_ int, args []string) ([]byte, bool) {
	return nil, args[0] == "AUTH" && args[len(args)-1] == "wr0ng"
}

// warned reports whether a node's status has a warning with a text.
func (c *cluster) warned(node int, text string) bool {
	return strings.Contains(strings.Join(c.status(node).Warnings, "; "), text)
}

// Live connections are authenticated anew before the end, between other
// commands, on both protocols: nothing is reconnected and no vote is lost.
func TestConnectionsAreAuthenticatedAnew(t *testing.T) {
	for name, noHello := range map[string]bool{"RESP3": false, "RESP2": true} {
		var i issuer
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
			stop := make(chan struct{})
			var callers sync.WaitGroup
			for k := range 4 {
				callers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						receipt := c.mustClaim(fmt.Sprint(k))
						assert.Equal(t, Set(0b111), receipt.Sent)
						assert.NoError(t, c.release(background, fmt.Sprint(k), "t", long, receipt))
						time.Sleep(100 * ms)
					}
				})
			}
			for n := 1; n <= 10; n++ {
				c.rotate(&i, fmt.Sprint("p", n))
				time.Sleep(46 * time.Second) // three quarters of the minute, and the time for the answer
			}
			close(stop)
			callers.Wait()
			for n := range c.nodes {
				s := c.status(n)
				assert.Equal(t, []int{1, 0}, []int{s.Connects, s.Deaths})
				assert.Zero(t, s.Counts.Failed)
				assert.Empty(t, s.Warnings)
				given := auths(c.nodes[n])
				if noHello {
					assert.Equal(t, "2 p0 +OK", given[0], "of the handshake")
					given = given[1:]
				}
				assert.GreaterOrEqual(t, len(given), 10)
				assert.Contains(t, given[len(given)-1], "p10 +OK")
			}
		}, issued(&i), func(c *cluster) {
			if noHello {
				for n := range c.nodes {
					c.replace(n, redistest.NodeConfig{NoHello: true, Password: "p0"})
				}
			}
		})
	}
}

// What stands before the AUTH is answered before it, and what stands behind it
// after it. A node that hears a claim, AUTH and another claim in one batch does
// each in its turn.
func TestAuthStandsInTheLane(t *testing.T) {
	for password, answer := range map[string]string{"p1": "+OK", "wr0ng": "silence"} {
		var i issuer
		subBubble(t, password, 1, func(t *testing.T, c *cluster) {
			c.nodes[0].Handle(silentAuth)
			c.rotate(&i, "p1")
			i.set(func(i *issuer) { i.password = password })
			time.Sleep(40 * time.Second)
			taken := func(n int) bool { return n%3 == 0 }
			for n := range 100 {
				if taken(n) {
					c.mustClaim(fmt.Sprint(n))
				}
			}
			c.nodes[0].Pause()
			var callers sync.WaitGroup
			for n := range 100 {
				callers.Go(func() {
					time.Sleep(time.Duration(n) * 50 * time.Microsecond)
					_, err := c.claim(background, fmt.Sprint(n), "other", long)
					assert.Equal(t, taken(n), errors.Is(err, ErrRefused), "%d: %v", n, err)
					assert.Equal(t, taken(n), err != nil, "%d: %v", n, err)
				})
			}
			c.renew()
			time.Sleep(10 * ms)
			c.nodes[0].Resume()
			callers.Wait()
			var order []string
			for _, e := range c.nodes[0].Log() {
				if e.Args[0] == "AUTH" || e.Args[0] == "SET" && e.Args[2] == "other" {
					order = append(order, e.Args[0])
				}
			}
			at := strings.Index(strings.Join(order, " "), "AUTH")
			assert.Positive(t, at, "some came before it: %v", order)
			assert.NotEqual(t, "AUTH", order[len(order)-1], "and some behind it: %v", order)
			assert.Equal(t, []string{"1 " + password + " " + answer}, auths(c.nodes[0]))
			assert.Zero(t, c.status(0).Deaths)
		}, issued(&i))
	}
}

// Whatever the function and the server say, a connection stays while the server
// takes commands. The node says why it has no others, and they are asked for
// again.
func TestCredentialsStayWhileOthersAreNotHad(t *testing.T) {
	long := strings.Repeat("x", 20<<10)
	for name, c := range map[string]struct {
		spoil func(*issuer, *redistest.Node)
		text  string // of the warning; none if ""
		auths string // the last AUTH; none if ""
	}{
		"an error":             {func(i *issuer, _ *redistest.Node) { i.err = errors.New("vault is\nsealed") }, "the function for others failed: vault is?sealed", ""},
		"a long error":         {func(i *issuer, _ *redistest.Node) { i.err = errors.New(long) }, "failed: xxxx", ""},
		"no answer":            {func(i *issuer, _ *redistest.Node) { i.blocks = true }, "it gave none in time", ""},
		"refused":              {func(i *issuer, _ *redistest.Node) { i.password = "wr0ng" }, "the server refused others: WRONGPASS", "wr0ng -WRONGPASS"},
		"refused, and no word": {func(i *issuer, n *redistest.Node) { i.password = "wr0ng"; n.Handle(silentAuth) }, "the server refused others, and did not say why", "wr0ng silence"},
		"another user":         {func(i *issuer, _ *redistest.Node) { i.user = "b0b" }, "the server refused others: WRONGPASS", "b0b p0 -WRONGPASS"},
		"too long":             {func(i *issuer, _ *redistest.Node) { i.password = long }, "others cannot be sent: the password has more", ""},
		"none":                 {func(i *issuer, _ *redistest.Node) { i.password = "" }, "neither a user name nor a password", ""},
		"equal":                {func(*issuer, *redistest.Node) {}, "", ""},
		"equal, expired":       {func(i *issuer, _ *redistest.Node) { i.lasts = -time.Hour }, "", ""},
		"loading":              {func(i *issuer, n *redistest.Node) { i.password = "p1"; n.Refuse("-LOADING Redis is loading", "AUTH") }, "LOADING", "p1 -LOADING"},
	} {
		var i issuer
		subBubble(t, name, 1, func(t *testing.T, cl *cluster) {
			i.set(func(i *issuer) { c.spoil(i, cl.nodes[0]) })
			time.Sleep(3 * time.Minute) // beyond the end
			before := i.set(nil)
			assert.Equal(t, c.text != "", cl.warned(0, "keeps the credentials that it has: "), "%v", cl.status(0).Warnings)
			assert.True(t, cl.warned(0, c.text), "%v", cl.status(0).Warnings)
			assert.False(t, cl.warned(0, "wr0ng"), "R27")
			assert.False(t, cl.warned(0, long[:longestSaid]))
			given := strings.Join(auths(cl.nodes[0]), "\n")
			assert.True(t, strings.HasSuffix(given, c.auths), given)
			assert.Equal(t, c.auths == "", given == "")
			receipt := cl.mustClaim("k")
			require.NoError(t, cl.release(background, "k", "t", 10*time.Second, receipt))
			time.Sleep(5 * time.Minute)
			assert.Equal(t, []int{1, 0}, []int{cl.status(0).Connects, cl.status(0).Deaths})
			asked := i.set(nil) - before
			assert.GreaterOrEqual(t, asked, 5, "it is asked again")
			assert.LessOrEqual(t, asked, 40, "but not without end")

			cl.nodes[0].Refuse("", "AUTH")
			cl.rotate(&i, "p9")
			i.set(func(i *issuer) { i.err, i.blocks, i.user, i.lasts = nil, false, "", time.Hour })
			time.Sleep(50 * time.Second)
			given = strings.Join(auths(cl.nodes[0]), "\n")
			assert.True(t, strings.HasSuffix(given, "1 p9 +OK"), given)
			assert.Empty(t, cl.status(0).Warnings, "the warning goes with its reason")
			assert.Equal(t, 1, cl.status(0).Connects)
		}, issued(&i))
	}
}

// A failed renewal is told when it begins to fail, and again after one that
// succeeded.
func TestFailedRenewalIsTold(t *testing.T) {
	var i issuer
	var l listener
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		assert.Equal(t, []string{"up"}, l.of(0))
		for range 2 {
			i.set(func(i *issuer) { i.err = errors.New("sealed") })
			time.Sleep(3 * time.Minute)
			assert.Equal(t, []string{"up", "keeps the credentials that it has: the function for others failed: sealed"}, l.of(0))
			i.set(func(i *issuer) { i.err = nil })
			time.Sleep(time.Minute)
			assert.Empty(t, c.status(0).Warnings)
			assert.Empty(t, l.of(0))
		}
	}, issued(&i), l.listen)
}

// Credentials without an end are asked for by dials only.
func TestCredentialsWithoutEnd(t *testing.T) {
	var i issuer
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.rotate(&i, "p1")
		time.Sleep(24 * time.Hour)
		assert.Equal(t, 3, i.set(nil))
		assert.Empty(t, auths(c.nodes[0]))
		c.nodes[0].DropConns()
		time.Sleep(time.Second)
		assert.Equal(t, 4, i.set(nil))
		c.waitUp(3)
	}, issued(&i), func(*cluster) { i.lasts = 0 })
}

// A wall clock that steps forward, as after a suspend, makes a question due;
// one that steps back does not delay it.
func TestWhicheverClockComesFirst(t *testing.T) {
	var i issuer
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		r := &c.group.nodes[0].dialer.renewal
		for name, set := range map[string]func(){
			"the wall clock stepped forward": func() { r.due, r.wall = c.group.now()+time.Hour, time.Now() },
			"the wall clock stepped back":    func() { r.due, r.wall = c.group.now(), time.Now().Add(time.Hour) },
		} {
			before := i.set(nil)
			c.group.mu.Lock()
			set()
			c.group.mu.Unlock()
			time.Sleep(c.group.config.ProbeAfter + time.Second)
			assert.Equal(t, before+1, i.set(nil), name)
		}
		i.set(func(i *issuer) { i.lasts = 0 })
	}, issued(&i))
}

// Moments between two steps: the connection ends, or the group closes, while
// the function runs, or while the AUTH is on its way.
func TestMomentsOfARenewal(t *testing.T) {
	for name, c := range map[string]struct {
		blocks bool // the function, rather than the node
		then   func(*cluster)
		stays  int // connections so far
	}{
		"the connection ends during the call": {true, func(c *cluster) { c.nodes[0].DropConns() }, 2},
		"the connection ends behind the AUTH": {false, func(c *cluster) { c.nodes[0].DropConns() }, 2},
		"the call ends in vain":               {true, func(*cluster) {}, 1},
		"the reply is late":                   {false, func(*cluster) {}, 1},
	} {
		for _, closes := range []bool{false, true} {
			var i issuer
			subBubble(t, fmt.Sprint(name, closes), 1, func(t *testing.T, cl *cluster) {
				cl.rotate(&i, "p1")
				i.set(func(i *issuer) { i.blocks = c.blocks })
				if !c.blocks {
					latency(cl.links, 300*ms, oneWay)
				}
				cl.renew()
				time.Sleep(100 * ms)
				if closes {
					assert.Less(t, took(func() { require.NoError(t, cl.group.Close(background)) }), time.Second)
					return
				}
				c.then(cl)
				time.Sleep(100 * ms)
				i.set(func(i *issuer) { i.blocks = false })
				latency(cl.links, oneWay, oneWay)
				time.Sleep(30 * time.Second)
				cl.waitUp(1)
				assert.Equal(t, c.stays, cl.status(0).Connects)
				cl.rotate(&i, "p2")
				cl.renew()
				time.Sleep(100 * ms)
				given := auths(cl.nodes[0])
				require.NotEmpty(t, given)
				assert.Contains(t, given[len(given)-1], " p2 +OK", "renewals go on")
			}, issued(&i))
		}
	}
}

// A full lane postpones the AUTH, and is no reason for a warning.
func TestAuthWaitsForAFullLane(t *testing.T) {
	var i issuer
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.rotate(&i, "p1")
		n := c.group.nodes[0]
		c.group.mu.Lock()
		n.lane.queued = make([]laneEntry, maxLane)
		n.dialer.renewal.asking = true
		n.dialer.authLocked(n.conn, conn.Credentials{Password: "p1"})
		asking, due := n.dialer.renewal.asking, n.dialer.renewal.due
		n.lane.queued = nil
		c.group.mu.Unlock()
		assert.False(t, asking)
		assert.Positive(t, due)
		time.Sleep(time.Minute)
		assert.Equal(t, "1 p1 +OK", auths(c.nodes[0])[0])
		assert.Empty(t, c.status(0).Warnings)
	}, issued(&i))
}

// A reply that cannot be AUTH's, or cannot be that of the PING behind it, ends
// the connection before a vote is taken from it. So does one that nothing asked
// for, also after an AUTH without a reply (R16).
func TestAlienReplyToAuth_R16(t *testing.T) {
	for name, x := range map[string]struct {
		auth, ping, unasked string
	}{
		"a number":                   {auth: ":1\r\n"},
		"none, and the PING's error": {ping: "-NOPERM no\r\n"},
		"OK, and a number":           {auth: "+OK\r\n", ping: ":1\r\n"},
		"an error, and OK":           {auth: "-WRONGPASS no\r\n", ping: "+OK\r\n"},
		"none, and one too many":     {ping: "$10\r\nafter AUTH\r\n", unasked: "+OK\r\n"},
	} {
		var i issuer
		subBubble(t, name, 1, func(t *testing.T, c *cluster) {
			c.rotate(&i, "p1")
			c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				switch {
				case args[0] == "AUTH":
					return []byte(x.auth), true
				case len(args) == 2 && args[0] == "PING":
					return []byte(x.ping), true
				}
				return nil, false
			})
			c.renew()
			time.Sleep(10 * ms)
			if x.unasked != "" {
				c.nodes[0].Push(x.unasked)
			} else if c.status(0).Deaths == 0 {
				_, err := c.claim(background, "k", "t", long)
				assert.ErrorIs(t, err, ErrUndecided)
			}
			time.Sleep(10 * ms)
			assert.Equal(t, map[string]uint64{"unexpected": 1}, c.status(0).Counts.Deaths)
			c.waitUp(1)
		}, issued(&i))
	}
}

// NOAUTH ends the connection, and the next dial asks for credentials. NOPERM
// does after an AUTH as another user, once, and not under the handshake's: one
// forbidden key must not end what other locks use.
func TestServerEndsTheCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		reply  string
		user   string // of the AUTH before; none if ""
		given  bool   // a Credentials function
		deaths int
	}{
		"NOAUTH":                      {"-NOAUTH Authentication required.", "", true, 1},
		"NOAUTH of another user":      {"-NOAUTH Authentication required.", "ann", true, 1},
		"NOPERM of the first user":    {"-NOPERM no", "", true, 0},
		"NOPERM of another user":      {"-NOPERM no", "ann", true, 1},
		"OOM of another user":         {"-OOM no", "ann", true, 0},
		"NOAUTH without the function": {"-NOAUTH Authentication required.", "", false, 0},
	} {
		var i issuer
		var l listener
		subBubble(t, name, 3, func(t *testing.T, cl *cluster) {
			if c.user != "" {
				for _, n := range cl.nodes {
					n.SetPassword(c.user, "p1")
				}
				i.set(func(i *issuer) { i.user, i.password = c.user, "p1" })
				time.Sleep(50 * time.Second)
				require.Contains(t, auths(cl.nodes[0])[0], "ann p1 +OK")
			}
			cl.nodes[0].Refuse(c.reply, "SET")
			l.of(0)
			for range 5 {
				cl.mustClaim(fmt.Sprint(time.Now().UnixNano()))
				time.Sleep(10 * time.Second)
			}
			s := cl.status(0)
			if strings.Contains(c.reply, "NOAUTH") && c.deaths > 0 {
				assert.GreaterOrEqual(t, s.Deaths, c.deaths)
			} else {
				assert.Equal(t, c.deaths, s.Deaths)
			}
			if c.deaths > 0 {
				assert.Equal(t, map[string]uint64{"credentials": uint64(s.Deaths)}, s.Counts.Deaths)
				assert.Equal(t, "refused "+strings.Fields(c.reply[1:])[0], l.of(0)[0])
			}
			cl.nodes[0].Refuse("", "SET")
			time.Sleep(2 * time.Second)
			cl.waitUp(3)
			cl.mustClaim("k")
			time.Sleep(trip)
			assert.Equal(t, []string{"k"}, keysOnly(cl.nodes[0], "k"))
		}, issued(&i), l.listen, func(cl *cluster) {
			for n := range cl.config.Nodes {
				if !c.given {
					cl.config.Nodes[n].Credentials, cl.config.Nodes[n].Password = nil, "p0"
				}
			}
		})
	}
}

// keysOnly returns the keys of a node that are named.
func keysOnly(n *redistest.Node, name string) (all []string) {
	for _, key := range n.Keys() {
		if strings.HasSuffix(key, name) {
			all = append(all, name)
		}
	}
	return all
}

// A node barred for its credentials returns soon after the function has others,
// though its rests have grown to half a minute. A function that fails, or gives
// the same, does not make it dial.
func TestBarredNodeReturnsWithOtherCredentials_R26(t *testing.T) {
	var i issuer
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].SetPassword("default", "p1")
		c.nodes[0].DropConns()
		time.Sleep(5 * time.Minute)
		s := c.status(0)
		assert.ErrorContains(t, s.Err, "WRONGPASS")
		dials := s.Counts.Dials
		assert.LessOrEqual(t, dials, uint64(18), "the rests grow")
		i.set(func(i *issuer) { i.err = errors.New("sealed") })
		time.Sleep(4 * time.Minute)
		assert.LessOrEqual(t, c.status(0).Counts.Dials-dials, uint64(9))
		i.set(func(i *issuer) { i.err, i.password = nil, "p1" })
		assert.LessOrEqual(t, c.eventually(time.Minute, func() bool { return c.up() == 3 }, "it is back"), 30*time.Second/8+100*ms)
	}, issued(&i))
}

// Ever different credentials that are all refused do not exceed the budget of
// dials (R26), and of what it is about to dial with the function is asked once.
func TestEverDifferentCredentials_R26(t *testing.T) {
	var i issuer
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].SetPassword("default", "secret")
		c.nodes[0].DropConns()
		before := c.status(0).Counts.Dials
		stop := make(chan struct{})
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(10 * ms):
					i.set(func(i *issuer) { i.password = fmt.Sprint("x", n) })
				}
			}
		}()
		asked := i.set(nil)
		time.Sleep(10 * time.Minute)
		dials := c.status(0).Counts.Dials - before
		assert.LessOrEqual(t, dials, uint64(75*10))
		assert.Greater(t, dials, uint64(60), "but it tries")
		assert.LessOrEqual(t, i.set(nil)-asked, int(dials)+3*60, "the others are asked for, too, and rests")
		close(stop)
		time.Sleep(20 * ms)
		i.set(func(i *issuer) { i.password = "secret" })
		c.waitUp(3)
	}, issued(&i), func(c *cluster) {
		for n := 1; n < 3; n++ {
			c.config.Nodes[n].Credentials, c.config.Nodes[n].Password = nil, "p0"
		}
	})
}

// A group that closes does not wait for a barred node's rest, nor for the
// function.
func TestCloseOfABarredGroup_R28(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		var i issuer
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1, issued(&i))
			c.waitUp(1)
			i.set(func(i *issuer) { i.password = "wrong" })
			c.nodes[0].SetPassword("default", "p1")
			c.nodes[0].DropConns()
			time.Sleep(2 * time.Minute)
			i.set(func(i *issuer) { i.blocks = blocks })
			time.Sleep(4 * time.Second)
			assert.Less(t, took(func() { require.NoError(t, c.group.Close(background)) }), time.Second)
		})
	}
}

// With a function, refused credentials are brief: its next answer may be right
// (R31). Its own error at a dial is no word of the node's.
func TestOutlookOfCredentials_R31(t *testing.T) {
	wrong := &downError{&conn.Error{Op: "handshake", Err: &conn.StepError{Step: "HELLO", Class: conn.ClassWrongPass, Err: &resp.Error{Message: "WRONGPASS"}}}}
	after := time.Now()
	for _, c := range []struct {
		e      NodeError
		waited time.Duration
		want   bool
	}{
		{NodeError{Err: wrong, tried: after}, 0, true},
		{NodeError{Err: wrong, tried: after, renews: true}, 0, false},
		{NodeError{Err: wrong, tried: after, renews: true}, failoverTakes, true},
	} {
		assert.Equal(t, c.want, c.e.Lasting(after, c.waited), "%+v", c)
	}
	var i issuer
	var l listener
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, issued(&i), l.listen, func(*cluster) { i.err = &resp.Error{Message: "WRONGPASS of the issuer"} })
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"down credentials"}, l.of(0))
		assert.LessOrEqual(t, c.status(0).Counts.Dials, uint64(5), "the rests grow")
		assert.LessOrEqual(t, i.set(func(i *issuer) { i.err = nil }), 12, "but it is asked in them")
		assert.LessOrEqual(t, c.eventually(time.Minute, func() bool { return c.up() == 1 }, "up"), time.Second+100*ms)
	})
}

// The second look at a name has the credentials of the first, and asks for no
// others.
func TestLookBehindHasTheCredentials(t *testing.T) {
	var i issuer
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		time.Sleep(time.Second)
		assert.Equal(t, 1, i.set(nil))
		assert.Equal(t, 2, c.nodes[0].Connects())
		assert.Empty(t, c.status(0).Warnings)
	}, issued(&i), withConfig(func(c *Config) { c.LookBehind = true }))
}

// An answer for a connection that has ended meanwhile goes to no other one.
func TestLateCredentialsAreDropped(t *testing.T) {
	var i issuer
	var calls atomic.Int64
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		time.Sleep(46 * time.Second)
		c.nodes[0].DropConns()
		time.Sleep(12 * time.Second)
		c.waitUp(1)
		assert.Equal(t, int64(3), calls.Load(), "of the dial, the renewal and the dial after it")
		assert.Equal(t, 2, c.status(0).Connects)
		assert.Empty(t, auths(c.nodes[0]))
		assert.Empty(t, c.status(0).Warnings)
	}, issued(&i), func(c *cluster) {
		c.config.Nodes[0].Credentials = func(context.Context) (conn.Credentials, error) {
			if calls.Add(1) == 2 {
				time.Sleep(10 * time.Second) // it does not heed its context
				return conn.Credentials{Password: "stale"}, nil
			}
			return conn.Credentials{Password: "p0", Expires: time.Now().Add(time.Minute)}, nil
		}
	})
}

// After a refused AUTH, the servers of a cluster are asked for the slot with
// the password that the connection holds.
func TestServersAreNotAskedWithARefusedPassword(t *testing.T) {
	for name, hook := range map[string]redistest.Hook{"refused": nil, "refused, and no word": silentAuth} {
		var i issuer
		var owner atomic.Int32
		var addrs []string
		cluster := func(c *cluster) {
			n := &c.config.Nodes[0]
			for i := range c.nodes {
				addrs = append(addrs, c.config.Nodes[i].Addr)
			}
			n.Addr, n.Failover, n.Seeds = "", conn.Failover{Expected: true, Bound: -1}, &conn.Seeds{Addrs: addrs}
			c.config.Nodes = c.config.Nodes[:1]
			for i, node := range c.nodes {
				node.Handle(func(id int, args []string) ([]byte, bool) {
					switch {
					case args[0] == "CLUSTER" && args[1] == "MYID":
						return resp.AppendBulkString(nil, addrs[i]), true
					case args[0] == "CLUSTER":
						return slots(addrs[owner.Load()]), true
					case hook != nil:
						return hook(id, args)
					}
					return nil, false
				})
			}
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, issued(&i), cluster)
				c.waitUp(1)
				i.set(func(i *issuer) { i.password = "wr0ng" })
				c.renew()
				time.Sleep(time.Second)
				assert.NotEmpty(t, auths(c.nodes[0]))
				assert.Equal(t, 1, c.status(0).Connects)
				owner.Store(1)
				c.nodes[0].Refuse("-CLUSTERDOWN x", "INFO")
				c.eventually(9*time.Second, func() bool { return c.status(0).Counts.Deaths["moved"] == 1 }, "the slot is elsewhere")
			})
		})
	}
}

// slots encodes the answer to CLUSTER SLOTS of a cluster of one master, whose
// address is its id.
func slots(addr string) []byte {
	host, port, _ := net.SplitHostPort(addr)
	b := resp.AppendInteger(resp.AppendInteger(resp.AppendArray(resp.AppendArray(nil, 1), 3), 0), 16383)
	b = append(resp.AppendBulkString(resp.AppendArray(b, 3), host), ":"+port+"\r\n"...)
	return resp.AppendBulkString(b, addr)
}
