package history_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// Many callers share one connection and give up at any moment, while the
// connection is cut, reset and killed, and the server is stopped and restarted.
// One register for each key must explain all replies; it cannot explain a reply
// that belongs to another request (R16). Callers that gave up, or whose
// connection broke, learned nothing; their writes may happen at any time.
func TestHistoryOfARegister_OnRealServers(t *testing.T) {
	redistest.Long(t)
	for name, portable := range map[string]bool{"callers read": false, "a goroutine reads": true} {
		t.Run(name, func(t *testing.T) {
			redistest.NoLeaks(t)
			server := redistest.Servers(t, 1)[0]
			proxy := redistest.Proxies(t, []*redistest.Server{server})[0]
			r := newRegister(t, proxy.URL(), func(c *multiplex.Config) {
				for i := range c.Nodes {
					c.Nodes[i].NetDial = redistest.Portable(portable)
				}
			})
			disturbed := r.work(registerTime, func(which int, random *rand.Rand) string { return r.disturb(which, random, server, proxy) })

			require.Zero(t, r.hung.Load(), "calls that got no answer within %v", accessMost)
			v := r.Check(time.Minute)
			node := r.group.Nodes()[0]
			t.Logf("%d accesses, %d of them without a result, %d put to porcupine in %d windows; faults: %v; connections ended: %v",
				r.asked.Load(), r.lost.Load(), v.Operations, v.Windows, disturbed, node.Counts.Deaths)
			require.NoError(t, v.Err())
			require.Zero(t, node.Counts.Deaths["unexpected"]+node.Counts.Deaths["protocol"], "a reply that cannot answer (R16)")
			require.Greater(t, v.Operations, registerKnown, "too little happened to show anything")
			require.Greater(t, r.lost.Load(), registerLost)
			require.Len(t, disturbed, disturbances, "kinds of faults")
		})
	}
}

// This shows that the check works: a few pairs of swapped replies are enough.
func TestHistoryOfARegisterWithSwappedReplies_OnRealServers(t *testing.T) {
	redistest.Long(t)
	redistest.NoLeaks(t)
	server := redistest.Servers(t, 1)[0]
	var swapper swapper
	r := newRegister(t, server.URL(), func(c *multiplex.Config) {
		c.Nodes[0].NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, addr)
			return &swappedConn{Conn: c, swapper: &swapper}, err
		}
	})
	swapper.on.Store(true)
	// Not every swap shows: the two requests may overlap. Check looks at all
	// accesses since the beginning.
	var v history.Verdict
	begun := time.Now()
	for range 100 {
		r.work(200*time.Millisecond, nil)
		if v = r.Check(time.Minute); v.Violated > 0 {
			break
		}
	}
	t.Logf("after %v: %d swapped of %d accesses: %d windows violated", time.Since(begun).Round(time.Millisecond), swapper.swapped.Load(), r.asked.Load(), v.Violated)
	require.Positive(t, swapper.swapped.Load())
	require.Positive(t, v.Violated)
}

const (
	registerTime = 6 * time.Second
	// What the work must achieve before it ends.
	registerKnown   = 1000
	registerLost    = int64(100)
	registerCallers = 24
	registerKeys    = 3
	accessMost      = 30 * time.Second
	// bulk is the length of a value. All values have the same length, so
	// replies can be swapped in place.
	bulk = len("k0-00-00000000")
)

// register is a group of one node and the accesses of its callers.
type register struct {
	history.Accesses
	t     *testing.T
	group *multiplex.Group
	clock history.Clock
	asked atomic.Int64
	lost  atomic.Int64 // accesses without a result
	hung  atomic.Int64 // calls that never ended

	// quiet is held for reading while a caller works, and for writing by a
	// caller that must be alone.
	quiet sync.RWMutex
}

func newRegister(t *testing.T, url string, change func(*multiplex.Config)) *register {
	t.Helper()
	endpoint, err := conn.ParseURL(url)
	require.NoError(t, err)
	config := multiplex.Config{Nodes: []conn.Config{{Endpoint: endpoint}}, VoteTimeout: 200 * time.Millisecond,
		// The probe of an idle connection would find, and end, a hang that
		// nothing else ends: not before accessMost is over.
		ProbeAfter: 2 * accessMost}
	change(&config)
	group, err := multiplex.New(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, group.Close(ctx))
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, group.Ready(ctx))
	return &register{t: t, group: group, clock: history.NewClock()}
}

