package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
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
		for i := range m.nodes {
			m.delay(i, 2*ms)
		}
		test(t, m)
	})
}

func mustAcquire(t *testing.T, c *Client, resource string, ttl time.Duration) Lock {
	t.Helper()
	lock, err := c.TryAcquire(context.Background(), resource, ttl)
	require.NoError(t, err)
	return lock
}

func TestAcquireWaitsUntilTheLockIsReleased(t *testing.T) { // R11
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		held := mustAcquire(t, a, "r", 10*time.Second)
		time.AfterFunc(time.Second, func() { held.Release(context.Background()) })
		start := time.Now()
		lock, err := b.Acquire(context.Background(), "r", 10*time.Second)
		require.NoError(t, err)
		waited := time.Since(start)
		require.Greater(t, waited, time.Second)
		require.LessOrEqual(t, waited, time.Second+pure.RetryMost+4*ms, "one delay and one round after the release")
		require.Equal(t, 10*time.Second-102*ms-2*ms, lock.Validity(), "elapsed counts from the last attempt")
		synctest.Wait()
		require.Equal(t, []int{0, 1}, m.holders("r", lock.Token())[:2])
	})
}

func TestAcquireWaitsUntilTheLockHasExpired(t *testing.T) { // R11
	simulated(t, 5, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		held := mustAcquire(t, a, "r", time.Second)
		_, err := b.Acquire(context.Background(), "r", time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, held.Validity(), time.Duration(0), "the lock before must have ended")
	})
}

// Each attempt has its own token (R3), and on every connection its release
// comes before the next attempt's SET (R8, R11).
func TestEachAttemptHasItsTokenAndIsUndoneBeforeTheNext(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.ownerless()
		for _, n := range m.nodes[:2] {
			n.DB().Set("r", stranger, 0)
		}
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

func TestMaxTriesBoundsTheAttempts(t *testing.T) { // R11
	simulated(t, 1, func(t *testing.T, m *memory) {
		m.ownerless()
		m.nodes[0].DB().Set("r", stranger, 0)
		for _, tries := range []int{1, 2, 7} {
			before := m.nodes[0].Calls("SET")
			_, err := m.client(t, Config{Retry: Retry{Tries: tries}}).Acquire(context.Background(), "r", time.Second)
			require.ErrorIs(t, err, ErrHeld)
			require.Equal(t, tries, m.nodes[0].Calls("SET")-before)
		}
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
		t.Run(name, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				for _, n := range m.nodes {
					n.DB().Set("r", stranger, 0)
				}
				c.config.Retry.Tries = 3
				client := m.client(t, c.config)
				start := time.Now()
				_, err := client.Acquire(t.Context(), "r", time.Second)
				require.ErrorIs(t, err, ErrHeld)
				require.GreaterOrEqual(t, time.Since(start), c.least)
				require.LessOrEqual(t, time.Since(start), c.most+10*ms, "and three attempts")
			})
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
		for _, n := range m.nodes[:2] {
			n.Refuse("-OOM command not allowed", "SET")
		}
		requireLimit(500*ms, ErrNoQuorum, func() error { return c.Do(t.Context(), "r", time.Second, work) })
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

func TestFailFastEndsAtNoQuorumButNotAtHeld(t *testing.T) { // R11
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Retry: Retry{FailFast: true}})
		m.nodes[0].Refuse("-OOM command not allowed", "SET")
		m.nodes[1].Refuse("-OOM command not allowed", "SET")
		start := time.Now()
		_, err := c.Acquire(context.Background(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Equal(t, 2*ms, time.Since(start))

		m.nodes[0].Refuse("", "SET")
		m.nodes[1].Refuse("", "SET")
		held := mustAcquire(t, c, "r", time.Minute)
		time.AfterFunc(100*ms, func() { held.Release(context.Background()) })
		_, err = c.Acquire(context.Background(), "r", time.Second)
		require.NoError(t, err)
	})
}

func TestAcquireTriesAgainWithoutAQuorum(t *testing.T) { // R11
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for i := range 2 {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		synctest.Wait()
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { m.link(0).Refuse(false) })
		_, err := c.Acquire(context.Background(), "r", 10*time.Second)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
		require.LessOrEqual(t, time.Since(start), 3*time.Second+1200*ms+pure.RetryMost, "R26: it counts again within 1.2 s")
	})
}

