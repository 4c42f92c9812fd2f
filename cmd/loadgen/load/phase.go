package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// phase is one warm-up or one run: what its callers share, and when they stop.
// It ends by time, by the number of acquisitions, or when it is halted. Then no
// attempt starts any more, and held locks are released.
type phase struct {
	flags   *flags
	clock   clock
	history *history
	// waits is the parent of the attempts' contexts. It ends with the phase if
	// attempts may retry for long. A single try ends soon by itself, and
	// cutting it short would show as a cancellation that was not requested.
	waits  context.Context
	cancel context.CancelFunc

	resources []string
	referees  []referee // of resources that callers share
	attempts  []int64   // per caller, numbered over all phases

	halted  atomic.Bool
	quit    chan struct{} // closed when halted, for sleepers
	halt    func()
	limited bool
	left    atomic.Int64 // acquisitions left, if limited
	callers []counters   // per caller, read while they work
	recent  *recent
	pacer   *pacer // nil in a closed loop

	began        chan struct{} // closed when before is set and the callers start
	timer        *time.Timer   // halts the phase when its time is over
	before, cost cost          // at the start; between start and end
}

// counters belong to one caller; they fill a cache line.
type counters struct {
	pairs atomic.Int64
	busy  atomic.Int64 // 1 while a call is in progress
	_     [48]byte
}

// newPhase prepares a phase that begins with begin.
func newPhase(f *flags, c clock, h *history, resources []string, attempts []int64) *phase {
	p := &phase{
		flags:     f,
		clock:     c,
		history:   h,
		resources: resources,
		referees:  newReferees(f),
		attempts:  attempts,
		quit:      make(chan struct{}),
		callers:   make([]counters, f.Clients),
		recent:    newRecent(f.Clients),
		began:     make(chan struct{}),
	}
	if f.Rate > 0 {
		p.pacer = newPacer(f.Rate, p.quit)
	}
	p.waits, p.cancel = context.WithCancel(context.Background())
	p.halt = sync.OnceFunc(func() {
		p.halted.Store(true)
		close(p.quit)
		if f.Wait > 0 {
			p.cancel()
		}
	})
	return p
}

// limit ends the phase after n acquisitions; 0 is no limit.
func (p *phase) limit(n int64) {
	p.limited = n > 0
	p.left.Store(n)
}

// begin is called when all callers are ready, end when all have finished. So
// the length of a phase is the time that it took, including the last releases,
// and not the requested time.
func (p *phase) begin(d time.Duration) {
	p.before = readCost(p.clock)
	start := p.clock.now() // after the reading, which may be slow
	p.timer = time.AfterFunc(d, p.halt)
	close(p.began)
	if p.pacer != nil {
		go p.pacer.run(p.clock, start)
	}
}

func (p *phase) end() {
	p.cost = readCost(p.clock).since(p.before)
	p.timer.Stop()
	ran := p.halted.Load()
	p.halt()
	p.cancel()
	if p.pacer != nil {
		<-p.pacer.ended
		if !ran {
			p.pacer.notBegun = 0 // the callers reached their number, so no start was missed
		}
	}
}

// next reports whether a caller may make another attempt. If acquisitions are
// limited, next takes one, and the caller gives it back if nothing was granted.
func (p *phase) next() bool {
	if p.halted.Load() {
		return false
	}
	if !p.limited {
		return true
	}
	if p.left.Add(-1) >= 0 {
		return true
	}
	p.left.Add(1)
	return false
}

// giveBack returns an acquisition that next took and that was not granted.
// Callers that found none left may be gone by then; the caller that gives it
// back takes it again, so that the number is reached exactly.
func (p *phase) giveBack() {
	if p.limited {
		p.left.Add(1)
	}
}

// pause waits. It returns false if the phase is halted before the end.
func (p *phase) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.quit:
		return false
	}
}

// pairsSoFar returns the number of acquisitions whose release succeeded.
func (p *phase) pairsSoFar() (n int64) {
	for i := range p.callers {
		n += p.callers[i].pairs.Load()
	}
	return n
}

// inFlight returns the number of calls that have not returned.
func (p *phase) inFlight() (n int64) {
	for i := range p.callers {
		n += p.callers[i].busy.Load()
	}
	return n
}
