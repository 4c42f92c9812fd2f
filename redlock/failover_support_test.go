package redlock

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A switchboard is a name that leads to one of several servers: connections
// that are made from now on. It stands for a proxy, or a name that is resolved
// anew.
type switchboard struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex // guards the following
	target string
	conns  map[net.Conn]bool
	closed bool
}

func newSwitchboard(t *testing.T, target string) *switchboard {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &switchboard{listener: l, target: target, conns: map[net.Conn]bool{}}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.relay(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.cut(true)
		s.wg.Wait()
	})
	return s
}

func (s *switchboard) addr() string { return s.listener.Addr().String() }

// relay joins a connection to the present target, if there is one.
func (s *switchboard) relay(client net.Conn) {
	defer client.Close()
	s.mu.Lock()
	target := s.target
	s.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	s.mu.Lock()
	stale := s.closed || target != s.target
	s.conns[client], s.conns[server] = true, true
	s.mu.Unlock()
	if !stale {
		done := make(chan bool)
		go func() {
			_, _ = io.Copy(server, client)
			server.Close()
			close(done)
		}()
		_, _ = io.Copy(client, server)
		client.Close()
		<-done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, client)
	delete(s.conns, server)
}

// lead makes new connections lead elsewhere, and ends the old ones.
func (s *switchboard) lead(target string) {
	s.mu.Lock()
	s.target = target
	s.mu.Unlock()
	s.cut(false)
}

func (s *switchboard) cut(forGood bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || forGood
	for c := range s.conns {
		c.Close()
	}
}

// A truth is what an observer outside of the clients knows: who held what, and
// when, by one clock.
type truth struct {
	mu     sync.Mutex // guards the following
	spells []spell
	begun  time.Time
}

// A spell is a time for which a caller had a lock.
type spell struct {
	resource, caller string
	from, to         time.Duration
	how              string
}

// had notes a lock that was granted at from, and was not used after to.
func (w *truth) had(resource, caller, how string, from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to.After(from) {
		w.spells = append(w.spells, spell{resource, caller, from.Sub(w.begun), to.Sub(w.begun), how})
	}
}

// overlaps lists pairs of holders of one resource at one time.
func (w *truth) overlaps() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.spells, func(a, b spell) int { return int(a.from - b.from) })
	last := map[string]spell{}
	for _, s := range w.spells {
		if l, ok := last[s.resource]; ok && s.from < l.to {
			all = append(all, fmt.Sprintf("%+v beside %+v", s, l))
		}
		if l := last[s.resource]; s.to > l.to {
			last[s.resource] = s
		}
	}
	return all
}

const (
	overMaxTTL = 600 * time.Millisecond
	overBound  = 500 * time.Millisecond
	overKeys   = 6
)

// A pair is a primary and its replica, one of which is promoted now and then.
type pair struct {
	primary, replica *redistest.Server
}

// A trial is many callers of several clients that use few locks, while a node
// fails over again and again. Each client reaches the nodes by ways of its own,
// so that some stay with the former primary for as long as it may write.
type trial struct {
	t       *testing.T
	truth   truth
	pair    pair
	ways    []*switchboard   // of the clients to the node that fails over
	lone    [][]*switchboard // of the clients to the lone masters
	clients []*Client
	grants  []int // by failover, guarded by truth.mu

	late    bool           // a former primary granted for longer than the bound
	isolate func()         // leaves the clients only the node that fails over in common
	fails   func()         // promotes the replica
	visit   func() *Client // starts another client, or is nil
}

// newTrial starts a node that fails over, and n-1 lone masters. Every client
// reaches the first, and only as many of the others as it needs for a quorum.
func newTrial(t *testing.T, n, clients int) *trial {
	servers := redistest.Servers(t, 2, redistest.OverTCP, redistest.OfOneKind, redistest.Args("--repl-diskless-sync-delay", "0"))
	lone := redistest.Servers(t, n-1, redistest.OverTCP)
	w := &trial{t: t, pair: pair{servers[0], servers[1]}}
	w.truth.begun, w.isolate, w.fails = time.Now(), w.isolateClients, w.failOver
	w.follow(servers[1], servers[0])
	for range clients {
		w.ways = append(w.ways, newSwitchboard(t, servers[0].TCPAddr()))
	}
	for i := range clients {
		config := Config{Prefix: "over:", MaxTTL: overMaxTTL, Logger: slog.New(slog.DiscardHandler), Nodes: []Node{
			{URL: fmt.Sprintf("redis://failover.test:1?failover=%v", overBound)},
		}}
		var ways []*switchboard
		for j, s := range lone {
			ways = append(ways, newSwitchboard(t, s.TCPAddr()))
			config.Nodes = append(config.Nodes, Node{URL: fmt.Sprintf("redis://lone%d.test:1", j)})
		}
		config.Connect.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			for j, way := range ways {
				if addr == fmt.Sprintf("lone%d.test:1", j) {
					return d.DialContext(ctx, "tcp", way.addr())
				}
			}
			return d.DialContext(ctx, "tcp", w.ways[i].addr())
		}
		c, err := New(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		w.clients = append(w.clients, c)
		w.lone = append(w.lone, ways)
	}
	return w
}

