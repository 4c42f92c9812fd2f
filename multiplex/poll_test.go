//go:build linux && !redmux_portable

package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lone caller has the role while it waits, and needs no wake-up; a second one
// sleeps.
func TestPolledLoneCallerReadsForItself(t *testing.T) {
	nodes := startWireNodes(t, 3)
	g := onWire(t, nodes, patient)
	// If the watch has given the role to the group's goroutine, that one reads
	// for a call; the next call reads for itself.
	atBest(t, func() error {
		require.NoError(t, pairOn(background, g, "k"))
		answers := make(chan struct{})
		for _, n := range nodes {
			n.behave(func(_ []string, answer string) (string, bool) { <-answers; return answer, false })
		}
		done := make(chan error, 2)
		call := func() { _, err := claimOn(background, g, "k", "t"); done <- err }
		go call()
		soon(t, "the first polls or sleeps", func() bool { return g.poller.role.Load() == roleCaller || g.poller.waiting.Load() == 1 })
		first, asleep := g.poller.role.Load(), g.poller.waiting.Load()
		go call()
		if first == roleCaller {
			soon(t, "the second sleeps", func() bool { return g.poller.waiting.Load() == 1 })
		}
		close(answers)
		require.NoError(t, errors.Join(<-done, <-done))
		for _, n := range nodes {
			n.behave(nil)
		}
		if first != roleCaller || asleep != 0 {
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
	deaf.Lock()
	within(t, "claims", func() {
		for range 36 { // 4.5 MiB: more than the sockets' buffers hold, and less than these and the backlog
			_, err := claimOn(background, g, strings.Repeat("k", 128<<10), "t")
			assert.NoError(t, err)
		}
	})
	assert.False(t, g.read(), "else nothing is tested")
	deaf.Unlock()
	soon(t, "all is answered", g.read)
	assert.Zero(t, g.Nodes()[2].Deaths)
}

// A polling caller must be told if another goroutine decides its round: here
// the watch, by a vote timeout and by a context's deadline, which is so much
// earlier that a call whose deadline goes unnoticed is late on any machine.
func TestPolledCallerIsKicked(t *testing.T) {
	const timeout, givenUp = 300 * time.Millisecond, 10 * time.Millisecond
	nodes := startWireNodes(t, 5)
	g := onWire(t, nodes, patient, func(c *Config) { c.VoteTimeout = timeout })
	for _, n := range nodes[:3] {
		n.silent.Store(true)
	}
	for _, callers := range []int{1, 2, 32} {
		atBest(t, func() error {
			late := make([]time.Duration, callers)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					ctx, end, want := background, timeout, ErrUndecided
					if (i+callers)%2 == 0 {
						ctx, end, want = brief(t, givenUp), givenUp, context.DeadlineExceeded
					}
					start := time.Now()
					_, err := claimOn(ctx, g, fmt.Sprint("k", i), "t")
					if late[i] = time.Since(start) - end; late[i] < timeout-givenUp {
						assert.ErrorIs(t, err, want) // otherwise both times were over
					}
				})
			}
			within(t, "calls", wg.Wait)
			if most := slices.Max(late); most > 15*time.Millisecond {
				return fmt.Errorf("%d callers: answered %v late", callers, most)
			}
			return nil
		})
		requireSettled(t, g)
	}
}

// The role goes from caller to caller and to the group's goroutine and back,
// while callers come, give up and go, others post, and connections end. A
// wake-up that is lost would hang the test, since no timer causes one here.
// Each claim has a key of its own, so a refusal would be the answer to another
// (R16).
func TestPolledHandOverUnderStress(t *testing.T) {
	for _, size := range []int{1, 3} {
		redistest.NoLeaks(t)
		random := seeded(t, rand.Uint64())
		nodes := startWireNodes(t, size)
		g := onWire(t, nodes, patient)
		var callers sync.WaitGroup
		ctx, cancel := context.WithCancel(background)
		for i := range 8 {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			callers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					use, end := ctx, context.CancelFunc(func() {})
					if own.IntN(4) == 0 {
						use, end = context.WithTimeout(ctx, time.Duration(own.IntN(1000))*time.Microsecond)
					}
					err := pairOn(use, g, fmt.Sprint(i, "-", n))
					end()
					assert.True(t, isOutcome(err) && !errors.Is(err, ErrRefused), "%v", err)
					if errors.Is(err, ErrUndecided) || own.IntN(8) == 0 {
						time.Sleep(time.Duration(own.IntN(200)) * time.Microsecond)
					}
				}
			})
		}
		inbox := NewOutcomes()
		for i := range 1000 {
			posted := 0
			for range 1 + i%7 {
				if postOn(g, inbox, nil) == nil {
					posted++
				}
			}
			g.Flush()
			take(t, inbox, posted)
			if i%100 == 99 {
				nodes[random.IntN(size)].drop()
			}
		}
		cancel()
		within(t, "callers", callers.Wait)
		requireSettled(t, g)
		soon(t, "all up", func() bool { return g.polledNodes() == All(size) && pairOn(background, g, "in the end") == nil })
		soon(t, "all is read", g.read)
	}
}

