package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A node's life under any server: it never dials more than 75 times in a
// minute, a second connection of one attempt included (R26); it is never up
// before the fence that it owes (R8); it never waits longer than its bounds,
// and always does what its state says.
func TestLifeUnderAnyServer_R8_R26(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jitter := rapid.Float64Range(0, 0.999)
		some := rapid.Map(rapid.IntRange(0, 3000), func(n int) time.Duration { return time.Duration(n) * ms })
		l, now, owes := NewLife(), time.Duration(0), false
		var dials []time.Duration
		l, act := l.On(Started, now, 0)
		// Chance alone never dials as often as it may: some servers fail at
		// once, and always in the same way.
		stubborn := rapid.Bool().Draw(t, "stubborn")
		for range rapid.IntRange(1, 400).Draw(t, "events") {
			event := Waited
			switch act {
			case ToDial:
				require.Equal(t, Dialing, l.State)
				dials = append(dials, now)
				event = DialFailed
				if !stubborn {
					event = rapid.SampledFrom([]LifeEvent{Dialed, Dialed, DialFailed, DialFailed, DialBarred}).Draw(t, "dial")
				}
				if event == DialFailed && (stubborn || rapid.Bool().Draw(t, "twice")) { // a server without HELLO is asked again (R21)
					dials = append(dials, now)
					l = l.Charge()
				}
			case ToFence:
				require.Equal(t, Fencing, l.State)
				require.True(t, owes)
				event = rapid.SampledFrom([]LifeEvent{Fenced, DialFailed}).Draw(t, "fence")
				owes = owes && event != Fenced
			case ToPay:
				require.Equal(t, Paying, l.State)
				event = rapid.SampledFrom([]LifeEvent{Paid, DialFailed}).Draw(t, "pay")
			case ToServe:
				require.Equal(t, Up, l.State)
				if rapid.Bool().Draw(t, "shed") {
					l, act = l.On(Broke, now, 0)
					require.Equal(t, Stay, act)
					require.Equal(t, Shed, l.State)
				}
				event = rapid.SampledFrom([]LifeEvent{Died, DiedOwing}).Draw(t, "death")
				owes = owes || event == DiedOwing
			case ToWait:
				require.Equal(t, Down, l.State)
				require.GreaterOrEqual(t, l.Wait, time.Duration(0))
				require.LessOrEqual(t, l.Wait, barredMost)
				now += l.Wait
			default:
				require.Fail(t, "nothing to do", "%v in %v", act, l.State)
			}
			if act != ToWait && !stubborn && rapid.Bool().Draw(t, "slow") {
				now += some.Draw(t, "takes")
			}
			l, act = l.On(event, now, jitter.Draw(t, "jitter"))
			if l.State == Paying || l.State == Up {
				require.False(t, owes, "the fence comes first")
			}
		}
		for i := range dials {
			if i >= 75 {
				require.Greater(t, dials[i]-dials[i-75], time.Minute-ms, "more than 75 connects in a minute")
			}
		}
		l, act = l.On(GroupStopped, now, 0)
		require.Equal(t, ToHalt, act)
		_, act = l.On(rapid.SampledFrom([]LifeEvent{Waited, Dialed, Died, Paid, Fenced}).Draw(t, "late"), now, 0)
		require.Equal(t, ToHalt, act, "nothing comes after the end")
	})
}
