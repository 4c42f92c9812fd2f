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

// A quarantine is what the group knows of nodes that may have forgotten locks.
// The group's mutex guards it.
type quarantine struct {
	nodes  Set           // nodes whose grants must not make a lock (R23), whether or not they are live
	maxTTL time.Duration // Config.MaxTTL, or a longer one that a seal said
	debut  pure.Debut
}

// A nodeTrust is whether a node may have forgotten locks (R23), and whether it is
// fit to keep them (R22). The group's mutex guards it.
type nodeTrust struct {
	pure.Trust
	looks    looks
	shared   *fault        // cause of missing votes while the node is quarantined, nil if there is none yet
	stale    time.Duration // when shared must be made anew
	warnings []string
}

// cause returns why the vote of the quarantined node is missing. Rounds share it
// for a moment, so that nothing is built for each of them.
func (t *nodeTrust) cause(now time.Duration) *fault {
	if t.shared == nil || now >= t.stale {
		left := t.Left(now)
		t.shared = &fault{err: &QuarantineError{Left: left, Why: t.Why}}
		t.stale = now + max(staleAfter, left/100)
	}
	return t.shared
}

// discount notes in a round, when it gets its place, which of the nodes that it goes to must not make a lock, and returns
// those whose votes on it are failed for that, with their causes in place. The caller holds the mutex.
func (g *Group) discountLocked(r *round) Set {
	r.discounted = g.quarantine.nodes & g.live
	void := r.void()
	if void == 0 {
		return 0
	}
	now := g.now()
	for i, n := range g.nodes {
		if void.Has(i) {
			r.causes[i].Store(n.trust.cause(now))
			r.blamed.Store(true)
		}
	}
	return void
}

// meet begins or goes on with the watch over the process that has just shaken hands. The caller holds the mutex.
func (n *node) meetLocked(now time.Duration) {
	before := n.trust.Trust
	n.trust.Trust = n.trust.Meet(n.server.RunID, now)
	if before.Met && before.Run != n.trust.Run {
		n.group.quarantine.debut = pure.Debut{} // it is not that new any more
	}
	n.judgeTrustLocked(now)
	n.trust.warnings = n.group.warningsOf(&n.server)
	if n.trust.Need > 0 && n.server.RunID == "" {
		n.trust.warnings = append(n.trust.warnings, warnNoRunID)
	}
}

// guard looks after a node's quarantine and seal, and returns when to do so again. The node is up, and the caller holds the
// mutex.
func (n *node) guardLocked(now time.Duration) time.Duration {
	n.judgeTrustLocked(now)
	next := n.tendLocked(now)
	if left := n.trust.Left(now); left > 0 {
		next = min(next, now+left)
	}
	return next
}

// judgeTrust makes the group's set follow what is known of the node. The caller holds the mutex.
func (n *node) judgeTrustLocked(now time.Duration) {
	g := n.group
	n.trust.Trust = n.trust.At(now)
	if n.trust.Trusted != g.quarantine.nodes.Has(n.index) {
		return
	}
	n.trust.shared = nil
	if n.trust.Trusted {
		g.quarantine.nodes &^= setOf(n.index)
		g.quarantine.debut = pure.Debut{} // there is a past that a declaration cannot do without
		n.trust.looks.next = now
		g.wakeWatchAtLocked(now) // to write the seal
	} else {
		g.quarantine.nodes |= setOf(n.index)
		g.wakeWatchAtLocked(now + n.trust.Left(now))
	}
	n.tellLocked()
	g.notifyLocked()
}

// raise makes the group reckon with a longer MaxTTL, which a seal told of: somebody in this deployment may hold locks for so
// long, on any node (Allow.OtherMaxTTL). The caller holds the mutex.
func (g *Group) raiseLocked(maxTTL, now time.Duration) {
	if maxTTL <= g.quarantine.maxTTL {
		return
	}
	g.quarantine.maxTTL = maxTTL
	need := pure.NeedFor(maxTTL, g.config.Drift)
	for _, n := range g.nodes {
		if n.trust.Need > 0 { // not a durable one
			n.trust.Trust = n.trust.Require(need, now)
			n.judgeTrustLocked(now)
		}
	}
}

// tryDebut goes on with a deployment that was declared new: see pure.Debut. The caller holds the mutex.
func (g *Group) tryDebutLocked() {
	if !g.quarantine.debut.Open || g.live != everyone(g.size) {
		return
	}
	if !g.quarantine.debut.Verifying {
		g.quarantine.debut.Verifying, g.quarantine.debut.Clean = true, uint16(g.config.Durable&everyone(g.size))
		g.eachWatchedLocked((*node).lookLocked)
	}
	if Set(g.quarantine.debut.Clean) == everyone(g.size) {
		g.quarantine.debut = pure.Debut{}
		g.eachWatchedLocked(func(n *node) { n.writeSealLocked(n.trust.Need) })
	}
}

// eachWatched calls a function for each node that is not durable. The caller holds the mutex.
func (g *Group) eachWatchedLocked(do func(n *node)) {
	for _, n := range g.nodes {
		if n.trust.Need > 0 {
			do(n)
		}
	}
}