func postOn(g *Group, inbox *Outcomes, tag any) error {
	_, err := g.PostExtension(extendKind, &Command{Encoded: raw(extendCommand("k", "t", long)), TTL: long}, Posting{Inbox: inbox, Tag: tag})
	return err
}

// No caller waits for a posted command and reads its answers. So the group's
// goroutine is woken at once, not by the watch some milliseconds later.
func TestPolledAnswersToPostedCommandsAreReadAtOnce(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient)
	inbox := NewOutcomes()
	atBest(t, func() error {
		var spent [50]time.Duration
		for i := range spent {
			require.NoError(t, pairOn(background, g, "k")) // a caller had the role, and left
			start := time.Now()
			require.NoError(t, postOn(g, inbox, i))
			g.Flush()
			o := take(t, inbox, 1)[0]
			spent[i] = time.Since(start)
			require.Equal(t, Outcome{Tag: i, Granted: o.Granted}, o)
			require.GreaterOrEqual(t, o.Granted.Len(), g.quorum)
		}
		slices.Sort(spent[:])
		if median := spent[len(spent)/2]; median > tickMost/2 {
			return fmt.Errorf("half of them took more than %v", median)
		}
		return nil
	})
	requireSettled(t, g)
}

// During a lookout, the poller's own goroutine stays at the sockets, whatever
// callers do in between: a push is read when it arrives, and not at the watch's
// next look.
func TestSomebodyReadsWhileSomebodyLooksOut(t *testing.T) {
	servers := redistest.Servers(t, 3)
	g := onServers(t, servers, patient)
	_, err := claimOn(background, g, "k", "t")
	require.NoError(t, err)
	l := g.Lookout([]byte("k"))
	defer l.Stop()
	for range 30 {
		require.True(t, l.Ask())
		answered(t, g, l)
		require.Equal(t, roleServer, g.poller.role.Load())
		for range 3 {
			require.NoError(t, pairOn(background, g, "another"))
			soon(t, "the server takes the role again", func() bool { return g.poller.role.Load() == roleServer })
		}
	}
	for _, s := range servers {
		_, err := s.Do("DEL", "k")
		require.NoError(t, err)
	}
	<-l.Signal()
	soon(t, "the role is free again", func() bool {
		return pairOn(background, g, "another") == nil && g.poller.role.Load() == roleFree
	})
}

// The answers to a query are read when they arrive, and not at the watch's next
// look.
func TestAQueryDoesNotWaitForTheWatch(t *testing.T) {
	g := onServers(t, redistest.Servers(t, 3), patient)
	atBest(t, func() error {
		var spent [50]time.Duration
		for i := range spent {
			spent[i] = took(func() { g.Query(background, pingAndGet, func(_, _ int, _ resp.Value) error { return nil }) })
		}
		slices.Sort(spent[:])
		if median := spent[len(spent)/2]; median > tickMost/2 {
			return fmt.Errorf("half of them took more than %v", median)
		}
		return nil
	})
	require.Zero(t, g.poller.waiting.Load())
	soon(t, "the role is free again", func() bool {
		return pairOn(background, g, "another") == nil && g.poller.role.Load() == roleFree
	})
}

// polledNodes returns the nodes that the poller reads.
func (g *Group) polledNodes() (s Set) {
	for i, n := range g.nodes {
		if n.polled.conn.Load() != nil {
			s |= setOf(i)
		}
	}
	return s
}

// dialedAlone makes these nodes have connections from a user's NetDial, which
// are never polled: they have readers.
func dialedAlone(nodes ...int) func(*Config) {
	return func(c *Config) {
		for _, i := range nodes {
			c.Nodes[i].NetDial = new(net.Dialer).DialContext
		}
	}
}

