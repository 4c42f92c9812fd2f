package multiplex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Ready blocks until a quorum of nodes counts: up, and not quarantined (R23).
// After the end of ctx, the error wraps the context's error and an
// *UndecidedError with the cause of each missing node. If the group is closed,
// it is ErrClosed.
func (g *Group) Ready(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.countingLocked().Len() >= g.quorum })
}

// Complete is Ready for all nodes instead of a quorum.
func (g *Group) Complete(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.countingLocked() == All(g.size) })
}

// WaitUp blocks until a quorum of nodes is up, or each node is up or has failed
// once. Its errors are those of Ready.
func (g *Group) WaitUp(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.live.Len() >= g.quorum || g.triedLocked() })
}

// WaitSettled blocks until a quorum of nodes counts, or clearly none will
// within the given time. Then too few nodes are up, or they are quarantined for
// longer, or belong to another deployment. It does not wait for nodes that are
// not up. Its errors are those of Ready.
func (g *Group) WaitSettled(ctx context.Context, within time.Duration) error {
	return g.waitUntil(ctx, func() bool {
		soon, known := g.members.Soon(within, g.now())
		return g.countingLocked().Len() >= g.quorum || known && soon.Len() < g.quorum
	})
}

// WaitTried blocks until each node is up or has failed once. Its errors are
// those of Ready.
func (g *Group) WaitTried(ctx context.Context) error { return g.waitUntil(ctx, g.triedLocked) }

func (g *Group) triedLocked() bool {
	for _, n := range g.nodes {
		if !n.tried {
			return false
		}
	}
	return true
}

// waitUntil blocks until a condition on the nodes' states holds. The condition
// is called under the mutex.
func (g *Group) waitUntil(ctx context.Context, holds func() bool) error {
	g.called(ctx)
	for {
		g.mu.Lock()
		ok, changed := holds(), g.changed
		g.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), g.missing())
		case <-g.life.stopped.Done():
			return ErrClosed
		}
	}
}

// missing returns an UndecidedError about the nodes that do not count.
func (g *Group) missing() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.absentLocked(g.countingLocked())
}

// absentLocked returns the error of a command for which too few nodes count.
func (g *Group) absentLocked(counting Set) error {
	e := &UndecidedError{Of: g.size}
	for i, n := range g.nodes {
		switch {
		case counting.Has(i), g.members.WaitsForOthers(i):
		case g.live.Has(i):
			e.Nodes = append(e.Nodes, n.blame(n.reporter.causeLocked()))
		default:
			e.Nodes = append(e.Nodes, n.blame(n.fault))
		}
	}
	return e
}

// errReturning means that too few nodes are up for a quorum now, and perhaps
// enough in a moment.
var errReturning = errors.New("multiplex: nodes are being dialed again")

// returningLocked returns the nodes that may count for a command in a moment:
// their connection has just ended, and no attempt to reconnect has failed.
func (g *Group) returningLocked(v *verb, ttl time.Duration) Set {
	var s Set
	now := g.now()
	for i, n := range g.nodes {
		if n.life.Returning && now-n.life.Ended <= pure.ShedAge(g.config.ShedAfter, n.voteTimeout(ttl)) {
			s |= setOf(i)
		}
	}
	if v.claims {
		s &^= g.voidLocked(v)
	}
	return s
}

// hopefulLocked reports whether the counting nodes and the returning ones are a
// quorum.
func (g *Group) hopefulLocked(v *verb, ttl time.Duration) bool {
	return (g.neededLocked(v) | g.returningLocked(v, ttl)).Len() >= g.quorum
}

// awaitReturn blocks until a quorum of nodes counts for a command, and then
// returns nil. It gives up with absentLocked's error once no quorum can count
// or the nodes' vote timeout has passed since the given time, with the
// context's error if ctx ends, and with ErrClosed.
func (g *Group) awaitReturn(ctx context.Context, v *verb, ttl, since time.Duration) error {
	var timer *time.Timer
	for {
		g.mu.Lock()
		needed, changed := g.neededLocked(v), g.changed
		var limit time.Duration
		for _, n := range g.nodes {
			limit = max(limit, n.voteTimeout(ttl))
		}
		left := since + limit - g.now()
		var hopeless error
		if left <= 0 || !g.hopefulLocked(v, ttl) {
			hopeless = g.absentLocked(needed)
		}
		g.mu.Unlock()
		if needed.Len() >= g.quorum || hopeless != nil {
			return hopeless
		}
		if timer == nil {
			timer = time.NewTimer(max(pure.Soon, left))
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C: // the next iteration finds that the time is over
			timer.Reset(tickLeast)
		case <-ctx.Done():
			return ctx.Err()
		case <-g.life.stopped.Done():
			return ErrClosed
		}
	}
}
