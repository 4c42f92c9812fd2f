//go:build linux && !redmux_portable

package multiplex

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An idle group does nothing: its goroutine is parked on all sockets, and the
// watch sleeps until the next probe.
func TestPolledIdleGroupDoesNotTick(t *testing.T) {
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprint("used=", used), func(t *testing.T) {
			g := onWire(t, startWireNodes(t, 3), patient)
			if used {
				require.NoError(t, pairOn(background, g, "k"))
			}
			next := func() time.Duration {
				g.mu.Lock()
				defer g.mu.Unlock()
				return time.Duration(g.watcher.at.Load()) - g.now()
			}
			soon(t, "the watch rests", func() bool { return next() > 30*time.Second })
			for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if next() < 30*time.Second {
					t.Fatal("the watch looks again though nothing is owed")
				}
			}
			assert.Equal(t, roleServer, g.poller.role.Load(), "the goroutine waits for the end of connections, and for pushes")
		})
	}
}

// When the group's goroutine has looked after an event, and no caller waits, it
// gives up the role. Then the watch has to make sure in time that the following
// events are waited for.
func TestPolledIdleGroupIsAttended(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient)
	p := g.poller
	for range 20 {
		soon(t, "the watch rests", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return p.role.Load() == roleServer && time.Duration(g.watcher.at.Load())-g.now() > patience
		})
		left := p.left.Load()
		p.events.Kick() // an event without content
		soon(t, "the role is given up", func() bool { return p.left.Load() != left })
		soon(t, "the role is taken again", func() bool { return p.role.Load() == roleServer })
	}
}

// The end of a connection, and unsolicited bytes (R16), are noticed without any
// call.
func TestPolledIdleGroupNotices(t *testing.T) {
	for _, size := range []int{1, 3} {
		for name, happen := range map[string]func(n *wireNode){
			"the end":       (*wireNode).drop,
			"surplus bytes": func(n *wireNode) { n.say("+OK\r\n") },
			"a push":        func(n *wireNode) { n.say(">1\r\n$3\r\nhey\r\n") },
		} {
			for _, used := range []bool{false, true} {
				t.Run(fmt.Sprintf("nodes=%d/used=%v/%s", size, used, name), func(t *testing.T) {
					nodes := startWireNodes(t, size)
					// There are no probes, so only polling can notice it.
					g := onWire(t, nodes, patient)
					if used {
						require.NoError(t, pairOn(background, g, "k"))
						time.Sleep(20 * time.Millisecond) // until the group is idle
					}
					atBest(t, func() error { return noticedAfter(t, g, size-1, func() { happen(nodes[size-1]) }) })
				})
			}
		}
	}
}

// noticedAfter measures how long it takes until the group knows that a
// connection has died.
func noticedAfter(t testing.TB, g *Group, node int, happen func()) error {
	t.Helper()
	soon(t, "up", func() bool { return g.stateOf(node) == Up })
	time.Sleep(10 * time.Millisecond)
	deaths := g.Nodes()[node].Deaths
	happen()
	if took := soon(t, "a death", func() bool { return g.Nodes()[node].Deaths > deaths }); took > 20*time.Millisecond {
		return fmt.Errorf("noticed after %v", took)
	}
	return nil
}

// A node's last answer and its end may arrive together, as from a server that
// is shut down: one event reports both. The node must be known to be down, and
// not cost the next callers a vote.
func TestPolledAnswerAndEndTogether(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprint("nodes=", size), func(t *testing.T) {
			nodes := startWireNodes(t, size)
			g := onWire(t, nodes, patient) // neither a probe nor a timeout may find the end
			last := size - 1
			for round := range 3 {
				soon(t, "up", func() bool { return g.stateOf(last) == Up && g.read() })
				deaths := g.Nodes()[last].Deaths
				nodes[last].behave(func(_ []string, answer string) (string, bool) {
					// If there are several, the others have answered by now and
					// the caller has left, so that no goroutine polls until the
					// watch has looked.
					time.Sleep(500 * time.Microsecond)
					return answer, true
				})
				_, err := claimOn(background, g, "k", "t")
				require.NoError(t, err, "the answer counts")
				soon(t, fmt.Sprintf("round %d: the end is noticed", round), func() bool { return g.Nodes()[last].Deaths > deaths })
				nodes[last].behave(nil)
			}
		})
	}
}

// unreadOn waits until bytes lie unread in the socket of node i.
func unreadOn(t testing.TB, g *Group, i int) {
	t.Helper()
	soon(t, "the bytes are there", func() bool { return g.connOf(i).Unread() })
}

// claimBehind lets the first node say something while the test has the role, so
// that it lies unread before the answers to the claim that is made then.
func claimBehind(t testing.TB, g *Group, first *wireNode, said string) error {
	t.Helper()
	takeRole(t, g)
	first.say(said)
	unreadOn(t, g, 0)
	done := make(chan error, 1)
	go func() {
		_, err := claimOn(background, g, "behind", "t")
		done <- err
	}()
	soon(t, "the claim is sent, and waits", func() bool { return g.poller.waiting.Load() == 1 })
	g.poller.leave()
	return <-done
}

func endedUnexpectedly(t testing.TB, g *Group) {
	t.Helper()
	soon(t, "the connection is ended", func() bool { return g.Nodes()[0].Counts.Deaths["unexpected"] == 1 })
}

