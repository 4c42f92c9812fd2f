package properties

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/internal/pure"
)

// A holding is a renewal with the times that its ages refer to.
type holding struct {
	renewal pure.Renewal
	now     time.Duration
	base    time.Duration // the time of age 0
	asked   time.Duration // of the renewal in flight
	flying  bool
	bound   time.Duration // the time at which the hold ends; Never if there is no bound
	renews  bool
	told    bool // the context has been cancelled
	toldAt  time.Duration
	over    bool
	starved bool // an answer was read before the clocks, although the alarm was due
}

func (h *holding) age() time.Duration { return h.now - h.base }

// end returns the time at which the validity ends.
func (h *holding) end() time.Duration { return h.base + h.renewal.Validity }

// For all outcomes of a lock's renewals, and whenever their answers come: the
// end of validity never moves back, and only moves to what a renewal that was
// asked for in time gives (R4, R10). The holder is told before the end, by its
// own alarm (R13). At most one renewal is in flight, none unless the
// hold renews, and none after the end.
func TestRenewalUnderAnyAnswers_R10_R13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		validity := time.Duration(rapid.IntRange(2, 20_000).Draw(t, "validity")) * ms
		h := &holding{bound: pure.Never, renews: rapid.Bool().Draw(t, "renews")}
		if rapid.Bool().Draw(t, "bounded") {
			h.bound = validity / 10 * time.Duration(rapid.IntRange(1, 60).Draw(t, "bound"))
		}
		h.renewal = pure.NewRenewal(validity, h.bound, h.renews)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			h.step(t)
			if h.over {
				break
			}
		}
		require.Equal(t, h.over, h.renewal.Alarm() == pure.Never)
	})
}

// step runs the next event: the alarm, or an answer before it.
func (h *holding) step(t *rapid.T) {
	alarm := h.base + h.renewal.Alarm()
	if h.flying {
		answer := h.asked + time.Duration(rapid.IntRange(0, int(2*h.renewal.Validity/ms)).Draw(t, "answer"))*ms
		late := answer >= alarm && rapid.IntRange(0, 3).Draw(t, "late") == 0
		if h.starved = h.starved || late; late || answer < alarm {
			h.now = max(h.now, answer)
			h.answer(t)
			return
		}
	}
	if wait := int(alarm-h.now) / int(ms); wait > 0 && rapid.Bool().Draw(t, "look") { // a look before the alarm (R13)
		h.now += time.Duration(rapid.IntRange(0, wait).Draw(t, "early")) * ms
	} else {
		h.now = max(h.now, alarm)
	}
	h.act(t, pure.OnLook)
}

func (h *holding) answer(t *rapid.T) {
	h.flying = false
	h.act(t, rapid.SampledFrom([]pure.RenewalEvent{pure.OnGrant, pure.OnGrant, pure.OnGrant, pure.OnFailure, pure.OnFailure, pure.OnRefusal, pure.OnEnd}).Draw(t, "event"))
}

// act feeds an event and checks the result against the rules.
func (h *holding) act(t *rapid.T, e pure.RenewalEvent) {
	end := h.end()
	after, act := h.renewal.On(e, h.age(), rapid.Float64Range(0, 0.999).Draw(t, "jitter"))
	h.renewal = after
	switch act {
	case pure.ToRenew:
		require.False(t, h.flying, "one at a time")
		require.True(t, h.renews)
		require.Less(t, h.now, end)
		h.flying, h.asked = true, h.now
	case pure.ToProlong:
		require.Equal(t, pure.OnGrant, e)
		require.Less(t, h.now, end, "an extension after the end counts for nothing")
		h.base = h.asked
	case pure.ToLose, pure.ToStopShort:
		require.False(t, h.told, "told once")
		h.told, h.toldAt = true, h.now
		require.True(t, h.starved || e == pure.OnRefusal || h.toldAt < end, "told before the end")
		require.True(t, h.starved || act == pure.ToLose || h.toldAt == h.bound, "stopped at the bound")
		h.over = act == pure.ToLose
	case pure.ToDrop:
		h.over = true
	}
	require.GreaterOrEqual(t, h.end(), end, "the end moves back")
	require.Equal(t, e == pure.OnGrant && act == pure.ToProlong, h.end() == h.asked+h.renewal.Validity && e == pure.OnGrant)
	if !h.told && !h.over && !h.starved {
		require.Less(t, h.now, min(h.end(), h.bound), "the holder was not told")
	}
	h.starved = h.starved && e != pure.OnLook
	if e == pure.OnLook && act == pure.CarryOn && !h.over {
		require.Greater(t, h.base+h.renewal.Alarm(), h.now, "the same alarm again, without end")
	}
}
