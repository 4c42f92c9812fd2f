package properties

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/internal/pure"
)

// A node's life under any server: it never dials more than 75 times in a
// minute, including the second connection of an attempt (R26); it is never up
// before the fence that it owes (R8); it never waits longer than its bounds;
// and it always does what its state says.
func TestLifeUnderAnyServer_R8_R26(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jitter := rapid.Float64Range(0, 0.999)
		some := rapid.Map(rapid.IntRange(0, 3000), func(n int) time.Duration { return time.Duration(n) * ms })
		l, now, owes := pure.NewLife(), time.Duration(0), false
		var dials []time.Duration
		l, act := l.On(pure.Started, now, 0)
		// Random failures alone never reach the highest rate of dials: some
		// servers fail at once, and always in the same way.
		stubborn := rapid.Bool().Draw(t, "stubborn")
		for range rapid.IntRange(1, 400).Draw(t, "events") {
			event := pure.Waited
			switch act {
			case pure.ToDial:
				require.Equal(t, pure.Dialing, l.State)
				dials = append(dials, now)
				event = pure.DialFailed
				if !stubborn {
					event = rapid.SampledFrom([]pure.LifeEvent{pure.Dialed, pure.Dialed, pure.DialFailed, pure.DialFailed, pure.DialBarred}).Draw(t, "dial")
				}
				if event == pure.DialFailed && (stubborn || rapid.Bool().Draw(t, "twice")) { // a server without HELLO is dialed again (R21)
					dials = append(dials, now)
					l = l.Charge()
				}
			case pure.ToFence:
				require.Equal(t, pure.Fencing, l.State)
				require.True(t, owes)
				event = rapid.SampledFrom([]pure.LifeEvent{pure.Fenced, pure.DialFailed}).Draw(t, "fence")
				owes = owes && event != pure.Fenced
			case pure.ToPay:
				require.Equal(t, pure.Paying, l.State)
				event = rapid.SampledFrom([]pure.LifeEvent{pure.Paid, pure.DialFailed}).Draw(t, "pay")
			case pure.ToServe:
				require.Equal(t, pure.Up, l.State)
				if rapid.Bool().Draw(t, "shed") {
					l, act = l.On(pure.Broke, now, 0)
					require.Equal(t, pure.Stay, act)
					require.Equal(t, pure.Shed, l.State)
				}
				event = rapid.SampledFrom([]pure.LifeEvent{pure.Died, pure.DiedOwing}).Draw(t, "death")
				owes = owes || event == pure.DiedOwing
			case pure.ToWait:
				require.Equal(t, pure.Down, l.State)
				require.GreaterOrEqual(t, l.Wait, time.Duration(0))
				require.LessOrEqual(t, l.Wait, 30*time.Second)
				now += l.Wait
			default:
				require.Fail(t, "nothing to do", "%v in %v", act, l.State)
			}
			if act != pure.ToWait && !stubborn && rapid.Bool().Draw(t, "slow") {
				now += some.Draw(t, "takes")
			}
			l, act = l.On(event, now, jitter.Draw(t, "jitter"))
			if l.State == pure.Paying || l.State == pure.Up {
				require.False(t, owes, "the fence comes first")
			}
		}
		for i := range dials {
			if i >= 75 {
				require.Greater(t, dials[i]-dials[i-75], time.Minute-ms, "more than 75 connects in a minute")
			}
		}
		l, act = l.On(pure.GroupStopped, now, 0)
		require.Equal(t, pure.ToHalt, act)
		_, act = l.On(rapid.SampledFrom([]pure.LifeEvent{pure.Waited, pure.Dialed, pure.Died, pure.Paid, pure.Fenced}).Draw(t, "late"), now, 0)
		require.Equal(t, pure.ToHalt, act, "nothing comes after the end")
	})
}
