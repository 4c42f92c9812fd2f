//go:build linux && !redmux_portable

package multiplex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The poller needs real sockets, so these tests have no simulated clock. What
// they say about time is the best of several measurements, or patience.

// A wireNode is a node on a real socket that grants every request until it is
// told otherwise.
type wireNode struct {
	listener net.Listener
	serving  sync.WaitGroup
	silent   atomic.Bool  // it reads, but does not answer
	window   atomic.Int64 // bounds the kernel's receive buffer; 0 leaves the default
	// change, if set, is called for each lock command, and may wait. It returns
	// the answer, and whether to hang up then.
	change atomic.Pointer[func(args []string, answer string) (string, bool)]

	mu    sync.Mutex // guards the following
	conns map[net.Conn]struct{}
}

func startWireNode(t testing.TB) *wireNode {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &wireNode{listener: l, conns: make(map[net.Conn]struct{})}
	n.serving.Go(n.accept)
	t.Cleanup(n.close)
	return n
}

func startWireNodes(t testing.TB, count int) []*wireNode {
	t.Helper()
	var nodes []*wireNode
	for range count {
		nodes = append(nodes, startWireNode(t))
	}
	return nodes
}

func (n *wireNode) accept() {
	for {
		c, err := n.listener.Accept()
		if err != nil {
			return
		}
		if window := n.window.Load(); window > 0 {
			_ = c.(*net.TCPConn).SetReadBuffer(int(window))
		}
		n.mu.Lock()
		n.conns[c] = struct{}{}
		n.mu.Unlock()
		n.serving.Go(func() {
			n.serve(c)
			n.mu.Lock()
			delete(n.conns, c)
			n.mu.Unlock()
			_ = c.Close()
		})
	}
}

func (n *wireNode) close() {
	_ = n.listener.Close()
	n.drop()
	n.serving.Wait()
}

// drop ends every connection by an RST.
func (n *wireNode) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// say writes unsolicited bytes to every connection.
func (n *wireNode) say(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_, _ = c.Write([]byte(text))
	}
}

// behave changes the answers to lock commands; nil ends the change.
func (n *wireNode) behave(change func(args []string, answer string) (string, bool)) {
	if change == nil {
		n.change.Store(nil)
		return
	}
	n.change.Store(&change)
}

func (n *wireNode) serve(c net.Conn) {
	in := resp.NewReader(resp.Limits{})
	for {
		v, ok, err := in.Next()
		if err != nil {
			return
		}
		if !ok {
			if _, err := in.Fill(c); err != nil {
				return
			}
			continue
		}
		var args []string
		for e := range v.Elements() {
			args = append(args, string(e.Bytes()))
		}
		answer, hangUp := n.answer(args)
		if _, err := c.Write([]byte(answer)); err != nil || hangUp {
			return
		}
	}
}

func (n *wireNode) answer(args []string) (answer string, hangUp bool) {
	switch args[0] {
	case "SET":
		answer = "+OK\r\n"
	case "EVALSHA":
		answer = ":1\r\n"
	case "PTTL":
		return ":100000\r\n", false
	case "PING":
		return "+PONG\r\n", false
	case "HELLO":
		return "%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n", false
	case "CLIENT":
		switch args[1] {
		case "KILL":
			return ":1\r\n", false
		case "TRACKING", "CACHING":
			return "+OK\r\n", false
		}
		return "-ERR unknown subcommand\r\n", false
	default:
		return "-ERR unknown command\r\n", false
	}
	if n.silent.Load() {
		return "", false
	}
	if change := n.change.Load(); change != nil {
		return (*change)(args, answer)
	}
	return answer, false
}

func confOf(n *wireNode) conn.Config {
	return conn.Config{Endpoint: conn.Endpoint{Addr: n.listener.Addr().String()}}
}

// onWire starts a group on these nodes and waits until all are up.
func onWire(t testing.TB, nodes []*wireNode, tweaks ...func(*Config)) *Group {
	t.Helper()
	var config Config
	for _, n := range nodes {
		config.Nodes = append(config.Nodes, confOf(n))
	}
	return startPolled(t, config, tweaks...)
}

