package redlock

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// simulated runs a test in simulated time, with nodes that answer after 2 ms:
// so many, or anyNumber of them.
func simulated(t *testing.T, nodes int, test func(t *testing.T, m *memory)) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nodes)
		m.far(2 * ms)
		test(t, m)
	})
}

// simulatedAs is simulated as a subtest.
func simulatedAs(t *testing.T, name string, nodes int, test func(t *testing.T, m *memory)) {
	t.Run(name, func(t *testing.T) { simulated(t, nodes, test) })
}

func mustAcquire(t *testing.T, c *Client, resource string, ttl time.Duration) Lock {
	t.Helper()
	lock, err := c.TryAcquire(context.Background(), resource, ttl)
	require.NoError(t, err)
	return lock
}

// Each attempt has its own token (R3), and on every connection its release
// comes before the next attempt's SET (R8, R11).
func TestEachAttemptHasItsTokenAndIsUndoneBeforeTheNext(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.ownerless()
		each(m.nodes[:2], func(n *redistest.Node) { n.DB().Set("r", stranger, 0) })
		c := m.client(t, Config{Retry: Retry{Tries: 20}})
		_, err := c.Acquire(context.Background(), "r", 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(10 * ms)
		for i, n := range m.nodes {
			tokens := tokensSent(n)
			require.Len(t, tokens, 20, "node %d", i)
			seen := make(map[string]bool)
			for _, token := range tokens {
				require.Len(t, token, len(Token{}))
				require.False(t, seen[token], "a token was used twice")
				seen[token] = true
			}
			last := ""
			for _, e := range n.Log() {
				switch {
				case e.Args[0] == "SET":
					require.Empty(t, last, "the SET before was not released")
					last = e.Args[2]
				case e.Args[0] == "EVALSHA" && last != "":
					require.Equal(t, []string{wire.Release.Digest, "1", "r", last}, e.Args[1:])
					last = ""
				}
			}
			require.Empty(t, last, "the last SET was not released")
		}
		require.Empty(t, m.nodes[2].Keys())
	})
}

// A few tries outlast an ordinary holder, as in other libraries; a caller that
// wants shorter or longer delays sets them (R11).
func TestRetryDelaysAreConfigurable_R11(t *testing.T) {
	for name, c := range map[string]struct {
		config      Config
		least, most time.Duration // of two pauses
	}{
		"the default":          {Config{}, 100 * ms, 400 * ms},
		"short":                {Config{Retry: Retry{MinDelay: ms, MaxDelay: 2 * ms}}, 2 * ms, 4 * ms},
		"long":                 {Config{Retry: Retry{MinDelay: 3 * time.Second}}, 6 * time.Second, 6 * time.Second},
		"no more than a bound": {Config{Retry: Retry{MaxDelay: 30 * ms}}, 60 * ms, 60 * ms},
	} {
		simulatedAs(t, name, anyNumber, func(t *testing.T, m *memory) {
			each(m.nodes, func(n *redistest.Node) { n.DB().Set("r", stranger, 0) })
			c.config.Retry.Tries = 3
			client := m.client(t, c.config)
			start := time.Now()
			_, err := client.Acquire(t.Context(), "r", time.Second)
			require.ErrorIs(t, err, ErrHeld)
			require.GreaterOrEqual(t, time.Since(start), c.least)
			require.LessOrEqual(t, time.Since(start), c.most+10*ms, "and three attempts")
		})
	}
}

