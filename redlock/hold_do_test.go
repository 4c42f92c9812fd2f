package redlock

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errWork = errors.New("work failed")

// Do returns fn's error unchanged, joined with the release's error if that
// failed too.
func TestDoReportsBothErrors(t *testing.T) { // R14
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		var run context.Context
		err := c.Do(context.Background(), "r", time.Second, func(ctx context.Context) error {
			run = ctx
			return errWork
		})
		require.True(t, err == errWork)
		require.ErrorIs(t, run.Err(), context.Canceled, "the context ends with the call")
		err = c.Do(context.Background(), "r", time.Minute, func(context.Context) error {
			time.Sleep(10 * ms)
			m.forget("r")
			return errWork
		})
		require.ErrorIs(t, err, errWork)
		require.ErrorIs(t, err, ErrNotHeld)
		require.NotErrorIs(t, err, ErrLost, "the loss had not been noticed")
		err = c.Do(context.Background(), "r", time.Minute, func(ctx context.Context) error {
			time.Sleep(10 * ms)
			m.forget("r")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, err, ErrLost)
		var lost *LostError
		require.ErrorAs(t, err, &lost)
		err = c.Lock("r").DoWith(context.Background(), HoldOptions{TTL: time.Minute, MaxHold: time.Second},
			func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		require.ErrorIs(t, err, ErrMaxHold, "not all was done under it")
		require.NotErrorIs(t, err, ErrNotHeld)
	})
}

// The release survives the cancellation of the caller's context; fn's context
// does not (R14).
func TestDoReleasesThoughItsContextEnded(t *testing.T) {
	errCause := errors.New("no longer wanted")
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		m.far(20 * ms) // so long that a caller whose context has ended would not wait
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(errCause) })
		start := time.Now()
		err := c.Do(ctx, "r", 10*time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			require.Equal(t, errCause, context.Cause(ctx))
			return ctx.Err()
		})
		require.Equal(t, context.Canceled, err, "and nothing about the release, which was granted")
		require.InDelta(t, time.Second+20*ms, time.Since(start), float64(3*ms))
		time.Sleep(20 * ms)
		require.Zero(t, m.keys())

		limited, cancelLimited := context.WithTimeoutCause(context.Background(), time.Second, errCause)
		defer cancelLimited()
		deadline, _ := limited.Deadline()
		err = c.Do(limited, "r", 10*time.Second, func(ctx context.Context) error {
			seen, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, deadline, seen)
			<-ctx.Done()
			require.Equal(t, errCause, context.Cause(ctx))
			return ctx.Err()
		})
		require.Equal(t, context.DeadlineExceeded, err)
		time.Sleep(20 * ms)
		require.Zero(t, m.keys())
	})
}

// A panic, and runtime.Goexit, continue, and leave no lock behind.
func TestDoReleasesThoughItPanics(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		require.PanicsWithValue(t, "oops", func() {
			_ = c.Do(context.Background(), "r", 10*time.Second, func(context.Context) error { panic("oops") })
		})
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Do(context.Background(), "r", 10*time.Second, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		}()
		<-done
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// A context that ends while the lock is granted, or right after that, ends the
// call: fn is not called, nor is that of an election, and no lock is left
// behind.
func TestNothingStartsWithAnEndedContext_R14(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		granted := func() {}
		c := m.opened(t, fenced(func(c *Config) {
			c.Owner, c.MaxTTL = "a", 3*time.Second
			c.Tracer = &Tracer{AttemptDone: func(_ context.Context, i CallInfo) {
				if i.Err == nil {
					granted()
				}
			}}
		}))
		m.far(40 * ms)
		fn := func(ctx context.Context) error {
			require.NoError(t, ctx.Err())
			return errWork
		}
		for name, call := range map[string]func(context.Context) error{
			"Do": func(ctx context.Context) error { return c.Do(ctx, "r", time.Second, fn) },
			"MinHold": func(ctx context.Context) error {
				return c.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second, MinHold: time.Second}, fn)
			},
			"Run": func(ctx context.Context) error {
				return Run(ctx, c, "r", 0, fn)
			},
		} {
			const between = 40 // the grant and what follows it
			for at := range 45 {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(at)*ms+ms/2, ErrExpired)
				if at == between {
					granted = func() { <-ctx.Done() }
				}
				err := call(ctx)
				cancel()
				granted = func() {}
				if at <= between {
					var cancelled *CancelledError
					require.ErrorAs(t, err, &cancelled, "%s, %d ms", name, at)
					require.Equal(t, ErrExpired, cancelled.Cause)
					time.Sleep(100 * ms)
					require.Equal(t, StateFree, inspect(t, c, "r").State, "%s, %d ms", name, at)
				} else {
					require.ErrorIs(t, err, errWork, "%s, %d ms", name, at)
					time.Sleep(1100 * ms) // until MinHold is over
				}
			}
		}
	})
}

