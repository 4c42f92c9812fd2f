package supervise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewLimits(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		killAfter, ttl time.Duration
		want           limits
	}{
		{5 * s, 30 * s, limits{5 * s, 1 * s}},
		{5 * s, 3 * s, limits{1 * s, 150 * ms}},
		{0, 30 * s, limits{0, 1 * s}},
		{time.Hour, time.Minute, limits{20 * s, 1 * s}},
		{5 * s, 60 * ms, limits{20 * ms, 3 * ms}},
	} {
		require.Equal(t, test.want, newLimits(test.killAfter, test.ttl))
	}
}

func TestJudge(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	l := limits{killAfter: 5 * s, margin: 250 * ms}
	const never = -1
	for _, test := range []struct {
		name         string
		left, termed time.Duration
		do           measure
		next         time.Duration
	}{
		{"just renewed", 29 * s, never, toGoOn, 23*s + 750*ms},
		{"a moment before TERM", 5*s + 251*ms, never, toGoOn, 1 * ms},
		{"not renewed", 5*s + 250*ms, never, toTerm, 5 * s},
		{"looked too late for all of the grace", 1250 * ms, never, toTerm, 1 * s},
		{"looked too late for any", 250 * ms, never, toKill, 0},
		{"over", -1 * s, never, toKill, 0},
		{"TERM was just sent", 5 * s, 0, toGoOn, 4750 * ms},
		{"TERM was sent for another reason", 29 * s, 1 * s, toGoOn, 4 * s},
		{"grace is over", 29 * s, 5 * s, toKill, 0},
		{"validity is over within the grace", 250 * ms, 1 * s, toKill, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			do, next := l.judge(test.left, test.termed)
			require.Equal(t, test.do, do)
			require.Equal(t, test.next, next)
		})
	}
}

// A hold that is renewed in time is never near TERM, whatever flags are set.
func TestHealthyHoldsAreFarFromTerm(t *testing.T) {
	for ttl := 10 * time.Millisecond; ttl < time.Hour; ttl *= 3 {
		l := newLimits(time.Hour, ttl)
		do, next := l.judge(ttl*6/10, -1) // renewed at a third, and a retry or two later
		require.Equal(t, toGoOn, do, ttl)
		require.Greater(t, next, ttl/10)
	}
}
