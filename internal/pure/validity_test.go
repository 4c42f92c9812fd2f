package pure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// seeded returns a source of random numbers and logs its seed.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
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
