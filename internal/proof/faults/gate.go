package faults

import (
	"context"
	"sync"
	"time"
)

// A gate lets faults begin.
type gate struct {
	nodes, quorum int

	mu       sync.Mutex // guards the following
	changed  sync.Cond
	shut     bool // the load rests, or the run is over
	storm    bool // a majority may be faulty
	faulty   int  // nodes
	links    int  // faults of links and processes
	forgot   time.Time
	recovery time.Duration // so long a node that forgot does not count (R23)
}

func newGate(nodes int, maxTTL time.Duration) *gate {
	g := &gate{nodes: nodes, quorum: nodes/2 + 1, recovery: maxTTL + maxTTL/50 + 200*time.Millisecond}
	g.changed.L = &g.mu
	return g
}

// allowed says whether a kind may be drawn. A node that forgot is missing for long, so that one at a time is, but for
// storms.
func (g *gate) allowed(k *Kind) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !k.forgets || g.storm || time.Since(g.forgot) > g.recovery
}

// enter waits until a fault may begin. It reports false when ctx has ended.
func (g *gate) enter(ctx context.Context, k *Kind) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer context.AfterFunc(ctx, g.wake)()
	for g.shut || k.Scope == OfNode && g.faulty >= g.limit() {
		if ctx.Err() != nil {
			return false
		}
		g.changed.Wait()
	}
	if ctx.Err() != nil {
		return false
	}
	if k.Scope == OfNode {
		g.faulty++
	} else {
		g.links++
	}
	if k.forgets {
		g.forgot = time.Now()
	}
	return true
}

// limit is how many nodes may be faulty at once. A single node may be: then nothing is granted.
func (g *gate) limit() int {
	if g.storm {
		return g.nodes
	}
	return max(g.nodes-g.quorum, 1)
}

func (g *gate) leave(k *Kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.Scope == OfNode {
		g.faulty--
	} else {
		g.links--
	}
	g.changed.Broadcast()
}

func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed.Broadcast()
}

func (g *gate) setStorm(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.storm = on
	g.changed.Broadcast()
}

// close lets no fault begin, and waits until all are over.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for g.faulty+g.links > 0 {
		g.changed.Wait()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	g.changed.Broadcast()
}
