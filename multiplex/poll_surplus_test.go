//go:build linux && !redmux_portable

package multiplex

import (
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unreadOn waits until bytes lie unread in the socket of node i.
func unreadOn(t testing.TB, g *Group, i int) {
	t.Helper()
	soon(t, "the bytes are there", func() bool { return g.connOf(i).Unread() })
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
			takeRole(t, g)
			nodes[0].say(surplus)
			unreadOn(t, g, 0)
			done := make(chan error, 1)
			go func() {
				_, err := claimOn(background, g, "taken", "t")
				done <- err
			}()
			soon(t, "the claim is sent, and waits", func() bool { return g.poller.waiting.Load() == 1 })
			g.poller.leave()
			require.Error(t, <-done, "nodes=%d %q: a false grant", n, surplus)
			soon(t, "the connection is ended", func() bool { return g.Nodes()[0].Counts.Deaths["unexpected"] == 1 })
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
	soon(t, "the connection is ended", func() bool { return g.Nodes()[0].Counts.Deaths["unexpected"] == 1 })
}

// If keys are tracked, a push may lie in an idle socket. It is not surplus, and
// does not affect the vote that follows; a surplus reply behind it is found all
// the same (R16).
func TestPushInAnIdleSocketIsNoSurplus_R16(t *testing.T) {
	const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nother\r\n"
	nodes := startWireNodes(t, 1)
	g := onWire(t, nodes, patient)
	l := g.Lookout([]byte("other"))
	defer l.Stop()
	require.True(t, l.Ask())
	soon(t, "the answer", func() bool {
		g.tracker.mu.Lock()
		defer g.tracker.mu.Unlock()
		return l.held.Has(0)
	})
	l.Rest()
	for i, said := range []string{push, push + "+OK\r\n"} {
		takeRole(t, g)
		nodes[0].say(said)
		unreadOn(t, g, 0)
		done := make(chan error, 1)
		go func() {
			_, err := claimOn(background, g, "k", "t")
			done <- err
		}()
		soon(t, "the claim is sent, and waits", func() bool { return g.poller.waiting.Load() == 1 })
		g.poller.leave()
		if i == 0 {
			require.NoError(t, <-done)
			assert.Nil(t, g.Nodes()[0].Counts.Deaths)
			continue
		}
		require.Error(t, <-done)
		soon(t, "the connection is ended", func() bool { return g.Nodes()[0].Counts.Deaths["unexpected"] == 1 })
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
	soon(t, "the connection is ended", func() bool { return g.Nodes()[0].Counts.Deaths["unexpected"] == 1 })
}

// Input from one node is read in turns: between two turns the other nodes are
// read (R32). No event reports the rest. It is read all the same, by the
// goroutine that has the role and by the next one that takes it.
func TestWhatOneNodeSendsIsReadInTurns_R32(t *testing.T) {
	nodes := startWireNodes(t, 2)
	g := onWire(t, nodes, patient)
	l := g.Lookout([]byte("other"))
	defer l.Stop()
	require.True(t, l.Ask())
	soon(t, "the answers", func() bool {
		g.tracker.mu.Lock()
		defer g.tracker.mu.Unlock()
		return l.held == All(2)
	})
	l.Rest()
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
