package load

import (
	"math"
	"time"
)

// pacer issues the intended starts of an open loop: one every 1/rate of a
// second, regardless of earlier attempts. A caller that takes one late, because
// all callers were busy, still counts from it. So a stall shows in the
// latencies of all attempts that should have started during it, and not in one
// attempt per caller.
type pacer struct {
	starts chan time.Duration // on the process's clock, never in the future
	rate   float64
	quit   <-chan struct{}
	ended  chan struct{}
	// notBegun counts the starts that were due when the phase was halted and
	// that no caller had taken. It belongs to the pacer's goroutine until ended
	// is closed.
	notBegun int64
}

func newPacer(rate float64, quit <-chan struct{}) *pacer {
	return &pacer{starts: make(chan time.Duration), rate: rate, quit: quit, ended: make(chan struct{})}
}

// run issues starts until quit is closed, the first of them for begin. It is a
// single goroutine and not a timer per caller, so that the times are as exact
// as one sleeper can make them, and in order. If it is itself scheduled late,
// as on a busy machine, the starts before that are late, and not fewer.
func (p *pacer) run(c clock, begin time.Duration) {
	defer close(p.ended)
	a := newAlarm(p.quit)
	defer a.close()
	for k := int64(0); ; k++ {
		due := begin + time.Duration(float64(k)*float64(time.Second)/p.rate)
		if !a.wait(due, c) {
			return // halted before it was due
		}
		select {
		case p.starts <- due:
		case <-p.quit:
			elapsed := (c.now() - begin).Seconds()
			p.notBegun = max(1, int64(math.Ceil(elapsed*p.rate))-k)
			return
		}
	}
}

// next waits for a start. It returns false if the phase is halted.
func (p *pacer) next() (due time.Duration, ok bool) {
	select {
	case due = <-p.starts:
		return due, true
	case <-p.quit:
		return 0, false
	}
}