// follow makes a server a replica that has taken its master's data.
func (w *trial) follow(replica, master *redistest.Server) {
	host, port, _ := net.SplitHostPort(master.TCPAddr())
	_, err := replica.Do("REPLICAOF", host, port)
	require.NoError(w.t, err)
	require.Eventually(w.t, func() bool {
		info, err := replica.Do("INFO", "replication")
		return err == nil && strings.Contains(fmt.Sprint(info), "master_link_status:up")
	}, 30*time.Second, 20*time.Millisecond)
}

// isolateClients leaves the clients only the node that fails over in common.
func (w *trial) isolateClients() {
	for i, ways := range w.lone {
		for j, way := range ways {
			if i%len(ways) != j {
				way.lead("")
			}
		}
	}
}

// failOver promotes the replica. The former primary goes on accepting writes
// for most of the bound, and has clients all the time.
func (w *trial) failOver() {
	old, next := w.pair.primary, w.pair.replica
	begun := time.Now()
	_, err := next.Do("REPLICAOF", "NO", "ONE")
	require.NoError(w.t, err)
	for i, way := range w.ways {
		if i%2 == 0 {
			way.lead(next.TCPAddr())
		}
	}
	time.Sleep(overBound*8/10 - time.Since(begun))
	host, port, _ := net.SplitHostPort(next.TCPAddr())
	_, err = old.Do("REPLICAOF", host, port) // from now on it grants nothing
	require.NoError(w.t, err)
	w.late = w.late || time.Since(begun) >= overBound
	for i, way := range w.ways {
		if i%2 == 1 {
			way.lead(next.TCPAddr())
		}
	}
	w.follow(old, next)
	w.pair = pair{next, old}
}

// call is the life of one caller.
func (w *trial) call(ctx context.Context, c *Client, name string) {
	for ctx.Err() == nil {
		resource := fmt.Sprintf("hot:%d", rand.IntN(overKeys))
		ttl := overMaxTTL - time.Duration(rand.IntN(300))*time.Millisecond
		if rand.IntN(3) == 0 {
			w.hold(c, name, resource, ttl)
		} else {
			w.lock(c, name, resource, ttl)
		}
	}
}

// lock takes a lock, extends it or not, and gives it back or lets it expire.
func (w *trial) lock(c *Client, name, resource string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lock, err := c.Acquire(ctx, resource, ttl)
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	from := time.Now()
	w.granted()
	until := lock.Until()
	how := "locks"
	time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	for range max(0, rand.IntN(8)-3) {
		time.Sleep(lock.Validity() / 3)
		longer, err := lock.Extend(context.Background(), ttl)
		if err != nil {
			break
		}
		lock, until, how = longer, longer.Until(), "extends"
	}
	if rand.IntN(4) > 0 {
		if now := time.Now(); now.Before(until) {
			until = now
		}
		w.truth.had(resource, name, how, from, until)
		_ = lock.Release(context.Background())
		return
	}
	w.truth.had(resource, name, how, from, until) // as if the caller had died
	time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
}

// hold keeps a lock that is renewed, and healed.
func (w *trial) hold(c *Client, name, resource string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h, err := c.Hold(ctx, resource, HoldOptions{TTL: ttl, Heal: true})
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	from := time.Now()
	w.granted()
	select {
	case <-h.Context().Done():
	case <-time.After(max(pure.Soon, time.Duration(rand.IntN(500))*time.Millisecond)):
	}
	until := time.Now()
	if end := h.Until(); end.Before(until) {
		until = end
	}
	w.truth.had(resource, name, "holds", from, until)
	_ = h.Release(context.Background())
}

func (w *trial) granted() {
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	w.grants[len(w.grants)-1]++
}

// visits is the life of one client after another. Each finds servers that
// others have sealed, and meets some of them as former primaries.
func (w *trial) visits(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		c := w.visit()
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1000+rand.IntN(3000))*time.Millisecond)
		var wg sync.WaitGroup
		for i := range overKeys {
			wg.Go(func() { w.call(ctx, c, fmt.Sprintf("visitor%d.%d", n, i)) })
		}
		wg.Wait()
		cancel()
		_ = c.Close(context.Background())
	}
}

// run lets the callers run through some failovers, and returns what overlaps.
func (w *trial) run(failovers int) []string {
	ready, cancel := context.WithTimeout(context.Background(), time.Duration(failovers+6)*10*time.Second)
	defer cancel()
	for _, c := range w.clients {
		require.NoError(w.t, c.Ready(ready))
	}
	w.isolate()
	w.grants = append(w.grants, 0)
	var wg sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	stop := sync.OnceFunc(func() {
		end()
		wg.Wait()
	})
	defer stop()
	for i, c := range w.clients {
		for j := range 32 / len(w.clients) {
			wg.Go(func() { w.call(ctx, c, fmt.Sprintf("%d.%d", i, j)) })
		}
	}
	if w.visit != nil {
		wg.Go(func() { w.visits(ctx) })
	}
	for range failovers {
		time.Sleep(300 * time.Millisecond)
		w.fails()
		w.truth.mu.Lock()
		w.grants = append(w.grants, 0)
		w.truth.mu.Unlock()
		for _, c := range w.clients {
			require.NoError(w.t, c.Ready(ready))
		}
	}
	time.Sleep(300 * time.Millisecond)
	stop()
	return w.truth.overlaps()
}