// lookOutOn asks about a key, so that every node may push, and rests.
func lookOutOn(t testing.TB, g *Group, key string) {
	t.Helper()
	l := g.Lookout([]byte(key))
	t.Cleanup(l.Stop)
	require.True(t, l.Ask())
	answered(t, g, l)
	l.Rest()
}

// answered waits until all nodes have said that another holds the key.
func answered(t testing.TB, g *Group, l *Lookout) {
	t.Helper()
	soon(t, "the answers", func() bool {
		g.tracker.mu.Lock()
		defer g.tracker.mu.Unlock()
		return l.held == All(g.size)
	})
}

func (g *Group) connOf(i int) *conn.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[i].conn
}

// A reply that lies in the socket of an idle node was not requested, and is no
// vote on the next claim (R16), which nodes 0 and 1 refuse. It stays unread
// while the test has the role.
func TestSurplusReplyInAnIdleSocketIsNoVote_R16(t *testing.T) {
	for _, n := range []int{1, 3} {
		for _, surplus := range []string{"+OK\r\n", "+OK\r\n+OK\r\n"} {
			nodes := startWireNodes(t, n)
			g := onWire(t, nodes, patient)
			require.NoError(t, pairOn(background, g, "k"))
			soon(t, "all is read", g.read)
			for _, node := range nodes[:min(n, 2)] {
				node.behave(func(args []string, answer string) (string, bool) {
					if args[0] == "SET" {
						answer = "_\r\n"
					}
					return answer, false
				})
			}
			require.Error(t, claimBehind(t, g, nodes[0], surplus), "nodes=%d %q: a false grant", n, surplus)
			endedUnexpectedly(t, g)
			requireSettled(t, g)
		}
	}
}

// The first part of a surplus reply may have been read already, as an
// incomplete reply.
func TestHalfASurplusReplyIsNoVote_R16(t *testing.T) {
	nodes := startWireNodes(t, 1)
	g := onWire(t, nodes, patient)
	require.NoError(t, pairOn(background, g, "k"))
	soon(t, "all is read", g.read)
	nodes[0].say("+O")
	unreadOn(t, g, 0)
	takeRole(t, g)
	c := g.connOf(0)
	for c.Unread() { // a kick may come first
		g.poller.read(g.poller.wait())
	}
	g.poller.leave()
	nodes[0].behave(func([]string, string) (string, bool) { return "K\r\n", false })
	_, err := claimOn(background, g, "k", "t")
	require.Error(t, err)
	endedUnexpectedly(t, g)
}

// If keys are tracked, a push may lie in an idle socket. It is not surplus, and
// does not affect the vote that follows; a surplus reply behind it is found all
// the same (R16).
func TestPushInAnIdleSocketIsNoSurplus_R16(t *testing.T) {
	const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nother\r\n"
	nodes := startWireNodes(t, 1)
	g := onWire(t, nodes, patient)
	lookOutOn(t, g, "other")
	for i, said := range []string{push, push + "+OK\r\n"} {
		err := claimBehind(t, g, nodes[0], said)
		if i == 0 {
			require.NoError(t, err)
			assert.Nil(t, g.Nodes()[0].Counts.Deaths)
			continue
		}
		require.Error(t, err)
		endedUnexpectedly(t, g)
	}
}

// Surplus replies are also detected before extensions and lanes: one must not
// extend a lock or pay a debt.
func TestSurplusReplyIsNoAnswerInTheLane_R16(t *testing.T) {
	nodes := startWireNodes(t, 1)
	g := onWire(t, nodes, patient)
	require.NoError(t, pairOn(background, g, "k"))
	soon(t, "all is read", g.read)
	takeRole(t, g)
	nodes[0].say("+PONG\r\n")
	unreadOn(t, g, 0)
	g.mu.Lock()
	require.True(t, g.nodes[0].lane.add(laneEntry{purpose: probe}, ping))
	g.promptLocked()
	g.mu.Unlock()
	soon(t, "the probe is sent", func() bool { return g.nodes[0].laneNext.Load() != noLane })
	soon(t, "nothing flushes", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return !g.flusher.taken })
	g.poller.leave()
	g.poller.callServer()
	endedUnexpectedly(t, g)
}

// Input from one node is read in turns: between two turns the other nodes are
// read (R32). No event reports the rest. It is read all the same, by the
// goroutine that has the role and by the next one that takes it.
func TestWhatOneNodeSendsIsReadInTurns_R32(t *testing.T) {
	nodes := startWireNodes(t, 2)
	g := onWire(t, nodes, patient)
	lookOutOn(t, g, "other")
	takeRole(t, g)
	push := ">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nother\r\n"
	const pushes = 1500 // more than one turn reads, and no more than fits into a socket
	g.tracker.mu.Lock()
	g.tracker.nodes[0].pushes = pushes
	g.tracker.mu.Unlock()
	left := func() int {
		g.tracker.mu.Lock()
		defer g.tracker.mu.Unlock()
		return g.tracker.nodes[0].pushes
	}
	nodes[0].say(strings.Repeat(push, pushes))
	unreadOn(t, g, 0)
	time.Sleep(50 * time.Millisecond) // until all of it has arrived, so that no further event comes
	for left() == pushes {
		g.poller.read(g.poller.wait()) // a kick may come first
	}
	require.Positive(t, left(), "one turn does not read it all")
	g.poller.leave()
	soon(t, "the rest is read", func() bool { return left() == 0 })
	require.NoError(t, pairOn(background, g, "k"))
	assert.Nil(t, g.Nodes()[0].Counts.Deaths)
	requireSettled(t, g)
}
