package multiplex

import (
	"errors"
	"io"
	"syscall"
	"time"
)

// Idle timeouts: servers (timeout) and proxies close connections that carry
// nothing for a while, and those to all nodes at the same moment. Each node is
// dialed again at once (pure.Life). A command that comes meanwhile waits for
// that instead of failing. From then on the connection is probed before it has
// been idle for that long.

// noteEndLocked records how long a connection had been idle that the peer
// closed. It was idle, too, if it carried nothing but a probe that came too
// late. unanswered means that commands of the log were not answered. The node's
// life and its lane must not have learned of the end yet.
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
			// The probe set heard when it was sent.
			idled += n.probeAfterLocked()
		}
	}
	n.idle.idled = idled
}

// endedByPeer reports whether the peer made the end, as a read shows it, or a
// probe that was written after it.
func endedByPeer(cause error) bool {
	return errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE)
}

// probeAfterLocked returns how long the connection may be idle before it is
// probed.
func (n *node) probeAfterLocked() time.Duration {
	return n.idle.probeAfter(n.group.config.ProbeAfter, n.group.now())
}