// fn is never called with less than the minimum validity (R14).
func TestDoStartsNothingThatIsAlmostOver(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{MinValidity: 5 * time.Second})
		var late atomic.Bool
		Sleeps(c, func(kept bool) time.Duration { // this goroutine is not scheduled right after the hold began
			if late.CompareAndSwap(false, kept); late.Load() {
				return 6 * time.Second
			}
			return 0
		})
		err := c.Do(context.Background(), "r", holdTTL, func(context.Context) error {
			t.Error("called")
			return nil
		})
		require.ErrorIs(t, err, ErrExpired)
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// DoValue returns what fn does, also beside an error; without the lock it
// returns nothing.
func TestDoValue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		k := m.client(t, Config{}).Fair("r")
		for want, err := range map[int]error{7: nil, 8: errWork} {
			got, said := DoValue(t.Context(), k, HoldOptions{}, func(context.Context) (int, error) { return want, err })
			require.Equal(t, err, said)
			require.Equal(t, want, got)
		}
		got, err := DoValue(t.Context(), k, HoldOptions{TTL: time.Second}, func(ctx context.Context) (int, error) {
			m.silence()
			<-ctx.Done()
			return 9, ctx.Err()
		})
		require.ErrorIs(t, err, ErrLost)
		require.Equal(t, 9, got)
		m.recover()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		got, err = DoValue(over, k, HoldOptions{}, func(context.Context) (int, error) { return 7, nil })
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, got)
		require.PanicsWithValue(t, "redlock: "+noFunction, func() { _, _ = DoValue[int](t.Context(), k, HoldOptions{}, nil) })
	})
}

func TestFromContextFindsTheInnermostHold(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		_, ok := FromContext(t.Context())
		require.False(t, ok)
		a, b := m.client(t, Config{}), m.client(t, Config{})
		err := a.Do(t.Context(), "outer", time.Second, func(ctx context.Context) error {
			derived, cancel := context.WithTimeout(context.WithValue(ctx, t, "a value"), time.Minute)
			defer cancel()
			h, ok := FromContext(derived)
			require.True(t, ok)
			require.Equal(t, "outer", h.Resource())
			require.Positive(t, h.Validity())
			require.NoError(t, h.Err())
			require.Len(t, m.holders("outer", h.Current().Token()), 3)
			return b.Do(derived, "inner", time.Second, func(ctx context.Context) error {
				h, _ := FromContext(ctx)
				require.Equal(t, "inner", h.Resource())
				require.Equal(t, "outer", a.outer(ctx).hold.Resource())
				require.Equal(t, "a value", ctx.Value(t))
				return nil
			})
		})
		require.NoError(t, err)
		h := mustHold(t, a, "r", HoldOptions{})
		found, _ := FromContext(h.Context())
		require.Same(t, h, found)
	})
}

// A process that was stopped past the validity learns it from the first query
// of the context, of a hold or of Do's function, before any timer has fired
// (R15).
func TestAContextTellsOfASuspendAtOnce_R15(t *testing.T) {
	closed := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ErrLost
		default:
			return nil
		}
	}
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		var slept atomic.Int64
		Sleeps(c, func(bool) time.Duration { return time.Duration(slept.Load()) })
		for name, ask := range map[string]func(context.Context) error{"Err": context.Context.Err, "Cause": context.Cause, "Done": closed} {
			requireEnds := func(ctx context.Context) {
				require.NoError(t, ask(ctx), name)
				slept.Store(int64(11 * time.Second))
				require.Error(t, ask(ctx), name)
				require.ErrorIs(t, context.Cause(ctx), ErrLost)
			}
			slept.Store(0)
			requireEnds(mustHold(t, c, "r"+name, HoldOptions{TTL: 10 * time.Second}).Context())
			slept.Store(0)
			err := c.Do(context.Background(), "s", 10*time.Second, func(ctx context.Context) error {
				requireEnds(ctx)
				return nil
			})
			require.ErrorIs(t, err, ErrLost, name)
		}
	})
}

