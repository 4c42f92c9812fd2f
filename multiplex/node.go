package multiplex

import (
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A node is one server of the group, through all its connections. One goroutine
// owns it: it dials, fences, pays, reads and buries, as the node's life says.
//
// conn, server and life are written under the group's mutex and only by the
// owner goroutine, so that goroutine may read them without the mutex. There are
// two exceptions, and the owner reads neither without the mutex: shedLocked
// changes the life of a node that is up, and unlearn clears accepted steps in
// server.
type node struct {
	group *Group
	index int
	addr  string // without credentials

	dialer // owned by the node's goroutine

	// The following are guarded by the group's mutex; for life, conn and server
	// see above.
	standing
	conn   *conn.Conn
	server conn.Server
	ledger pure.Ledger
	lane   lane
	attachment
	silence silence
	idle    idleness
	trust   nodeTrust

	progress
	pollSide
	reader
	// previous is written under the group's mutex by the owner goroutine. The
	// goroutine that reads may read it without.
	previous previous

	counters counters // states its own guards
}

// A dialer is what the node's goroutine needs to connect.
type dialer struct {
	config conn.Config
	// protocol is as configured; config's changes when a node turns out to
	// speak RESP2 only.
	protocol int
	dialed   time.Duration    // when the last attempt to connect began
	proofs   [MaxNodes]*proof // that twins are other servers
}

// A standing is where the node stands in its life.
type standing struct {
	life  pure.Life
	fault *fault  // why the node is not up
	tried bool    // one attempt to connect has ended
	told  telling // what was reported last
}

// An attachment is a connection's part in the log.
type attachment struct {
	// skip is how many bytes of the log's buffer were queued before the node
	// joined.
	skip     int
	attached bool // its cursors pin rounds; from the join until it is buried
	// Rounds from limit on are not for this connection. It is set when the
	// connection stops being live.
	limit uint64
}

// A progress is how far a connection has come: cursors (see broadcast) and
// times. They are read without the mutex.
type progress struct {
	// answered moves after the votes (docs/design.md, "The vote comes before
	// the cursor moves"), a batch of replies at a time
	answered, sent atomic.Uint64
	laneNext       atomic.Uint64 // the lane's front
	replyTime      atomic.Int64  // smoothed, nanoseconds; written by the reader
	// heard is when the reader last got bytes, on the group's clock.
	heard atomic.Int64
}

// A pollSide passes the connection from the node's goroutine to the poller and
// back.
type pollSide struct {
	// polled is the connection that the poller reads; nil if the node's
	// goroutine reads it, or none.
	polled  atomic.Pointer[conn.Conn]
	ended   chan error // gives the connection back
	adopted bool       // owned by the node's goroutine
}

// A reader is owned by the goroutine that reads the connection: the node's own,
// or from adoptLocked to handBack the one that has the poller's role.
type reader struct {
	pos     uint64 // the round whose reply comes next; answered, or ahead of it
	ring    *ring  // of the log, when the bytes came
	replies uint64 // how many have come on this connection
	sampled bool   // the reply time of this batch was taken
	// If guessed, replyTime is the handshake's, and the first that is measured
	// replaces it.
	guessed bool
	refusal refusal
	votes   [maxMerged]Vote // on the parts of a carrier
}

// blame returns the error that names this node and the cause of its missing
// vote.
func (n *node) blame(f *fault) *NodeError {
	return &NodeError{
		Node: n.index, Addr: n.addr, Err: f.err,
		tried: n.group.epoch.Add(f.tried), replicas: n.group.config.Allow.Replica,
	}
}

// A silence decides how long a node may leave a command unanswered before its
// connection is shed. The group's mutex guards it.
type silence struct {
	pure.Silence
	// asked is since when the oldest awaited entry of the lane waits.
	asked time.Duration
}

// An idleness is what a node's connections taught about idle timeouts. The
// group's mutex guards it.
type idleness struct {
	// idled is how long the last connection had been idle when the peer closed
	// it; zero if that taught nothing.
	idled time.Duration
	// probe is the time between probes that was learned from that, valid up to
	// until; zero if it is as configured.
	probe time.Duration
	until time.Duration
}

const (
	// probeLeast is the least time between two probes that is learned from
	// closed connections.
	probeLeast = 250 * time.Millisecond
	// probeShare is the fraction of the observed idle time after which a
	// connection is probed. A server may check its clients only now and then,
	// and count whole seconds: what it closes after 2.9 s it may close after 1
	// s the next time.
	probeShare = 3
	// probeRecovery is how long no connection must end like this before the
	// time between probes is doubled.
	probeRecovery = time.Hour
)

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

// A nodeTrust says whether a node may have forgotten locks (R23) and what is
// odd about its server (R22). The group's mutex guards it.
type nodeTrust struct {
	pure.Trust
	looks pure.Looks
	// asked and met are when the last handshake began and ended.
	asked, met time.Duration
	// started is when the process started, by its own account, if dated; see
	// dateLocked.
	started time.Duration
	dated   bool
	// shared is the cause of missing votes while the node does not count, or
	// nil if it was not made yet.
	shared   *fault
	stale    time.Duration // when shared must be renewed
	warnings []string
}

// causeLocked returns why the vote of a node that is up is missing. Rounds share it
// for a moment, so that none is built for each.
func (n *node) causeLocked(now time.Duration) *fault {
	t := &n.trust
	if t.shared == nil || now >= t.stale {
		left := t.Left(now)
		t.shared = n.estrangedLocked()
		if t.shared == nil {
			t.shared = &fault{err: &QuarantineError{Left: left, Why: t.Why}}
		}
		t.stale = now + max(staleAfter, left/100)
	}
	return t.shared
}

// staleAfter is the least time for which rounds share a cause.
const staleAfter = 10 * time.Millisecond

// refusal is the last error that a node replied. It is kept because a node that
// refuses does so many times, and none of them should allocate (R12).
type refusal struct {
	class conn.Class
	fault *fault
}

// cause returns the cause for an error reply. It has only the error's class:
// the text may quote what was sent (R27).
func (f *refusal) cause(v resp.Value) *fault {
	class := conn.ClassOf(v)
	if f.fault == nil || f.class != class {
		f.class, f.fault = class, &fault{err: &RefusalError{Class: class}}
	}
	return f.fault
}

// previous is what fencing must know of the previous connection (R8).
type previous struct {
	server conn.Server
	end    uint64 // rounds from this position on were not sent there
	// unfenced is set if that connection could not be killed: SETs before it
	// may come late, until their own TTL has passed.
	unfenced pure.Unfenced
}

// A telling is what was last reported of a node.
type telling struct {
	news     News
	cause    string
	warnings []string
}

// outdated reports whether there is anything to report. Comparing causes
// suffices: up has none, every other state has one. That a shed connection is
// dead afterwards is not reported.
func (t telling) outdated(cause string) bool { return t.news == 0 || t.cause != cause }

// A proof is the script by which a node and its twin are told apart. There is
// one for each connection of the twin, so that servers need not keep many.
type proof struct {
	twin   *conn.Conn
	secret string
	digest string
	apart  bool // they were told apart; valid as long as both connections last
}
