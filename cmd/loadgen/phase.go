package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// phase is one warm-up or one run: what its callers share, and how long they go
// on. It ends by time, by the number of acquisitions, or when somebody halts it;
// then no attempt is begun any more, and what is held is released.
type phase struct {
	flags   *flags
	clock   clock
	history *history
	// waits is the parent of the attempts' contexts. It ends with the phase
	// where attempts may retry for long; a single try ends soon by itself, and
	// to cut it would only show as a cancellation nobody asked for.
	waits  context.Context
	cancel context.CancelFunc

	resources []string
	owners    []ownerWord // one per resource
	attempts  []int64     // per caller, numbered on from phase to phase

	halted     atomic.Bool
	quit       chan struct{} // closed when halted, for those who sleep
	halt       func()
	limited    bool
	left       atomic.Int64 // acquisitions to go, where limited
	pairs      []counter    // per caller, read while they work
	violations atomic.Int64

	timer        *time.Timer // halts the phase when its time is over
	before, cost cost        // at the beginning; between beginning and end
}

// counter is one caller's; it fills a cache line.
type counter struct {
	atomic.Int64
	_ [56]byte
}

// newPhase prepares a phase that begins with begin.
func newPhase(f *flags, c clock, h *history, resources []string, attempts []int64) *phase {
	p := &phase{
		flags:     f,
		clock:     c,
		history:   h,
		resources: resources,
		owners:    make([]ownerWord, len(resources)),
		attempts:  attempts,
		quit:      make(chan struct{}),
		pairs:     make([]counter, f.Clients),
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

// begin is called when all callers are ready to go, end when all have ended. So the
// length of a phase is what it took, the last releases included, and not what was
// asked for.
func (p *phase) begin(d time.Duration) {
	p.timer = time.AfterFunc(d, p.halt)
	p.before = readCost(p.clock)
}

func (p *phase) end() {
	p.cost = readCost(p.clock).since(p.before)
	p.timer.Stop()
	p.halt()
	p.cancel()
}

// next reports whether a caller may make another attempt. Where acquisitions
// are limited it has then taken one, and gives it back if nothing was granted.
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
// Callers who found none left have gone by then; the one who gives it back takes
// it again, so that the number is reached exactly.
func (p *phase) giveBack() {
	if p.limited {
		p.left.Add(1)
	}
}

// pairsSoFar is the number of acquisitions whose release succeeded.
func (p *phase) pairsSoFar() (n int64) {
	for i := range p.pairs {
		n += p.pairs[i].Load()
	}
	return n
}
