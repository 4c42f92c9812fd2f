package window

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/redlock"
)

// slow is a peer whose acquisitions take a time of their own each; a negative
// one is an error.
type slow struct {
	times  []time.Duration
	silent bool // as a bound is about its acquisitions
	next   atomic.Int64
}

func (s *slow) Pair(_ context.Context, _ string, _ time.Duration, held func()) (time.Duration, error) {
	d := s.times[int(s.next.Add(1)-1)%len(s.times)]
	if d < 0 {
		time.Sleep(-d)
		return -d, redlock.ErrHeld
	}
	time.Sleep(d)
	if held != nil {
		held()
	}
	if s.silent {
		d = 0
	}
	return d, nil
}

func (s *slow) Close(context.Context) error { return errors.ErrUnsupported }

func measured(p *slow, job Job) (Result, int) {
	c := newCrew(p, job)
	c.start()
	warmed := c.warm()
	c.begin()
	time.Sleep(job.Window)
	elapsed := c.end()
	waiting := c.wait(grace)
	r := c.result()
	r.Elapsed, r.Warmed = elapsed, warmed
	return r, waiting
}

// With simulated time the figures are exact.
func TestCrewCountsWhatEndsInTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, waiting := measured(&slow{times: []time.Duration{10 * time.Millisecond}},
			Job{Callers: 3, Warmup: 25 * time.Millisecond, Window: 100 * time.Millisecond, Gaps: true})
		assert.EqualValues(t, 30, r.Pairs, "pairs of the warm-up or of the end are counted")
		assert.InEpsilon(t, 10*time.Millisecond, r.P50, 0.02)
		assert.Equal(t, 10*time.Millisecond, r.Gap)
		assert.Equal(t, 100*time.Millisecond, r.Elapsed)
		assert.Zero(t, waiting)
		assert.Empty(t, r.Errors)
	})
}

// A slow peer is given the time to begin, a hopeless one is not waited for.
func TestCrewWarmsUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs int
		want  time.Duration
	}{
		{"no pairs asked for", 0, 25 * time.Millisecond},
		{"fast enough", 2, 25 * time.Millisecond},
		{"slow", 6, 60 * time.Millisecond},
		{"too slow", 1000, 200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := measured(&slow{times: []time.Duration{10 * time.Millisecond}}, Job{
					Callers: 3, WarmPairs: c.pairs, Warmup: 25 * time.Millisecond, WarmupLimit: 200 * time.Millisecond,
					Window: 105 * time.Millisecond,
				})
				assert.InDelta(t, c.want, r.Warmed, float64(2*time.Millisecond))
				assert.InDelta(t, 31, r.Pairs, 3, "pairs of the warm-up are counted")
			})
		})
	}
}

func TestCrewTellsFailuresFromPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := measured(&slow{times: []time.Duration{4 * time.Millisecond, -5 * time.Millisecond}},
			Job{Callers: 1, Window: 100*time.Millisecond + 1, Gaps: true})
		assert.EqualValues(t, 10, r.Pairs, "an error, and the pause after it, take six milliseconds of ten")
		assert.Equal(t, map[string]int64{"acquire: held": 10}, r.Errors)
		assert.Equal(t, 10*time.Millisecond, r.Gap)
	})
}

func TestCrewInventsNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := measured(&slow{times: []time.Duration{10 * time.Millisecond}, silent: true},
			Job{Callers: 1, Window: 105 * time.Millisecond})
		assert.EqualValues(t, 10, r.Pairs)
		assert.Zero(t, r.P50)
		assert.Zero(t, r.Gap, "nobody asked for it")
	})
}

func TestCrewLeavesThoseWhoDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, waiting := measured(&slow{times: []time.Duration{time.Hour}}, Job{Callers: 7, Window: time.Second, Gaps: true})
		assert.Zero(t, r.Pairs)
		assert.Zero(t, r.P99)
		assert.Equal(t, time.Second, r.Gap, "a window without a grant is one gap")
		assert.Equal(t, 7, waiting)
		time.Sleep(time.Hour) // a process would exit; a bubble's goroutines must come back
	})
}
