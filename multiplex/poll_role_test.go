//go:build linux && !redmux_portable

package multiplex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lone caller has the role while it waits, and needs no wake-up; a second one
// sleeps.
func TestPolledLoneCallerReadsForItself(t *testing.T) {
	nodes := startWireNodes(t, 3)
	g := onWire(t, nodes, patient)
	p := g.poller
	require.NotNil(t, p)
	require.NoError(t, pairOn(background, g, "k"))
	// If the watch has given the role to the group's goroutine, that one reads
	// for a call; the next call reads for itself.
	atBest(t, func() error {
		require.NoError(t, pairOn(background, g, "k"))
		answers := make(chan struct{})
		answer := sync.OnceFunc(func() { close(answers) })
		defer answer()
		for _, n := range nodes {
			n.behave(func(_ []string, answer string) (string, bool) {
				<-answers
				return answer, false
			})
		}
		done := make(chan error, 2)
		call := func() { _, err := claimOn(background, g, "k", "t"); done <- err }
		go call()
		soon(t, "the first polls or sleeps", func() bool { return p.role.Load() == roleCaller || p.waiting.Load() == 1 })
		first, asleep := p.role.Load(), p.waiting.Load()
		go call()
		if first == roleCaller {
			require.Zero(t, asleep, "who polls is counted as waiting")
			soon(t, "the second sleeps", func() bool { return p.waiting.Load() == 1 })
		}
		answer()
		require.NoError(t, errors.Join(<-done, <-done))
		for _, n := range nodes {
			n.behave(nil)
		}
		if first != roleCaller {
			return fmt.Errorf("role %d, %d waiting", first, asleep)
		}
		return nil
	})
	requireSettled(t, g)
}

// takeRole takes the role as a caller does.
func takeRole(t testing.TB, g *Group) {
	t.Helper()
	soon(t, "the role is free", func() bool {
		g.poller.events.Kick() // the group's goroutine may wait for events; then the role is free for a moment
		return g.poller.take(roleCaller)
	})
}

// holdRole takes the role, and returns when another caller sleeps and the
// replies to it lie unread.
func holdRole(t testing.TB, g *Group, call func() error) (done <-chan error) {
	t.Helper()
	p := g.poller
	takeRole(t, g)
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	soon(t, "the other waits, and is answered", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return p.waiting.Load() == 1 && g.unreadLocked() == All(g.size)
	})
	return ended
}

// A sleeping caller is counted as waiting, until its waker takes it off the
// count, or the caller itself does because a vote came just before it would
// have slept. That is rare, so here the votes come at that very moment, many
// times.
func TestPolledWaitingIsCountedRight(t *testing.T) {
	const nodes, times = 16, 4_000
	config := Config{}
	for range nodes {
		config.Nodes = append(config.Nodes, conn.Config{Endpoint: conn.Endpoint{Network: "unix", Addr: "no server"}})
	}
	g, err := New(config)
	require.NoError(t, err)
	defer closesInTime(t, g)
	takeRole(t, g)

	var voting atomic.Pointer[round]
	var ended atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !ended.Load() {
			if r := voting.Swap(nil); r != nil {
				for i := range Quorum(nodes) {
					r.vote(i, Granted, nil)
				}
			}
			runtime.Gosched() // for a single processor
		}
	})
	for i := range times {
		g.mu.Lock()
		r := g.log.take(g)
		r.begin(claimKind.verb(), g.now(), long, Receipt{}, 1)
		g.mu.Unlock()
		voting.Store(r)
		for range i % 400 { // some nanoseconds later each time, until the votes have arrived
			g.poller.role.Load()
		}
		r.outcome(g.await(r))
		if n := g.poller.waiting.Load(); n != 0 {
			t.Errorf("%d callers are counted as waiting", n)
			break
		}
		r.drop()
	}
	ended.Store(true)
	wg.Wait()
	g.poller.leave()
}

// An answer may come together with the kick that wakes a caller whose round is
// already decided. It is read all the same: no further event would report it.
func TestPolledAnswerAndKickTogether(t *testing.T) {
	nodes := startWireNodes(t, 2)
	g := onWire(t, nodes, patient)
	nodes[0].behave(func(args []string, answer string) (string, bool) {
		if args[0] == "SET" {
			g.mu.Lock()
			g.log.ring.Load().at(g.log.head - 1).conclude(cancelled)
			g.mu.Unlock()
		}
		return answer, false
	})
	for i := range 2000 {
		g.mu.Lock()
		r := g.log.take(g)
		g.admitLocked(background, r, claimKind.verb(), &Command{Encoded: raw(setCommand(fmt.Sprint(i), "t", long)), TTL: long}, 2)
		g.mu.Unlock()
		g.flush()
		g.await(r)
		r.drop()
		soon(t, "all answers are read", g.read)
	}
}

