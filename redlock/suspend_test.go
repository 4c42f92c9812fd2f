package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A machine that sleeps: its monotonic clock, and with it every timer, stands still meanwhile. Simulated time does too, since
// the clocks here are that one and what was added to it.
type sleeper struct{ wall, slept atomic.Int64 }

func (s *sleeper) read() instant {
	now := time.Now()
	if wall := time.Duration(s.wall.Load()); wall != 0 {
		now = clocks(now, 0, wall)
	}
	return instant{now, time.Duration(s.slept.Load())}
}

func sleepyClient(t *testing.T, m *memory) (*Client, *sleeper) {
	t.Helper()
	c := m.client(t, Config{})
	s := new(sleeper)
	c.keeper.clock = s.read
	c.keeper.begun = s.read()
	return c, s
}

// A suspend past the validity: the first question that is put tells, and, if none is, the context ends with the first look at
// the clocks, a quarter of a second later at most, though no timer knows that its time is over (R13, R15).
func TestASuspendEndsAHold(t *testing.T) {
	for name, suspend := range map[string]func(s *sleeper){
		"by the clock that knows of sleep": func(s *sleeper) { s.slept.Store(int64(time.Minute)) },
		"by the wall clock":                func(s *sleeper) { s.wall.Store(int64(time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c, s := sleepyClient(t, m)
				asked := mustHold(t, c, "asked", HoldOptions{})
				ended := mustHold(t, c, "context", HoldOptions{})
				left := mustHold(t, c, "left", HoldOptions{})
				time.Sleep(100 * ms)
				suspend(s)
				require.NoError(t, context.Cause(asked.Context()), "no timer has gone off")
				require.Negative(t, asked.Validity())
				require.ErrorIs(t, asked.Err(), ErrLost)
				require.ErrorIs(t, ended.Context().Err(), context.Canceled)
				require.ErrorIs(t, ended.Err(), ErrLost)
				require.LessOrEqual(t, awaitEnd(t, left.Context()), lookMost)
				require.ErrorIs(t, left.Err(), ErrLost)
				require.Zero(t, extensions(m.nodes[0]), "nothing is renewed that is over")
			})
		})
	}
}

// A suspend that the lock outlives makes its renewal due at once; what is left is what the worst clock says.
func TestAShortSuspendMakesTheRenewalDue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, s := sleepyClient(t, m)
		h := mustHold(t, c, "r", HoldOptions{})
		time.Sleep(100 * ms)
		s.slept.Store(int64(5 * time.Second))
		require.Equal(t, holdValidity-5*time.Second-102*ms, h.Validity())
		time.Sleep(lookMost + 2*ms)
		require.Equal(t, 1, extensions(m.nodes[0]))
		require.NoError(t, h.Err())
		require.Greater(t, h.Validity(), holdValidity-lookMost)
		time.Sleep(holdThird)
		require.Equal(t, 2, extensions(m.nodes[0]), "and then as ever")
	})
}

// A wall clock that is set back says nothing about a lock, and must not hide what it says when it goes forward again.
func TestAWallClockThatIsSetBack(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, s := sleepyClient(t, m)
		h := mustHold(t, c, "r", HoldOptions{})
		s.wall.Store(-int64(time.Hour))
		time.Sleep(time.Minute)
		require.NoError(t, h.Err())
		require.Equal(t, 18, extensions(m.nodes[0]))
		later := mustHold(t, c, "later", HoldOptions{})
		time.Sleep(time.Second)
		s.wall.Store(-int64(30 * time.Minute))
		require.LessOrEqual(t, awaitEnd(t, later.Context()), lookMost, "half an hour passed")
		require.ErrorIs(t, h.Err(), ErrLost)
	})
}

// Where nothing is held nobody looks at the clocks; the first hold after a while must not be measured by how they were.
func TestAWallClockThatIsSetBackWhileNothingIsHeld(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, s := sleepyClient(t, m)
		require.NoError(t, mustHold(t, c, "r", HoldOptions{}).Release(context.Background()))
		time.Sleep(time.Second)
		s.wall.Store(-int64(time.Hour))
		h := mustHold(t, c, "r", HoldOptions{})
		s.wall.Store(-int64(59 * time.Minute))
		require.LessOrEqual(t, awaitEnd(t, h.Context()), lookMost)
	})
}

// While nothing is held, nobody looks at all.
func TestTheKeeperRestsWhileNothingIsHeld(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, _ := sleepyClient(t, m)
		var looks atomic.Int64
		c.keeper.clock = func() instant { looks.Add(1); return readClocks() }
		require.NoError(t, mustHold(t, c, "r", HoldOptions{}).Release(context.Background()))
		time.Sleep(time.Second)
		before := looks.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, looks.Load())
		synctest.Wait()
	})
}

// A machine that slept while somebody waited for a lock: what was granted may have been before that, so it is given back, and
// tried again.
func TestASuspendWhileWaitingForAHold(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		other := m.client(t, Config{})
		held := mustAcquire(t, other, "r", time.Minute)
		c, s := sleepyClient(t, m)
		time.AfterFunc(time.Second, func() { s.slept.Store(int64(time.Minute)) })
		time.AfterFunc(2*time.Second, func() { _ = held.Release(context.Background()) })
		h, err := c.Hold(context.Background(), "r", HoldOptions{TTL: holdTTL})
		require.NoError(t, err)
		require.Greater(t, h.Validity(), holdValidity-3*ms)
		require.NoError(t, h.Release(context.Background()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())

		time.AfterFunc(ms, func() { s.slept.Add(int64(time.Minute)) })
		_, err = c.TryHold(context.Background(), "r", HoldOptions{TTL: holdTTL})
		require.Equal(t, ErrExpired, err)
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// The real clocks: nobody sleeps during this test, so the difference stays, whatever the scheduler does between two readings.
func TestSleepIsMeasuredByTheKernel(t *testing.T) {
	first := slept()
	require.GreaterOrEqual(t, first, -time.Millisecond)
	for range 1000 {
		require.InDelta(t, first, slept(), float64(clockLeap))
	}
}