// A call that would wait for the hold whose context it was given fails at once.
// For another resource, another client or a hold that is over, it waits.
func TestNestedCallsAreReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}), m.client(t, Config{})
		// A call that waits for itself would wait until its context ends.
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var kept context.Context
		err := c.Do(within, "a", time.Second, func(ctx context.Context) error {
			kept = context.WithoutCancel(ctx)
			return c.Do(ctx, "b", time.Second, func(ctx context.Context) error {
				for _, resource := range []string{"a", "b"} {
					start := time.Now()
					err := c.Do(ctx, resource, time.Second, nothing)
					require.ErrorIs(t, err, ErrNested)
					require.Contains(t, err.Error(), `redlock: "`+resource+`": the context of this call holds the lock already`)
					_, err = c.Acquire(ctx, resource, time.Second)
					require.ErrorIs(t, err, ErrNested)
					_, err = c.Hold(context.WithValue(ctx, new(int), 1), resource, HoldOptions{TTL: time.Second})
					require.ErrorIs(t, err, ErrNested)
					_, err = c.TryAcquire(ctx, resource, time.Second)
					require.Equal(t, ErrHeld, err)
					short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					defer cancel()
					require.ErrorIs(t, other.Do(short, resource, time.Second, nothing), context.DeadlineExceeded)
					require.LessOrEqual(t, time.Since(start), time.Second)
				}
				return c.Do(ctx, "c", time.Second, nothing)
			})
		})
		require.NoError(t, err)
		require.NoError(t, c.Do(kept, "a", time.Second, nothing), "that hold is over")

		h, err := c.Hold(t.Context(), "h", HoldOptions{TTL: time.Second})
		require.NoError(t, err)
		require.ErrorIs(t, c.Do(h.Context(), "h", time.Second, nothing), ErrNested)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, c.Do(context.WithoutCancel(h.Context()), "h", time.Second, nothing))
	})
}

// A function that has entered an outer hold still runs under those in between:
// a call for one of them would wait for itself, or enters it.
func TestNestedCallsBelowAReentrantOne_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		var outer, inner *Hold
		require.NoError(t, c.Do(within, "a", time.Second, func(ctx context.Context) error {
			outer, _ = FromContext(ctx)
			return c.Do(ctx, "b", time.Second, func(ctx context.Context) error {
				inner, _ = FromContext(ctx)
				return c.Lock("a").DoWith(ctx, again, func(ctx context.Context) error {
					h, _ := FromContext(ctx)
					require.Same(t, outer, h)
					require.ErrorIs(t, c.Do(ctx, "b", time.Second, nothing), ErrNested)
					return c.Lock("b").DoWith(ctx, again, func(ctx context.Context) error {
						h, _ := FromContext(ctx)
						require.Same(t, inner, h)
						require.ErrorIs(t, c.Do(ctx, "a", time.Second, nothing), ErrNested)
						return c.Do(ctx, "c", time.Second, func(context.Context) error { return nil })
					})
				})
			})
		}))
	})
}

// A call by another client of the process would wait for itself as well. Two
// clients lock the same if their masters say that they are one deployment.
func TestNestedCallsOfAnotherClientAreReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.opened(t, Config{MaxTTL: time.Minute})
		same := m.client(t, Config{MaxTTL: time.Minute})
		elsewhere := m.opened(t, Config{MaxTTL: time.Minute, Prefix: "another:"})
		err := c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, same.Do(ctx, "r", time.Second, nothing), ErrNested)
			require.ErrorIs(t, same.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second, Reentrant: true}, nothing), ErrNested)
			require.Zero(t, time.Since(start), "no node was asked")
			require.NoError(t, same.Do(ctx, "s", time.Second, nothing))
			return elsewhere.Do(ctx, "r", time.Second, nothing)
		})
		require.NoError(t, err)
	})
}

