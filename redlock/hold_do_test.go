package redlock

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errWork = errors.New("work failed")

func TestDoWithsRunsAndReleases(t *testing.T) { // R14
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		var run context.Context
		err := a.Do(context.Background(), "r", time.Second, func(ctx context.Context) error {
			run = ctx
			for range 10 {
				time.Sleep(time.Second)
				require.NoError(t, ctx.Err())
				_, err := b.TryAcquire(context.Background(), "r", time.Second)
				require.Equal(t, ErrHeld, err)
			}
			return nil
		})
		require.NoError(t, err)
		require.ErrorIs(t, run.Err(), context.Canceled, "the context ends with the call")
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

func TestDoWithoutTheLockDoesNothing(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{Retry: Retry{Tries: 2}})
		mustAcquire(t, a, "r", time.Minute)
		err := b.Do(context.Background(), "r", time.Second, func(context.Context) error {
			t.Error("called")
			return nil
		})
		require.ErrorIs(t, err, ErrHeld)
	})
}

// Do returns fn's error unchanged, joined with the release's error if that
// failed too.
func TestDoReportsBothErrors(t *testing.T) { // R14
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		err := c.Do(context.Background(), "r", time.Second, func(context.Context) error { return errWork })
		require.True(t, err == errWork)
		flush := func() {
			for _, n := range m.nodes {
				n.DB().Delete("r")
			}
		}
		err = c.Do(context.Background(), "r", time.Minute, func(context.Context) error {
			time.Sleep(10 * ms)
			flush()
			return errWork
		})
		require.ErrorIs(t, err, errWork)
		require.ErrorIs(t, err, ErrNotHeld)
		require.NotErrorIs(t, err, ErrLost, "the loss had not been noticed")
		err = c.Do(context.Background(), "r", time.Minute, func(ctx context.Context) error {
			time.Sleep(10 * ms)
			flush()
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
		for i := range m.nodes {
			m.delay(i, 20*ms) // so long that a caller whose context has ended would not wait
		}
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

		limited, cancelLimited := context.WithTimeout(context.Background(), time.Second)
		defer cancelLimited()
		deadline, _ := limited.Deadline()
		err = c.Do(limited, "r", 10*time.Second, func(ctx context.Context) error {
			seen, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, deadline, seen)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(20 * ms)
		require.Zero(t, m.keys())
	})
}

// fn's context ends with the error and the cause of the caller's context, with
// or without a deadline.
func TestDoEndsAsItsContextDid(t *testing.T) {
	errBudget := errors.New("the budget is used up")
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for range 50 {
			limited, cancel := context.WithTimeoutCause(context.Background(), time.Second, errBudget)
			err := c.Do(limited, "r", 10*time.Second, func(ctx context.Context) error {
				<-ctx.Done()
				require.Equal(t, errBudget, context.Cause(ctx))
				return ctx.Err()
			})
			require.Equal(t, context.DeadlineExceeded, err)
			cancel()
		}
	})
}

// fn's context also reads the clocks: a process that was stopped past the
// validity learns it from the first query (R15).
func TestDoTellsOfASuspendAtOnce_R15(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		real := c.keeper.clock
		var slept atomic.Int64
		c.keeper.clock = func() instant {
			now := real()
			now.slept += time.Duration(slept.Load())
			return now
		}
		for _, ask := range []func(context.Context) error{context.Context.Err, context.Cause} {
			slept.Store(0)
			err := c.Do(context.Background(), "r", 10*time.Second, func(ctx context.Context) error {
				require.NoError(t, ask(ctx))
				slept.Store(int64(11 * time.Second))
				require.Error(t, ask(ctx))
				require.ErrorIs(t, context.Cause(ctx), ErrLost)
				return nil
			})
			require.ErrorIs(t, err, ErrLost)
		}
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

// A context that ends while the lock is granted ends the call: fn is not
// called, nor is that of an election, and no lock is left behind.
func TestNothingStartsWithAnEndedContext_R14(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced(func(c *Config) { c.Owner, c.MaxTTL = "a", 3*time.Second }))
		for i := range m.nodes {
			m.delay(i, 40*ms)
		}
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
			for at := range 45 {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(at)*ms+ms/2, ErrExpired)
				err := call(ctx)
				cancel()
				if at < 40 {
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
		real, k := c.keeper.clock, c.keeper
		k.clock = func() instant { // this goroutine is not scheduled right after the hold began
			now := real()
			if k.mu.TryLock() {
				late.CompareAndSwap(false, k.schedule.Len() > 0)
				k.mu.Unlock()
			}
			if late.Load() {
				now.slept += 6 * time.Second
			}
			return now
		}
		err := c.Do(context.Background(), "r", holdTTL, func(context.Context) error {
			t.Error("called")
			return nil
		})
		require.ErrorIs(t, err, ErrExpired)
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}
