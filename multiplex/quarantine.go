package multiplex

import (
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Quarantine (R23): a node that may have forgotten locks gets every command, so that its keys are set, extended and released
// like any other's, but before every lock from before must have run out its grants of claims do not count, nor its extensions of
// keys that it was given meanwhile. Such votes count as failed from the start, so that decisions fall as fast as without it.

// ErrQuarantined is a node whose grants do not count yet, since it may have forgotten locks that are still valid (R23).
var ErrQuarantined = errors.New("multiplex: quarantined")

// A QuarantineError is ErrQuarantined with its particulars.
type QuarantineError struct {
	// Left is how long the node's grants do not count from now on, if no seal ends that before. Errors share it, so it may be
	// too long by a hundredth, or ten milliseconds.
	Left time.Duration
	// Why is what began it: "first seen", "restarted", "seal vanished" …
	Why string
}

// Error has the time left, to the millisecond, and what began it.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("%v for another %v: %s", ErrQuarantined, e.Left.Round(time.Millisecond), e.Why)
}

// Unwrap gives ErrQuarantined.
func (e *QuarantineError) Unwrap() error { return ErrQuarantined }

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

// counting are the nodes whose grants make a lock. The caller holds the mutex.
func (g *Group) counting() Set { return g.live &^ g.quarantined }

// needed are the nodes that a command of the kind can get a quorum of. An extension may count on a quarantined node, if the
// key is older than the quarantine: see void. The caller holds the mutex.
func (g *Group) needed(kind *Kind) Set {
	if kind.Mode == Claim {
		return g.counting()
	}
	return g.live
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

// void are the nodes whose grants do not count, of those that were quarantined when the round got its place: for a claim all;
// for an extension those that were quarantined also when the key was set. Such a node may have forgotten somebody's vote
// before that, and who was granted it may still be waiting for the last one that a quorum needs. Where the key is older than
// the quarantine, it proves that the node has forgotten nothing since. A release counts in any case: it makes no lock.
func (r *round) void() Set {
	switch {
	case r.kind.Mode == Claim:
		return r.discounted
	case r.kind.Release:
		return 0
	}
	return r.discounted & r.receipt.Doubted
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

// isNew is the declaration that the deployment is new, where there are seals to write: without them, whoever comes later could
// not tell.
func (c *Config) isNew() bool {
	return c.New && c.MaxTTL > 0 && c.Seal.Read != nil && c.Seal.Write != nil
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

// tellTrust puts into a node's status what there is to tell.
func tellTrust(t pure.Trust, s *Status, now time.Duration) {
	s.Sealed = t.Sealed > 0
	if s.State != Up {
		t = t.At(now) // it will count when it joins; one that is up counts when the watch has looked
	}
	if !t.Trusted && t.Need > 0 {
		s.Quarantined, s.QuarantineLeft, s.QuarantineWhy = true, t.Left(now), t.Why
	}
}

// announce tells those who wait for a change of the nodes' states. The caller holds the mutex.
func (g *Group) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}
