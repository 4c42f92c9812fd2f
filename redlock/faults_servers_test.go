package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// A node that is stopped at any point costs no caller anything (R5, R26): the
// quorum of the others is as fast as before, and no call waits while the
// stopped one is noticed. Nor does it cost memory without bound.
func TestFaultOneOfFiveStoppedUnderLoad_R5_R26(t *testing.T) {
	redistest.Alone(t)
	for name, over := range map[string]redistest.Option{"tcp": redistest.OverTCP, "tls": redistest.OverTLS} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5, over)
			c := f.client(redlock.Config{})
			f.allUp(c, inTheEnd)
			doubts := make(map[string]error)
			bestOf(t, func() error { return f.compareStopped(c, doubts) })
			f.noOrphans(unprompted)
		})
	}
}

// compareStopped measures healthy and stopped stretches alternately in one
// load. Each of its bounds is a separate measurement: other work of the machine
// may spoil any of them at any time, and hardly ever spares all four at once.
// doubts are the bounds that no measurement has met so far, with what was
// wrong; the error is all of them.
func (f *fleet) compareStopped(c *redlock.Client, doubts map[string]error) error {
	stretch := redistest.Few(300*time.Millisecond, 600*time.Millisecond)
	l := f.load(c, workload{callers: 96})
	time.Sleep(200 * time.Millisecond) // until buffers have reached their sizes
	var healthy, stopped []span
	gap, grown := time.Duration(0), uint64(0)
	for range 2 {
		from := l.now()
		time.Sleep(stretch)
		before := heapInUse()
		stop := l.now()
		healthy = append(healthy, span{from, stop})
		f.stop(4)
		time.Sleep(stretch / 8) // before it is given up
		most := heapInUse()
		time.Sleep(stretch * 7 / 8)
		most = max(most, heapInUse())
		grown = max(grown, max(most, before)-before)
		stopped = append(stopped, span{stop, l.now()})
		gap = max(gap, l.gap(stop-stretch/2, stop+stretch/2))
		f.continues(4)
		f.allUp(c, inTheEnd)
	}
	l.end()
	ratio := l.rate(stopped) / l.rate(healthy)
	before, after := l.p99(healthy), l.p99(stopped)
	f.Logf("healthy %.0f pairs/s, stopped %.0f (%.2f); p99 %v → %v; longest without a grant %v; heap +%d KiB",
		l.rate(healthy), l.rate(stopped), ratio, before, after, gap, grown>>10)
	judge := func(bound string, holds bool, err error) {
		if before, known := doubts[bound]; holds || known && before == nil {
			err = nil
		}
		doubts[bound] = err
	}
	judge("throughput", ratio >= leastThroughput, fmt.Errorf("throughput fell to %.2f of the healthy one", ratio))
	judge("tail", float64(after) <= mostTail*float64(before), fmt.Errorf("p99 rose from %v to %v", before, after))
	judge("gap", gap < timingSlack*100*time.Millisecond, fmt.Errorf("no grant for %v", gap))
	judge("memory", grown <= mostGrown || redistest.Raceful, fmt.Errorf("the heap grew by %d MiB", grown>>20))
	tooMany := l.fewFail(fewFailures, redlock.ErrNoQuorum)
	judge("failures", tooMany == nil, tooMany)
	return errors.Join(slices.Collect(maps.Values(doubts))...)
}

// mostGrown is by how much a silent node may make the heap grow.
const mostGrown = 16 << 20