// MaxWait ends the wait for a lock, and not the work: its context goes on. The
// error is that of the limit, with the outcome of the last attempt (R11, R12).
func TestMaxWaitBoundsTheWaitAlone_R11_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		other := mustAcquire(t, m.client(t, Config{}), "r", time.Hour)
		c := m.client(t, Config{MaxWait: 500 * ms})
		work := func(ctx context.Context) error {
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}
		requireLimit := func(limit time.Duration, last error, call func() error) {
			t.Helper()
			start := time.Now()
			err := call()
			took := time.Since(start)
			require.GreaterOrEqual(t, took, limit)
			require.Less(t, took, limit+5*ms, "an attempt that is on its way ends with its votes (R6)")
			require.ErrorIs(t, err, ErrMaxWait)
			require.ErrorIs(t, err, last)
			require.ErrorContains(t, err, "MaxWait is over")
			var cancelled *CancelledError
			require.ErrorAs(t, err, &cancelled)
		}
		requireLimit(500*ms, ErrHeld, func() error { return c.Do(t.Context(), "r", time.Second, work) })
		requireLimit(500*ms, ErrHeld, func() error {
			_, err := c.Acquire(t.Context(), "r", time.Second)
			return err
		})
		requireLimit(500*ms, ErrHeld, func() error {
			_, err := c.RW("r").Write().Acquire(t.Context(), time.Second)
			return err
		})
		longer := HoldOptions{TTL: time.Second, MaxWait: 2 * time.Second}
		requireLimit(2*time.Second, ErrHeld, func() error { return c.Lock("r").DoWith(t.Context(), longer, work) })
		short, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		err := c.Do(short, "r", time.Second, work)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrMaxWait, "the caller's own deadline came first")

		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, c.Do(t.Context(), "r", time.Second, work), "the work takes what it takes")
		each(m.nodes[:2], func(n *redistest.Node) { n.Refuse("-OOM command not allowed", "SET") })
		requireLimit(500*ms, ErrNoQuorum, func() error { return c.Do(t.Context(), "r", time.Second, work) })
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

func TestAcquireTriesAgainAfterExpired(t *testing.T) { // R11
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, Config{NodeTimeout: time.Second})
		m.delay(0, 99*ms) // 100 ms − 99 ms − (1% + 2 ms) < 0
		time.AfterFunc(250*ms, func() { m.delay(0, 2*ms) })
		lock, err := c.Acquire(context.Background(), "r", 100*ms)
		require.NoError(t, err)
		require.Equal(t, 95*ms, lock.Validity(), "it counts from the last attempt")
		require.Positive(t, c.Stats().Attempts.Expired)
		require.Greater(t, m.nodes[0].Calls("SET"), 1)
	})
}

// The context ends during an attempt: so does the call. The error has the
// outcome of the previous attempt, once (R12).
func TestAContextThatEndsDuringALaterAttempt_R12(t *testing.T) {
	plain := func(ctx context.Context, c *Client) (Lock, error) { return c.Acquire(ctx, "r", time.Minute) }
	for name, x := range map[string]struct {
		config  Config
		acquire func(context.Context, *Client) (Lock, error)
	}{
		"in turn": {Config{}, plain},
		"polling": {Config{Retry: Retry{Tries: 1_000_000, MinDelay: time.Millisecond}}, plain},
		"alone":   {Config{}, func(ctx context.Context, c *Client) (Lock, error) { return c.RW("r").Write().Acquire(ctx, time.Minute) }},
	} {
		simulatedAs(t, name, 1, func(t *testing.T, m *memory) {
			var tries int
			x.config.Tracer = &Tracer{AcquireDone: func(_ context.Context, i CallInfo) { tries = i.Tries }}
			c := m.client(t, x.config)
			m.nodes[0].DB().Set("r", stranger, 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				if args[0] == "SET" || args[0] == "EVALSHA" && args[1] == wire.Write.Digest {
					if asked++; asked == 2 {
						m.link(0).Pause(redistest.Down)
						cancel()
					}
				}
				return nil, false
			})
			_, err := x.acquire(ctx, c)
			m.link(0).Resume(redistest.Down)
			require.Equal(t, 2, tries)
			var cancelled *CancelledError
			require.ErrorAs(t, err, &cancelled)
			require.ErrorIs(t, cancelled.Last, ErrHeld)
			require.Equal(t, `redlock: "r": context canceled; resource is held`, err.Error())
		})
	}
}

// The effects of one caller or one burst must stay local: in these cases every
// caller once lost a connection, memory or a key.

