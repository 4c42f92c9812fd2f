package faults

import (
	"sync"
	"sync/atomic"
	"time"
)

// A restroom is where the callers of a process wait while the parent looks whether anything was left behind.
type restroom struct {
	stopped chan struct{} // closed when the callers shall end
	shut    atomic.Bool   // that somebody rests or stops: looked at before each attempt

	mu       sync.Mutex // guards the following
	changed  sync.Cond
	inside   bool // they shall rest
	ended    bool
	callers  int
	quietNow int // callers that rest
}

func (r *restroom) init() {
	r.stopped = make(chan struct{})
	r.changed.L = &r.mu
}

// add says that there is one more caller.
func (r *restroom) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers++
}

// pass is called by a caller before each attempt. It waits while they shall rest, and is false when the caller shall end.
func (r *restroom) pass() bool {
	if !r.shut.Load() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quietNow++
	for r.inside && !r.ended {
		r.changed.Wait()
	}
	r.quietNow--
	return !r.ended
}

// sit and rise are around what a caller does that makes no attempts, such as to keep a hold.
func (r *restroom) sit() { r.quiet(1) }

func (r *restroom) rise() { r.quiet(-1) }

func (r *restroom) quiet(by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quietNow += by
}

func (r *restroom) enter() { r.set(true, false) }
func (r *restroom) leave() { r.set(false, false) }
func (r *restroom) stop()  { r.set(false, true) }

func (r *restroom) set(inside, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended && !r.ended {
		close(r.stopped)
	}
	r.inside, r.ended = inside, ended || r.ended
	r.shut.Store(r.inside || r.ended)
	r.changed.Broadcast()
}

// resting is whether the callers shall rest, and parked whether all do.
func (r *restroom) resting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inside
}

func (r *restroom) parked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inside && r.quietNow == r.callers
}

// sleep ends early when the callers shall end.
func (r *restroom) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stopped:
	}
}
