package pure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The decisions about a hold, as data: the validity is nine seconds, so a third
// is three seconds and the context ends 9 ms early.
func TestRenewalDecisions(t *testing.T) { // R10, R13
	const (
		s        = time.Second
		validity = 9 * s
		end      = validity - 9*ms
	)
	type step struct {
		event RenewalEvent
		age   time.Duration
		act   RenewalAction
		alarm time.Duration // afterwards
	}
	for name, c := range map[string]struct {
		bound  time.Duration
		renews bool
		steps  []step
	}{
		"a third, granted, and a third again": {Never, true, []step{
			{OnLook, 0, CarryOn, 3 * s},
			{OnLook, 3*s - 6*ms, CarryOn, 3 * s},
			{OnLook, 3 * s, ToRenew, end},
			{OnLook, 3*s + 1*ms, CarryOn, end},
			{OnGrant, 3*s + 2*ms, ToProlong, 3 * s},
			{OnLook, 2 * ms, CarryOn, 3 * s},
			{OnLook, 3 * s, ToRenew, end},
		}},
		"along with others, 5 ms early": {Never, true, []step{{OnLook, 3*s - 5*ms, ToRenew, end}}},
		"silence": {Never, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnLook, end - 1, CarryOn, end},
			{OnLook, end, ToLose, Never},
			{OnGrant, end + 1, ToDrop, Never},
			{OnLook, end + 2, ToDrop, Never},
		}},
		"a grant that comes late": {Never, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnGrant, validity, ToLose, Never},
		}},
		"a grant at the last moment": {Never, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnGrant, validity - 1, ToProlong, 3 * s},
		}},
		"a definite loss": {Never, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnRefusal, 3*s + ms, ToLose, Never},
			{OnRefusal, 3*s + ms, ToDrop, Never},
		}},
		"failures, half a pause and more later": {Never, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnFailure, 3*s + 50*ms, CarryOn, 3*s + 100*ms},
			{OnLook, 3*s + 99*ms, ToRenew, end},
			{OnFailure, 4 * s, CarryOn, 4*s + 100*ms},
			{OnLook, 4*s + 100*ms, ToRenew, end},
			{OnFailure, 5 * s, CarryOn, 5*s + 200*ms},
			{OnLook, 5*s + 200*ms, ToRenew, end},
			{OnFailure, 6 * s, CarryOn, 6*s + 400*ms},
			{OnLook, 6*s + 400*ms, ToRenew, end},
			{OnFailure, 7 * s, CarryOn, 7*s + 500*ms},
			{OnLook, 7*s + 500*ms, ToRenew, end},
			{OnFailure, 8900 * ms, CarryOn, end},
			{OnLook, end, ToLose, Never},
		}},
		"no renewal": {Never, false, []step{
			{OnLook, 5 * s, CarryOn, end},
			{OnLook, end, ToLose, Never},
		}},
		"a bound within the validity: no renewal would be of use": {5 * s, true, []step{
			{OnLook, 3 * s, CarryOn, 5 * s},
			{OnLook, 5 * s, ToStopShort, validity},
			{OnLook, 6 * s, CarryOn, validity},
			{OnLook, validity, ToDrop, Never},
		}},
		"a bound after one renewal": {10 * s, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnGrant, 3*s + ms, ToProlong, 7 * s},
			{OnLook, 7 * s, ToStopShort, validity},
		}},
		"a bound while a renewal is in flight, which is granted then": {9990 * ms, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnFailure, 8 * s, CarryOn, 8*s + 50*ms},
			{OnLook, 8*s + 100*ms, ToRenew, end},
			{OnGrant, 8*s + 200*ms, ToProlong, 1890 * ms},
			{OnLook, 1890 * ms, ToStopShort, validity},
		}},
		"a bound and a loss after it": {9 * s, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnFailure, 8 * s, CarryOn, 8*s + 50*ms},
			{OnLook, end, ToLose, Never},
		}},
		"released": {Never, true, []step{
			{OnLook, 3 * s, ToRenew, end},
			{OnEnd, 4 * s, ToDrop, Never},
			{OnGrant, 4*s + ms, ToDrop, Never},
			{OnLook, 6 * s, ToDrop, Never},
		}},
		"a pause past everything": {Never, true, []step{{OnLook, time.Hour, ToLose, Never}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRenewal(validity, c.bound, c.renews)
			for i, step := range c.steps {
				var act RenewalAction
				r, act = r.On(step.event, step.age, 0)
				require.Equal(t, step.act, act, "step %d", i)
				require.Equal(t, step.alarm, r.Alarm(), "step %d", i)
			}
		})
	}
}

// Proportions for any validity: the margin, the window and the pauses stay
// small.
func TestRenewalProportions(t *testing.T) { // R13
	for _, c := range []struct{ validity, margin, window time.Duration }{
		{time.Microsecond, 500 * time.Nanosecond, 10 * time.Nanosecond},
		{2 * ms, ms, 20 * time.Microsecond},
		{100 * ms, ms, ms},
		{500 * ms, ms, 5 * ms},
		{time.Second, ms, 5 * ms},
		{10 * time.Second, 10 * ms, 5 * ms},
		{time.Hour, 3600 * ms, 5 * ms},
	} {
		require.Equal(t, c.margin, cancelMargin(c.validity), c.validity)
		require.Equal(t, c.window, renewalWindow(c.validity), c.validity)
	}
}

// However renewals turn out, the alarm is in the future, or its work is done
// when it goes off.
func TestARenewalIsNeverForgotten(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	for range 2000 {
		validity := time.Duration(1 + random.Int64N(int64(20*time.Second)))
		bound := Never
		if random.IntN(2) == 0 {
			bound = time.Duration(1 + random.Int64N(int64(40*time.Second)))
		}
		r := NewRenewal(validity, bound, random.IntN(4) > 0)
		age := time.Duration(0)
		for r.phase == phaseHeld {
			require.NotEqual(t, Never, r.Alarm())
			require.LessOrEqual(t, r.Alarm(), validity-cancelMargin(validity))
			age = max(age, r.Alarm())
			var act RenewalAction
			r, act = r.On(OnLook, age, random.Float64())
			require.NotEqual(t, CarryOn, act, "an alarm for nothing: %+v at %v", r, age)
			if act != ToRenew {
				continue
			}
			age += time.Duration(random.Int64N(int64(validity)/10 + 1))
			if random.IntN(8) == 0 {
				asked := r.asked
				if r, act = r.On(OnGrant, age, 0); act == ToProlong {
					age -= asked
				}
				if random.IntN(10) == 0 {
					r, _ = r.On(OnEnd, age, 0)
				}
				continue
			}
			r, _ = r.On(OnFailure, age, random.Float64())
		}
	}
}