// heapInUse collects garbage first.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// Three of five are stopped: it is unknown which locks are held, and the error
// says so in time, by name (R12, R26).
func TestFaultThreeOfFiveStopped_R12_R26(t *testing.T) {
	redistest.Alone(t)
	const timeout = 50 * time.Millisecond
	for _, callers := range []int{1, 128} {
		t.Run(fmt.Sprintf("callers=%d", callers), func(t *testing.T) {
			f := newFleet(t, 5, redistest.OverTCP)
			c := f.client(redlock.Config{NodeTimeout: timeout})
			f.allUp(c, inTheEnd)
			bestOf(t, func() error {
				l := f.load(c, workload{callers: callers}) // so that connections are in use and reply times known
				time.Sleep(50 * time.Millisecond)
				l.end()
				f.stop(0, 2, 4)
				err := f.threeSilent(c, callers, timeout)
				if err == nil {
					err = f.threeDown(c, callers)
				}
				f.continues(0, 2, 4)
				f.allUp(c, inTheEnd)
				f.noOrphans(unprompted)
				return err
			})
		})
	}
}

// threeSilent asks while the stopped nodes are still believed to be up.
func (f *fleet) threeSilent(c *redlock.Client, callers int, timeout time.Duration) error {
	took, errs := volley(c, callers)
	for _, err := range errs {
		if err := undecided(err, is(multiplex.ErrTimeout), 0, 2, 4); err != nil {
			return err
		}
	}
	slices.Sort(took)
	f.Logf("freshly stopped: %d callers answered after %v … %v", callers, took[0], took[len(took)-1])
	if late := took[len(took)-1] - timeout; late > timingSlack*5*time.Millisecond {
		return fmt.Errorf("R26: a caller was answered %v after the vote timeout", late)
	}
	return nil
}

// threeDown asks when it is already known that there is no quorum.
func (f *fleet) threeDown(c *redlock.Client, callers int) error {
	for _, node := range []int{0, 2, 4} {
		f.state(c, node, inTheEnd, "down", "dialing")
	}
	took, errs := volley(c, callers)
	for _, err := range errs {
		err = errors.Join(undecided(err, is(multiplex.ErrDown), 0, 2, 4), undecided(err, is(multiplex.ErrSilent), 0, 2, 4))
		if err != nil {
			return err
		}
	}
	slices.Sort(took)
	f.Logf("known to be down: median %v, last %v", took[len(took)/2], took[len(took)-1])
	if median := took[len(took)/2]; median > timingSlack*time.Millisecond {
		return fmt.Errorf("R26: the answer that was known already took %v", median)
	}
	return nil
}

// volley makes one attempt for each of the callers, all at once.
func volley(c *redlock.Client, callers int) ([]time.Duration, []error) {
	took, errs := make([]time.Duration, callers), make([]error, callers)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		wg.Go(func() {
			<-start
			begun := time.Now()
			_, errs[i] = c.TryAcquire(context.Background(), fmt.Sprint("volley:", i), time.Minute)
			took[i] = time.Since(begun)
		})
	}
	close(start)
	wg.Wait()
	return took, errs
}

// A stopped server has thousands of SETs in its socket. It executes them when
// it continues, although that connection was shed and another one has been
// opened (R8). Only keys of held locks may remain.
func TestFaultStoppedWithSETsInItsSocket_R8(t *testing.T) {
	transports := map[string]redistest.Option{
		"tcp": redistest.OverTCP, "unix": redistest.OverUnix, "tls": redistest.OverTLS,
	}
	for name, over := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5, over)
			c := f.client(redlock.Config{})
			f.allUp(c, inTheEnd)
			for _, how := range []string{"released", "cancelled"} {
				t.Run(how, func(t *testing.T) {
					f := &fleet{t, f.servers}
					bestOf(t, func() error { return f.stopWithSETs(c, how == "cancelled") })
				})
			}
		})
	}
}

