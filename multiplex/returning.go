package multiplex

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Idle timeouts: servers (timeout) and proxies close connections that carry nothing for a while, and those to all nodes at
// the same moment. Each node is dialed again at once (pure.Life), a command that comes meanwhile waits for that instead of
// failing, and from then on the connection is probed before it has been idle for so long.

const (
	// probeLeast is the least time between two probes that was learned from connections that were closed for idleness.
	probeLeast = 250 * time.Millisecond
	// probeShare is the part of the observed idleness after which a connection is probed. A server may look at its clients
	// only now and then, and count whole seconds: what it closes after 2.9 s it may close after 1 s the next time.
	probeShare = 3
	// probeRecovery is after what time without such an end the time between two probes is doubled.
	probeRecovery = time.Hour
)

// errReturning says that too few nodes are up for a quorum, and that enough may be up again in a moment.
var errReturning = errors.New("multiplex: nodes are being dialed again")

// returning are the nodes whose connection ended a moment ago, that have not failed to come back, and that would count for a
// command of the kind if they did. The caller must hold the mutex.
func (g *Group) returning(kind *Kind, ttl time.Duration) Set {
	var s Set
	now := g.now()
	for i, n := range g.nodes {
		if n.life.Returning && now-n.life.Ended <= n.shedAfter(ttl) {
			s |= setOf(i)
		}
	}
	if kind.Mode == Claim {
		s &^= g.quarantined
	}
	return s
}

// hopeful reports whether the nodes that count for a command, with those that may return in a moment, are a quorum. The
// caller must hold the mutex.
func (g *Group) hopeful(kind *Kind, ttl time.Duration) bool {
	return (g.needed(kind) | g.returning(kind, ttl)).Len() >= g.quorum
}

// awaitReturn blocks until a quorum of nodes counts for a command of the kind, and then returns nil. It returns the error of
// a command that cannot get a quorum when that is known again, or when the nodes' vote timeout is over since the given time;
// the context's error if ctx ends first; or ErrClosed.
func (g *Group) awaitReturn(ctx context.Context, kind *Kind, ttl, since time.Duration) error {
	var timer *time.Timer
	for {
		g.mu.Lock()
		needed, changed := g.needed(kind), g.changed
		var limit time.Duration
		for _, n := range g.nodes {
			limit = max(limit, n.voteTimeout(ttl))
		}
		left := since + limit - g.now()
		var hopeless error
		if left <= 0 || !g.hopeful(kind, ttl) {
			hopeless = g.absent(needed)
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
		case <-timer.C: // the next look finds the time over
			timer.Reset(tickLeast)
		case <-ctx.Done():
			return ctx.Err()
		case <-g.stopped.Done():
			return ErrClosed
		}
	}
}

// noteEnd notes for how long a connection had been idle that the peer closed; it was idle, too, if it carried nothing but a
// probe that came too late. unanswered says that commands of the log were not answered. The caller must hold the mutex, and
// must not have told the node's life and its lane of the end yet.
func (n *node) noteEnd(unanswered bool, cause error) {
	n.idled = 0
	if n.life.State != Up || unanswered || !endedByPeer(cause) {
		return
	}
	idled := n.group.now() - time.Duration(n.heard.Load())
	for _, entries := range [...][]laneEntry{n.lane.awaited, n.lane.queued} {
		for _, e := range entries {
			if e.purpose != probe {
				return
			}
			idled += n.probeAfter() // the node counts as heard since the probe
		}
	}
	n.idled = idled
}

// endedByPeer reports an end that the peer made, as it shows to a read, or to a probe that is written behind it.
func endedByPeer(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE)
}

// learnIdleness makes the node be probed earlier than after the time for which its last connection had been idle when the
// peer closed it. That it is the same process again which shook hands says that this was no restart. The caller must hold
// the mutex.
func (n *node) learnIdleness(sameRun bool) {
	if sameRun && n.idled > probeLeast {
		n.probe = max(probeLeast, min(n.probeAfter(), n.idled/probeShare))
		n.probeUntil = n.group.now() + probeRecovery
	}
	n.idled = 0
}

// probeAfter is how long the connection may be idle before it is probed. The caller must hold the mutex.
func (n *node) probeAfter() time.Duration {
	configured := n.group.config.ProbeAfter
	if n.probe == 0 {
		return configured
	}
	if now := n.group.now(); now >= n.probeUntil {
		n.probe, n.probeUntil = 2*n.probe, now+probeRecovery
	}
	if n.probe >= configured {
		n.probe = 0
		return configured
	}
	return n.probe
}
