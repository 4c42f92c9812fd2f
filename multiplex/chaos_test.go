package multiplex

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzGroup lets a script of bytes act as the callers, the nodes and the
// network. It claims, extends, releases, posts and gives up; makes nodes answer
// with errors, nulls, wrong types, garbage, halves, pushes and surplus replies,
// or not at all; cuts, resets, delays, stops and restarts; and lets time pass.
// For every script:
//
//   - each call returns, once, in time, with a legal outcome; each posted
//     command comes back once;
//   - reply k belongs to command k (R16): each PING has a text of its own, and
//     is never answered by another text;
//   - nothing counts on a connection after an anomaly on it (R16): its later
//     replies are marked, and none is delivered;
//   - for what was granted, a quorum of nodes granted this very command, as
//     their own logs say (R17);
//   - no node executes a release before the SET that it undoes (R8), over one
//     connection or several;
//   - once all is well, every node is up, owes nothing, and has no key without
//     a holder (R7, R8, R26);
//   - after Close nothing is left: no round (R20), no goroutine (R28).
func FuzzGroup(f *testing.F) {
	for i, script := range groupScripts {
		for nodes := range 3 {
			f.Add(uint8(nodes+i%2*12), []byte(script)) // 6 is the same with merged releases
		}
	}
	f.Fuzz(func(t *testing.T, shape uint8, script []byte) {
		if len(script) <= 160 {
			playPlot(t, shape, script)
		}
	})
}