// pausing is a context whose first query takes long, like a caller that was not
// scheduled after it read the clock.
type pausing struct {
	context.Context
	once  sync.Once
	pause time.Duration
}

func (p *pausing) Err() error {
	p.once.Do(func() { time.Sleep(p.pause) })
	return p.Context.Err()
}

// A starved client sheds no node (R26): ages count from the queueing, not from
// the caller's start.
func TestStarvedCallerShedsNobody_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, 5)
		for i := range 5 {
			m.delay(i, 2*ms)
		}
		c := m.client(t, Config{})
		_, _ = c.TryAcquire(&pausing{Context: context.Background(), pause: 1100 * ms}, "a", 10*time.Second)
		mustAcquire(t, c, "b", 10*time.Second)
		for _, n := range c.group.Nodes() {
			require.Zero(t, n.Sheds, n.Addr)
			require.Less(t, n.ReplyTime, 10*ms, "the pause is no reply time")
		}
	})
}

// A server without HELLO takes two connections per attempt; the budget counts
// both (R21, R26).
func TestConnectsToAnOldServerThatLoads_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := redistest.NewNetwork()
		node := redistest.NewNode(redistest.NodeConfig{NoHello: true})
		node.Serve(network.Listen("node0:6379"))
		node.Refuse("-LOADING Redis is loading the dataset in memory", "INFO")
		t.Cleanup(func() { _, _ = node.Close(), network.Close() })
		var dials atomic.Int64
		c, err := New(t.Context(), Config{
			Nodes: Nodes("redis://node0:6379"),
			Connect: Connect{NetDial: func(ctx context.Context, n, a string) (net.Conn, error) {
				dials.Add(1)
				return network.Dial(ctx, n, a)
			}},
		})
		require.NoError(t, err)
		t.Cleanup(func() { closeNow(t, c) })
		time.Sleep(time.Minute)
		require.LessOrEqual(t, dials.Load(), int64(75))
		require.Greater(t, dials.Load(), int64(20))
	})
}

// What multiplex says becomes an error of this package, which still has each
// node's cause (R12).
func TestTranslate(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{nil, nil}, {multiplex.ErrOverloaded, ErrOverloaded}, {multiplex.ErrClosed, ErrClosed},
		{context.Canceled, context.Canceled}, {multiplex.ErrRefused, ErrHeld},
	} {
		require.Equal(t, c.want, translate(c.err, ErrHeld), "the sentinel itself")
	}
	undecided := &multiplex.UndecidedError{Nodes: []*multiplex.NodeError{
		{Node: 1, Addr: "b:6379", Err: multiplex.ErrTimeout},
		{Node: 2, Addr: "c:6379", Err: io.ErrUnexpectedEOF},
	}}
	err := translate(undecided, ErrHeld)
	for _, is := range []error{ErrNoQuorum, multiplex.ErrUndecided, multiplex.ErrTimeout, io.ErrUnexpectedEOF} {
		require.ErrorIs(t, err, is)
	}
	require.NotErrorIs(t, err, ErrHeld)
	var one *multiplex.NodeError
	require.ErrorAs(t, err, &one)
	require.Equal(t, 1, one.Node)
	require.Equal(t, "redlock: no quorum of nodes answered: "+
		"node 1 (b:6379): no answer in time; node 2 (c:6379): unexpected EOF", err.Error())
}

// A CancelledError is the context's error, its cause, and the last outcome
// (R12).
func TestCancelledErrorIsContextCauseAndOutcome(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errWork)
	err := cancelledError(ctx, ErrHeld)
	for _, is := range []error{context.Canceled, errWork, ErrHeld} {
		require.ErrorIs(t, err, is)
	}
	require.NotErrorIs(t, err, ErrNoQuorum)
	require.Equal(t, "redlock: context canceled (work failed); resource is held", err.Error())
	late, done := context.WithTimeout(context.Background(), -1)
	defer done()
	err = cancelledError(late, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Nil(t, err.(*CancelledError).Cause, "it is the context's error once more")
	require.Equal(t, "redlock: context deadline exceeded", err.Error())
	require.Len(t, err.(*CancelledError).Unwrap(), 1)
}

