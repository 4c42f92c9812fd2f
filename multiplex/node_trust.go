package multiplex

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Quarantine (R23): a node that may have forgotten locks gets every command, so that its keys are set, extended and released
// like any other's, but before every lock from before must have run out its grants of claims do not count, nor its extensions of
// keys that it was given meanwhile. Such votes count as failed from the start, so that decisions fall as fast as without it.

// staleAfter is the least time for which rounds share a QuarantineError, so that nothing is built for each (R12).
const staleAfter = 10 * time.Millisecond

// quarantine is the cause of a quarantined node's missing vote. The caller holds the mutex.
func (n *node) quarantine(now time.Duration) *fault {
	if n.doubted == nil || now >= n.doubtStale {
		left := n.trust.Left(now)
		n.doubted = &fault{err: &QuarantineError{Left: left, Why: n.trust.Why}}
		n.doubtStale = now + max(staleAfter, left/100)
	}
	return n.doubted
}

// discount notes in a round, when it gets its place, which of the nodes that it goes to must not make a lock, and returns
// those whose votes on it are failed for that, with their causes in place. The caller holds the mutex.
func (g *Group) discount(r *round) Set {
	r.discounted = g.quarantined & g.live
	void := r.void()
	if void == 0 {
		return 0
	}
	now := g.now()
	for i, n := range g.nodes {
		if void.Has(i) {
			r.causes[i].Store(n.quarantine(now))
			r.blamed.Store(true)
		}
	}
	return void
}

// meet begins or goes on with the watch over the process that has just shaken hands. The caller holds the mutex.
func (n *node) meet(now time.Duration) {
	before := n.trust
	n.trust = n.trust.Meet(n.server.RunID, now)
	if before.Met && before.Run != n.trust.Run {
		n.group.debut = pure.Debut{} // it is not that new any more
	}
	n.judgeTrust(now)
	n.warnings = n.group.warningsOf(&n.server)
	if n.trust.Need > 0 && n.server.RunID == "" {
		n.warnings = append(n.warnings, warnNoRunID)
	}
}

// guard looks after a node's quarantine and seal, and returns when to do so again. The node is up, and the caller holds the
// mutex.
func (n *node) guard(now time.Duration) time.Duration {
	n.judgeTrust(now)
	next := n.tend(now)
	if left := n.trust.Left(now); left > 0 {
		next = min(next, now+left)
	}
	return next
}

// judgeTrust makes the group's set follow what is known of the node. The caller holds the mutex.
func (n *node) judgeTrust(now time.Duration) {
	g := n.group
	n.trust = n.trust.At(now)
	if n.trust.Trusted != g.quarantined.Has(n.index) {
		return
	}
	n.doubted = nil
	if n.trust.Trusted {
		g.quarantined &^= setOf(n.index)
		g.debut = pure.Debut{} // there is a past that a declaration cannot do without
		n.looks.next = now
		g.wakeWatchAt(now) // to write the seal
	} else {
		g.quarantined |= setOf(n.index)
		g.wakeWatchAt(now + n.trust.Left(now))
	}
	n.tell()
	g.announce()
}

// raise makes the group reckon with a longer MaxTTL, which a seal told of: somebody in this deployment may hold locks for so
// long, on any node (Allow.OtherMaxTTL). The caller holds the mutex.
func (g *Group) raise(maxTTL, now time.Duration) {
	if maxTTL <= g.maxTTL {
		return
	}
	g.maxTTL = maxTTL
	need := pure.NeedFor(maxTTL, g.config.Drift)
	for _, n := range g.nodes {
		if n.trust.Need > 0 { // not a durable one
			n.trust = n.trust.Require(need, now)
			n.judgeTrust(now)
		}
	}
}

// tryDebut goes on with a deployment that was declared new: see pure.Debut. The caller holds the mutex.
func (g *Group) tryDebut() {
	if !g.debut.Open || g.live != everyone(g.size) {
		return
	}
	if !g.debut.Verifying {
		g.debut.Verifying, g.debut.Clean = true, uint16(g.config.Durable&everyone(g.size))
		g.eachWatched((*node).look)
	}
	if Set(g.debut.Clean) == everyone(g.size) {
		g.debut = pure.Debut{}
		g.eachWatched(func(n *node) { n.writeSeal(n.trust.Need) })
	}
}

// eachWatched calls a function for each node that is not durable. The caller holds the mutex.
func (g *Group) eachWatched(do func(n *node)) {
	for _, n := range g.nodes {
		if n.trust.Need > 0 {
			do(n)
		}
	}
}
