package multiplex

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Quarantine (R23): a node that may have forgotten locks gets every command, so
// its keys are set, extended and released like any other's. But until every
// earlier lock must have expired, its grants of claims do not count, nor do its
// extensions of keys that were set meanwhile. Those votes have failed from the
// start, so decisions fall as fast as without a quarantine.

// discountLocked records the round's quarantined nodes and returns those whose
// vote on it fails for that, with their causes stored.
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

// meetLocked begins or resumes watching the process that has just shaken hands.
func (n *node) meetLocked(now time.Duration) {
	before := n.trust.Trust
	n.trust.Trust = n.trust.Meet(n.server.RunID, now)
	if before.Met && before.Run != n.trust.Run {
		n.group.quarantine.debut = pure.Debut{} // it is not new any more
	}
	n.judgeTrustLocked(now)
	n.trust.warnings = n.group.warningsOf(&n.server)
	if n.trust.Need > 0 && n.server.RunID == "" {
		n.trust.warnings = append(n.trust.warnings, warnNoRunID)
	}
}

// guardLocked updates the quarantine of a node that is up, reads and writes its
// seal, and returns when to run again.
func (n *node) guardLocked(now time.Duration) time.Duration {
	n.judgeTrustLocked(now)
	next := n.tendLocked(now)
	if left := n.trust.Left(now); left > 0 {
		next = min(next, now+left)
	}
	return next
}

// judgeTrustLocked makes the group's set follow what is known of the node.
func (n *node) judgeTrustLocked(now time.Duration) {
	g := n.group
	n.trust.Trust = n.trust.At(now)
	if n.trust.Trusted != g.quarantine.nodes.Has(n.index) {
		return
	}
	n.trust.shared = nil
	if n.trust.Trusted {
		g.quarantine.nodes &^= setOf(n.index)
		// A trusted node has a past: the deployment is not new.
		g.quarantine.debut = pure.Debut{}
		n.trust.looks.next = now
		g.wakeWatchAtLocked(now) // to write the seal
	} else {
		g.quarantine.nodes |= setOf(n.index)
		g.wakeWatchAtLocked(now + n.trust.Left(now))
	}
	n.tellLocked()
	g.notifyLocked()
}

// raiseLocked adopts a longer MaxTTL that was found in a seal: a client of this
// deployment may hold locks for that long, on any node (Allow.OtherMaxTTL).
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

// tryDebutLocked advances a deployment that was declared new; see pure.Debut.
func (g *Group) tryDebutLocked() {
	if !g.quarantine.debut.Open || g.live != All(g.size) {
		return
	}
	if !g.quarantine.debut.Verifying {
		g.quarantine.debut.Verifying, g.quarantine.debut.Clean = true, uint16(g.config.Durable&All(g.size))
		g.eachWatchedLocked((*node).lookLocked)
	}
	if Set(g.quarantine.debut.Clean) == All(g.size) {
		g.quarantine.debut = pure.Debut{}
		g.eachWatchedLocked(func(n *node) { n.writeSealLocked(n.trust.Need) })
	}
}

// eachWatchedLocked calls a function for each node that is not durable.
func (g *Group) eachWatchedLocked(do func(n *node)) {
	for _, n := range g.nodes {
		if n.trust.Need > 0 {
			do(n)
		}
	}
}
