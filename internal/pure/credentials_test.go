package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhenToAskForCredentialsAgain(t *testing.T) {
	for _, c := range []struct {
		left   time.Duration
		vain   int
		jitter float64
		want   time.Duration
	}{
		{Never, 0, 0, Never},
		{Never, 0, 0.9, Never},
		{time.Hour, 0, 0, 45 * time.Minute},
		{time.Hour, 0, 0.999, time.Duration(0.9001 * 45 * float64(time.Minute))},
		{15 * time.Minute, 0, 0, 11*time.Minute + 15*time.Second},
		{4 * time.Second, 0, 0, 3 * time.Second},
		{100 * time.Millisecond, 0, 0, askLeast},
		{1, 0, 0, askLeast},
		{Never - 1, 0, 0, Never / 4 * 3}, // no overflow

		{0, 0, 0, time.Second}, // expired as they came
		{-time.Hour, 1, 0, time.Second},
		{-time.Hour, 2, 0, 2 * time.Second},
		{-time.Hour, 5, 0, 16 * time.Second},
		{-time.Hour, 6, 0, 30 * time.Second},
		{-time.Hour, 1 << 30, 0, 30 * time.Second},
		{Never, 3, 0, 4 * time.Second},
		{time.Hour, 1, 0, time.Second},
		{time.Hour, 9, 0, 30 * time.Second},
		{4 * time.Second, 9, 0, 3 * time.Second}, // the end is near
		{time.Millisecond, 9, 0, askLeast},
		{time.Hour, 1, 0.999, time.Duration(0.9001 * float64(time.Second))},
	} {
		assert.InDelta(t, c.want, AskAgain(c.left, c.vain, c.jitter), float64(c.want)/1000, "%v", c)
	}
	for rest, want := range map[time.Duration]time.Duration{
		0: time.Second, 8 * time.Second: time.Second, 16 * time.Second: 2 * time.Second, 30 * time.Second: 3750 * time.Millisecond,
	} {
		assert.Equal(t, want, AskBarred(rest))
	}
}

// A rest may be cut short within the budget of R26: a function that always
// gives others does not make a node dial without end.
func TestRestIsCutShortWithinTheBudget_R26(t *testing.T) {
	l, dials := NewLife(), 0
	for now := time.Second; now < 10*time.Minute; now += time.Second {
		if l.MayDial(now) {
			l, _ = l.On(Waited, now, 0)
			l, _ = l.Charge().On(DialBarred, now, 0)
			dials++
		}
	}
	assert.LessOrEqual(t, dials, 10*60/2+dialBurst, "each may make two connections")
	assert.Greater(t, dials, 200)
}
