package main

import (
	"math"
	"time"
)

// pacer hands out the intended starts of an open loop: one every 1/rate of a
// second, whatever became of the attempts before. Who takes one late, because
// all callers were busy, still counts from it: so a stall shows in the latencies
// of all attempts that should have begun in it, and not of one for each caller.
type pacer struct {
	starts chan time.Duration // on the process's clock, never in the future
	rate   float64
	quit   <-chan struct{}
	ended  chan struct{}
	// notBegun are the starts that were due when the phase was halted and that
	// nobody had taken. It is the pacer's goroutine's until ended is closed.
	notBegun int64
}

func newPacer(rate float64, quit <-chan struct{}) *pacer {
	return &pacer{starts: make(chan time.Duration), rate: rate, quit: quit, ended: make(chan struct{})}
}

// run hands out starts until quit is closed, the first of them for begin. It is one
// goroutine and not a timer for each caller, so that the times are kept as exactly
// as one sleeper can, and in order. When it comes to run itself changes nothing: on
// a busy machine the starts before that are late, and not fewer.
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

// next waits for a start to take; false when the phase is halted.
func (p *pacer) next() (due time.Duration, ok bool) {
	select {
	case due = <-p.starts:
		return due, true
	case <-p.quit:
		return 0, false
	}
}