// A situation is a client whose calls fail.
type situation struct {
	client *Client
	ctx    context.Context
	name   string
	ttl    time.Duration
	// What was granted before, of this client.
	lock, several, read, write Lock
	hold                       *Hold
}

// callsOf are all calls that are for a resource, by name. Each returns its
// error.
func callsOf(s *situation) map[string]func() error {
	c, options := s.client, HoldOptions{TTL: s.ttl}
	both := []string{s.name, s.name + "-2"}
	fn := func(context.Context) error { return nil }
	calls := map[string]func() error{
		"TryAcquire":    func() error { _, err := c.TryAcquire(s.ctx, s.name, s.ttl); return err },
		"Acquire":       func() error { _, err := c.Acquire(s.ctx, s.name, s.ttl); return err },
		"TryHold":       func() error { _, err := c.Lock(s.name).TryHold(s.ctx, options); return err },
		"Hold":          func() error { _, err := c.Hold(s.ctx, s.name, options); return err },
		"Do":            func() error { return c.Do(s.ctx, s.name, s.ttl, fn) },
		"DoWith":        func() error { return c.Lock(s.name).DoWith(s.ctx, options, fn) },
		"TryAcquireAll": func() error { _, err := c.All(both...).TryAcquire(s.ctx, s.ttl); return err },
		"AcquireAll":    func() error { _, err := c.All(both...).Acquire(s.ctx, s.ttl); return err },
		"TryHoldAll":    func() error { _, err := c.All(both...).TryHold(s.ctx, options); return err },
		"HoldAll":       func() error { _, err := c.All(both...).Hold(s.ctx, options); return err },
		"DoAll":         func() error { return c.All(both...).DoWith(s.ctx, options, fn) },
		"twice":         func() error { _, err := c.All(s.name, s.name).TryAcquire(s.ctx, s.ttl); return err },
		"heal of two":   func() error { _, err := c.All(both...).Hold(s.ctx, HoldOptions{TTL: s.ttl, Heal: true}); return err },
		"reentrant": func() error {
			_, err := c.Hold(s.ctx, s.name, HoldOptions{TTL: s.ttl, Reentrant: true})
			return err
		},
		"Adopt":     func() error { _, err := c.Adopt(s.name, Token{1}, "", s.ttl, time.Time{}); return err },
		"Keep":      func() error { _, err := c.Keep(s.ctx, s.lock, options); return err },
		"Inspect":   func() error { _, err := Inspect(s.ctx, c, s.name); return err },
		"Extend":    func() error { _, err := s.lock.Extend(s.ctx, s.ttl); return err },
		"Release":   func() error { return s.lock.Release(s.ctx) },
		"all":       func() error { return s.several.Release(s.ctx) },
		"hold":      func() error { return s.hold.Release(s.ctx) },
		"Detach":    func() error { _, err := s.hold.Detach(); return err },
		"Upgrade":   func() error { _, err := c.RW(s.name).Upgrade(s.ctx, s.read, s.ttl); return err },
		"Downgrade": func() error { _, err := c.RW(s.name).Downgrade(s.ctx, s.write, s.ttl); return err },
		"another's": func() error { _, err := c.RW(s.name).Downgrade(s.ctx, s.read, s.ttl); return err },
		"Run":       func() error { return Run(s.ctx, c, s.name, s.ttl, fn) },
		"StepDown":  func() error { return StepDown(s.ctx, c, "resource-e", time.Second) },
		"Leader":    func() error { return Leader(s.ctx, c, s.name) },
		"no permits": func() error {
			_, err := c.Semaphore(s.name, 0).TryAcquire(s.ctx, s.ttl)
			return err
		},
	}
	for kind, k := range map[string]Locker{
		"read": c.RW(s.name).Read(), "write": c.RW(s.name).Write(), "permit": c.Semaphore(s.name, 1), "fair": c.Fair(s.name),
	} {
		calls[kind+" TryAcquire"] = func() error { _, err := k.TryAcquire(s.ctx, s.ttl); return err }
		calls[kind+" Acquire"] = func() error { _, err := k.Acquire(s.ctx, s.ttl); return err }
		calls[kind+" TryHold"] = func() error { _, err := k.TryHold(s.ctx, options); return err }
		calls[kind+" Hold"] = func() error { _, err := k.Hold(s.ctx, options); return err }
		calls[kind+" heal"] = func() error { _, err := k.Hold(s.ctx, HoldOptions{TTL: s.ttl, Heal: true}); return err }
		calls[kind+" TryHold heal"] = func() error { _, err := k.TryHold(s.ctx, HoldOptions{TTL: s.ttl, Heal: true}); return err }
		calls[kind+" DoWith"] = func() error { return k.DoWith(s.ctx, options, fn) }
	}
	return calls
}

