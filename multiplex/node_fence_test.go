package multiplex

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const noPerm = "-NOPERM User default has no permissions to run the 'client|kill' command"

// lateSet claims a key whose SET one node executes only after the given time,
// on its original connection: long after that connection was given up.
func (c *cluster) lateSet(node int, key string, after time.Duration) Receipt {
	c.t.Helper()
	c.nodes[node].Delay("SET", after)
	receipt := c.mustClaim(key)
	time.Sleep(trip)
	c.nodes[node].Delay("SET", 0) // commands already received keep their delay
	return receipt
}

// killsFirst requires that on every connection but the first a CLIENT KILL
// comes first.
func killsFirst(t *testing.T, n *redistest.Node) {
	t.Helper()
	seen := make(map[string]bool)
	for _, line := range story(n) {
		id, what, _ := strings.Cut(line, " ")
		if !seen[id] && id != "1" {
			require.True(t, strings.HasPrefix(what, "KILL "), "the first command of connection %s is %q", id, what)
		}
		seen[id] = true
	}
}

// R8: the server must end the old connection before the new one carries
// anything, since it executes the old connection's SETs even after RST.
func TestLateSetIsFenced(t *testing.T) {
	for _, released := range []time.Duration{50 * ms, 230 * ms, 900 * ms} {
		subBubble(t, "released after "+released.String(), 3, func(t *testing.T, c *cluster) {
			receipt := c.lateSet(0, "k", 2*time.Second)
			time.Sleep(released)
			assert.NoError(t, c.release(background, "k", "t", long, receipt))
			c.waitUp(3)
			time.Sleep(5 * time.Second)
			assert.Empty(t, c.keys(), "no key without a holder")
			assert.Zero(t, c.debts())
			assert.Equal(t, "2 KILL 1", story(c.nodes[0])[0])
			assert.Equal(t, 1, c.status(0).Sheds)
			killsFirst(t, c.nodes[0])
		})
	}
}

// The same with a stopped server that serves the new connection first when it
// continues.
func TestStoppedServerIsFenced(t *testing.T) {
	for _, order := range []redistest.Order{redistest.ByArrival, redistest.NewestFirst, redistest.OldestFirst} {
		subBubble(t, fmt.Sprint("order=", order), 3, func(t *testing.T, c *cluster) {
			c.nodes[0].SetOrder(order)
			c.nodes[0].Pause()
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					key := fmt.Sprint("k", i)
					receipt, err := c.claim(background, key, "t", long)
					assert.NoError(t, err)
					time.Sleep(time.Duration(i) * 10 * ms) // some release before the node is shed, some after
					assert.NoError(t, c.release(background, key, "t", long, receipt))
				})
			}
			wg.Wait()
			c.mustClaim("held")
			time.Sleep(time.Second)
			c.nodes[0].Resume()
			c.eventually(200*ms, func() bool { return c.up() == 3 }, "the node counts again")
			killsFirst(t, c.nodes[0])
			time.Sleep(500 * ms)
			assert.Equal(t, []string{"held", "held"}, c.keys())
			assert.Zero(t, c.debts())
		})
	}
}

// Debts come after the fence and before the first new command (R8).
func TestFenceThenDebtsThenCommands(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.lateSet(0, "old", time.Second)
		c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "shed")
		assert.NoError(t, c.release(background, "old", "t", long, receipt))
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = c.claim(background, fmt.Sprint("new", i), "t", long)
			}
		})
		c.waitUp(3)
		time.Sleep(5 * trip)
		cancel()
		wg.Wait()
		lines := story(c.nodes[0])
		assert.Equal(t, []string{"2 KILL 1", "2 release old t"}, lines[:2])
		assert.Contains(t, lines[2], "2 SET new")
	})
}

// R8: if CLIENT KILL is forbidden the release is repeated, so that one comes
// after the SET, whenever that arrives.
func TestForbiddenKillRepeatsReleases(t *testing.T) {
	for _, late := range []time.Duration{300 * ms, 450 * ms, 1200 * ms, 4 * time.Second} {
		for _, released := range []time.Duration{20 * ms, 100 * ms, 280 * ms} {
			subBubble(t, fmt.Sprintf("late=%v/released=%v", late, released), 3, func(t *testing.T, c *cluster) {
				c.nodes[0].Refuse(noPerm, "CLIENT KILL")
				receipt := c.lateSet(0, "k", late)
				time.Sleep(released - trip)
				assert.NoError(t, c.release(background, "k", "t", long, receipt))
				time.Sleep(late)
				require.Equal(t, 1, c.nodes[0].Calls("SET"), "the SET came late, as it was meant to")
				c.waitUp(3)
				c.eventually(6*time.Second, func() bool { return len(c.keys()) == 0 }, "no key without a holder")
				c.eventually(11*time.Second, func() bool { return c.debts() == 0 }, "the repetitions end with the TTL")
				assert.LessOrEqual(t, c.nodes[0].Calls("EVALSHA"), 6)
			})
		}
	}
}

// A release that the node refuses after an uncertain fence is not settled by
// the first answer either.
func TestForbiddenKillAndRefusedRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse(noPerm, "CLIENT KILL")
		receipt := c.lateSet(0, "k", 800*ms)
		c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 && c.up() == 3 }, "connected again")
		c.nodes[0].Refuse("-NOREPLICAS Not enough good replicas to write.", "EVALSHA")
		assert.NoError(t, c.release(background, "k", "t", long, receipt))
		c.nodes[0].Refuse("", "EVALSHA")
		require.Zero(t, c.nodes[0].Calls("SET"))
		time.Sleep(300 * ms) // by now the release has been repeated and answered
		require.Zero(t, c.nodes[0].Calls("SET"))
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, c.nodes[0].Calls("SET"))
		assert.Empty(t, c.keys())
		c.eventually(11*time.Second, func() bool { return c.debts() == 0 }, "the repetitions end with the TTL")
	})
}

