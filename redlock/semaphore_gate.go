package redlock

import "sync"

// A gate is what the callers of one semaphore share: the permits that were
// given back here while callers waited.
type gate struct {
	mu      sync.Mutex // guards the following
	waiting int        // callers in Acquire
	freed   []int
}

// wait counts callers that wait.
func (g *gate) wait(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting += n; g.waiting == 0 {
		g.freed = g.freed[:0] // other clients may take them
	}
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