// stopWithSETs returns an error if too little happened, or too late.
func (f *fleet) stopWithSETs(c *redlock.Client, cancelled bool) error {
	defer func() { // the next test begins with empty servers in any case
		for i := range f.servers {
			f.must(i, "FLUSHALL")
		}
	}()
	held := make(map[string]bool)
	var locks []redlock.Lock
	w := workload{callers: 128, fresh: true}
	if cancelled {
		// Some end before the quorum, some after it, all at an awkward time.
		w.context = func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Duration(time.Now().UnixNano()%4_000)*time.Microsecond)
		}
	}
	l := f.load(c, w)
	time.Sleep(100 * time.Millisecond)
	f.stop(2)
	// These are in the socket too, and their holders keep them. (Acquire, since
	// a busy machine costs a vote.)
	for i := range 20 {
		key := fmt.Sprintf("held:%d", i)
		held[key] = true
		lock, err := c.Acquire(context.Background(), key, 2*time.Minute)
		if err != nil {
			f.Fatal(err)
		}
		locks = append(locks, lock)
	}
	f.state(c, 2, inTheEnd, "down", "dialing")
	time.Sleep(300 * time.Millisecond)
	debts := c.Nodes()[2].Debts
	f.continues(2)
	back := f.state(c, 2, inTheEnd, "up")
	l.end()
	f.allUp(c, inTheEnd)
	f.Logf("%d debts; counts again %v after it went on", debts, back)
	eventually(f, inTheEnd, func() error { return f.orphans(held) })
	l.fails(-1, redlock.ErrNoQuorum, context.DeadlineExceeded)
	for _, lock := range locks {
		token := lock.Token()
		if n := f.on(lock.Resource(), string(token[:])); n < 3 {
			f.Errorf("a held lock was lost: it stands on %d servers", n)
		}
		// The answers may be late on a busy machine.
		if err := lock.Release(context.Background()); err != nil && !errors.Is(err, multiplex.ErrTimeout) {
			f.Errorf("a held lock was lost: %v", err)
		}
	}
	f.noOrphans(unprompted)
	if debts < leastInTheSocket {
		return fmt.Errorf("only %d releases were owed: too few SETs were in the socket for this test to mean anything", debts)
	}
	if bound := 1500 * time.Millisecond; back > bound {
		return fmt.Errorf("R26: debts were paid only %v after it went on, not within %v", back, bound)
	}
	return nil
}

// leastInTheSocket is more than a payment and a turn of Expire: 256 and twice
// that.
const leastInTheSocket = 600

// Servers with an idle timeout close all connections at once. The next call
// waits until they are back, and from then on they are probed in time (R26).
func TestFaultIdleTimeout_R26(t *testing.T) {
	for name, over := range map[string]redistest.Option{"tcp": redistest.OverTCP, "tls": redistest.OverTLS} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 3, over)
			c := f.client(redlock.Config{NodeTimeout: unhurried})
			f.allUp(c, inTheEnd)
			for i := range f.servers {
				f.must(i, "CONFIG", "SET", "timeout", "1")
			}
			deaths := func() (all []int) {
				for _, n := range c.Nodes() {
					all = append(all, n.Connects-1)
				}
				return all
			}
			eventually(t, inTheEnd, func() error {
				for _, n := range deaths() {
					if n == 0 {
						return fmt.Errorf("not all connections were closed, and made again: %v", deaths())
					}
				}
				return nil
			})
			for round := range 4 {
				if lock, err := c.TryAcquire(context.Background(), fmt.Sprint("r", round), time.Minute); err != nil {
					t.Errorf("round %d: %v", round, err)
				} else if err := lock.Release(context.Background()); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				time.Sleep(2200 * time.Millisecond)
			}
			for i, n := range deaths() {
				if n > 2 { // the probe of a starved client may be late once
					t.Errorf("node %d: %d connections were closed for their idleness", i, n)
				}
			}
		})
	}
}