// R8: if the node tells neither its run id nor the address that it sees, our
// address is a guess, and a kill that hits nothing proves nothing: the SET may
// still arrive, and the release is repeated.
func TestAKillThatMissesIsNoFence_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse(noPerm, "INFO", "CLIENT INFO")
		c.nodes[0].DropConns()
		c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 && c.up() == 3 }, "connected again")
		c.group.mu.Lock()
		said := &c.group.nodes[0].server
		assert.Empty(t, said.RunID)
		assert.False(t, said.AddrKnown)
		said.ClientAddr = "192.0.2.1:4711" // ours, before address translation
		c.group.mu.Unlock()
		receipt := c.lateSet(0, "k", 2*time.Second)
		c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "shed")
		assert.NoError(t, c.release(background, "k", "t", long, receipt))
		c.waitUp(3)
		assert.Positive(t, c.nodes[0].Calls("CLIENT KILL"))
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, c.nodes[0].Calls("SET"), "the SET came late, as it was meant to")
		c.eventually(6*time.Second, func() bool { return len(c.keys()) == 0 }, "no key without a holder")
	})
}

// If a new connection dies before the fence is done, the next one still owes
// the fence, for the first (R8).
func TestFenceSurvivesConnections(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.lateSet(0, "k", 3*time.Second)
		c.nodes[0].Delay("CLIENT KILL", 10*time.Second)
		assert.NoError(t, c.release(background, "k", "t", long, receipt))
		for range 3 {
			c.eventually(2*time.Second, func() bool { return c.status(0).State == Fencing }, "fencing")
			time.Sleep(10 * ms)
			c.nodes[0].DropConns()
			time.Sleep(10 * ms)
		}
		c.nodes[0].Delay("CLIENT KILL", 0)
		c.waitUp(3)
		assert.Contains(t, story(c.nodes[0])[0], " KILL 1")
		time.Sleep(12 * time.Second)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	})
}

// A server that is silent about the fence after the handshake does not block
// the node's goroutine forever (R26).
func TestSilentFenceIsGivenUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Delay("CLIENT KILL", time.Hour)
		c.lateSet(0, "k", time.Hour)
		c.eventually(time.Second, func() bool { return c.status(0).State == Fencing }, "fencing")
		connects := c.status(0).Connects
		time.Sleep(21 * time.Second)
		assert.InDelta(t, 4, c.status(0).Connects-connects, 1)
		assert.NotEqual(t, Up, c.status(0).State)
	})
}

// A server with a wrong answer to CLIENT KILL must not be trusted (R16).
func TestAlienAnswerToKill(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		lies := 0
		c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			mu.Lock()
			defer mu.Unlock()
			if args[0] == "CLIENT" && args[1] == "KILL" && lies < 2 {
				lies++
				return []byte("+OK\r\n"), true
			}
			return nil, false
		})
		c.lateSet(0, "k", time.Second)
		c.eventually(time.Second, func() bool { return c.status(0).Connects == 2 }, "connected again")
		c.eventually(2*time.Second, func() bool { return c.status(0).State == Up }, "the third answer is honest")
		assert.Equal(t, 4, c.status(0).Connects)
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"k", "k"}, c.keys(), "killed in the end, so node 0 has none")
	})
}

// What fences a connection (R8), and whether an answer to it is certain to be
// about that one. Without the run id, only an address that the server told
// protects strangers, whose ids may be the same.
func TestKillCommand(t *testing.T) {
	const here, there = "192.0.2.1:4000", "run-a"
	byID, byBoth := "CLIENT KILL ID 7 SKIPME yes", "CLIENT KILL ID 7 ADDR "+here+" SKIPME yes"
	for _, c := range []struct {
		name     string
		old, now conn.Server
		command  string
		certain  bool
	}{
		{"all is known", conn.Server{ID: 7, ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: there}, byBoth, true},
		{"a restart took the sockets", conn.Server{ID: 7, ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: "run-b"}, "", true},
		{"with the same id", conn.Server{ID: 7, ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: "run-b", ID: 7}, "", true},
		{"the address is a guess", conn.Server{ID: 7, ClientAddr: here, RunID: there}, conn.Server{RunID: there}, byID, true},
		{"no address", conn.Server{ID: 7, RunID: there}, conn.Server{RunID: there}, byID, true},
		{"the run is unknown", conn.Server{ID: 7, ClientAddr: here, AddrKnown: true}, conn.Server{}, byBoth, true},
		{"and the address a guess: a hit proves it", conn.Server{ID: 7, ClientAddr: here}, conn.Server{}, byBoth, false},
		{"unknown now only", conn.Server{ID: 7, ClientAddr: here, RunID: there}, conn.Server{}, byBoth, false},
		{"neither run nor address", conn.Server{ID: 7}, conn.Server{}, "", false},
		{"not before", conn.Server{ID: 7}, conn.Server{RunID: there}, "", false},
		{"no id", conn.Server{ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: there}, "", false},
		{"nothing", conn.Server{}, conn.Server{}, "", false},
	} {
		command, certain := killCommand(&c.old, &c.now)
		var want []byte
		if c.command != "" {
			want = resp.AppendCommand(nil, strings.Fields(c.command)...)
		}
		assert.Equal(t, string(want), string(command), c.name)
		assert.Equal(t, c.certain, certain, c.name)
	}
}