// The replies to the undo of an attempt lie in the sockets until a goroutine
// polls again, and are no samples of reply times (R6).
func TestPolledUndoIsNoSample_R6(t *testing.T) {
	nodes := startWireNodes(t, 5)
	for _, n := range nodes {
		n.behave(func(args []string, answer string) (string, bool) {
			if args[0] == "SET" {
				return "_\r\n", false
			}
			return ":0\r\n", false
		})
	}
	g := onWire(t, nodes, patient)
	atBest(t, func() error {
		for i := range 60 {
			_, err := claimOn(background, g, fmt.Sprint(i), "t")
			require.ErrorIs(t, err, ErrRefused)
			time.Sleep(9 * time.Millisecond)
		}
		for i, s := range g.Nodes() {
			t.Logf("node %d: %v", i, s.ReplyTime)
			if s.ReplyTime >= 2*time.Millisecond {
				return fmt.Errorf("node %d: %v, which is our own sleep", i, s.ReplyTime)
			}
		}
		return nil
	})
}

// A caller that leaves with its answer while another waits wakes the group's
// goroutine itself: the watch's next look may be 5 ms away. Here the watch
// cannot look at all, since the test holds the mutex.
func TestPolledLeaverCallsForThoseWhoWait(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient)
	for range 20 {
		done := holdRole(t, g, func() error { _, err := claimOn(background, g, "k", "t"); return err })
		g.mu.Lock()
		g.poller.leave()
		select {
		case err := <-done:
			g.mu.Unlock()
			require.NoError(t, err)
		case <-time.After(patience):
			g.mu.Unlock()
			t.Fatal("who waited was left alone")
		}
	}
	requireSettled(t, g)
}

// What a caller leaves unread is read soon, even without another call
// (docs/internals/design.md, "The caller polls").
func TestPolledLeftoversAreRead(t *testing.T) {
	nodes := startWireNodes(t, 3)
	g := onWire(t, nodes, patient)
	nodes[2].behave(func(_ []string, answer string) (string, bool) {
		time.Sleep(10 * time.Millisecond) // later than the quorum
		return answer, false
	})
	atBest(t, func() error {
		_, err := claimOn(background, g, "k", "t")
		require.NoError(t, err)
		took := soon(t, "the last reply is counted", g.read)
		t.Logf("counted after %v", took)
		if took > 25*time.Millisecond {
			return fmt.Errorf("the reply that came after 10 ms was counted after %v", took)
		}
		return nil
	})
	requireSettled(t, g)
}

// While a caller has the role the watch keeps looking, even if nothing is owed:
// when the caller leaves, only the watch makes sure that the end of a
// connection is noticed.
func TestPolledWatchFindsSomebody(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient)
	require.NoError(t, pairOn(background, g, "k"))
	soon(t, "all is read", g.read)
	for range 5 {
		takeRole(t, g)
		time.Sleep(20 * time.Millisecond)
		g.poller.leave()
		soon(t, "the group's goroutine has the role", func() bool { return g.poller.role.Load() == roleServer })
	}
}

// The time that a reply lies unread in its socket is not the node's: it must
// not raise reply times, and with them vote timeouts (R6).
func TestPolledReplyTimesAreTheNodesOwn(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient) // the answer to a probe would be a sample, too
	times := func() (all [3]time.Duration) {
		for i, s := range g.Nodes() {
			all[i] = s.ReplyTime
		}
		return all
	}
	for _, n := range g.nodes {
		n.replyTime.Store(0) // forgets the handshake's measurement
	}
	soon(t, "the times are known, since the replies are waited for", func() bool {
		require.NoError(t, pairOn(background, g, "k"))
		soon(t, "all is read", g.read)
		all := times()
		return !slices.Contains(all[:], 0)
	})
	before := times()
	for range 5 {
		done := holdRole(t, g, func() error { _, err := claimOn(background, g, "k", "t"); return err })
		time.Sleep(30 * time.Millisecond)
		g.poller.leave()
		require.NoError(t, <-done)
		soon(t, "all is read", g.read)
	}
	assert.Equal(t, before, times())
}

