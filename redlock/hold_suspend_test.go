package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A machine that sleeps: its monotonic clock, and with it every timer, stands
// still meanwhile. Here that is the test's clock; the advance of the other
// clocks is added to it. Steps of the wall clock are tested in real time: times
// of simulated clocks have only one reading.
type sleeper struct{ wall, slept atomic.Int64 }

func (s *sleeper) read() instant {
	now := time.Now()
	if wall := time.Duration(s.wall.Load()); wall != 0 {
		now = redistest.Clocks(now, 0, wall)
	}
	return instant{now, time.Duration(s.slept.Load())}
}

func sleepyClient(t *testing.T, m *memory) (*Client, *sleeper) {
	t.Helper()
	c := m.client(t, Config{NodeTimeout: 5 * time.Second}) // in real time a busy machine may be slow
	s := new(sleeper)
	c.keeper.clock = s.read
	c.keeper.begun = s.read()
	return c, s
}

const (
	// sleeperTTL is so long that no renewal, which also reads all clocks, is
	// due within forty seconds.
	sleeperTTL = 2 * time.Minute
	// wallClock is how late a look may come in real time on a busy machine.
	wallClock = pure.LookMost + 10*time.Second
)

// After a suspend past the validity the first query of a hold tells the loss.
// Without a query, the context ends at the first look at the clocks, a quarter
// of a second later at most, although no timer is due (R13, R15).
func TestASuspendEndsAHold(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, s := sleepyClient(t, m)
		require.LessOrEqual(t, endsOfSuspended(t, c, func() { s.slept.Store(int64(10 * time.Minute)) }), pure.LookMost)
		require.Zero(t, extensions(m.nodes[0]), "nothing is renewed that is over")
	})
}

func TestASuspendThatOnlyTheWallClockTellsOf(t *testing.T) {
	m := newMemory(t, 3)
	c, s := sleepyClient(t, m)
	require.LessOrEqual(t, endsOfSuspended(t, c, func() { s.wall.Store(int64(10 * time.Minute)) }), wallClock)
	require.Zero(t, extensions(m.nodes[0]))
}

// endsOfSuspended suspends the machine under some holds, and asks each in
// another way. It returns how long the one took to end that was not asked.
func endsOfSuspended(t *testing.T, c *Client, suspend func()) time.Duration {
	t.Helper()
	hold := func(name string) *Hold { return mustHold(t, c, name, HoldOptions{TTL: sleeperTTL}) }
	asked, cause, read, derived, left := hold("asked"), hold("cause"), hold("context"), hold("derived"), hold("left")
	done := left.Context().Done()
	time.Sleep(10 * ms)
	suspend()
	require.Negative(t, asked.Validity())
	require.ErrorIs(t, asked.Err(), ErrLost)
	require.ErrorIs(t, context.Cause(cause.Context()), ErrLost)
	require.ErrorIs(t, read.Context().Err(), context.Canceled)
	require.ErrorIs(t, read.Err(), ErrLost)
	ctx, cancel := context.WithCancel(derived.Context())
	defer cancel()
	require.ErrorIs(t, ctx.Err(), context.Canceled, "what is derived from it now has ended")
	took := awaitClosed(t, done)
	require.ErrorIs(t, left.Err(), ErrLost)
	return took
}

// A suspend that the lock survives makes its renewal due at once; its validity
// is what the worst clock says.
func TestAShortSuspendMakesTheRenewalDue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, s := sleepyClient(t, m)
		h := mustHold(t, c, "r", HoldOptions{})
		time.Sleep(100 * ms)
		s.slept.Store(int64(5 * time.Second))
		require.Equal(t, holdValidity-5*time.Second-102*ms, h.Validity())
		time.Sleep(pure.LookMost + 2*ms)
		require.Equal(t, 1, extensions(m.nodes[0]))
		require.NoError(t, h.Err())
		require.Greater(t, h.Validity(), holdValidity-pure.LookMost)
		time.Sleep(holdThird)
		require.Equal(t, 2, extensions(m.nodes[0]), "and then as ever")
	})
}

// A wall clock that is set back says nothing about a lock, and must not hide a
// later step forward: neither for a held lock, nor for the first one after a
// while without looks.
func TestAWallClockThatIsSetBack(t *testing.T) {
	m := newMemory(t, 3)
	c, s := sleepyClient(t, m)
	h := mustHold(t, c, "r", HoldOptions{TTL: sleeperTTL})
	s.wall.Store(-int64(time.Hour))
	time.Sleep(2 * pure.LookMost)
	require.NoError(t, h.Err())
	require.Positive(t, h.Validity())
	// As if it were granted now: TryAcquire reads the real clock.
	later := func(name string) *Hold {
		lock := mustAcquire(t, c, name, sleeperTTL)
		h := c.newHold(context.Background(), lock, c.keeper.clock(), c.keeper.clock(), HoldOptions{TTL: sleeperTTL})
		require.True(t, c.keeper.keep(h))
		return h
	}
	second := later("second").Context().Done()
	s.wall.Store(-int64(30 * time.Minute))
	require.LessOrEqual(t, awaitClosed(t, second), wallClock, "half an hour passed")
	require.NoError(t, h.Err(), "not since that one was granted")
	require.NoError(t, h.Release(context.Background()))

	time.Sleep(2 * pure.LookMost)
	s.wall.Store(-int64(2 * time.Hour))
	third := later("third").Context().Done()
	s.wall.Store(-int64(time.Hour))
	require.LessOrEqual(t, awaitClosed(t, third), wallClock)
}

// The machine slept while a caller waited for a lock: the grant may be from
// before that, so it is given back, and the caller tries again. The lock is
// offered to the next caller that waits here, which would not hear of it
// otherwise.
func TestASuspendWhileWaitingForAHoldDelaysNobody(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		other := m.client(t, Config{})
		held := mustAcquire(t, other, "r", time.Minute)
		c, s := sleepyClient(t, m)
		time.AfterFunc(time.Second, func() { s.slept.Store(int64(time.Minute)) })
		got := holdsLater(t, c, HoldOptions{TTL: holdTTL})
		time.Sleep(20 * ms)
		w := waits(t.Context(), c, "r")
		time.Sleep(2 * time.Second)
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		took := w.got(t).Sub(start)
		require.NoError(t, w.lock.Release(t.Context()))
		h := <-got
		require.Greater(t, h.Validity(), holdValidity-3*ms)
		require.NoError(t, h.Release(t.Context()))
		require.LessOrEqual(t, took, 10*ms)

		time.AfterFunc(ms, func() { s.slept.Add(int64(time.Minute)) })
		_, err := c.Lock("r").TryHold(t.Context(), HoldOptions{TTL: holdTTL})
		require.ErrorIs(t, err, ErrExpired)
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
	})
}

// The real clocks: the machine does not sleep during this test, so the
// difference stays constant, whatever the scheduler does between two readings.
func TestSleepIsMeasuredByTheKernel(t *testing.T) {
	first := slept()
	require.GreaterOrEqual(t, first, -time.Millisecond)
	for range 1000 {
		require.InDelta(t, first, slept(), float64(clockLeap))
	}
}