func TestAcquireTriesAgainAfterExpired(t *testing.T) { // R11
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, Config{NodeTimeout: time.Second})
		m.delay(0, 99*ms) // 100 ms − 99 ms − (1% + 2 ms) < 0
		time.AfterFunc(250*ms, func() { m.delay(0, 2*ms) })
		lock, err := c.Acquire(context.Background(), "r", 100*ms)
		require.NoError(t, err)
		require.Equal(t, 95*ms, lock.Validity())
		require.Greater(t, m.nodes[0].Calls("SET"), 1)
	})
}

// A caller that gives up while it waits learns why it had to wait, and that it
// gave up (R12).
func TestAContextThatEndsWhileWaiting(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		held := mustAcquire(t, c, "r", time.Minute)
		cause := errors.New("the shop has closed")
		for name, end := range map[string]func() (context.Context, context.CancelFunc, []error){
			"deadline": func() (context.Context, context.CancelFunc, []error) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				return ctx, cancel, []error{context.DeadlineExceeded}
			},
			"cancel with a cause": func() (context.Context, context.CancelFunc, []error) {
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				return ctx, func() { cancel(nil) }, []error{context.Canceled, cause}
			},
		} {
			ctx, cancel, want := end()
			start := time.Now()
			_, err := c.Acquire(ctx, "r", time.Minute)
			cancel()
			for _, is := range append(want, ErrHeld) {
				require.ErrorIs(t, err, is, name)
			}
			require.NotErrorIs(t, err, ErrNoQuorum)
			require.GreaterOrEqual(t, time.Since(start), time.Second)
			require.LessOrEqual(t, time.Since(start), time.Second+5*ms, "noticed within 5 ms")
		}
		time.Sleep(10 * ms)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", held.Token()), "the holder was not touched")

		for i := range 2 {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Acquire(ctx, "r", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, multiplex.ErrDown, "with each node's cause")
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
		t.Run(name, func(t *testing.T) {
			simulated(t, 1, func(t *testing.T, m *memory) {
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
		})
	}
}

// The context may end in any phase of the attempt; what the attempt set is
// undone (R7).
func TestACancelledAcquireLeavesNothingBehind(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		for i := range m.nodes {
			m.delay(i, time.Duration(2+3*i)*ms)
		}
		a := m.client(t, Config{})
		for after := time.Duration(0); after < 60*ms; after += 700 * time.Microsecond {
			m.nodes[0].DB().Set("r", stranger, 20*ms)
			m.nodes[1].DB().Set("r", stranger, 30*ms)
			m.nodes[2].DB().Set("r", stranger, 30*ms)
			ctx, cancel := context.WithTimeout(context.Background(), after)
			lock, err := a.Acquire(ctx, "r", time.Minute)
			cancel()
			if err == nil {
				require.NoError(t, lock.Release(context.Background()))
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded, "after %v", after)
			}
			time.Sleep(14*ms + 20*ms) // one round trip + 20 ms
			for i, n := range m.nodes {
				if value, ok := n.Get("r"); ok {
					require.Equal(t, stranger, value, "node %d, cancelled after %v", i, after)
				}
			}
		}
	})
}

func TestCloseEndsAnAcquireThatWaits(t *testing.T) { // R28
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		mustAcquire(t, c, "r", time.Minute)
		time.AfterFunc(time.Second, func() { c.Close(context.Background()) })
		_, err := c.Acquire(context.Background(), "r", time.Minute)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestAcquireDoesNotTryAgainWhatCannotBeAsked(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		m.ownerless()
		c := m.client(t, Config{})
		_, err := c.Acquire(context.Background(), "", time.Second)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.Acquire(context.Background(), "r", 0)
		require.ErrorIs(t, err, ErrTTL)
		require.Zero(t, m.nodes[0].Calls("SET"))
	})
}

