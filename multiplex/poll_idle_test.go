//go:build linux && !redmux_portable

package multiplex

import (
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
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

// Probes of an idle connection are answered, and the answers are read (R26).
func TestPolledIdleConnectionsAreProbed(t *testing.T) {
	nodes := startWireNodes(t, 3)
	g := onWire(t, nodes, patient, func(c *Config) { c.ProbeAfter = 20 * time.Millisecond })
	require.NoError(t, pairOn(background, g, "k"))
	soon(t, "the replies are read", g.read)
	for i, n := range g.nodes {
		probes := func() uint64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			return n.counters.probes
		}
		before := probes()
		soon(t, "the probes that follow an answer", func() bool { return probes() >= before+3 })
		assert.Zero(t, g.Nodes()[i].Deaths)
		g.mu.Lock()
		assert.Less(t, len(g.nodes[i].lane.awaited), 2, "probes whose answers are not read")
		g.mu.Unlock()
	}
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

// Real servers shut down in an orderly way: FIN after their last answers.
func TestPolledServersThatShutDown(t *testing.T) {
	for name, over := range map[string]redistest.Option{"tcp": redistest.OverTCP, "unix": redistest.OverUnix} {
		t.Run(name, func(t *testing.T) {
			servers := redistest.Servers(t, 3, over)
			g := onServers(t, servers, patient)
			require.NoError(t, pairOn(background, g, "k"))
			for i, s := range servers {
				_, _ = s.Do("SHUTDOWN", "NOSAVE")
				soon(t, "down", func() bool { return g.stateOf(i) != Up })
			}
		})
	}
}
