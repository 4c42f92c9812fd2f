package multiplex

import (
	"errors"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// Quarantine (R23): a node that may have forgotten locks gets every command, so
// its keys are set, extended and released like any other's. But until every
// earlier lock must have expired, its grants of claims do not count, nor do its
// extensions of keys that were set meanwhile. Those votes fail from the start,
// so rounds are decided as fast as without a quarantine.

// discountLocked records the round's quarantined nodes, and returns those whose
// vote on it fails for that reason. It stores their causes in the round.
func (g *Group) discountLocked(r *round) Set {
	r.discounted = g.quarantine.nodes & g.live
	void := r.void()
	if r.verb.numbered {
		void |= g.numbering.floorless & g.live
	}
	if void == 0 {
		return 0
	}
	now := g.now()
	for i, n := range g.nodes {
		if void.Has(i) {
			r.causes[i].Store(n.causeLocked(now))
			r.blamed.Store(true)
		}
	}
	return void
}

// meetLocked begins or resumes watching the process that has just shaken hands.
func (n *node) meetLocked(now time.Duration) {
	n.trust.Trust = n.trust.Meet(processOf(&n.server), now)
	n.trust.met = now
	// What was seen of the deployment may be another process's.
	n.group.quarantine.deployment.Part(n.index)
	n.group.numbering.floors.Part(n.index)
	n.judgeTrustLocked(now)
	n.trust.warnings = n.group.warningsOf(&n.server)
	if n.trust.Need > 0 && !n.trust.Durable && n.server.RunID == "" {
		n.trust.warnings = append(n.trust.warnings, warnNoRunID)
	}
}

// processOf returns the name of what is watched at a server.
func processOf(s *conn.Server) string { return pure.ProcessName(s.RunID, s.History) }

// errRewritten ends a connection to a server that has another replication
// history than at the handshake: it may have been a replica meanwhile (R23).
var errRewritten = errors.New("multiplex: the server began another replication history, so it may have been a replica")

// recheck compares what the server says in a look with what it said in the
// handshake. An error ends the connection: nothing that is in flight counts,
// and the next handshake begins a quarantine.
func (n *node) recheck(now *conn.Server) error {
	if err := n.group.config.Allow.check(now); err != nil {
		return err
	}
	if processOf(now) != processOf(&n.server) {
		return errRewritten
	}
	return nil
}

// guardLocked updates the quarantine of a node that is up, tends its seal, and
// returns when to run again.
func (n *node) guardLocked(now time.Duration) time.Duration {
	n.judgeTrustLocked(now)
	next := n.tendLocked(now)
	if left := n.trust.Left(now); left > 0 {
		next = min(next, now+left)
	}
	return next
}

// leftLocked returns how long the node stays quarantined unless a seal ends
// that earlier, and why. That includes the wait until the group opens the set.
func (n *node) leftLocked(now time.Duration) (left time.Duration, why string) {
	left, why = n.trust.Left(now), n.trust.Why
	if settles := n.group.quarantine.deployment.Settles(now); settles > 0 {
		opened := n.trust.Opens(n.group.sinceLocked(now), now)
		left, why = max(settles, opened.Left(now)), pure.WhyYoung
	}
	if n.conn != nil && n.server.RunID == "" && why != pure.WhyUnknown {
		why += ", and it tells no run id, so that each client waits"
	}
	return left, why
}

// judgeTrustLocked updates the group's set of quarantined nodes by what is
// known of this node.
func (n *node) judgeTrustLocked(now time.Duration) {
	g := n.group
	n.trust.Trust = n.trust.At(now)
	counts := n.trust.Trusted && !g.quarantine.strangers.Has(n.index)
	if counts != g.quarantine.nodes.Has(n.index) {
		return
	}
	n.trust.shared = nil
	if counts {
		g.quarantine.nodes &^= setOf(n.index)
		n.trust.looks.Next = now
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
	need := pure.NeedFor(maxTTL, g.config.DriftFactor)
	g.quarantine.deployment.Need = need
	for _, n := range g.nodes {
		n.trust.Trust = n.trust.Require(need, now)
		n.judgeTrustLocked(now)
	}
}