// A reentrant call runs under the outer hold, which is released at its end: not
// before, whatever the inner calls do. The nodes hear nothing of those.
func TestReentrantCalls(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}), m.client(t, Config{})
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		var depth func(ctx context.Context, n int) error
		depth = func(ctx context.Context, n int) error {
			return c.Lock("r").DoWith(ctx, again, func(ctx context.Context) error {
				h, ok := FromContext(ctx)
				require.True(t, ok)
				require.Equal(t, "r", h.Resource())
				require.NoError(t, ctx.Err())
				if n > 0 {
					require.NoError(t, depth(ctx, n-1))
				}
				_, err := other.TryAcquire(t.Context(), "r", time.Second)
				require.Equal(t, ErrHeld, err)
				if n == 0 {
					return errWork
				}
				return nil
			})
		}
		require.Equal(t, errWork, depth(t.Context(), 0))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
		before := c.Stats()
		require.NoError(t, c.Lock("r").DoWith(t.Context(), again, func(ctx context.Context) error {
			var inner context.Context
			require.Equal(t, errWork, c.Lock("r").DoWith(ctx, again, func(ctx context.Context) error {
				inner = ctx
				return depth(ctx, 0)
			}))
			require.ErrorIs(t, inner.Err(), context.Canceled, "it ends with the function")
			require.EqualValues(t, 1, c.Stats().Attempts.Granted-before.Attempts.Granted)
			require.Equal(t, before.Releases, c.Stats().Releases)
			time.Sleep(3 * time.Second)
			_, err := other.TryAcquire(t.Context(), "r", time.Second)
			require.Equal(t, ErrHeld, err, "it is renewed")

			require.NoError(t, c.Lock("s").DoWith(ctx, again, func(ctx context.Context) error {
				require.NoError(t, c.Lock("r").DoWith(ctx, again, func(context.Context) error { return nil }))
				return nil
			}),
				"another resource")
			require.EqualValues(t, 2, c.Stats().Attempts.Granted-before.Attempts.Granted)
			require.ErrorIs(t, c.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second}, nothing), ErrNested)
			return nil
		}))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())

		_, err := c.Hold(t.Context(), "r", again)
		require.ErrorIs(t, err, ErrHoldOptions)
		_, err = c.All("r", "s").TryHold(t.Context(), again)
		require.ErrorIs(t, err, ErrHoldOptions)
	})
}

// A hold that has ended is not entered, and one of Hold is entered by its
// context.
func TestReentrantUnderAHold(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		h, err := c.Hold(t.Context(), "r", HoldOptions{TTL: time.Second})
		require.NoError(t, err)
		var ran atomic.Int32
		done := make(chan error)
		go func() {
			done <- c.Lock("r").DoWith(h.Context(), again, func(ctx context.Context) error {
				ran.Add(1)
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(100 * ms)
		require.NoError(t, h.Release(t.Context()))
		require.ErrorIs(t, <-done, ErrReleased)
		require.NoError(t, c.Lock("r").DoWith(context.WithoutCancel(h.Context()), again, func(ctx context.Context) error {
			inner, _ := FromContext(ctx)
			require.NotEqual(t, h.begun, inner.begun)
			ran.Add(1)
			return nil
		}),
			"a hold of its own")
		require.EqualValues(t, 2, ran.Load())

		err = c.Lock("r").DoWith(t.Context(), HoldOptions{TTL: time.Minute}, func(ctx context.Context) error {
			return c.Lock("r").DoWith(ctx, again, func(ctx context.Context) error {
				m.forget("r")
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), ErrLost)
				return nil
			})
		})
		require.ErrorIs(t, err, ErrLost)
	})
}

// Where functions under the hold outlive the one that the lock was acquired
// for, the lock is released after the last of them.
func TestReentrantFunctionThatOutlivesTheOuterOne(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}), m.client(t, Config{})
		var working atomic.Int32
		require.NoError(t, c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			for i := range 2 {
				go c.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second, Reentrant: true}, func(ctx context.Context) error {
					working.Add(1)
					<-ctx.Done()
					_, err := other.TryAcquire(t.Context(), "r", time.Second)
					assert.Equal(t, ErrHeld, err)
					time.Sleep(time.Duration(1+4*i) * time.Second)
					working.Add(-1)
					return nil
				})
			}
			time.Sleep(100 * ms)
			return nil
		}))
		require.Zero(t, working.Load())
		mustAcquire(t, other, "r", time.Second)
	})
}

// No function enters a hold whose outer function has returned, though the lock
// is still held: while another one runs there, or while the lock is released.
func TestReentrantCallAfterTheOuterFunction_R14(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		m.far(5 * ms) // which the release takes
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		var under context.Context
		done := make(chan error, 1)
		require.NoError(t, c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			under = context.WithoutCancel(ctx)
			go c.Lock("r").DoWith(under, again, func(context.Context) error {
				time.Sleep(time.Second)
				return nil
			})
			go func() {
				time.Sleep(500 * ms)
				done <- c.Lock("r").DoWith(under, again, func(context.Context) error {
					t.Error("entered")
					return nil
				})
			}()
			time.Sleep(100 * ms)
			return nil
		}))
		require.ErrorIs(t, <-done, ErrNested)
		own := false
		require.NoError(t, c.Lock("r").DoWith(under, again, func(context.Context) error {
			own = true
			return nil
		}))
		require.True(t, own, "by a hold of its own")
	})
}