// Every error of a call for a resource names it, whatever went wrong, and is
// still found by errors.Is. ErrHeld from TryAcquire alone is bare: it costs no
// allocation (R12).
func TestEveryErrorOfACallNamesItsResource_R12(t *testing.T) {
	for why, c := range map[string]struct {
		config  Config
		arrange func(t *testing.T, m *memory, s *situation)
		is      error // of most calls
	}{
		"closed": {Config{}, func(t *testing.T, _ *memory, s *situation) { closeNow(t, s.client) }, ErrClosed},
		"drained": {Config{}, func(t *testing.T, _ *memory, s *situation) {
			require.NoError(t, s.hold.Release(t.Context()))
			require.NoError(t, s.client.Drain(t.Context()))
		}, ErrClosed},
		"cancelled": {Config{}, func(t *testing.T, _ *memory, s *situation) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.ctx = ctx
		}, context.Canceled},
		"held by another": {Config{Retry: Retry{Tries: 1}}, func(t *testing.T, m *memory, s *situation) {
			s.name = "held"
			heldByAnother(t, m, s.name)
		}, ErrHeld},
		"waits in vain": {Config{MaxWait: 50 * ms}, func(t *testing.T, m *memory, s *situation) {
			s.name = "held"
			heldByAnother(t, m, s.name)
		}, ErrHeld},
		"no quorum": {Config{Retry: Retry{FailFast: true}, NodeTimeout: 20 * ms}, func(t *testing.T, m *memory, _ *situation) {
			each(m.nodes, (*redistest.Node).Pause)
		}, ErrNoQuorum},
		"no TTL":                     {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.ttl = -1 }, ErrTTL},
		"too long a TTL":             {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.ttl = time.Hour }, ErrTTL},
		"a name of the client's own": {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.name = "resource:redlock:readers" }, ErrResource},
		"the name of a seal":         {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.name = wire.SealName }, ErrResource},
		"lost": {Config{}, func(t *testing.T, m *memory, s *situation) {
			for _, n := range m.nodes {
				for _, key := range n.Keys() {
					if strings.Contains(key, "resource") {
						n.DB().Delete(key)
					}
				}
			}
			time.Sleep(20 * time.Second)
		}, nil},
		"nested": {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.ctx, s.name = s.hold.Context(), "resource-held" }, nil},
		"overloaded": {Config{Retry: Retry{FailFast: true, Tries: 1}}, func(t *testing.T, m *memory, s *situation) {
			crowd(t, m, s.client)
		}, ErrOverloaded},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, 3)
				c.config.Fenced, c.config.Owner, c.config.MaxTTL = true, "web-1", time.Minute
				s := prepared(t, m, m.opened(t, c.config))
				c.arrange(t, m, s)
				errs, met := 0, 0
				outer := s.ctx
				for call, do := range callsOf(s) {
					var cancel context.CancelFunc
					s.ctx, cancel = context.WithTimeout(outer, 3*time.Second)
					err := do()
					cancel()
					if err == nil || call == "TryAcquire" && err == ErrHeld {
						continue
					}
					errs++
					if c.is != nil && errors.Is(err, c.is) {
						met++
					}
					named, lost := (*ResourceError)(nil), (*LostError)(nil)
					if errors.As(err, &lost) {
						require.Contains(t, err.Error(), quoted(lost.Resource))
						continue
					}
					require.ErrorAs(t, err, &named, "%s: %v", call, err)
					require.True(t, strings.HasPrefix(named.Resource, s.name) || strings.HasPrefix(named.Resource, "resource"), "%s: %v", call, err)
					require.Contains(t, err.Error(), quoted(named.Resource), call)
					if errors.Is(err, ErrResource) {
						require.Equal(t, s.name, named.Resource, "%s: of several, the one that is wrong", call)
					}
					require.Equal(t, 1, strings.Count(err.Error(), "redlock: "), "%s: %v", call, err)
				}
				t.Log(errs, "errors, of them", met, "are", c.is)
				require.Greater(t, errs, 5)
				if c.is != nil {
					require.Greater(t, met, 5, "%v", c.is)
				}
			})
		})
	}
}