// A node that reads nothing for a while, so that most of what is sent waits in
// the backlog, gets it when it reads again, and answers. The others are not
// held up meanwhile.
func TestPolledNodeThatReadsLate(t *testing.T) {
	nodes := startWireNodes(t, 3)
	nodes[2].window.Store(256 << 10)
	g := onWire(t, nodes, patient)
	var deaf sync.Mutex
	nodes[2].behave(func(_ []string, answer string) (string, bool) {
		deaf.Lock()
		defer deaf.Unlock()
		return answer, false
	})
	key := string(bytes.Repeat([]byte("k"), 128<<10))
	for round := range 3 {
		deaf.Lock()
		within(t, "claims", func() {
			for range 36 { // 4.5 MiB: more than the sockets' buffers hold, and less than these and the backlog
				_, err := claimOn(background, g, key, "t")
				assert.NoError(t, err)
			}
		})
		assert.False(t, g.read(), "else nothing is tested")
		deaf.Unlock()
		t.Logf("round %d: all is answered after %v", round, soon(t, "all is answered", g.read))
	}
	assert.Zero(t, g.Nodes()[2].Deaths)
}

// A polling caller must be told if another goroutine decides its round: here
// the watch.
func TestPolledCallerIsKicked(t *testing.T) {
	nodes := startWireNodes(t, 5)
	// The cancellation is so much earlier than the timeout that a call whose
	// cancellation goes unnoticed, and which times out, is late on any machine.
	const timeout, givenUp = 300 * time.Millisecond, 10 * time.Millisecond
	g := onWire(t, nodes, patient, func(c *Config) { c.VoteTimeout = timeout })
	for _, n := range nodes[:3] {
		n.silent.Store(true)
	}
	for _, callers := range []int{1, 2, 32} {
		atBest(t, func() error {
			// Beside each caller another goroutine only sleeps for as long:
			// that measures the delay by the machine's other work.
			var late, asleep atomic.Int64
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					ctx, end, want := background, timeout, ErrUndecided
					if i%2 == 1 {
						end, want = givenUp, context.DeadlineExceeded
						timed, cancel := context.WithTimeout(ctx, end)
						defer cancel()
						ctx = timed
					}
					start := time.Now()
					_, err := claimOn(ctx, g, fmt.Sprint("k", i), "t")
					if time.Since(start) >= timeout && errors.Is(err, ErrUndecided) {
						err = want // the watch came so late that both times were over, which the bound below checks
					}
					assert.ErrorIs(t, err, want)
					raise(&late, time.Since(start)-end)
				})
				wg.Go(func() {
					start, end := time.Now(), []time.Duration{timeout, givenUp}[i%2]
					time.Sleep(end)
					raise(&asleep, time.Since(start)-end)
				})
			}
			within(t, "calls", wg.Wait)
			most, others := time.Duration(late.Load()), time.Duration(asleep.Load())
			t.Logf("%d callers: answered at most %v late; who slept was woken %v late", callers, most, others)
			if most > 15*time.Millisecond+2*others {
				return fmt.Errorf("answered %v late", most)
			}
			return nil
		})
		requireSettled(t, g)
	}
}

// The role goes from caller to caller and to the group's goroutine and back,
// while callers come and go, are cancelled and time out, and servers are
// stopped, killed and started again. Every call returns in time, no wake-up is
// lost, and in the end no caller is counted as waiting.
func TestPolledHandOverUnderStress(t *testing.T) {
	for size, volleys := range map[int]int{5: 25, 1: 12} {
		t.Run(fmt.Sprint("nodes=", size), func(t *testing.T) { handOver(t, size, volleys) })
	}
}

