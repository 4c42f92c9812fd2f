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

// An idleness is what a node's connections taught about idle timeouts. The
// group's mutex guards it.
type idleness struct {
	idled time.Duration // how long the last connection had been idle when the peer closed it; zero: nothing learned
	probe time.Duration // time between probes learned from that, until the time below; zero: as configured
	until time.Duration
}

// learn shortens the time between probes, if the last connection was idle long
// enough for that. sameRun says that the same server process shook hands again,
// so that the end was no restart.
func (s *idleness) learn(sameRun bool, configured, now time.Duration) {
	if sameRun && s.idled > probeLeast {
		s.probe = max(probeLeast, min(s.probeAfter(configured, now), s.idled/probeShare))
		s.until = now + probeRecovery
	}
	s.idled = 0
}

// probeAfter returns how long the connection may be idle before it is probed.
func (s *idleness) probeAfter(configured, now time.Duration) time.Duration {
	if s.probe == 0 {
		return configured
	}
	if now >= s.until {
		s.probe, s.until = 2*s.probe, now+probeRecovery
	}
	if s.probe >= configured {
		s.probe = 0
		return configured
	}
	return s.probe
}

// noteEnd notes for how long a connection had been idle that the peer closed; it was idle, too, if it carried nothing but a
// probe that came too late. unanswered says that commands of the log were not answered. The caller must hold the mutex, and
// must not have told the node's life and its lane of the end yet.
func (n *node) noteEndLocked(unanswered bool, cause error) {
	n.idle.idled = 0
	if n.life.State != Up || unanswered || !endedByPeer(cause) {
		return
	}
	idled := n.group.now() - time.Duration(n.heard.Load())
	for _, entries := range [...][]laneEntry{n.lane.awaited, n.lane.queued} {
		for _, e := range entries {
			if e.purpose != probe {
				return
			}
			idled += n.probeAfterLocked() // the node counts as heard since the probe
		}
	}
	n.idle.idled = idled
}

// endedByPeer reports an end that the peer made, as it shows to a read, or to a probe that is written behind it.
func endedByPeer(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE)
}

// probeAfterLocked returns how long the connection may be idle before it is
// probed.
func (n *node) probeAfterLocked() time.Duration {
	return n.idle.probeAfter(n.group.config.ProbeAfter, n.group.now())
}