// A reentrant function does not start with too little validity, or with a
// context that has ended, as that of a hold of its own would not.
func TestReentrantCallThatDoesNotStart_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{MinValidity: 500 * ms})
		enter := func(ctx context.Context) error {
			return c.Lock("r").DoWith(ctx, HoldOptions{Reentrant: true}, func(context.Context) error {
				t.Error("it has started")
				return nil
			})
		}
		require.NoError(t, c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			inner, cancel := context.WithCancelCause(ctx)
			cancel(errWork)
			var cancelled *CancelledError
			require.ErrorAs(t, enter(inner), &cancelled)
			require.Equal(t, errWork, cancelled.Cause)
			return nil
		}))
		require.Zero(t, m.keys())
		_ = c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			each(m.nodes, (*redistest.Node).Pause)
			time.Sleep(700 * ms)
			require.NoError(t, ctx.Err())
			require.ErrorIs(t, enter(ctx), ErrExpired)
			each(m.nodes, (*redistest.Node).Resume)
			return nil
		})
	})
}

// A hold on several resources is entered for some or all of them, and not for
// more.
func TestReentrantOnSeveral(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		require.NoError(t, c.All("a", "b", "c").DoWith(t.Context(), again, func(ctx context.Context) error {
			require.NoError(t, c.Lock("b").DoWith(ctx, again, nothing))
			require.NoError(t, c.All("c", "a").DoWith(ctx, again, nothing))
			require.ErrorIs(t, c.All("c", "d").DoWith(ctx, again, nothing), ErrNested)
			require.NoError(t, c.All("d", "e").DoWith(ctx, again, nothing))
			return nil
		}))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// A function runs under a hold of another kind only if it reads and the hold
// writes. Permits have keys of their own, so a lock of another kind is acquired
// beside them.
func TestReentrantAmongKinds(t *testing.T) {
	const (
		enters = "the outer hold"
		own    = "a hold of its own"
		nested = "ErrNested"
	)
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		again := HoldOptions{TTL: time.Second, Reentrant: true}
		do := []func(context.Context, func(context.Context) error) error{
			func(ctx context.Context, fn func(context.Context) error) error {
				return c.Lock("r").DoWith(ctx, again, fn)
			},
		}
		for _, k := range []Locker{c.RW("r").Read(), c.RW("r").Write(), c.Semaphore("r", 2), c.Fair("r")} {
			do = append(do, func(ctx context.Context, fn func(context.Context) error) error { return k.DoWith(ctx, again, fn) })
		}
		for outer, want := range [][]string{
			//        plain, reading, writing, permit, fair
			{enters, nested, nested, own, nested}, // plain
			{nested, enters, nested, own, nested}, // reading
			{nested, enters, enters, own, nested}, // writing
			{own, own, own, enters, own},          // permit
			{nested, nested, nested, own, enters}, // fair
		} {
			for inner := range want {
				got := nested
				require.NoError(t, do[outer](t.Context(), func(ctx context.Context) error {
					around, _ := FromContext(ctx)
					err := do[inner](ctx, func(ctx context.Context) error {
						got = own
						if under, _ := FromContext(ctx); under == around {
							got = enters
						}
						return nil
					})
					if got == nested {
						require.ErrorIs(t, err, ErrNested)
						return nil
					}
					return err
				}))
				require.Equal(t, want[inner], got, "%d in %d", inner, outer)
				time.Sleep(5 * ms)
			}
		}
	})
}

// A call whose context ended with the outer function is cancelled, whatever the
// outer call still has to do: it is not nested, since nothing waits for it.
func TestAReentrantCallThatComesLateIsCancelled_R12_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for name, late := range map[string]func(context.Context) error{
			"Reentrant": func(ctx context.Context) error {
				return c.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second, Reentrant: true}, nothing)
			},
			"all": func(ctx context.Context) error {
				return c.All("r").DoWith(ctx, HoldOptions{TTL: time.Second, Reentrant: true}, nothing)
			},
			"plain":   func(ctx context.Context) error { return c.Do(ctx, "r", time.Second, nothing) },
			"Acquire": func(ctx context.Context) error { return acquired(c.Acquire(ctx, "r", time.Second)) },
		} {
			got := make(chan error)
			require.NoError(t, c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
				go func() {
					<-ctx.Done()
					got <- late(ctx) // while the outer call releases the lock
				}()
				return nil
			}))
			cancelled := func(err error) {
				require.ErrorIs(t, err, context.Canceled, name)
				require.NotErrorIs(t, err, ErrNested, name)
			}
			cancelled(<-got)
			ctx, cancel := context.WithCancel(t.Context())
			_ = c.Do(ctx, "r", time.Second, func(ctx context.Context) error {
				cancel()
				cancelled(late(ctx)) // before the hold has noticed
				return nil
			})
		}
	})
}

func acquired(_ Lock, err error) error { return err }
