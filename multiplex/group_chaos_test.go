package multiplex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChaos lets callers claim, extend, release and give up while nodes are
// stopped, cut off, refused, flushed and restarted, by a script that a seed
// decides. In the end everything is healed, and then:
//
//   - each call has returned, with a legal outcome;
//   - each grant that a caller got was granted by a quorum, as the nodes' own
//     logs say (R5, R16, R17);
//   - two seconds later no node has a key without a holder, and none owes a
//     release (R7, R8);
//   - Close leaves no goroutine (R28).
//
// REDMUX_SEED repeats one script, or, as 1-1000, runs many.
func TestChaos(t *testing.T) {
	first, last := uint64(1), uint64(5)
	if s := os.Getenv("REDMUX_SEED"); s != "" {
		from, to, many := strings.Cut(s, "-")
		var err error
		first, err = strconv.ParseUint(from, 10, 64)
		require.NoError(t, err)
		last = first
		if many {
			last, err = strconv.ParseUint(to, 10, 64)
			require.NoError(t, err)
		}
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			sizes := []int{3, 5, 1, 4}
			inBubble(t, sizes[seed%4], func(t *testing.T, c *cluster) {
				(&chaos{cluster: c, rng: seeded(t, seed), forbidden: seed%3 == 0}).run()
			}, withConfig(func(config *Config) {
				for i := range config.Nodes {
					config.Nodes[i].DialTimeout = 500 * ms // ends half-open handshakes
				}
			}), merging(seed%5 != 1))
		})
	}
}

// A chaos is one run. Only the script uses rng; callers have their own.
type chaos struct {
	*cluster
	rng       *rand.Rand
	forbidden bool // CLIENT KILL is forbidden
	names     int  // of keys

	mu       sync.Mutex // guards the following
	asked    int
	returned int
	granted  []grant
	held     map[string]bool // tokens
}

// A grant is a command that was reported as granted.
type grant struct{ command, key, token string }

const (
	chaosTime = 2 * time.Second
	// chaosTTL is long, so that nothing expires before the end. If CLIENT KILL
	// is forbidden, debts last as long, and so must the run.
	chaosTTL = 12 * time.Second
)

func (c *chaos) run() {
	c.held = make(map[string]bool)
	if c.forbidden {
		for _, n := range c.nodes {
			n.Refuse(noPerm, "CLIENT KILL")
		}
	}
	ctx, cancel := context.WithTimeout(background, chaosTime)
	defer cancel()
	var callers sync.WaitGroup
	callersAtOnce := 8
	c.names = 6
	if c.merges {
		callersAtOnce, c.names = 24, 40
	}
	for i := range callersAtOnce {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		callers.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				c.call(rng, fmt.Sprintf("t%d-%d", i, j))
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(c.rng.IntN(250)) * ms)
		c.disturb(c.rng.IntN(len(c.nodes)))
	}
	callers.Wait()
	assert.Equal(c.t, c.asked, c.returned, "each call returned once")
	c.heal()
	c.verify()
}

// call is one turn of a caller: it claims, and then extends, releases or keeps
// what it got.
func (c *chaos) call(rng *rand.Rand, token string) {
	key := fmt.Sprint("k", rng.IntN(c.names))
	ctx, cancel := context.WithTimeout(background, time.Duration(1+rng.IntN(80))*ms)
	if rng.IntN(4) == 0 {
		time.AfterFunc(max(pure.Soon, time.Duration(rng.IntN(5))*ms), cancel)
	}
	defer cancel()
	var receipt Receipt
	err := c.ask("SET", key, token, func() (err error) {
		receipt, err = c.claim(ctx, key, token, chaosTTL)
		return err
	})
	if err != nil {
		time.Sleep(time.Duration(1+rng.IntN(15)) * ms)
		return
	}
	time.Sleep(time.Duration(rng.IntN(10)) * ms)
	if rng.IntN(3) == 0 {
		_ = c.ask("extend", key, token, func() error { return c.extend(ctx, key, token, chaosTTL) })
	}
	switch rng.IntN(20) {
	case 0:
		c.mu.Lock()
		c.held[token] = true
		c.mu.Unlock()
	case 1, 2:
		c.group.Tell(releaseKind, &Command{
			Encoded: raw(releaseCommand(key, token)), TTL: chaosTTL, Receipt: receipt,
		})
	default:
		if c.merges { // many at the same time
			time.Sleep(5*ms - time.Duration(time.Now().UnixNano())%(5*ms))
		}
		_ = c.ask("release", key, token, func() error { return c.release(ctx, key, token, chaosTTL, receipt) })
	}
}

// ask makes a call and records the call, its return and its result.
func (c *chaos) ask(command, key, token string, call func() error) error {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	start := time.Now()
	err := call()
	spent := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned++
	assert.True(c.t, isOutcome(err), "%v", err)
	// The longest vote timeout is that of a distant node, a tenth of the TTL.
	assert.LessOrEqual(c.t, spent, chaosTTL/10+5*ms)
	if err == nil {
		c.granted = append(c.granted, grant{command, key, token})
	}
	return err
}

