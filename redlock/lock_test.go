package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

func TestTheZeroLockIsHeldByNobody(t *testing.T) {
	var zero Lock
	require.ErrorIs(t, zero.Release(context.Background()), ErrNotHeld)
	_, err := zero.Extend(context.Background(), time.Second)
	require.ErrorIs(t, err, ErrNotHeld)
	require.Zero(t, zero.Validity())
	require.True(t, zero.Until().IsZero())
	require.Empty(t, zero.Resource())
	require.Equal(t, Token{}, zero.Token())
}

func TestALockKnowsWhatItIs(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Prefix: "lock:"})
		start := time.Now()
		lock := mustAcquire(t, c, "r", 10*time.Second)
		require.Equal(t, "r", lock.Resource())
		require.Equal(t, start.Add(10*time.Second-102*ms), lock.Until())
		require.Equal(t, time.Until(lock.Until()), lock.Validity())
		require.Equal(t, []int{0, 1, 2}, m.holders("lock:r", lock.Token()), "the prefix stands before the key")
		time.Sleep(time.Second)
		require.Equal(t, 10*time.Second-102*ms-2*ms-time.Second, lock.Validity())
		time.Sleep(10 * time.Second)
		require.Negative(t, lock.Validity(), "the first question after a pause answers: lost (R15)")
	})
}

func TestExtendGivesANewLockAndLeavesTheOld(t *testing.T) { // R10
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		old := mustAcquire(t, c, "r", 10*time.Second)
		until := old.Until()
		time.Sleep(4 * time.Second)
		start := time.Now()
		longer, err := old.Extend(context.Background(), 20*time.Second)
		require.NoError(t, err)
		require.Equal(t, until, old.Until(), "a lock is a value")
		require.Equal(t, start.Add(20*time.Second-202*ms), longer.Until())
		require.Equal(t, old.Token(), longer.Token())
		require.Equal(t, old.Resource(), longer.Resource())
		require.NoError(t, old.Release(context.Background()), "both are the same lock")
		require.ErrorIs(t, longer.Release(context.Background()), ErrNotHeld)
	})
}

// Neither validity nor keys get shorter, whatever the requested TTL (R10).
func TestExtendNeverShortens(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", 10*time.Second)
		for _, ttl := range []time.Duration{ms, 2 * ms, time.Second, 9900 * ms} {
			shorter, err := lock.Extend(context.Background(), ttl)
			require.NoError(t, err)
			require.Equal(t, lock.Until(), shorter.Until(), "%v", ttl)
			for _, n := range m.nodes {
				left, _ := n.DB().TTL("r")
				require.Greater(t, left, lock.Validity(), "%v", ttl)
			}
		}
	})
}

func TestExtendReCreatesNothing(t *testing.T) { // R10
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", 10*time.Second)
		synctest.Wait()
		m.nodes[0].DB().Delete("r")
		lock, err := lock.Extend(context.Background(), 20*time.Second)
		require.NoError(t, err)
		time.Sleep(5 * ms)
		require.Equal(t, []int{1, 2}, m.holders("r", lock.Token()))

		m.nodes[1].DB().Set("r", stranger, time.Minute)
		_, err = lock.Extend(context.Background(), 20*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		time.Sleep(5 * ms)
		require.Equal(t, []int{2}, m.holders("r", lock.Token()))
		require.Positive(t, lock.Validity(), "a failed extension leaves the old validity as it was")
	})
}

// An extension must not rely on the keys alone: a lock that ended and was taken
// by another client is not extended, even if the holder's clock stood still
// meanwhile (R10).
func TestExtendOfALockThatSomebodyElseTook(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		lock := mustAcquire(t, a, "r", 10*time.Second)
		synctest.Wait()
		for _, n := range m.nodes {
			n.DB().Delete("r") // as FLUSHALL does
		}
		taken := mustAcquire(t, b, "r", 10*time.Second)
		_, err := lock.Extend(context.Background(), 10*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, lock.Release(context.Background()), ErrNotHeld)
		time.Sleep(5 * ms)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", taken.Token()), "the other's lock was touched")
	})
}

func TestExtendChecksItsTTL(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Second)
		calls := m.nodes[0].Calls("EVALSHA")
		for _, ttl := range []time.Duration{0, -1, ms - 1, pure.LongestTTL + ms} {
			_, err := lock.Extend(context.Background(), ttl)
			require.ErrorIs(t, err, ErrTTL)
		}
		require.Equal(t, calls, m.nodes[0].Calls("EVALSHA"))
	})
}

