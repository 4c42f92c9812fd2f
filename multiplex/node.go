package multiplex

import (
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// A node is one server of the group, through all its connections. One goroutine
// owns it: it dials, fences, pays, reads and buries, as the node's life (see
// pure.Life) requires.
//
// conn, server and life are written under the group's mutex and only by the
// owner goroutine, so that goroutine may read them without the mutex. The owner
// must not read two things without the mutex: shedLocked changes the life of an
// up node, and dropForm clears accepted steps in server.
type node struct {
	group *Group
	index int
	addr  string // without credentials
	// failsOver is set for a node behind which the server may change.
	failsOver bool

	dialer   dialer
	reader   reader
	reporter reporter
	standing
	progress

	// The following are guarded by the group's mutex; for conn and server see
	// above.
	conn     *conn.Conn
	server   conn.Server
	ledger   pure.Ledger
	lane     lane
	accounts accounts
	inLog    attachment
	// previous is written by the owner goroutine alone. The goroutine that reads
	// the connection may read it without the mutex.
	previous previous
	silence  silence
	idle     idleness
	// asked is when confirm was asked last.
	asked time.Duration

	polled   pollSide
	counters counters // see there for its guards
}

// A dialer connects a node. Only the node's goroutine calls its methods, and
// uses what it has, but for its renewal.
type dialer struct {
	*node
	config conn.Config
	// protocol is as configured. That of config changes after a node turned
	// out to speak RESP2 only.
	protocol int
	dialed   time.Duration     // when the last attempt to connect began
	proofs   [MaxNodes]*proof  // that its twins are other servers
	looked   bool              // for other servers behind its name
	former   []string          // run ids before that of the last connection
	divided  bool              // one of them came back
	barred   bool              // the last attempt lacked the right credentials
	used     conn.Credentials  // of that attempt, from conn.Config.Credentials
	found    *conn.Credentials // for the next one, or nil
	renewal  renewal           // see there for its guard
}

// A standing is the stage of the node's life. The group's mutex guards it; for
// life see node.
type standing struct {
	life  pure.Life
	fault *fault // why the node is not up
	tried bool   // an attempt to connect has ended
}

// An attachment is what the log must know of a connection.
type attachment struct {
	// skip is how many bytes of the log's buffer were queued before the node
	// joined.
	skip     int
	attached bool // its cursors pin rounds: from the join until it is buried
	// limit is set when the connection stops being live. Rounds from limit on
	// are not for this connection.
	limit uint64
}

// A progress is how far a connection has come: cursors (see broadcast) and
// times. They are read without the mutex.
type progress struct {
	// answered moves after the votes (docs/internals/design.md, "The vote comes
	// before the cursor moves"), a batch of replies at a time.
	answered, sent atomic.Uint64
	laneNext       atomic.Uint64 // the lane's front
	replyTime      atomic.Int64  // smoothed, nanoseconds; written by the reader
	// heard is when the reader last got bytes, on the group's clock.
	heard atomic.Int64
	known atomic.Bool // it was up once
}

// A pollSide passes the connection from the node's goroutine to the poller and
// back.
type pollSide struct {
	// conn is what the poller reads. It is nil if the node's goroutine reads, or
	// there is no connection.
	conn    atomic.Pointer[conn.Conn]
	ended   chan error // gives the connection back
	adopted bool       // owned by the node's goroutine
}

// A reader takes a node's replies. Only the goroutine that reads the connection
// calls its methods, and uses what it has. From adoptLocked to handBack that is
// the holder of the poller's role, otherwise the node's own.
type reader struct {
	*node
	pos     uint64 // the round whose reply comes next; never before answered
	ring    *ring  // of the log, when the bytes came
	replies uint64 // how many have come on this connection
	sampled bool   // the reply time of this batch was measured
	// If guessed, replyTime is the handshake's, and the first measurement
	// replaces it.
	guessed bool
	refusal refusal
	votes   [maxMerged]Vote // on the parts of a carrier
	// voids is zero, or set since the server said that all its keys went.
	// What it grants to rounds before that position does not count, nor to
	// a repeated command (lookout_track.go).
	voids    uint64
	repeated bool
	withheld withheld
}

// A reporter says what is the matter with a node. The group's mutex guards it.
type reporter struct {
	*node
	told    telling   // what was reported last
	remarks remarks   // what is noteworthy
	why     explained // of its missing votes, while it is up
}

// blame returns the error that names this node and the cause of its missing
// vote.
func (n *node) blame(f *fault) *NodeError {
	return &NodeError{
		Node: n.index, Addr: n.addr, Err: f.err,
		tried: n.group.epoch.Add(f.tried), known: n.known.Load(), replicas: n.group.config.Allow.Replica,
		renews: n.dialer.renewal.ask != nil,
	}
}

// A silence decides how long a node may leave a command unanswered before its
// connection is shed. The group's mutex guards it.
type silence struct {
	pure.Silence
	// asked is when the oldest awaited entry of the lane began to wait.
	asked time.Duration
}

// An idleness is what a node's connections showed about idle timeouts. The
// group's mutex guards it.
type idleness struct {
	// idled is the idle time of a connection closed by the peer, or zero
	// after another end.
	idled time.Duration
	// probe is the time between probes learned from that. It is valid up to
	// until. If zero, the configured time applies.
	probe time.Duration
	until time.Duration
}

const (
	// probeLeast is the shortest time between probes that is learned from
	// closed connections.
	probeLeast = 250 * time.Millisecond
	// probeShare is the divisor of the observed idle time: a connection is
	// probed after a third of it. A server may check its clients only now and
	// then, and count whole seconds: having closed one connection after 2.9 s,
	// it may close the next after 1 s.
	probeShare = 3
	// probeRecovery is for how long no connection may end like this before the
	// time between probes is doubled.
	probeRecovery = time.Hour
)

// learn shortens the time between probes, if the last connection was idle long
// enough. sameRun reports that the same server process shook hands again: no
// restart had ended the connection.
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

// previous is what fencing must know of the previous connection (R8).
type previous struct {
	server conn.Server
	end    uint64 // rounds from this position on were not sent there
	// unfenced is set after a kill that failed. Until their TTLs have
	// passed, the SETs sent there may still be executed.
	unfenced pure.Unfenced
}

// A telling is what was last reported of a node.
type telling struct {
	news     News
	cause    string
	warnings []string
}

// outdated reports whether there is anything to report. Comparing causes
// suffices: Up has none, every other state has one. A shed connection keeps its
// cause, so that its death is not reported again.
func (t telling) outdated(cause string) bool { return t.news == 0 || t.cause != cause }

// A proof is the script that tells a node and its twin apart. There is only one
// for each connection of the twin, so that servers need not keep many scripts.
type proof struct {
	twin   *conn.Conn
	secret string
	digest string
	apart  bool // two servers; valid as long as both connections last
}