func handOver(t *testing.T, size, volleys int) {
	redistest.NoLeaks(t)
	const timeout = 50 * time.Millisecond
	servers := redistest.Servers(t, size, redistest.OverTCP)
	g := onServers(t, servers, func(c *Config) { c.VoteTimeout, c.ProbeAfter = timeout, 2*patience })
	random := seeded(t, rand.Uint64())

	s := &stress{group: g, outcomes: make(map[string]int)}
	stop := make(chan struct{})
	var disruptor sync.WaitGroup
	disruptor.Go(func() { disrupt(t, servers, stop) })
	var asleep time.Duration // the greatest delay of a goroutine that only sleeps: the cost of the machine's other work
	disruptor.Go(func() { asleep = sleepUntil(stop) })
	// While servers are down calls fail at once: without luck a machine needs
	// more volleys, and a busy one more time.
	const enough = 100
	start := time.Now()
	for i := 0; i < volleys || s.granted() <= enough && time.Since(start) < 4*patience; i++ {
		callers := 1 + random.IntN(1+random.IntN(64)) // often few
		var wg sync.WaitGroup
		for range callers {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			wg.Go(func() { s.call(t, own, 1+own.IntN(30)) })
		}
		within(t, fmt.Sprintf("%d callers", callers), wg.Wait)
	}
	close(stop)
	disruptor.Wait()
	longest := time.Duration(s.longest.Load())
	t.Logf("%v; the longest call %v; who slept was woken %v late", s.outcomes, longest, asleep)
	assert.Less(t, longest, 20*timeout+4*asleep, "a wake-up was lost")
	assert.Greater(t, s.granted(), enough)
	requireSettled(t, g)
	soon(t, "all up", func() bool { // a connection that was just killed may seem up for a moment
		return !slices.ContainsFunc(g.Nodes(), func(s Status) bool { return s.State != Up }) &&
			g.poller.attached.Load() == int64(len(servers))
	})
	soon(t, "a lock", func() bool { return pairOn(background, g, "in the end") == nil })
	soon(t, "all is read", g.read)
}

// sleepUntil sleeps again and again and returns by how much a sleep was too
// long at most.
func sleepUntil(stop <-chan struct{}) (late time.Duration) {
	const nap = 5 * time.Millisecond
	for {
		start := time.Now()
		select {
		case <-stop:
			return late
		case <-time.After(nap):
			late = max(late, time.Since(start)-nap)
		}
	}
}

// stress counts the outcomes of calls.
type stress struct {
	group   *Group
	keys    atomic.Int64
	longest atomic.Int64

	mu       sync.Mutex // guards the following
	outcomes map[string]int
}

// call makes attempts with pauses, some of which end early. Each has a key of
// its own, so a refusal would be the answer to another request (R16).
func (s *stress) call(t testing.TB, random *rand.Rand, attempts int) {
	for range attempts {
		ctx, cancel := background, context.CancelFunc(func() {})
		switch random.IntN(4) {
		case 0:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
		case 1:
			ctx, cancel = context.WithCancel(ctx)
			time.AfterFunc(time.Duration(1+random.IntN(3000))*time.Microsecond, cancel)
		}
		key := fmt.Sprint("stress:", s.keys.Add(1))
		receipt, err := timed(s, func() (Receipt, error) { return claimOn(ctx, s.group, key, "t") })
		if err == nil {
			_, err = timed(s, func() (Receipt, error) { return Receipt{}, releaseOn(ctx, s.group, key, "t", receipt) })
			if errors.Is(err, ErrRefused) {
				err = nil // a quorum of servers was restarted empty meanwhile
			}
		} else {
			assert.NotErrorIs(t, err, ErrRefused, "R16")
		}
		cancel()
		assert.True(t, isOutcome(err), "%v", err)
		s.note(err)
		if random.IntN(2) == 0 {
			time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		}
	}
}

func timed[T any](s *stress, f func() (T, error)) (T, error) {
	start := time.Now()
	v, err := f()
	raise(&s.longest, time.Since(start))
	return v, err
}

// raise makes longest at least as long as took.
func raise(longest *atomic.Int64, took time.Duration) {
	for most := longest.Load(); int64(took) > most && !longest.CompareAndSwap(most, int64(took)); most = longest.Load() {
	}
}

func (s *stress) granted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcomes["granted"]
}

func (s *stress) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.outcomes["granted"]++
	case errors.Is(err, ErrUndecided):
		s.outcomes["no quorum"]++
	default:
		s.outcomes[err.Error()]++
	}
}

// disrupt stops, kills and restarts one server after another, and now and then
// stops a majority of them.
func disrupt(t testing.TB, servers []*redistest.Server, stop <-chan struct{}) {
	for i := 0; ; i++ {
		one := servers[i%len(servers)]
		switch i % 4 {
		case 0, 2:
			stopped := []*redistest.Server{one}
			if i%8 == 0 {
				stopped = servers[:Quorum(len(servers))]
			}
			for _, s := range stopped {
				assert.NoError(t, s.Stop())
			}
			time.Sleep(rand.N(80 * time.Millisecond))
			for _, s := range stopped {
				assert.NoError(t, s.Continue())
			}
		case 1:
			assert.NoError(t, one.Restart())
		case 3:
			_, _ = one.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
		select {
		case <-stop:
			return
		case <-time.After(1 + rand.N(50*time.Millisecond)):
		}
	}
}