// work lets callers read and write for a while, and counts the disturbances by
// kind. With disturbances it takes longer on a machine that is so busy that too
// little has happened. Ten times a second all callers pause, and one reads
// every key alone: there the history can be cut.
func (r *register) work(length time.Duration, disturb func(int, *rand.Rand) string) map[string]int {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	end := time.Now().Add(length)
	if disturb == nil {
		defer time.AfterFunc(length, cancel).Stop()
	}
	var wg sync.WaitGroup
	for client := range registerCallers {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		wg.Go(func() {
			for i := 0; ctx.Err() == nil && r.hung.Load() == 0; i++ {
				r.turn(client, i, random)
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil && r.hung.Load() == 0 {
			time.Sleep(100 * time.Millisecond)
			r.alone()
		}
	})
	kinds := make(map[string]int)
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var deck []int // of disturbances: each occurs before one is repeated
	for disturb != nil && ctx.Err() == nil && r.hung.Load() == 0 {
		if len(deck) == 0 {
			deck = random.Perm(disturbances)
		}
		time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		kinds[disturb(deck[0], random)]++
		deck = deck[1:]
		known := r.asked.Load() - r.lost.Load()
		enough := len(kinds) == disturbances && known > 2*registerKnown && r.lost.Load() > registerLost
		if now := time.Now(); now.After(end) && enough || now.After(end.Add(time.Minute)) {
			cancel()
		}
	}
	all := make(chan struct{})
	go func() {
		wg.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(3 * accessMost):
		r.hung.Add(1) // not even their contexts end these calls
	}
	return kinds
}

func (r *register) alone() {
	r.quiet.Lock()
	defer r.quiet.Unlock()
	for key := range registerKeys {
		r.access(context.Background(), history.Access{Client: registerCallers, Key: fmt.Sprint("k", key)})
	}
}

// turn is one access. A third of the callers leave early.
func (r *register) turn(client, i int, random *rand.Rand) {
	r.quiet.RLock()
	defer r.quiet.RUnlock()
	a := history.Access{Client: client, Key: fmt.Sprint("k", random.IntN(registerKeys)), Write: random.IntN(2) == 0}
	if a.Write {
		a.Value = fmt.Sprintf("%s-%02d-%08d", a.Key, client, i)
	}
	ctx := context.Background()
	switch random.IntN(6) {
	case 0:
		timed, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(3*time.Millisecond))))
		defer cancel()
		ctx = timed
	case 1:
		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(time.Duration(random.Int64N(int64(time.Millisecond))), cancel).Stop()
		ctx = cancelled
	}
	if !r.access(ctx, a) {
		time.Sleep(2 * time.Millisecond) // usually there is no connection
	}
}

// access asks the node, and records the outcome.
func (r *register) access(ctx context.Context, a history.Access) bool {
	r.asked.Add(1)
	command, judge := []string{"GET", a.Key}, judgeWrite
	var answer atomic.Pointer[string] // may be set after the caller has given up
	if a.Write {
		command = []string{"SET", a.Key, a.Value}
	} else {
		judge = func(v resp.Value) multiplex.Vote {
			if v.Type() != resp.BulkString && !v.IsNull() {
				return multiplex.Alien
			}
			s := string(v.Bytes())
			answer.Store(&s)
			return multiplex.Granted
		}
	}
	// Every vote has its timeout, so this limit is never reached.
	ctx, cancel := context.WithTimeout(ctx, accessMost)
	defer cancel()
	a.Call = r.clock.Now()
	err := r.group.Extend(ctx, &multiplex.ExtendKind{Kind: multiplex.Kind{Judge: judge}}, &multiplex.Command{
		Encoded: multiplex.Encoded{Bytes: resp.AppendCommand(nil, command...)}, TTL: 10 * time.Second,
	})
	a.Return = r.clock.Now()
	a.Unknown = err != nil
	if time.Duration(a.Return-a.Call) >= accessMost {
		r.hung.Add(1)
	}
	if a.Unknown {
		r.lost.Add(1)
	} else if !a.Write {
		a.Value = *answer.Load()
	}
	r.Add(a)
	return err == nil
}

func judgeWrite(v resp.Value) multiplex.Vote {
	if v.IsOK() {
		return multiplex.Granted
	}
	return multiplex.Alien
}

// disturbances is the number of faults that disturb can cause.
const disturbances = 8

// disturb causes one fault, which is over when it returns, and returns its
// name.
func (r *register) disturb(which int, random *rand.Rand, server *redistest.Server, proxy *redistest.Proxy) string {
	span := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	switch which {
	case 0:
		_, err := server.Do("CLIENT", "KILL", "TYPE", "normal")
		require.NoError(r.t, err)
		return "CLIENT KILL"
	case 1:
		proxy.Reset()
		return "reset"
	case 2:
		proxy.CutOnce(redistest.Down, random.Int64N(300))
		return "cut in a reply"
	case 3:
		proxy.CutOnce(redistest.Up, random.Int64N(300))
		return "cut in a command"
	case 4:
		require.NoError(r.t, server.Stop())
		time.Sleep(span(300 * time.Millisecond))
		require.NoError(r.t, server.Continue())
		return "SIGSTOP"
	case 5:
		proxy.Latency(span(5*time.Millisecond), span(5*time.Millisecond))
		time.Sleep(span(100 * time.Millisecond))
		proxy.Latency(0, 0)
		return "delay"
	case 6:
		proxy.Chunk(redistest.Down, 1)
		time.Sleep(span(50 * time.Millisecond))
		proxy.Chunk(redistest.Down, 0)
		return "single bytes"
	default:
		// The server forgets everything: like a write of "" to every key.
		from := r.clock.Now()
		require.NoError(r.t, server.Restart())
		to := r.clock.Now()
		for key := range registerKeys {
			r.Add(history.Access{Client: registerCallers + 1, Key: fmt.Sprint("k", key), Write: true, Call: from, Return: to})
		}
		return "kill -9 and restart"
	}
}

// swapper swaps two replies now and then.
type swapper struct {
	on      atomic.Bool
	reads   atomic.Int64
	swapped atomic.Int64
}

type swappedConn struct {
	net.Conn
	swapper *swapper
}

func (c *swappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.swapper.on.Load() && c.swapper.reads.Add(1)%20 == 0 {
		c.swapper.swap(p[:n])
	}
	return n, err
}

// swap swaps two values in what one read returned.
func (s *swapper) swap(p []byte) {
	head := fmt.Appendf(nil, "$%d\r\n", bulk)
	var values [][]byte
	for {
		at := bytes.Index(p, head)
		if at < 0 || len(p) < at+len(head)+bulk {
			break
		}
		p = p[at+len(head):]
		values = append(values, p[:bulk:bulk])
		p = p[bulk:]
	}
	for i := 1; i < len(values); i++ {
		if !bytes.Equal(values[0], values[i]) {
			kept := bytes.Clone(values[0])
			copy(values[0], values[i])
			copy(values[i], kept)
			s.swapped.Add(1)
			return
		}
	}
}
