package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		for i := range m.nodes {
			m.delay(i, 5*ms) // which the release takes
		}
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

// A reentrant function does not start with too little validity, as that of a
// hold of its own would not.
func TestReentrantCallWithTooLittleValidity_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{MinValidity: 500 * ms})
		_ = c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			for _, n := range m.nodes {
				n.Pause()
			}
			time.Sleep(700 * ms)
			require.NoError(t, ctx.Err())
			require.ErrorIs(t, c.Lock("r").DoWith(ctx, HoldOptions{Reentrant: true}, func(context.Context) error {
				t.Error("it has started")
				return nil
			}),
				ErrExpired)
			for _, n := range m.nodes {
				n.Resume()
			}
			return nil
		})
	})
}

// A reentrant function does not start with a context that has ended, as that of
// a hold of its own would not.
func TestReentrantCallWithAnEndedContext(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		require.NoError(t, c.Do(t.Context(), "r", time.Second, func(ctx context.Context) error {
			inner, cancel := context.WithCancelCause(ctx)
			cancel(errWork)
			err := c.Lock("r").DoWith(inner, HoldOptions{Reentrant: true}, func(context.Context) error {
				t.Error("it has started")
				return nil
			})
			var cancelled *CancelledError
			require.ErrorAs(t, err, &cancelled)
			require.Equal(t, errWork, cancelled.Cause)
			return nil
		}))
		require.Zero(t, m.keys())
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
			err := <-got
			require.ErrorIs(t, err, context.Canceled, name)
			require.NotErrorIs(t, err, ErrNested, name)
		}
	})
}

func acquired(_ Lock, err error) error { return err }