// onServers starts a group on real servers and waits until all are up.
func onServers(t testing.TB, servers []*redistest.Server, tweaks ...func(*Config)) *Group {
	t.Helper()
	config := Config{Cure: scripts()}
	for _, s := range servers {
		e, err := conn.ParseURL(s.URL())
		require.NoError(t, err)
		node := conn.Config{Endpoint: e}
		if e.TLS != nil {
			node.TLS = s.TLSConfig()
		}
		for _, load := range config.Cure {
			node.Prelude = append(node.Prelude, conn.Step{Command: load})
		}
		config.Nodes = append(config.Nodes, node)
	}
	return startPolled(t, config, tweaks...)
}

func startPolled(t testing.TB, config Config, tweaks ...func(*Config)) *Group {
	t.Helper()
	for _, tweak := range tweaks {
		tweak(&config)
	}
	g, err := New(config)
	require.NoError(t, err)
	t.Cleanup(func() { closesInTime(t, g) })
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	require.NoError(t, g.WaitTried(ctx))
	require.NoError(t, g.waitUntil(ctx, func() bool { return g.live == All(g.size) }))
	return g
}

// patient keeps the group's timers from causing what a test waits for: each is
// longer than patience, so polling must have caused it. It precedes tweaks that
// set one of them otherwise.
func patient(c *Config) {
	c.VoteTimeout, c.ShedAfter, c.ProbeAfter = 2*patience, 2*patience, 2*patience
}

// closesInTime closes a group. A Close that hangs fails the test, which prints
// what all goroutines wait for.
func closesInTime(t testing.TB, g *Group) {
	t.Helper()
	within(t, "Close", func() { assert.NoError(t, g.Close(background)) })
}

// within waits for f, which must not hang, and prints all stacks if it does.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s: not within %v\n%s", what, patience, stacks[:runtime.Stack(stacks, true)])
	}
}

// soon waits for a condition and returns how long it took.
func soon(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(200 * time.Microsecond)
	}
	return time.Since(start)
}

// atBest needs a single measurement that holds: other programs share the
// machine, and only make it slower. It waits longer and longer between two
// measurements, some seconds in all, for the others to finish. None begins
// after twenty seconds.
func atBest(t testing.TB, measure func() error) {
	t.Helper()
	var err error
	start := time.Now()
	for try := 0; try == 0 || try < 12 && time.Since(start) < 20*time.Second; try++ {
		if err = measure(); err == nil {
			return
		}
		t.Logf("again: %v", err)
		time.Sleep(time.Millisecond << try)
	}
	t.Error(err)
}

func claimOn(ctx context.Context, g *Group, key, token string) (Receipt, error) {
	return g.Claim(ctx, claimKind, &Claim{
		Bytes: setCommand(key, token, long), TTL: long, Undo: undoing(raw(releaseCommand(key, token))),
	})
}

// pairOn claims and releases.
func pairOn(ctx context.Context, g *Group, key string) error {
	receipt, err := claimOn(ctx, g, key, "t")
	if err != nil {
		return err
	}
	return g.Release(ctx, releaseKind, &Command{Encoded: raw(releaseCommand(key, "t")), TTL: long, Receipt: receipt})
}

// read reports whether every available reply was counted.
func (g *Group) read() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.nodes {
		if n.inLog.attached && n.answered.Load() != g.log.head {
			return false
		}
	}
	return true
}

// settled reports what is wrong when no call is in progress.
func (g *Group) settled() error {
	p := g.poller
	switch role := p.role.Load(); {
	case p.waiting.Load() != 0:
		return fmt.Errorf("%d callers are counted as waiting", p.waiting.Load())
	case role != roleFree && role != roleServer:
		return fmt.Errorf("a caller has the role")
	case g.life.claims.Load() != 0:
		return errors.New("claims are counted as under way")
	}
	return g.flusher.balanced()
}

func requireSettled(t testing.TB, g *Group) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = g.settled(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func (g *Group) stateOf(i int) State { return g.Nodes()[i].State }