// A node that lies in any of these ways gets no vote, costs the other four
// nothing, and needs little memory (R16, R17, R18). The test itself shows that
// the process survives.
func TestFaultHostileNode_R16_R18(t *testing.T) {
	f := newFleet(t, 4)
	for _, h := range append(redistest.HostileReplies[:len(redistest.HostileReplies):len(redistest.HostileReplies)],
		redistest.SurplusReplies...) {
		t.Run(h.Name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			node := startHostile(t, h)
			memory := watchMemory(t)
			c := f.client(redlock.Config{
				Nodes: redlock.Nodes(append(redistest.URLs(f.servers), node.URL())...), NodeTimeout: unhurried,
			})
			for i := range f.servers { // an earlier caller gets no quorum at once, many times within a moment
				f.state(c, i, inTheEnd, "up")
			}
			l := f.load(c, workload{callers: 8, fresh: true})
			time.Sleep(25 * time.Millisecond)
			l.until(50, inTheEnd)
			for end := l.now() + inTheEnd; node.Calls("SET") == 0 && !h.Early && l.now() < end; { // it may be the last to connect
				time.Sleep(time.Millisecond)
			}
			l.end()
			l.fails(fewFailures, redlock.ErrNoQuorum)
			peak := memory()
			t.Logf("%d grants, %d SETs heard, peak of the heap %d KiB", l.granted(0, l.now()), node.Calls("SET"), peak>>10)
			if peak > 64<<20 {
				t.Errorf("R18: %d MiB of heap in use", peak>>20)
			}
			if node.Calls("SET") == 0 && !h.Early {
				t.Error("the node was asked nothing, so that it could not lie")
			}
			if err := c.Close(context.Background()); err != nil {
				t.Errorf("Close: %v", err)
			}
			f.noOrphans(inTheEnd)
		})
	}
}

func startHostile(tb testing.TB, h redistest.Hostile) *redistest.HostileNode {
	tb.Helper()
	node, err := redistest.StartHostile(h, true)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { node.Close() })
	return node
}

// watchMemory samples the heap in use until the returned function is called,
// which returns the maximum.
func watchMemory(tb testing.TB) (peak func() uint64) {
	tb.Helper()
	runtime.GC() // frees what earlier tests left
	var most uint64
	sample := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				sample()
			case <-end:
				return
			}
		}
	}()
	return sync.OnceValue(func() uint64 {
		close(end)
		<-ended
		sample()
		return most
	})
}

