package redlock

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

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
		{longestTTL, 0.01, longestTTL/100 + 2*ms},
	} {
		got := drift(c.ttl, c.factor)
		// A float of 53 bits is exact to a second in 100 years, and to a nanosecond in a month.
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
		{longestTTL, longestTTL, longestTTL / 100, -longestTTL / 100},
	} {
		require.Equal(t, c.want, validity(c.ttl, c.elapsed, c.drift), "%+v", c)
	}
}

func TestElapsedIsTheLargerOfTheTwoClocks(t *testing.T) { // R4
	start := time.Now()
	wallOnly := start.Round(0)
	require.Equal(t, 5*ms, elapsed(start, start.Add(5*ms)), "both agree")
	require.Equal(t, 5*ms, elapsed(wallOnly, wallOnly.Add(5*ms)))
	require.Zero(t, elapsed(start, start))

	require.Equal(t, time.Hour+5*ms, elapsed(start, clocks(start, 5*ms, time.Hour+5*ms)), "suspend")
	require.Equal(t, 5*ms, elapsed(start, clocks(start, 5*ms, -time.Hour)), "the wall clock was set back")
	require.Equal(t, time.Minute, elapsed(start, clocks(start, 5*ms, time.Minute)), "the wall clock was set forward: it may only cost a lock")
	require.Equal(t, time.Minute, elapsed(start, clocks(start, time.Minute, 0)), "the wall clock was stopped")
}

func TestRemainingIsTheSmallerOfTheTwoClocks(t *testing.T) { // R4, R15
	start := time.Now()
	until := start.Add(10 * time.Second)
	require.Equal(t, 10*time.Second, remaining(until, start))
	require.Equal(t, 10*time.Second-5*ms, remaining(until, start.Add(5*ms)))
	require.Equal(t, -time.Second, remaining(until, start.Add(11*time.Second)))
	require.Equal(t, 10*time.Second-time.Hour, remaining(until, clocks(start, 5*ms, time.Hour)), "suspend")
	require.Equal(t, 10*time.Second-5*ms, remaining(until, clocks(start, 5*ms, -time.Hour)), "set back")
	require.Equal(t, 9*time.Second, remaining(until, clocks(start, time.Second, 0)), "stopped")
}

func TestLaterIsTheLaterOfTwoEnds(t *testing.T) { // R10
	a := time.Now()
	b := a.Add(1)
	require.Equal(t, b, later(a, b))
	require.Equal(t, b, later(b, a))
	require.Equal(t, a, later(a, a))
}

func TestWholeMilliseconds(t *testing.T) { // R4
	for ttl, want := range map[time.Duration]time.Duration{
		0: 0, 1: 0, ms - 1: 0, ms: ms, 2*ms - 1: ms, -ms / 2: 0, -3 * ms / 2: -ms,
		10*time.Second + 999*time.Microsecond: 10 * time.Second,
	} {
		require.Equal(t, want, wholeMilliseconds(ttl), "%v", ttl)
	}
}

func TestCheckRefusesWhatCannotBeAsked(t *testing.T) { // R19
	long := strings.Repeat("k", 1024)
	client := new(Client)
	for _, c := range []struct {
		resource string
		ttl      time.Duration
		want     time.Duration
		err      error
	}{
		{"a", time.Second, time.Second, nil},
		{"a", time.Second + 1, time.Second, nil},
		{"\x00", ms, ms, nil},
		{long, longestTTL, longestTTL, nil},
		{long, longestTTL + ms - 1, longestTTL, nil},
		{"", time.Second, 0, ErrResource},
		{long + "k", time.Second, 0, ErrResource},
		{strings.Repeat("é", 512) + "k", time.Second, 0, ErrResource}, // bytes, not letters
		{"a", 0, 0, ErrTTL},
		{"a", ms - 1, 0, ErrTTL},
		{"a", 900 * time.Microsecond, 0, ErrTTL},
		{"a", -time.Second, 0, ErrTTL},
		{"a", math.MinInt64, 0, ErrTTL},
		{"a", longestTTL + ms, 0, ErrTTL},
		{"a", math.MaxInt64, 0, ErrTTL},
	} {
		got, err := client.check(c.resource, c.ttl)
		require.Equal(t, c.err, err, "%d bytes for %v", len(c.resource), c.ttl)
		require.Equal(t, c.want, got)
		if len(c.resource) == 1 {
			got, err = client.checkTTL(c.ttl)
			require.Equal(t, c.err, err)
			require.Equal(t, c.want, got)
		}
	}
}

func TestTimesOfTheLongestTTLDoNotOverflow(t *testing.T) {
	start := time.Now()
	slack := drift(longestTTL, 0.999)
	require.Positive(t, slack)
	require.Positive(t, validity(longestTTL, 0, slack))
	require.Negative(t, validity(longestTTL, longestTTL, slack))
	until := start.Add(longestTTL)
	require.Equal(t, longestTTL, remaining(until, start))
	require.Equal(t, longestTTL, elapsed(start, until))
}
