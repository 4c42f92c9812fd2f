package multiplex

import (
	"errors"
	"io"
	"syscall"
	"time"
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
