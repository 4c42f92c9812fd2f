package faults

import (
	"context"
	"sync"
	"time"
)

// A limiter decides when a fault may begin. It keeps a quorum of the nodes
// healthy, but for storms, and lets no fault begin while the load rests.
type limiter struct {
	nodes, quorum int
	recovery      time.Duration // how long a node that forgot does not count (R23)

	mu      sync.Mutex // guards the following
	changed sync.Cond
	closed  bool
	alone   int  // faults of all nodes that are at work, or wait for the others to end
	storm   bool // a majority may be faulty
	faulty  int  // nodes
	links   int  // faults of links and processes
	forgot  time.Time
}

func newLimiter(nodes int, maxTTL time.Duration) *limiter {
	l := &limiter{nodes: nodes, quorum: nodes/2 + 1, recovery: maxTTL + maxTTL/50 + 200*time.Millisecond}
	l.changed.L = &l.mu
	return l
}

// allowed reports whether a kind may be drawn. A node that forgot does not
// count for long, so outside storms only one does so at a time.
func (l *limiter) allowed(k *Kind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !k.forgets || l.storm || time.Since(l.forgot) > l.recovery
}

// enter waits until a fault may begin. It reports false if ctx has ended.
func (l *limiter) enter(ctx context.Context, k *Kind) bool {
	defer context.AfterFunc(ctx, func() { l.change(func() {}) })()
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.Scope == OfFleet {
		l.alone++
	}
	for ctx.Err() == nil && !l.mayBeginLocked(k) {
		l.changed.Wait()
	}
	if ctx.Err() != nil {
		if k.Scope == OfFleet {
			l.alone--
		}
		return false
	}
	l.countLocked(k, 1)
	if k.forgets {
		l.forgot = time.Now()
	}
	return true
}

func (l *limiter) mayBeginLocked(k *Kind) bool {
	switch {
	case l.closed:
		return false
	case k.Scope == OfFleet:
		return l.faulty+l.links == 0
	case k.Scope == OfNode && l.faulty >= l.mostLocked():
		return false
	}
	return l.alone == 0
}

// mostLocked returns how many nodes may be faulty at once. A single node may
// be: then nothing is granted.
func (l *limiter) mostLocked() int {
	if l.storm {
		return l.nodes
	}
	return max(l.nodes-l.quorum, 1)
}

func (l *limiter) countLocked(k *Kind, by int) {
	switch k.Scope {
	case OfNode:
		l.faulty += by
	case OfFleet:
		l.faulty += by * l.nodes
	default:
		l.links += by
	}
}

// leave ends what enter began.
func (l *limiter) leave(k *Kind) {
	l.change(func() {
		l.countLocked(k, -1)
		if k.Scope == OfFleet {
			l.alone--
		}
	})
}

func (l *limiter) setStorm(on bool) { l.change(func() { l.storm = on }) }

// open lets faults begin again.
func (l *limiter) open() { l.change(func() { l.closed = false }) }

// change wakes the waiters.
func (l *limiter) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
	l.changed.Broadcast()
}

// close lets no fault begin, and waits until all are over.
func (l *limiter) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.faulty+l.links > 0 {
		l.changed.Wait()
	}
}