// A node that endlessly sends unsolicited data holds up neither the others nor
// a hold: its connection is ended each time, the others grant locks, and the
// hold is renewed (R32). Tested both where callers read replies themselves and
// where each node has its own goroutine.
func TestFaultFloodingNode_R32(t *testing.T) {
	f := newFleet(t, 4)
	for _, portable := range []bool{false, true} {
		for _, h := range redistest.Floods {
			t.Run(fmt.Sprintf("portable=%v/%s", portable, h.Name), func(t *testing.T) {
				f := &fleet{t, f.servers}
				node := startHostile(t, h)
				c := f.client(redlock.Config{Nodes: redlock.Nodes(append(redistest.URLs(f.servers), node.URL())...), Connect: redlock.Connect{NetDial: redistest.Portable(portable)}, NodeTimeout: unhurried})
				f.allUp(c, inTheEnd)
				hold, err := c.Hold(context.Background(), "held", redlock.HoldOptions{TTL: 6 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer hold.Release(context.Background())
				defer f.waiter(c)()
				l := f.load(c, workload{callers: 1, turns: 1, ttl: 6 * time.Second}) // the node answers no merged release, and would not come to its flood
				l.calm()
				for i := range f.servers { // the awaited key changes, so the nodes are asked again
					f.must(i, "SET", "taken", fmt.Sprint(i), "PX", "60000")
				}
				deaths := func() uint64 {
					n := c.Nodes()[len(f.servers)].Counts.Deaths
					return n["unexpected"] + n["protocol"]
				}
				eventually(t, inTheEnd, func() error {
					if deaths() == 0 {
						return fmt.Errorf("the connection lives: %v", c.Nodes()[len(f.servers)].Counts)
					}
					return nil
				})
				until := hold.Until()
				l.until(50, inTheEnd)
				eventually(t, inTheEnd, func() error {
					if !hold.Until().After(until) {
						return fmt.Errorf("not renewed since the flood began: %v", hold.Err())
					}
					return nil
				})
				l.end()
				t.Logf("%v, the node's connection was ended %d times", l.errs, deaths())
				if err := hold.Err(); err != nil {
					t.Errorf("the hold: %v", err)
				}
				for i := range f.servers {
					if n := c.Nodes()[i].Counts.Deaths; n["unexpected"]+n["protocol"] > 0 {
						t.Errorf("an honest node's connection was ended: %v", n)
					}
				}
			})
		}
	}
}

// waiter waits for a taken lock, so that tracking is turned on.
func (f *fleet) waiter(c *redlock.Client) (stop func()) {
	for i := range f.servers {
		f.must(i, "SET", "taken", "by another", "PX", "60000")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Acquire(ctx, "taken", time.Second)
	}()
	return func() { cancel(); <-done }
}

// A node that lies about numbers and tickets, beside two servers, costs hardly
// a fenced attempt on a free name, and no order of callers of Fair that the two
// have let in (R33). Without that rule a quarter of the attempts failed, and a
// third of the pairs were served in another order.
func TestFaultLiarBesideTwoServers_R33(t *testing.T) {
	f := newFleet(t, 2, redistest.OverTCP)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	liar := redistest.NewNode(redistest.NodeConfig{})
	t.Cleanup(func() { _ = liar.Close() })
	liar.Serve(l)
	config := redlock.Config{
		Nodes: redlock.Nodes(append(redistest.URLs(f.servers), "redis://"+l.Addr().String())...), MaxTTL: 2 * time.Second,
		NodeTimeout: unhurried, FairLease: 10 * time.Second,
	}
	_, err = admin.Init(t.Context(), f.reach(config))
	require.NoError(t, err)
	var turn atomic.Int64
	liar.Handle(func(_ int, args []string) ([]byte, bool) {
		switch {
		case args[0] == "EVALSHA" && args[1] == wire.AcquireFenced.Digest:
			hour := fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", time.Now().Add(time.Hour).UnixMicro())
			return []byte([]string{"*2\r\n:2\r\n:9007199254740991\r\n", "*2\r\n:3\r\n:0\r\n", hour}[turn.Add(1)%3]), true
		case args[0] == "EVALSHA" && args[1] == wire.AskFair.Digest:
			return resp.AppendBulkString(nil, "3 9007199254740990"), true
		}
		return nil, false
	})
	config.Fenced = true
	clients := []*redlock.Client{f.client(config), f.client(config), f.client(config)}
	for _, c := range clients {
		require.NoError(t, c.Ready(t.Context()))
	}
	const attempts = 300
	var failed []error
	for i := range attempts {
		lock, err := clients[i%3].TryAcquire(t.Context(), fmt.Sprint("free:", i%20), time.Second)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		_ = lock.Release(t.Context())
	}
	t.Logf("%d of %d attempts failed: %v", len(failed), attempts, failed)
	require.LessOrEqual(t, len(failed), attempts/100)

	held, err := clients[0].Fair("f").Hold(t.Context(), redlock.HoldOptions{TTL: 2 * time.Second})
	require.NoError(t, err)
	served := make(chan int, 10)
	var wg sync.WaitGroup
	for i := range cap(served) {
		wg.Go(func() {
			lock, err := clients[i%3].Fair("f").Acquire(t.Context(), 2*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			served <- i
			_ = lock.Release(t.Context())
		})
		eventually(t, inTheEnd, func() error { // until the two have let it in
			for server := range 2 {
				// The holder has its place until it releases the lock.
				if n := f.must(server, "ZCARD", "f:redlock:queue").(int64); n != int64(i)+2 {
					return fmt.Errorf("%d in the queue of server %d", n, server)
				}
			}
			return nil
		})
	}
	require.NoError(t, held.Release(t.Context()))
	wg.Wait()
	close(served)
	for i := range cap(served) {
		require.Equal(t, i, <-served)
	}
}