// A failed extension returns the lock unchanged: after
//
//	lock, err = lock.Extend(ctx, ttl)
//
// the lock can still be released, since the nodes may have it (R9, R10).
func TestAFailedExtensionReturnsTheLock_R9_R10(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Second)
		was := lock
		lock, err := lock.Extend(context.Background(), -1)
		require.ErrorIs(t, err, ErrTTL)
		require.True(t, was == lock)
		m.nodes[0].Refuse("-OOM command not allowed")
		m.nodes[1].Refuse("-OOM command not allowed")
		lock, err = lock.Extend(context.Background(), time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.True(t, was == lock)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		lock, err = lock.Extend(cancelled, time.Second)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, was == lock)
		m.nodes[0].Refuse("")
		m.nodes[1].Refuse("")
		require.NoError(t, lock.Release(context.Background()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
		time.Sleep(time.Second)
		lock, err = lock.Extend(context.Background(), time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.True(t, was == lock)
	})
}

func TestALockCanBeExtendedForLong(t *testing.T) { // R10
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		lock := mustAcquire(t, a, "r", time.Second)
		for range 100 {
			time.Sleep(900 * ms)
			var err error
			lock, err = lock.Extend(context.Background(), time.Second)
			require.NoError(t, err)
			_, err = b.TryAcquire(context.Background(), "r", time.Second)
			require.Equal(t, ErrHeld, err)
		}
		require.NoError(t, lock.Release(context.Background()))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

func TestReleaseNeverDeletesAnothersLock(t *testing.T) { // R9
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}), m.client(t, Config{})
		old := mustAcquire(t, a, "r", 100*ms)
		time.Sleep(200 * ms)
		lock := mustAcquire(t, b, "r", time.Minute)
		for range 3 {
			require.ErrorIs(t, old.Release(context.Background()), ErrNotHeld)
		}
		time.Sleep(5 * ms)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()))
	})
}

// A release whose context has ended is still sent; the call does not wait for
// the answers (R9).
func TestACancelledReleaseIsSent(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		for i := range m.nodes {
			m.delay(i, 20*ms)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		err := lock.Release(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.LessOrEqual(t, time.Since(start), 5*ms)
		time.Sleep(10*ms - time.Since(start))
		synctest.Wait()
		require.Zero(t, m.keys())
	})
}

func TestScriptsThatANodeLostAreLoadedAgain(t *testing.T) { // R24
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		synctest.Wait()
		for _, n := range m.nodes {
			n.FlushScripts()
		}
		lock, err := lock.Extend(context.Background(), time.Minute)
		require.NoError(t, err)
		for _, n := range m.nodes {
			n.FlushScripts()
		}
		require.NoError(t, lock.Release(context.Background()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())

		// The release of a failed attempt is not awaited, and there is no other
		// call.
		m.nodes[0].DB().Set("r", stranger, 0)
		m.nodes[1].DB().Set("r", stranger, 0)
		for _, n := range m.nodes {
			n.FlushScripts()
		}
		_, err = c.TryAcquire(context.Background(), "r", time.Minute)
		require.Equal(t, ErrHeld, err)
		time.Sleep(20 * ms)
		require.Empty(t, m.nodes[2].Keys())
		for _, n := range c.Nodes() {
			require.Equal(t, 1, n.Connects, "on the same connection")
		}
	})
}

func TestALockOutlivesItsNodesConnections(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Minute)
		synctest.Wait()
		for _, n := range m.nodes {
			n.DropConns()
		}
		time.Sleep(time.Second)
		for _, n := range c.Nodes() {
			require.Equal(t, 2, n.Connects)
		}
		lock, err := lock.Extend(context.Background(), time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release(context.Background()))
	})
}

// A suspend stops the monotonic clock, a step changes the wall clock: a lock
// trusts neither alone (R4, R15). Simulated time has only one clock, so this
// test uses real time; it asks no node.
func TestALockThatOneClockSaysHasEnded(t *testing.T) {
	for name, until := range map[string]time.Time{
		"the wall":      clocks(time.Now(), 10*time.Second, -time.Hour),
		"the monotonic": clocks(time.Now(), -time.Hour, 10*time.Second),
	} {
		lock := encoding(Config{}).wanted(nil, "r", 0)
		lock.until = until
		require.LessOrEqual(t, lock.Validity(), -time.Hour, name)
		require.Greater(t, lock.Validity(), -time.Hour-time.Minute, name)
		_, err := lock.Extend(context.Background(), time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, name)
	}
}

// The names that a lock shows are a copy: its release needs its own.
func TestResourcesAreACopy(t *testing.T) {
	c := encoding(Config{})
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		l := c.wanted(c.All(names...).kind, "a", time.Second)
		l.Resources()[0] = "c"
		require.Equal(t, names, l.Resources())
	}
}
