package faults

import (
	"sync"
	"sync/atomic"
	"time"
)

// A parking is where the callers of a process wait while the parent looks for
// what was left behind.
type parking struct {
	stopped chan struct{} // closed when the callers must end
	shut    atomic.Bool   // resting or ended: read before each attempt

	mu      sync.Mutex // guards the following
	changed sync.Cond
	resting bool // callers must park
	ended   bool
	callers int
	parked  int // callers that make no attempts
}

func (p *parking) init() {
	p.stopped = make(chan struct{})
	p.changed.L = &p.mu
}

// add registers a caller.
func (p *parking) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers++
}

// pass is called by a caller before each attempt. It blocks while the process
// rests, and reports false if the caller must end.
func (p *parking) pass() bool {
	if !p.shut.Load() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked++
	for p.resting && !p.ended {
		p.changed.Wait()
	}
	p.parked--
	return !p.ended
}

// park and unpark surround what a caller does without attempts, such as keeping
// a hold.
func (p *parking) park()   { p.count(1) }
func (p *parking) unpark() { p.count(-1) }

func (p *parking) count(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked += by
}

func (p *parking) rest() { p.set(true, false) }
func (p *parking) goOn() { p.set(false, false) }
func (p *parking) stop() { p.set(false, true) }

func (p *parking) set(resting, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended && !p.ended {
		close(p.stopped)
	}
	p.resting, p.ended = resting, ended || p.ended
	p.shut.Store(p.resting || p.ended)
	p.changed.Broadcast()
}

// state reports whether the callers must park, and whether all of them have.
func (p *parking) state() (resting, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resting, p.resting && p.parked == p.callers
}

func (p *parking) full() bool {
	_, full := p.state()
	return full
}

// sleep ends early when the callers must end.
func (p *parking) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.stopped:
	}
}
