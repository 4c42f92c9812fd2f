package redlock

import (
	"context"
	"sync"
	"time"
)

// gateWidth is how many callers of one semaphore that were told of a free
// permit ask the nodes at one time.
const gateWidth = 8

// A gate is what the callers of one semaphore share. The nodes tell all that
// wait of each permit that is given back. So the callers go through the gate,
// a few at a time, and as soon as one of them finds no permit free, those that
// were told before it asked need not ask.
type gate struct {
	begun time.Time
	slots chan struct{}

	mu      sync.Mutex    // guards the following
	waiting int           // callers in Acquire
	full    time.Duration // when the last attempt began that found none free
	freed   []int         // permits that were given back here while callers waited
}

func newGate() *gate { return &gate{begun: time.Now(), slots: make(chan struct{}, gateWidth)} }

// wait counts callers that wait.
func (g *gate) wait(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting += n; g.waiting == 0 {
		g.freed = g.freed[:0] // other clients may take them
	}
}

// enter waits for a slot; leave gives it back. It returns false if the caller,
// which was told of a free permit before, need not ask. An error is that of
// ctx, or ErrClosed if done is closed.
func (g *gate) enter(ctx context.Context, done <-chan struct{}) (asks bool, err error) {
	told := time.Since(g.begun)
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-done:
		return false, ErrClosed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.full <= told, nil
}

func (g *gate) leave() { <-g.slots }

// noneFree records that an attempt which began at the given time found no
// permit free.
func (g *gate) noneFree(begun time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = max(g.full, begun.Sub(g.begun))
}

// giveBack records the number of a permit that is about to be released, for the
// callers that wait.
func (g *gate) giveBack(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting > 0 && len(g.freed) < MaxPermits {
		g.freed = append(g.freed, number)
	}
}

// take returns a number that was given back and not taken since.
func (g *gate) take() (number int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := len(g.freed) - 1
	if last < 0 {
		return 0, false
	}
	number, g.freed = g.freed[last], g.freed[:last]
	return number, true
}
