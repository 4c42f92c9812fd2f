package redlock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The decisions about a hold, as data: a validity of nine seconds, so that a third is three and the context ends 9 ms early.
func TestRenewalDecisions(t *testing.T) { // R10, R13
	const (
		s        = time.Second
		validity = 9 * s
		end      = validity - 9*ms
	)
	type step struct {
		event renewalEvent
		age   time.Duration
		act   renewalAction
		alarm time.Duration // afterwards
	}
	for name, c := range map[string]struct {
		bound      time.Duration
		extensions int
		steps      []step
	}{
		"a third, granted, and a third again": {never, -1, []step{
			{onLook, 0, carryOn, 3 * s},
			{onLook, 3*s - 6*ms, carryOn, 3 * s},
			{onLook, 3 * s, toRenew, end},
			{onLook, 3*s + 1*ms, carryOn, end},
			{onGrant, 3*s + 2*ms, toProlong, 3 * s},
			{onLook, 2 * ms, carryOn, 3 * s},
			{onLook, 3 * s, toRenew, end},
		}},
		"along with others, 5 ms early": {never, -1, []step{{onLook, 3*s - 5*ms, toRenew, end}}},
		"silence": {never, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onLook, end - 1, carryOn, end},
			{onLook, end, toLose, never},
			{onGrant, end + 1, toDrop, never},
			{onLook, end + 2, toDrop, never},
		}},
		"a grant that comes late": {never, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onGrant, validity, toLose, never},
		}},
		"a grant at the last moment": {never, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onGrant, validity - 1, toProlong, 3 * s},
		}},
		"a definite loss": {never, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onRefusal, 3*s + ms, toLose, never},
			{onRefusal, 3*s + ms, toDrop, never},
		}},
		"failures, half a pause and more later": {never, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onFailure, 3*s + 50*ms, carryOn, 3*s + 100*ms},
			{onLook, 3*s + 99*ms, toRenew, end},
			{onFailure, 4 * s, carryOn, 4*s + 100*ms},
			{onLook, 4*s + 100*ms, toRenew, end},
			{onFailure, 5 * s, carryOn, 5*s + 200*ms},
			{onLook, 5*s + 200*ms, toRenew, end},
			{onFailure, 6 * s, carryOn, 6*s + 400*ms},
			{onLook, 6*s + 400*ms, toRenew, end},
			{onFailure, 7 * s, carryOn, 7*s + 500*ms},
			{onLook, 7*s + 500*ms, toRenew, end},
			{onFailure, 8900 * ms, carryOn, end},
			{onLook, end, toLose, never},
		}},
		"no extension": {never, 0, []step{
			{onLook, 5 * s, carryOn, end},
			{onLook, end, toLose, never},
		}},
		"two extensions, of which failures are none": {never, 2, []step{
			{onLook, 3 * s, toRenew, end},
			{onFailure, 3*s + ms, carryOn, 3*s + 51*ms},
			{onLook, 4 * s, toRenew, end},
			{onGrant, 4*s + ms, toProlong, 3 * s},
			{onLook, 3 * s, toRenew, end},
			{onGrant, 3*s + ms, toProlong, end},
			{onLook, 8 * s, carryOn, end},
			{onLook, end, toLose, never},
		}},
		"a bound within the validity: no renewal would be of use": {5 * s, -1, []step{
			{onLook, 3 * s, carryOn, 5 * s},
			{onLook, 5 * s, toStopShort, validity},
			{onLook, 6 * s, carryOn, validity},
			{onLook, validity, toDrop, never},
		}},
		"a bound after one renewal": {10 * s, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onGrant, 3*s + ms, toProlong, 7 * s},
			{onLook, 7 * s, toStopShort, validity},
		}},
		"a bound while a renewal is in flight, which is granted then": {9990 * ms, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onFailure, 8 * s, carryOn, 8*s + 50*ms},
			{onLook, 8*s + 100*ms, toRenew, end},
			{onGrant, 8*s + 200*ms, toProlong, 1890 * ms},
			{onLook, 1890 * ms, toStopShort, validity},
		}},
		"a bound and a loss after it": {9 * s, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onFailure, 8 * s, carryOn, 8*s + 50*ms},
			{onLook, end, toLose, never},
		}},
		"released": {never, -1, []step{
			{onLook, 3 * s, toRenew, end},
			{onEnd, 4 * s, toDrop, never},
			{onGrant, 4*s + ms, toDrop, never},
			{onLook, 6 * s, toDrop, never},
		}},
		"a pause past everything": {never, -1, []step{{onLook, time.Hour, toLose, never}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRenewal(validity, c.bound, c.extensions)
			for i, step := range c.steps {
				var act renewalAction
				r, act = r.on(step.event, step.age, 0)
				require.Equal(t, step.act, act, "step %d", i)
				require.Equal(t, step.alarm, r.alarm(), "step %d", i)
			}
		})
	}
}

// What must be so for any validity: the margin, the window and the pauses stay small beside it.
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

// However renewals fare, something is always awaited: the alarm is ahead, or what it is for is done when it goes off.
func TestARenewalIsNeverForgotten(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	for range 2000 {
		validity := time.Duration(1 + random.Int64N(int64(20*time.Second)))
		bound := never
		if random.IntN(2) == 0 {
			bound = time.Duration(1 + random.Int64N(int64(40*time.Second)))
		}
		r := newRenewal(validity, bound, random.IntN(6)-1)
		age := time.Duration(0)
		for r.phase == phaseHeld {
			require.NotEqual(t, never, r.alarm())
			require.LessOrEqual(t, r.alarm(), validity-cancelMargin(validity))
			age = max(age, r.alarm())
			var act renewalAction
			r, act = r.on(onLook, age, random.Float64())
			require.NotEqual(t, carryOn, act, "an alarm for nothing: %+v at %v", r, age)
			if act != toRenew {
				continue
			}
			age += time.Duration(random.Int64N(int64(validity)/10 + 1))
			if random.IntN(8) == 0 {
				asked := r.asked
				if r, act = r.on(onGrant, age, 0); act == toProlong {
					age -= asked
				}
				if random.IntN(10) == 0 {
					r, _ = r.on(onEnd, age, 0)
				}
				continue
			}
			r, _ = r.on(onFailure, age, random.Float64())
		}
	}
}
