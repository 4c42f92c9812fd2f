package multiplex

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// patience is a bound that only a wait in vain exceeds.
const patience = 30 * time.Second

// The tests take the part of package redlock: a claim is a SET, a release and
// an extension are its scripts.
var (
	releaseSource = lua.Release
	extendSource  = lua.Extend
)

var (
	releaseKind = &ReleaseKind{Kind: scripted}
	extendKind  = &ExtendKind{Kind: scripted}
	scripted    = Kind{Judge: judgeInteger, Script: true}
	claimKind   = &ClaimKind{Kind: Kind{Judge: judgeOK}, Undo: releaseKind}
)

func judgeOK(v resp.Value) Vote {
	switch {
	case v.IsOK():
		return Granted
	case v.IsNull() && v.Type() != resp.Array:
		return Refused
	}
	return Alien
}

func judgeInteger(v resp.Value) Vote {
	switch n, ok := v.Int64(); {
	case ok && n == 1:
		return Granted
	case ok && n == 0:
		return Refused
	}
	return Alien
}

func setCommand(key, token string, ttl time.Duration) []byte {
	return resp.AppendCommand(nil, "SET", key, token, "NX", "PX", strconv.FormatInt(ttl.Milliseconds(), 10))
}

func releaseCommand(key, token string) []byte {
	return resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(releaseSource), "1", key, token)
}

func extendCommand(key, token string, ttl time.Duration) []byte {
	return resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(extendSource), "1", key, token,
		strconv.FormatInt(ttl.Milliseconds(), 10))
}

func scripts() [][]byte {
	return [][]byte{
		resp.AppendCommand(nil, "SCRIPT", "LOAD", releaseSource),
		resp.AppendCommand(nil, "SCRIPT", "LOAD", extendSource),
	}
}

const (
	// oneWay is the latency of each direction, so a round trip takes exactly
	// trip of simulated time.
	oneWay = time.Millisecond
	trip   = 2 * oneWay
	// long is a TTL with the longest default vote timeout, 50 ms (R6), and a
	// shed age of 200 ms (R26).
	long        = 10 * time.Second
	longTimeout = 50 * time.Millisecond
	longShed    = 4 * longTimeout
)

// A cluster is a group and its nodes in memory, on simulated time.
type cluster struct {
	t       testing.TB
	network *redistest.Network
	nodes   []*redistest.Node
	links   []*redistest.Link
	config  Config
	group   *Group
	merges  bool // releases are of the kind that is merged; see merging
	natives bool // they also have native forms; see native
}

// newCluster makes nodes and starts a group on them, without waiting: see
// ready.
func newCluster(t testing.TB, n int, tweaks ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{t: t, network: redistest.NewNetwork()}
	drawn := redistest.Arrange(t)
	drawn.Prefix = "" // that is for package redlock
	c.nodes = redistest.Nodes(t, c.network, n, redistest.NodeConfig{Arrangement: drawn, Strays: func(text string) { t.Error(text) }})
	prelude := make([]conn.Step, 0, 2)
	for _, s := range scripts() {
		prelude = append(prelude, conn.Step{Command: s})
	}
	c.config.Cure = scripts()
	for _, node := range c.nodes {
		link := c.network.At(node.Addr())
		link.Latency(oneWay, oneWay)
		c.links = append(c.links, link)
		c.config.Nodes = append(c.config.Nodes, conn.Config{
			Endpoint: conn.Endpoint{Addr: node.Addr(), DB: drawn.DB},
			NetDial:  c.network.Dial,
			Prelude:  prelude,
		})
	}
	for _, tweak := range tweaks {
		tweak(c)
	}
	g, err := New(c.config)
	require.NoError(t, err)
	c.group = g
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return c
}

// inBubble runs a test on a cluster whose nodes are all up, in simulated time.
// A leaked goroutine fails it.
func inBubble(t *testing.T, n int, test func(t *testing.T, c *cluster), tweaks ...func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n, tweaks...)
		c.waitUp(n)
		test(t, c)
	})
}

// subBubble is inBubble as a subtest.
func subBubble(t *testing.T, name string, n int, test func(t *testing.T, c *cluster), tweaks ...func(*cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, n, test, tweaks...) })
}

func withConfig(change func(*Config)) func(*cluster) { return func(c *cluster) { change(&c.config) } }

// eachNode changes the configuration of every node.
func eachNode(change func(*conn.Config)) func(*cluster) {
	return func(c *cluster) {
		for i := range c.config.Nodes {
			change(&c.config.Nodes[i])
		}
	}
}

// replace puts another node in the place of one, before the group starts.
func (c *cluster) replace(i int, config redistest.NodeConfig) *redistest.Node {
	other, addr := redistest.NewNode(config), fmt.Sprintf("other%d:6379", i)
	c.t.Cleanup(func() { _ = other.Close() })
	other.Serve(c.network.Listen(addr))
	c.network.At(addr).Latency(oneWay, oneWay)
	c.nodes = slices.Clone(c.nodes) // the one that was there is closed, too
	c.config.Nodes[i].Addr, c.links[i], c.nodes[i] = addr, c.network.At(addr), other
	return other
}

// waitUp waits until n nodes are up.
func (c *cluster) waitUp(n int) {
	c.t.Helper()
	c.eventually(10*time.Second, func() bool { return c.up() == n }, "nodes up")
}

func (c *cluster) up() int {
	n := 0
	for _, s := range c.group.Nodes() {
		if s.State == Up {
			n++
		}
	}
	return n
}