// A group of both sorts: a caller polls some nodes, others have their readers,
// and the outcome counts all.
func TestPolledMixedGroup(t *testing.T) {
	redistest.NoLeaks(t)
	nodes := startWireNodes(t, 5)
	g := onWire(t, nodes, patient, dialedAlone(1, 4), func(c *Config) { c.VoteTimeout = 3 * time.Second }) // Close waits this long in the end
	assert.Equal(t, setOf(0)|setOf(2)|setOf(3), g.polledNodes())

	// With two polled nodes silent, the quorum needs both votes that readers
	// count: they must wake the polling caller.
	nodes[0].silent.Store(true)
	nodes[2].silent.Store(true)
	atBest(t, func() error {
		start, err := time.Now(), error(nil)
		within(t, "a claim", func() { _, err = claimOn(background, g, "k", "t") })
		require.NoError(t, err)
		if took := time.Since(start); took > 20*time.Millisecond {
			return fmt.Errorf("decided by readers after %v", took)
		}
		return nil
	})

	// If one of those is silent too, a cancellation must wake it.
	nodes[4].silent.Store(true)
	atBest(t, func() error {
		ctx, cancel := context.WithCancel(background)
		var ended time.Time
		time.AfterFunc(20*time.Millisecond, func() { ended = time.Now(); cancel() })
		within(t, "a cancelled claim", func() {
			_, err := claimOn(ctx, g, "cancelled", "t")
			assert.ErrorIs(t, err, context.Canceled)
		})
		if late := time.Since(ended); late > 15*time.Millisecond {
			return fmt.Errorf("the cancellation was noticed after %v", late)
		}
		return nil
	})
	requireSettled(t, g)
	closesInTime(t, g)
	assert.Zero(t, g.poller.attached.Load())
}

// Groups with nothing to poll have no poller.
func TestGroupsWithNothingToPollHaveNoPoller(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), dialedAlone(0, 1, 2))
	assert.Nil(t, g.poller)
	require.NoError(t, pairOn(background, g, "k"))
}

// Nodes with TLS are polled as plain ones are, in both versions: no goroutine
// reads a connection. A node that is stopped under load holds up neither the
// others nor Close, is shed, and counts again when it goes on (R26, R28).
func TestPolledTLSGroup_R26_R28(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		redistest.NoLeaks(t)
		servers := redistest.Servers(t, 5, redistest.OverTLS)
		g := onServers(t, servers, func(c *Config) {
			c.VoteTimeout = 3 * time.Second
			for i := range c.Nodes {
				c.Nodes[i].TLS.MaxVersion = version
			}
		})
		require.Equal(t, All(5), g.polledNodes())
		require.NoError(t, pairOn(background, g, "alone"))
		ctx, cancel := context.WithCancel(background)
		var callers sync.WaitGroup
		for i := range 32 {
			callers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					assert.NoError(t, pairOn(background, g, fmt.Sprint(i, "-", n)))
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, servers[1].Stop())
		soon(t, "the stopped node is shed", func() bool { return g.Nodes()[1].State != Up })
		require.NoError(t, servers[1].Continue())
		soon(t, "it counts again", func() bool { return g.Nodes()[1].State == Up })

		require.NoError(t, servers[2].Stop())
		time.Sleep(5 * time.Millisecond)
		cancel()
		within(t, "callers", callers.Wait)
		require.NoError(t, servers[2].Continue())
		soon(t, "polled again", func() bool { return g.polledNodes() == All(5) })
		closesInTime(t, g)
		assert.Zero(t, g.poller.attached.Load())
	}
}

// Close while callers poll, wait and arrive, others post and look out, and
// connections die: every call returns, and nothing is left (R28).
func TestPolledCloseAtAnyTime(t *testing.T) {
	redistest.NoLeaks(t)
	random := seeded(t, rand.Uint64())
	for size, rounds := range map[int]int{5: 150, 1: 50} {
		nodes := startWireNodes(t, size)
		for round := range rounds {
			callers := []int{0, 1, 2, 8, 40}[round%5]
			silent := random.IntN(Quorum(size) + 1) // at the most there is no quorum, so that all wait
			for i, n := range nodes {
				n.silent.Store(i < silent)
			}
			g := onWire(t, nodes, func(c *Config) { c.VoteTimeout = 20 * time.Millisecond })
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { callUntilClosed(t, g, i) })
			}
			if round%2 == 0 {
				wg.Go(func() { postUntilClosed(t, g) })
				wg.Go(func() { lookOutUntilClosed(g) })
			}
			if dies := random.IntN(2000); round%3 == 0 {
				wg.Go(func() {
					time.Sleep(time.Duration(dies) * time.Microsecond)
					nodes[0].drop()
					nodes[size-1].drop()
				})
			}
			if after := random.IntN(3000); round%7 != 0 {
				time.Sleep(time.Duration(after) * time.Microsecond)
			}
			closesInTime(t, g)
			within(t, fmt.Sprintf("round %d: the callers", round), wg.Wait)
			require.NoError(t, g.settled())
			require.Zero(t, g.polledNodes())
			require.Zero(t, g.poller.attached.Load())
			require.Zero(t, g.tracker.listening.Load())
			if t.Failed() {
				t.Fatalf("round %d: %d callers, %d silent", round, callers, silent)
			}
		}
	}
}

