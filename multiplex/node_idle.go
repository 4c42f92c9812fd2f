package multiplex

import (
	"io"
	"syscall"
	"time"
)

// Idle timeouts: servers (by their setting timeout) and proxies close idle
// connections, often those to all nodes at the same moment. Each node is dialed
// again at once (pure.Life), and a command meanwhile waits for that. From then
// on the connection is probed before it has been idle for that long.

// noteEndLocked records how long a connection that the peer closed had been
// idle. A connection with nothing but an unanswered probe counts as idle.
// unanswered reports that commands of the log were not answered. noteEndLocked
// must be called before the node's life and its lane are told of the end.
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
			// Sending the probe has set heard.
			idled += n.probeAfterLocked()
		}
	}
	n.idle.idled = idled
}

// endedByPeer reports whether the peer ended the connection: a read found the
// end, or the write of a probe did.
func endedByPeer(cause error) bool {
	return isOneOf(cause, io.EOF, syscall.ECONNRESET, syscall.EPIPE)
}

// probeAfterLocked returns how long the connection may be idle before it is
// probed.
func (n *node) probeAfterLocked() time.Duration {
	return n.idle.probeAfter(n.group.config.ProbeAfter, n.group.now())
}
