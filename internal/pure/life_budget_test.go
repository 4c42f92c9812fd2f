package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The delays between dials alone do not bound the connects: a connection that
// lives for a second resets them, five quick refusals follow, and so on. That
// is 140 connects a minute; the budget limits them to 75 (R26).
func TestBudgetBoundsWhatDelaysDoNot_R26(t *testing.T) {
	now := time.Duration(0)
	l, _ := NewLife().On(Started, now, 0.999)
	dials := []time.Duration{now}
	for turn := 0; now < 5*time.Minute; turn++ {
		if turn%6 == 5 { // this dial succeeds, and the connection dies once it is steady
			for _, e := range []LifeEvent{Dialed, Paid} {
				l, _ = l.On(e, now, 0.999)
			}
			now += steadyAfter
			l, _ = l.On(Died, now, 0.999)
		} else {
			l, _ = l.On(DialFailed, now, 0.999)
		}
		now += l.Wait
		l, _ = l.On(Waited, now, 0.999)
		dials = append(dials, now)
	}
	first := 0
	for i, at := range dials {
		for at-dials[first] >= time.Minute {
			first++
		}
		require.LessOrEqual(t, i-first+1, 75, "dials in the minute before %v", at)
	}
	require.Greater(t, len(dials), 5*55, "and the budget is there to be used")
}
