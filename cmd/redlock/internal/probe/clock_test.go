package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

// at is a sample of a clock that has gained so much, read halfway through a
// round trip that began then.
func at(sent, trip, gained time.Duration) Sample {
	return Sample{Sent: sent, Received: sent + trip, Elapsed: sent + trip/2 + gained, Ahead: gained}
}

// read is a sample of a clock that showed so much when the request was sent.
func read(sent, trip, elapsed time.Duration) Sample {
	return Sample{Sent: sent, Received: sent + trip, Elapsed: elapsed, Ahead: elapsed - sent - trip/2}
}

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		name   string
		bursts [][]Sample
		span   time.Duration
		gained time.Duration
		step   bool
	}{
		{"one burst shows no rate", [][]Sample{{at(0, ms, 0)}}, 0, 0, false},
		{"sane", [][]Sample{{at(0, ms, 0)}, {at(time.Second, ms, 0)}}, time.Second, 0, false},
		{"fast", [][]Sample{{at(0, ms, 0)}, {at(time.Second, ms, 20*ms)}}, time.Second, 20 * ms, false},
		{"slow", [][]Sample{{at(0, ms, 0)}, {at(time.Second, ms, -20*ms)}}, time.Second, -20 * ms, false},
		{"fast all the time", [][]Sample{{at(0, ms, 0)}, {at(time.Second, ms, 20*ms)}, {at(3*time.Second, ms, 60*ms)}}, 3 * time.Second, 60 * ms, false},
		{"stepped forward", [][]Sample{{at(0, ms, 0)}, {at(time.Second, ms, 0)}, {at(2*time.Second, ms, 50*ms)}}, 2 * time.Second, 50 * ms, true},
		{"stepped back", [][]Sample{{at(0, ms, 0)}, {at(time.Second, ms, -50*ms)}, {at(2*time.Second, ms, -50*ms)}}, 2 * time.Second, -50 * ms, true},
		{"within the error", [][]Sample{{at(0, 90*ms, 0)}, {at(time.Second, 90*ms, 0)}, {at(2*time.Second, 90*ms, 50*ms)}}, 2 * time.Second, 50 * ms, false},
		{"the quickest counts", [][]Sample{{at(0, ms, 0), at(5*ms, 400*ms, 200*ms)}, {at(900*ms, 80*ms, 39*ms), at(time.Second, ms, 0)}}, time.Second, 0, false},
		{"a burst that failed", [][]Sample{{at(0, ms, 0)}, nil, {at(time.Second, ms, 0)}}, time.Second, 0, false},
		{"half as fast again, and one answer came late", [][]Sample{{at(0, 2*ms, 0)}, {read(time.Second, 80*ms, 1500*ms)}, {at(2*time.Second, 2*ms, time.Second)}}, 2 * time.Second, time.Second, false},
		{"half as fast again, and stepped", [][]Sample{{at(0, 2*ms, 0)}, {at(time.Second, 2*ms, 500*ms)}, {at(2*time.Second, 2*ms, 1010*ms)}}, 2 * time.Second, 1010 * ms, true},
		{"no time between", [][]Sample{{at(0, ms, 0)}, {at(0, ms, 0)}, {at(0, ms, 9*ms)}}, 0, 9 * ms, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, ok := Estimate(c.bursts)
			assert.True(t, ok)
			assert.Equal(t, c.span, clock.Span)
			assert.Equal(t, c.gained, clock.Gained)
			assert.Equal(t, c.step, clock.Stepped)
		})
	}
	_, ok := Estimate([][]Sample{nil, {}})
	assert.False(t, ok)
	_, ok = Estimate(nil)
	assert.False(t, ok)
}

func TestRateKnowsItsError(t *testing.T) {
	clock, _ := Estimate([][]Sample{{at(0, 10*ms, 0)}, {at(time.Second, 20*ms, 20*ms)}})
	rate, wrong := clock.Rate()
	span := clock.Span.Seconds()
	assert.InDelta(t, 0.02/span, rate, 1e-9)
	off := 0.015002 // half of each round trip, and a microsecond
	assert.InDelta(t, off/(span-off)*(1+rate), wrong, 1e-9)
	assert.InDelta(t, wrong, (0.02+off)/(span-off)-rate, 1e-9, "read as early and as late as may be")
	rate, wrong = Clock{}.Rate()
	assert.Zero(t, rate)
	assert.Zero(t, wrong)
}