// TestChaos plays long scripts that are drawn at random. REDMUX_SEED repeats
// one.
func TestChaos(t *testing.T) {
	first := rand.Uint64N(1 << 32)
	if s := os.Getenv("REDMUX_SEED"); s != "" {
		var err error
		first, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	const letters = "cccccccrrrrrrrttxxxooppqsssssssssMlLdRHCUkPOOQDfSFFEEyB"
	for seed := first; seed < first+20; seed++ {
		random := seeded(t, seed)
		var script []byte
		for range 200 {
			letter, arg := letters[random.IntN(len(letters))], byte(random.IntN(256))
			if strings.ContainsRune("lLM", rune(letter)) {
				arg = "emNnwW*gPASh"[random.IntN(12)]
			}
			script = append(script, letter, arg)
		}
		playPlot(t, uint8(seed), script)
	}
}

func playPlot(t *testing.T, shape uint8, script []byte) {
	synctest.Test(t, func(t *testing.T) {
		handshakesEnd := eachNode(func(n *conn.Config) { n.DialTimeout = 500 * ms }) // also half-open ones
		c := newCluster(t, 1+int(shape)%3, merging(shape&4 != 0), handshakesEnd)
		c.waitUp(len(c.nodes))
		newPlot(c).play(script)
	})
}

// groupScripts are sequences of letters, each a step with its argument; see
// plot.step.
var groupScripts = []string{
	"c0p1s\x10r0s\x10p2", "c0c1c2c3c0s\x08x0r0r1r2r3t0", "c0q0s\x01c0q0c0",
	"lec0s\x08c0s\x20", "lnc0s\x08c0s\x20", "lwc0p0c1p1s\x20", "lgc0p0c1p1s\x20", "lPc0p0c1s\x20", "lAp0p1p2s\x20",
	"lSc0p0p1s\x40c1", "lhc0c1p0s\xffp0s\xff", "lZp0p1c0s\xffs\xff", "lNc0s\x08lNr0p0s\x20", "lWc0s\x20p0",
	"LSp0s\x20p0s\x20", "LAc0s\x20c1s\x20", "LAp0s\x20p0", "LSp0s\x20c0s\x20r0s\x20", "LAc0s\x20", "LSp0s\x20p0s\x20",
	"D\xffc0s\x08d\xffs\xffs\xff", "D\xffc0s\x08q0R\xffs\xffs\xff", "c0s\x20D\xffr0c1d\xffs\xffs\xff",
	"LwLwLwc0s\x20c1s\xff", "c0s\x08lmr0s\x20p0s\xff", "c0s\x08lwr0s\x20p0", "c0s\x08lSx0r0s\x20",
	"c0C\x03s\x10c0s\x20", "c0U\x03s\x10c0s\x20", "U\x20c0c1s\x20", "c0d0s\x20c0", "c0R0p1s\x10c1",
	"k1c0p0c1p1s\x10", "P0c0s\xffs\xffO0s\xff", "P0c0q0Q2s\xffd0O0s\xff", "D0c0d0s\xffs\xff", "f0c0s\x08x0r0",
	"F0d0c0s\xffF0s\xff", "S0c0s\xff", "c0s\x08o0o0o0s\x20r0", "c0s\x08o0d0s\x20", "c0s\x08o0lws\x20",
	"c0c1c2c3s\x08r0r1r2r3s\x08", "c0c1c2c3s\x08r0r1d0r2r3s\x20", "c0c1s\x08lwr0r1s\x20", "H0c0s\xffp0", "P0P1P2c0c1p0s\xffO0O1O2",
	"c0s\x08P0D0r0s\x01d0Q2O0s\xffs\xff", "P1c0s\xffc0s\xffc0s\xffO1Q2s\x40c0",
}

// A plot is one run: the callers, and what they were told.
type plot struct {
	*cluster
	calls sync.WaitGroup
	inbox *Outcomes

	claims  []claimed // in the order of the calls
	cancels []context.CancelFunc
	asks    int
	posted  int
	came    map[int]int // posted commands that came back
	refused []bool      // links that refuse connections
	sick    []bool      // nodes that refuse to write

	mu       sync.Mutex // guards the following
	asked    int
	returned int
	granted  []grant

	lies    [][]byte         // by node, for its next commands
	anomaly map[channel]bool // replies after this on the connection must not count
	mute    map[channel]bool // the connection is silent from now on
}

// A channel is one connection of one run of a node: client ids start again
// after a restart.
type channel struct {
	node, id int
	runID    string
}

type claimed struct {
	key, token string
	receipt    Receipt
	granted    bool
	given      bool // a release was requested
}

// plotTTL outlasts the run, so that no orphan expires.
const plotTTL = time.Hour

// callMost is how long a caller waits.
const callMost = 200 * ms

func newPlot(c *cluster) *plot {
	p := &plot{
		cluster: c, inbox: NewOutcomes(), came: make(map[int]int),
		refused: make([]bool, len(c.nodes)), sick: make([]bool, len(c.nodes)), lies: make([][]byte, len(c.nodes)),
		anomaly: make(map[channel]bool), mute: make(map[channel]bool),
	}
	for i, n := range c.nodes {
		n.Handle(func(id int, args []string) ([]byte, bool) { return p.answer(i, id, args) })
	}
	return p
}

func (p *plot) play(script []byte) {
	for len(script) > 1 {
		p.step(script[0], int(script[1]))
		script = script[2:]
	}
	for _, cancel := range p.cancels {
		defer cancel()
	}
	p.calls.Wait()
	p.end()
	p.judge()
}

// step executes one letter of the script, for the node or the claim of the
// argument.
func (p *plot) step(op byte, arg int) {
	i := arg % len(p.nodes)
	n, link := p.nodes[i], p.links[i]
	switch op {
	case 'c':
		p.claimOne(arg % 4)
	case 'r', 't', 'x', 'o':
		p.use(op, arg)
	case 'p':
		p.ping()
	case 'q':
		if len(p.cancels) > 0 {
			p.cancels[arg%len(p.cancels)]()
		}
	case 's':
		time.Sleep(time.Duration(arg) * ms / 4)
	case 'l': // the first node lies
		p.lie(0, byte(arg))
	case 'L': // all nodes lie
		for i := range p.nodes {
			p.lie(i, byte(arg))
		}
	case 'M': // the last node lies
		p.lie(len(p.nodes)-1, byte(arg))
	case 'd':
		n.DropConns()
	case 'R':
		link.Reset()
	case 'H':
		link.HalfOpen()
	case 'C':
		link.CutOnce(redistest.Down, int64(arg))
	case 'U':
		link.CutOnce(redistest.Up, int64(arg))
	case 'k':
		link.Chunk(redistest.Both, arg%4)
	case 'P':
		n.Pause()
	case 'O':
		n.Resume()
	case 'Q':
		n.SetOrder(redistest.Order(arg % 3))
	case 'D':
		n.Delay("SET", time.Duration(arg)*ms)
	case 'f':
		n.FlushScripts()
	case 'S':
		n.Restart()
	case 'F':
		p.refused[i] = !p.refused[i]
		link.Refuse(p.refused[i])
	case 'E':
		p.sick[i] = !p.sick[i]
		n.Refuse(map[bool]string{true: noReplicas}[p.sick[i]])
	case 'y':
		link.Latency(time.Duration(arg%20)*ms, time.Duration(arg/20)*ms)
	case 'B':
		link.Pause(redistest.Both)
		time.AfterFunc(max(pure.Soon, time.Duration(arg)*ms), func() { link.Resume(redistest.Both) })
	}
}

// context returns a caller's context, which the script may cancel.
func (p *plot) context() context.Context {
	ctx, cancel := context.WithTimeout(background, callMost)
	p.cancels = append(p.cancels, cancel)
	return ctx
}

// call runs ask as a caller of its own, and records its result.
func (p *plot) call(command, key, token string, ask func(ctx context.Context) error) {
	ctx := p.context()
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	p.calls.Go(func() {
		start := time.Now()
		err := ask(ctx)
		spent := time.Since(start)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.returned++
		assert.True(p.t, isOutcome(err), "%v", err)
		assert.LessOrEqual(p.t, spent, callMost+20*ms, "%s", command)
		if err == nil && command != "" {
			p.granted = append(p.granted, grant{command, key, token})
		}
	})
}

func (p *plot) claimOne(key int) {
	i := len(p.claims)
	name, token := fmt.Sprint("k", key), fmt.Sprint("t", i)
	p.mu.Lock()
	p.claims = append(p.claims, claimed{key: name, token: token})
	p.mu.Unlock()
	p.call("SET", name, token, func(ctx context.Context) error {
		receipt, err := p.claim(ctx, name, token, plotTTL)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.claims[i].receipt, p.claims[i].granted = receipt, err == nil
		return err
	})
	synctest.Wait()
}

// use does something with a granted claim.
func (p *plot) use(op byte, arg int) {
	p.mu.Lock()
	var granted []int
	for i := range p.claims {
		if p.claims[i].granted && !p.claims[i].given {
			granted = append(granted, i)
		}
	}
	if len(granted) == 0 {
		p.mu.Unlock()
		return
	}
	c := &p.claims[granted[arg%len(granted)]]
	c.given = op == 'r' || op == 't'
	own := *c
	p.mu.Unlock()
	switch op {
	case 'r':
		p.call("release", own.key, own.token, func(ctx context.Context) error {
			return p.release(ctx, own.key, own.token, plotTTL, own.receipt)
		})
	case 't':
		p.group.Tell(releaseKind, &Command{Encoded: raw(releaseCommand(own.key, own.token)), TTL: plotTTL, Receipt: own.receipt})
	case 'x':
		p.call("extend", own.key, own.token, func(ctx context.Context) error {
			return p.extend(ctx, own.key, own.token, plotTTL)
		})
	case 'o':
		cmd := &Command{Encoded: raw(extendCommand(own.key, own.token, plotTTL)), TTL: plotTTL}
		if _, err := p.group.PostExtension(extendKind, cmd, Posting{Inbox: p.inbox, Tag: p.posted}); err == nil {
			p.posted++
			p.group.Flush()
		}
	}
}

// ping sends a command with a known reply.
func (p *plot) ping() {
	p.asks++
	id := fmt.Sprintf("%d-%s", p.asks, bytes.Repeat([]byte("x"), p.asks*37%300))
	kind := &ClaimKind{Kind: Kind{Judge: func(v resp.Value) Vote { return p.judgePing(id, v) }}}
	p.call("", "", "", func(ctx context.Context) error {
		_, err := p.group.Claim(ctx, kind, &Claim{Bytes: resp.AppendCommand(nil, "PING", id), TTL: long})
		return err
	})
}

// judgePing accepts the text that was sent, and null, except of an array, as
// claims do. It tells lies from texts that other callers sent.
func (p *plot) judgePing(id string, v resp.Value) Vote {
	switch {
	case v.IsNull() && v.Type() != resp.Array:
		return Refused
	case v.Type() != resp.BulkString:
		return Alien
	case string(v.Bytes()) == id:
		return Granted
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Fail(p.t, "a reply to another command, or after an anomaly", "%q for %q", v.Bytes(), id)
	return Alien
}

// lie makes a node lie to the next lock command or PING of ours.
func (p *plot) lie(node int, kind byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lies[node] = append(p.lies[node], kind)
}

// answer returns the node's lie, if it lies.
func (p *plot) answer(node, id int, args []string) (reply []byte, handled bool) {
	runID := p.nodes[node].RunID()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := channel{node, id, runID}
	ours := args[0] == "SET" || args[0] == "EVALSHA" || args[0] == "PING" && len(args) > 1
	switch {
	case p.mute[at]:
		return nil, true
	case p.anomaly[at] && args[0] == "PING":
		return resp.AppendBulkString(nil, "after an anomaly"), true
	case !ours || len(p.lies[node]) == 0:
		return nil, false
	}
	kind := p.lies[node][0]
	p.lies[node] = p.lies[node][1:]
	reply, deadly := lieOf(kind)
	if reply == nil && kind != 'Z' {
		return nil, false
	}
	p.anomaly[at] = deadly
	p.mute[at] = kind == 'Z' || kind == 'h' // otherwise wrong replies would answer the rest
	return reply, true
}

// lieOf returns a lie, and whether it must end the connection for any command.
// Null is a valid reply to a SET and a PING, but not to a script.
func lieOf(kind byte) (reply []byte, deadly bool) {
	switch kind {
	case 'e':
		return []byte("-ERR no\r\n"), false
	case 'm':
		return []byte("-MISCONF no\r\n"), false
	case 'N':
		return []byte("-NOSCRIPT no\r\n"), false
	case 'n':
		return []byte("_\r\n"), false
	case 'w':
		return []byte(",5\r\n"), true // an integer would end a debt, whatever it says (R8)
	case 'W':
		return []byte("+QUEUED\r\n"), true
	case '*':
		return []byte("*-1\r\n"), true
	case 'g':
		return []byte("OK\r\n"), true
	case 'P':
		return []byte(">2\r\n+message\r\n+x\r\n"), true
	case 'A':
		return []byte("|1\r\n+a\r\n+b\r\n+OK\r\n"), true
	case 'S':
		return []byte("-ERR no\r\n,5\r\n"), true
	case 'h':
		return []byte("$5\r\nhal"), false
	}
	return nil, false // 'Z': silence from now on
}

// end ends all faults, and waits as long as the rules allow (R26). A script can
// use up the dials of a minute, and an idle connection whose peer vanished is
// found by a probe.
func (p *plot) end() {
	time.Sleep(700 * ms) // what was begun ends by itself
	p.mu.Lock()
	clear(p.lies)
	p.mu.Unlock()
	for i, n := range p.nodes {
		n.Resume()
		n.Refuse("")
		n.Delay("SET", 0)
		n.SetOrder(redistest.ByArrival)
		p.links[i].Refuse(false)
		p.links[i].Resume(redistest.Both)
		p.links[i].Latency(oneWay, oneWay)
		p.links[i].Cut(redistest.Both, -1)
		p.links[i].Chunk(redistest.Both, 0)
	}
	time.Sleep(2 * time.Second)
	p.eventually(90*time.Second, func() bool {
		alone := slices.ContainsFunc(p.nodes, func(n *redistest.Node) bool { return n.Conns() == 0 })
		return !alone && p.up() == len(p.nodes) && p.debts() == 0
	}, "all nodes up, and nothing owed")
}

func (p *plot) judge() {
	assert.Equal(p.t, p.asked, p.returned, "each call returned once")
	p.verifyPosted()
	kept := make(map[string]bool)
	for _, c := range p.claims {
		kept[c.token] = c.granted && !c.given
	}
	for i, n := range p.nodes {
		for _, key := range n.Keys() {
			token, _ := n.Get(key)
			assert.True(p.t, kept[token], "node %d: no caller holds %s, which has %s", i, key, token)
		}
		p.verifyOrder(i)
	}
	p.verifyGrants()
	assert.NoError(p.t, p.group.flusher.balanced())
	require.NoError(p.t, p.group.Close(background))
	p.conserved()
}

// verifyPosted checks the outcomes of posted commands.
func (p *plot) verifyPosted() {
	for came := p.inbox.Take(make([]Outcome, 0, 64)); len(came) > 0; came = p.inbox.Take(came[:0]) {
		for _, o := range came {
			tag, _ := o.Tag.(int)
			p.came[tag]++
			assert.True(p.t, isOutcome(o.Err), "%v", o.Err)
		}
	}
	for tag := range p.posted {
		assert.Equal(p.t, 1, p.came[tag], "what is posted comes back once")
	}
}

// verifyOrder requires that no SET was executed after its own release, over
// whichever connections they came (R8).
func (p *plot) verifyOrder(node int) {
	released := make(map[string]bool)
	for _, e := range p.nodes[node].Log() {
		switch {
		case e.Args[0] == "SET":
			assert.False(p.t, released[e.Args[2]], "node %d: SET of %s came after its release", node, e.Args[2])
		case e.Args[0] == "EVALSHA" && e.Args[1] == redistest.SHA1(releaseSource):
			released[e.Args[4]] = true
		case e.Args[0] == "EVALSHA" && e.Args[1] == redistest.SHA1(releaseManySource):
			many := e.Args[3:] // keys, then tokens
			for _, token := range many[len(many)/2:] {
				released[token] = true
			}
		}
	}
}

// A grant is a command that was reported as granted.
type grant struct{ command, key, token string }

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
func (c *plot) verifyGrants() {
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