func callUntilClosed(t testing.TB, g *Group, caller int) {
	for n := 0; ; n++ {
		ctx, cancel := background, context.CancelFunc(func() {})
		if n%4 == 3 {
			ctx, cancel = context.WithTimeout(ctx, rand.N(2*time.Millisecond))
		}
		err := pairOn(ctx, g, fmt.Sprint(caller, "-", n))
		cancel()
		if errors.Is(err, ErrClosed) {
			return
		}
		if !assert.True(t, isOutcome(err), "%v", err) {
			return
		}
		if errors.Is(err, ErrUndecided) {
			time.Sleep(100 * time.Microsecond) // the lack of a quorum may be known at once
		}
	}
}

// When every connection has died, no event could wake the polling goroutine:
// Close must.
func TestPolledCloseWithNothingToPoll(t *testing.T) {
	redistest.NoLeaks(t)
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		for range 3 {
			nodes := startWireNodes(t, 3)
			g := onWire(t, nodes, patient)
			require.NoError(t, pairOn(background, g, "k"))
			for _, n := range nodes {
				n.close()
			}
			soon(t, "all are down", func() bool { return g.poller.attached.Load() == 0 })
			time.Sleep(after)
			closesInTime(t, g)
		}
	}
}

// A caller that still has the role when the group is closed wakes the group's
// goroutine when it leaves, although no caller waits: it has to read the ends
// of the connections.
func TestPolledCloseBeforeACallerLeaves(t *testing.T) {
	redistest.NoLeaks(t)
	g := onWire(t, startWireNodes(t, 3))
	takeRole(t, g)
	closed := make(chan error, 1)
	go func() { closed <- g.Close(background) }()
	soon(t, "the group is stopped", func() bool { return g.life.stopped.Err() != nil })
	time.Sleep(5 * time.Millisecond) // until its goroutine has found the role taken
	g.poller.leave()
	within(t, "Close", func() { assert.NoError(t, <-closed) })
}

// Close during a lookout, which learns it from the ends of the connections:
// only the group's goroutine can read those.
func TestPolledCloseWhileSomebodyLooksOut(t *testing.T) {
	redistest.NoLeaks(t)
	nodes := startWireNodes(t, 3)
	for range 20 {
		g := onWire(t, nodes, patient)
		l := g.Lookout([]byte("k"))
		require.True(t, l.Ask())
		answered(t, g, l)
		closesInTime(t, g)
		within(t, "the signal", func() { <-l.Signal() })
	}
}

func postUntilClosed(t testing.TB, g *Group) {
	inbox, room := NewOutcomes(), make([]Outcome, 0, 7)
	for {
		posted := 0
		for range rand.N(30) {
			switch err := postOn(g, inbox, nil); {
			case err == nil:
				posted++
			case errors.Is(err, ErrClosed):
				return // and the outcomes are dropped
			}
		}
		g.Flush()
		for posted > 0 {
			got := inbox.Take(room[:0])
			if posted -= len(got); len(got) == 0 {
				<-inbox.Ready()
			}
		}
		assert.Zero(t, posted, "an outcome came twice")
	}
}

func lookOutUntilClosed(g *Group) {
	l := g.Lookout([]byte("k"))
	defer l.Stop()
	for g.life.stopped.Err() == nil {
		if !l.Ask() {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		select {
		case <-l.Signal():
		case <-time.After(1 + rand.N(2*time.Millisecond)):
		}
	}
}

// A goroutine that reads replies ticks like the watch does, perhaps when the
// group is already closed: no timer is left then (R28).
func TestPolledTickAfterClose_R28(t *testing.T) {
	g := onWire(t, startWireNodes(t, 1))
	require.NoError(t, g.Close(background))
	g.watcher.at.Store(0)
	g.tick()
	require.False(t, g.watcher.timer.Stop(), "a timer was set")
}