// status returns what is known of node i once every goroutine has done what it
// could: a vote reaches its caller before its node's counters.
func (c *cluster) status(i int) Status {
	synctest.Wait()
	return c.group.Nodes()[i]
}

// balanced reports whether each caller that entered was answered once and left.
func (f *flusher) balanced() error {
	entered, answered, left := f.entered.Load(), f.answered.Load(), f.left.Load()
	if entered != answered || entered != left {
		return fmt.Errorf("%d callers entered, %d were answered, %d left", entered, answered, left)
	}
	return nil
}

// debts returns how many releases are owed. Each has its place in its ledger:
// with an outdated end it would be dropped with its key there, and without a
// place it would never be paid (R8).
func (c *cluster) debts() (count int) {
	c.t.Helper()
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	for _, n := range c.group.nodes {
		count += len(n.ledger.Debts)
		require.Nil(c.t, n.ledger.Misplaced())
	}
	return count
}

// keys returns the living keys of all nodes, sorted.
func (c *cluster) keys() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.Keys()...)
	}
	slices.Sort(all)
	return all
}

// eventually waits for a condition in simulated time, and returns how long it
// took, in steps of half a millisecond.
func (c *cluster) eventually(within time.Duration, holds func() bool, what string) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > within {
			c.t.Fatalf("not within %v: %s; %+v", within, what, c.group.Nodes())
		}
		time.Sleep(500 * time.Microsecond)
	}
	return time.Since(start)
}

func (c *cluster) claim(ctx context.Context, key, token string, ttl time.Duration) (Receipt, error) {
	kind := claimKind
	if c.natives {
		kind = nativeClaimKind
	}
	return c.group.Claim(ctx, kind, &Claim{
		Bytes: setCommand(key, token, ttl), TTL: ttl, Undo: undoing(encodedRelease(key, token)),
	})
}

func (c *cluster) release(ctx context.Context, key, token string, ttl time.Duration, receipt Receipt) error {
	kind := releaseKind
	if c.merges {
		kind = mergingKind
	}
	if c.natives {
		kind = nativeKind
	}
	return c.group.Release(ctx, kind, &Command{Encoded: encodedRelease(key, token), TTL: ttl, Receipt: receipt})
}

func (c *cluster) extend(ctx context.Context, key, token string, ttl time.Duration) error {
	_, err := c.group.Extend(ctx, extendKind, &Command{Encoded: raw(extendCommand(key, token, ttl)), TTL: ttl})
	return err
}

// mustClaim claims a key with the token "t" for the long TTL.
func (c *cluster) mustClaim(key string) Receipt {
	c.t.Helper()
	receipt, err := c.claim(context.Background(), key, "t", long)
	require.NoError(c.t, err)
	return receipt
}

// owing claims a key, and releases it while the first node refuses that: the
// node owes the release.
func (c *cluster) owing(key string) {
	c.t.Helper()
	receipt := c.mustClaim(key)
	time.Sleep(trip)
	c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
	require.NoError(c.t, c.release(background, key, "t", long, receipt))
}

func pause(nodes []*redistest.Node) {
	for _, n := range nodes {
		n.Pause()
	}
}

func resume(nodes []*redistest.Node) {
	for _, n := range nodes {
		n.Resume()
	}
}

func latency(links []*redistest.Link, up, down time.Duration) {
	for _, link := range links {
		link.Latency(up, down)
	}
}

// brief is a context that lasts this long.
func brief(t testing.TB, lasts time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, lasts)
	t.Cleanup(cancel)
	return ctx
}

// background is a context for calls without cancellation.
var background = context.Background()

// took measures simulated time.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// story lists the lock commands that a node executed, and those that fence and
// cure them, each with the client's id: "2 SET k a", "3 KILL 2", "3 release k
// a", "3 merged k1 k2".
func story(n *redistest.Node) []string {
	var lines []string
	for _, e := range n.Log() {
		switch e.Args[0] {
		case "SET":
			lines = append(lines, fmt.Sprintf("%d SET %s %s", e.Conn, e.Args[1], e.Args[2]))
		case "EVALSHA":
			name := "release"
			switch e.Args[1] {
			case redistest.SHA1(extendSource):
				name = "extend"
			case redistest.SHA1(releaseManySource):
				n, _ := strconv.Atoi(e.Args[2])
				lines = append(lines, fmt.Sprintf("%d merged %s", e.Conn, strings.Join(e.Args[3:3+n], " ")))
				continue
			}
			lines = append(lines, fmt.Sprintf("%d %s %s %s", e.Conn, name, e.Args[3], e.Args[4]))
		case "DELEX", "DELIFEQ":
			lines = append(lines, fmt.Sprintf("%d %s %s %s", e.Conn, e.Args[0], e.Args[1], e.Args[len(e.Args)-1]))
		case "CLIENT":
			if e.Args[1] == "KILL" {
				lines = append(lines, fmt.Sprintf("%d KILL %s", e.Conn, e.Args[3]))
			}
		}
	}
	return lines
}

// undecided returns the nodes that an error names, in order.
func undecided(t testing.TB, err error) []int {
	t.Helper()
	var u *UndecidedError
	require.ErrorAs(t, err, &u)
	require.ErrorIs(t, err, ErrUndecided)
	var nodes []int
	for _, e := range u.Nodes {
		nodes = append(nodes, e.Node)
	}
	return nodes
}

// seeded returns random numbers and prints the seed, so that a failure can be
// repeated.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// isOutcome reports whether Ask may return an error.
func isOutcome(err error) bool {
	for _, known := range []error{
		nil, ErrRefused, ErrUndecided, ErrOverloaded, ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
