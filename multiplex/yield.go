package multiplex

import (
	"runtime"
	"time"
)

const (
	// slowYield is longer than all of our own callers need to run: other goroutines compute, and a yield lets each of them
	// use up its time slice of 10 ms.
	slowYield = 5 * time.Millisecond
	// sulk is for how long nobody yields then.
	sulk = 100 * time.Millisecond
)

// yield lets others run, unless that took too long a moment ago.
func (g *Group) yield() {
	begun := g.now()
	if begun < time.Duration(g.sulking.Load()) {
		return
	}
	runtime.Gosched()
	if now := g.now(); now-begun > slowYield {
		g.sulking.Store(int64(now + sulk))
	}
}