func (c *chaos) disturb(i int) {
	n, link, rng := c.nodes[i], c.links[i], c.rng
	switch rng.IntN(16) {
	case 0, 1:
		n.DropConns()
	case 2:
		link.Reset()
	case 3, 4:
		n.Pause()
		time.AfterFunc(max(pure.Soon, time.Duration(rng.IntN(600))*ms), n.Resume)
	case 5:
		link.Refuse(true)
		n.DropConns()
		time.AfterFunc(max(pure.Soon, time.Duration(rng.IntN(500))*ms), func() { link.Refuse(false) })
	case 6, 7:
		n.FlushScripts()
	case 8:
		n.Restart()
	case 9:
		n.Refuse("-NOREPLICAS Not enough good replicas to write.")
		time.AfterFunc(max(pure.Soon, time.Duration(rng.IntN(300))*ms), func() { n.Refuse("") })
	case 10:
		link.Latency(time.Duration(rng.IntN(20))*ms, time.Duration(rng.IntN(20))*ms)
		time.AfterFunc(100*ms, func() { link.Latency(oneWay, oneWay) })
	case 11:
		link.CutOnce(redistest.Both, int64(rng.IntN(200)))
	case 12:
		n.Delay("SET", time.Duration(rng.IntN(2000))*ms)
		time.AfterFunc(20*ms, func() { n.Delay("SET", 0) })
	case 13:
		link.HalfOpen()
	case 14:
		link.Pause(redistest.Both)
		time.AfterFunc(max(pure.Soon, time.Duration(rng.IntN(400))*ms), func() { link.Resume(redistest.Both) })
	case 15:
		n.SetOrder(redistest.Order(rng.IntN(3)))
	}
}

// heal ends all disturbances, and waits as long as the rules allow the group
// for its recovery (R26).
func (c *chaos) heal() {
	time.Sleep(700 * ms) // what was begun ends by itself
	for i, n := range c.nodes {
		n.Resume()
		n.Refuse("")
		n.Delay("SET", 0)
		n.SetOrder(redistest.ByArrival)
		c.links[i].Refuse(false)
		c.links[i].Resume(redistest.Both)
		c.links[i].Latency(oneWay, oneWay)
		c.links[i].Cut(redistest.Both, -1)
	}
	time.Sleep(2 * time.Second)
	if c.forbidden {
		time.Sleep(2 * chaosTTL) // the repetitions end with the TTL, counted from a death that only a probe finds
	}
	synctest.Wait()
}

func (c *chaos) verify() {
	assert.NoError(c.t, c.group.flusher.balanced())
	// An idle connection whose peer vanished is found by a probe, which may be
	// still to come.
	for i, n := range c.group.Nodes() {
		if n.State == Up && c.nodes[i].Conns() == 0 {
			time.Sleep(8 * time.Second)
			break
		}
	}
	for i, n := range c.group.Nodes() {
		assert.Equal(c.t, Up, n.State, "node %d: %v", i, n.Err)
		assert.Zero(c.t, n.Debts, "node %d", i)
	}
	for i, n := range c.nodes {
		for _, key := range n.Keys() {
			token, _ := n.Get(key)
			assert.True(c.t, c.held[token], "node %d: no caller holds %s, which has %s", i, key, token)
		}
	}
	c.verifyGrants()
	c.t.Logf("%d calls, %d granted, %d merged commands", c.asked, len(c.granted), c.merged())
	if len(c.nodes) > 1 {
		assert.Greater(c.t, len(c.granted), 10, "else the run shows nothing")
	}
	require.NoError(c.t, c.group.Close(background))
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.log.collect()
	c.group.trimLocked()
	assert.Zero(c.t, c.group.log.live, "every round was given back (R20)")
}

// merged counts the merged commands that nodes executed.
func (c *chaos) merged() (count int) {
	for _, n := range c.nodes {
		for _, line := range releases(n) {
			if strings.Contains(line, "merged") {
				count++
			}
		}
	}
	return count
}

// deeds records which nodes did what.
type deeds map[grant]map[int]bool

func (d deeds) note(g grant, node int) {
	if d[g] == nil {
		d[g] = make(map[int]bool)
	}
	d[g][node] = true
}

// mergedGrants returns the releases in a merged command that a node granted.
func mergedGrants(e redistest.Executed) []grant {
	n, _ := strconv.Atoi(e.Args[2])
	results, whole := strings.CutPrefix(e.Reply, fmt.Sprintf("*%d\r\n", n))
	if !whole {
		return nil // an error
	}
	var grants []grant
	for i, result := range strings.Split(strings.TrimSuffix(results, "\r\n"), "\r\n") {
		if result == ":1" {
			grants = append(grants, grant{"release", e.Args[3+i], e.Args[3+n+i]})
		}
	}
	return grants
}

// verifyGrants compares the callers' results with what the nodes did.
func (c *chaos) verifyGrants() {
	did := make(deeds)
	for i, n := range c.nodes {
		for _, e := range n.Log() {
			var g grant
			switch {
			case e.Args[0] == "SET" && e.Reply == "+OK\r\n":
				g = grant{"SET", e.Args[1], e.Args[2]}
			case e.Args[0] == "EVALSHA" && e.Args[1] == redistest.SHA1(releaseManySource):
				for _, g := range mergedGrants(e) {
					did.note(g, i)
				}
				continue
			case e.Args[0] == "EVALSHA" && e.Reply == ":1\r\n" && e.Args[1] == redistest.SHA1(extendSource):
				g = grant{"extend", e.Args[3], e.Args[4]}
			case e.Args[0] == "EVALSHA" && e.Reply == ":1\r\n":
				g = grant{"release", e.Args[3], e.Args[4]}
			default:
				continue
			}
			did.note(g, i)
		}
		for _, e := range n.Log() {
			assert.False(c.t, strings.HasPrefix(e.Reply, "-ERR Protocol"), "half a command")
		}
	}
	for _, g := range c.granted {
		assert.GreaterOrEqual(c.t, len(did[g]), Quorum(len(c.nodes)), "%v was granted by nodes %v", g, did[g])
	}
}
