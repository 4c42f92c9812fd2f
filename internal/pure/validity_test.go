package pure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// seeded returns a source of random numbers and logs its seed.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// clocks returns a reading of both clocks, with the monotonic one advanced by
// mono and the wall clock by wall. Package time has no function for this, since
// only a suspend or a step of the clock does it. clocks relies on the layout of
// time.Time: a word with nanoseconds in its lowest 30 bits and seconds in the
// next 33, then the monotonic reading.
func clocks(start time.Time, mono, wall time.Duration) time.Time {
	type layout struct {
		wall uint64
		ext  int64
	}
	t := start.Add(wall)
	(*layout)(unsafe.Pointer(&t)).ext += int64(mono - wall)
	return t
}

func TestClocks(t *testing.T) {
	start := time.Now()
	for _, c := range []struct{ mono, wall time.Duration }{
		{0, 0}, {time.Second, time.Second}, {5 * ms, time.Hour}, {time.Hour, -time.Hour}, {0, time.Nanosecond},
	} {
		now := clocks(start, c.mono, c.wall)
		require.Equal(t, c.mono, now.Sub(start), "%+v", c)
		require.Equal(t, c.wall, now.Round(0).Sub(start.Round(0)), "%+v", c)
	}
}

func TestDriftIsAFactorAndTwoMilliseconds(t *testing.T) { // R4
	for _, c := range []struct {
		ttl    time.Duration
		factor float64
		want   time.Duration
	}{
		{10 * time.Second, 0.01, 102 * ms},
		{time.Second, 0.01, 12 * ms},
		{ms, 0.01, 2*ms + 10*time.Microsecond},
		{10 * time.Second, 0.5, 5002 * ms},
		{10 * time.Second, 1e-9, 2*ms + 10*time.Nanosecond},
		{LongestTTL, 0.01, LongestTTL/100 + 2*ms},
	} {
		got := Drift(c.ttl, c.factor)
		// A float of 53 bits is exact to a second in 100 years, and to a
		// nanosecond in a month.
		require.InDelta(t, float64(c.want), float64(got), math.Max(1, float64(c.ttl)*1e-15), "%v × %v", c.ttl, c.factor)
		require.Positive(t, got)
	}
}

func TestValidityIsTTLLessElapsedLessDrift(t *testing.T) { // R4
	for _, c := range []struct{ ttl, elapsed, drift, want time.Duration }{
		{10 * time.Second, 9 * ms, 102 * ms, 9889 * ms},
		{10 * time.Second, 0, 102 * ms, 9898 * ms},
		{100 * ms, 97 * ms, 3 * ms, 0},
		{100 * ms, 98 * ms, 3 * ms, -1 * ms},
		{ms, 0, 2010 * time.Microsecond, -1010 * time.Microsecond},
		{LongestTTL, LongestTTL, LongestTTL / 100, -LongestTTL / 100},
	} {
		require.Equal(t, c.want, Validity(c.ttl, c.elapsed, c.drift), "%+v", c)
	}
}

func TestElapsedIsTheLargerOfTheTwoClocks(t *testing.T) { // R4
	start := time.Now()
	wallOnly := start.Round(0)
	require.Equal(t, 5*ms, Elapsed(start, start.Add(5*ms)), "both agree")
	require.Equal(t, 5*ms, Elapsed(wallOnly, wallOnly.Add(5*ms)))
	require.Zero(t, Elapsed(start, start))

	require.Equal(t, time.Hour+5*ms, Elapsed(start, clocks(start, 5*ms, time.Hour+5*ms)), "suspend")
	require.Equal(t, 5*ms, Elapsed(start, clocks(start, 5*ms, -time.Hour)), "the wall clock was set back")
	require.Equal(t, time.Minute, Elapsed(start, clocks(start, 5*ms, time.Minute)), "the wall clock was set forward: it may only cost a lock")
	require.Equal(t, time.Minute, Elapsed(start, clocks(start, time.Minute, 0)), "the wall clock was stopped")
}

func TestRemainingIsTheSmallerOfTheTwoClocks(t *testing.T) { // R4, R15
	start := time.Now()
	until := start.Add(10 * time.Second)
	require.Equal(t, 10*time.Second, Remaining(until, start))
	require.Equal(t, 10*time.Second-5*ms, Remaining(until, start.Add(5*ms)))
	require.Equal(t, -time.Second, Remaining(until, start.Add(11*time.Second)))
	require.Equal(t, 10*time.Second-time.Hour, Remaining(until, clocks(start, 5*ms, time.Hour)), "suspend")
	require.Equal(t, 10*time.Second-5*ms, Remaining(until, clocks(start, 5*ms, -time.Hour)), "set back")
	require.Equal(t, 9*time.Second, Remaining(until, clocks(start, time.Second, 0)), "stopped")
	for _, ends := range [][2]time.Time{{start, until}, {until, start}, {until, until}} {
		require.Equal(t, until, Later(ends[0], ends[1]))
	}
}

func TestWholeMilliseconds(t *testing.T) { // R4
	for ttl, want := range map[time.Duration]time.Duration{
		0: 0, 1: 0, ms - 1: 0, ms: ms, 2*ms - 1: ms, -ms / 2: 0, -3 * ms / 2: -ms,
		10*time.Second + 999*time.Microsecond: 10 * time.Second,
	} {
		require.Equal(t, want, WholeMilliseconds(ttl), "%v", ttl)
	}
}

func TestTimesOfTheLongestTTLDoNotOverflow(t *testing.T) {
	start := time.Now()
	slack := Drift(LongestTTL, 0.999)
	require.Positive(t, slack)
	require.Positive(t, Validity(LongestTTL, 0, slack))
	require.Negative(t, Validity(LongestTTL, LongestTTL, slack))
	until := start.Add(LongestTTL)
	require.Equal(t, LongestTTL, Remaining(until, start))
	require.Equal(t, LongestTTL, Elapsed(start, until))
}