// Five clients that ask at once split the votes in every way. Each time one of
// them gets the lock in the end, one at a time, and no key stays (R11).
func TestASplitVoteIsResolved(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		const n = 5
		done := make(chan time.Duration, n)
		start := time.Now()
		for range n {
			c := m.client(t, Config{})
			go func() {
				lock, err := c.Acquire(context.Background(), "r", 10*time.Second)
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
				done <- time.Since(start)
			}()
		}
		for range n {
			require.Less(t, <-done, 2*time.Second)
		}
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// All combinations of simultaneous answers, for one to five nodes: the outcome
// follows from the numbers of grants and failures (R1, R5, R12), in whatever
// order they are read.
func TestEveryCombinationOfVotes(t *testing.T) {
	for n := 1; n <= 5; n++ {
		simulated(t, n, func(t *testing.T, m *memory) {
			c := m.client(t, Config{})
			quorum := n/2 + 1
			for code := range power(3, n) {
				granted, failed := 0, 0
				for i, node := range m.nodes {
					node.Refuse("", "SET")
					node.DB().Delete("r")
					switch code / power(3, i) % 3 {
					case 0:
						granted++
					case 1:
						failed++
						node.Refuse("-OOM command not allowed", "SET")
					case 2:
						node.DB().Set("r", stranger, 0)
					}
				}
				lock, err := c.TryAcquire(context.Background(), "r", time.Second)
				switch blocking := n - quorum + 1; {
				case granted >= quorum:
					require.NoError(t, err)
					require.NoError(t, lock.Release(context.Background()))
				case failed >= blocking && n-granted-failed == 0:
					require.ErrorIs(t, err, ErrNoQuorum, "%d of %d granted, %d failed", granted, n, failed)
				case failed < blocking:
					require.Equal(t, ErrHeld, err, "%d of %d granted, %d failed", granted, n, failed)
				default:
					// Both refusals and failures prevent a quorum: the outcome
					// is the one that was decided first (R12).
					require.True(t, errors.Is(err, ErrNoQuorum) || err == ErrHeld, "%v", err)
				}
				time.Sleep(5 * ms)
				left := m.where(func(n *redistest.Node) bool { v, ok := n.Get("r"); return ok && v != stranger })
				require.Empty(t, left, "keys stayed")
			}
		})
	}
}

func power(base, exponent int) int {
	n := 1
	for range exponent {
		n *= base
	}
	return n
}

// A full log refuses at once and sends nothing (R26); Acquire tries again,
// since there will be room.
func TestOverloaded(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, Config{NodeTimeout: 10 * time.Second})
		group, err := c.groupConfig()
		require.NoError(t, err)
		closeNow(t, c)
		c.refused = make(chan struct{}) // the client continues with a group that has less room
		c.refusing.Store(false)
		c.group, err = multiplex.New(multiplex.Config{
			Nodes: group.Nodes, MaxPending: 1, ShedAfter: time.Minute, VoteTimeout: 10 * time.Second, Cure: wire.Cure(wire.Scripts(false)),
		})
		require.NoError(t, err)
		defer closeNow(t, c)
		require.NoError(t, c.Ready(context.Background()))

		m.nodes[0].Pause()
		first := make(chan error)
		go func() {
			_, err := c.TryAcquire(context.Background(), "first", time.Minute)
			first <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, err = c.TryAcquire(context.Background(), "second", time.Minute)
		require.ErrorIs(t, err, ErrOverloaded)
		require.Zero(t, time.Since(start))

		time.AfterFunc(time.Second, m.nodes[0].Resume)
		_, err = c.Acquire(context.Background(), "second", time.Minute)
		require.NoError(t, err)
		require.NoError(t, <-first)
	})
}