// prepared returns a situation with a lock of each kind.
func prepared(t *testing.T, m *memory, c *Client) *situation {
	t.Helper()
	s := &situation{client: c, ctx: t.Context(), name: "resource", ttl: 10 * time.Second}
	var err error
	s.lock, err = c.TryAcquire(t.Context(), "resource", s.ttl)
	require.NoError(t, err)
	s.several, err = c.All("resource-a", "resource-b").TryAcquire(t.Context(), s.ttl)
	require.NoError(t, err)
	s.hold, err = c.Lock("resource-held").TryHold(t.Context(), HoldOptions{TTL: s.ttl})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.hold.Release(context.Background()) })
	rw := c.RW("resource-rw")
	s.read, err = rw.Read().TryAcquire(t.Context(), s.ttl)
	require.NoError(t, err)
	s.write, err = c.RW("resource-w").Write().TryAcquire(t.Context(), s.ttl)
	require.NoError(t, err)
	return s
}

// heldByAnother makes another client hold a resource, in every way.
func heldByAnother(t *testing.T, m *memory, name string) {
	t.Helper()
	other := m.opened(t, Config{MaxTTL: time.Minute})
	mustAcquire(t, other, name, time.Minute)
	_, err := other.Semaphore(name, 1).TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
}

// crowd replaces the client's group by one that takes one command at a time,
// and makes it wait.
func crowd(t *testing.T, m *memory, c *Client) {
	t.Helper()
	group, err := c.groupConfig()
	require.NoError(t, err)
	closeNow(t, c)
	c.refused = make(chan struct{})
	c.refusing.Store(false)
	c.group, err = multiplex.New(multiplex.Config{
		Nodes: group.Nodes, MaxPending: 1, ShedAfter: time.Hour, VoteTimeout: time.Hour, Cure: wire.Cure(wire.Scripts(c.config.Fenced)),
	})
	require.NoError(t, err)
	require.NoError(t, c.Ready(t.Context()))
	each(m.nodes, (*redistest.Node).Pause)
	gone, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		each(m.nodes, (*redistest.Node).Resume)
		cancel()
		closeNow(t, c)
	})
	go func() { _, _ = c.TryAcquire(gone, "first", time.Minute) }()
	synctest.Wait()
}

// A full log refuses at once and sends nothing. Acquire tries again, since
// there will be room (R26).
func TestOverloaded_R26(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		crowd(t, m, c)
		start := time.Now()
		_, err := c.TryAcquire(t.Context(), "second", time.Minute)
		require.ErrorIs(t, err, ErrOverloaded)
		require.Zero(t, time.Since(start))
		time.AfterFunc(time.Second, m.nodes[0].Resume)
		_, err = c.Acquire(t.Context(), "second", time.Minute)
		require.NoError(t, err)
	})
}
