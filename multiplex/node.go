package multiplex

import (
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// A node is one server of the group, through all its connections. One goroutine owns it: it dials, fences, pays, reads,
// and buries, as its life says. What others need to see is guarded by the group's mutex or atomic.
type node struct {
	group  *Group
	index  int
	addr   string      // without credentials
	config conn.Config // owned by the node's goroutine
	// protocol is what the configuration says; config's changes when a node turns out to speak RESP2 only.
	protocol int

	// The following are guarded by the group's mutex.
	life     pure.Life
	fault    *fault // why the node is not up
	conn     *conn.Conn
	server   conn.Server
	ledger   pure.Ledger
	lane     lane
	skip     int           // bytes of the log's buffer that were queued before the node joined
	attached bool          // its cursors pin rounds; from the join until it is buried
	limit    uint64        // rounds from this position on are not for this connection; set when it stops being live
	excused  time.Duration // until then its silence is our own: there were bytes that we had not read
	usual    time.Duration // its reply time when it was last not far behind the others
	asked    time.Duration // since when the oldest awaited entry of the lane waits
	// away is how late the watch was, all in all, since awaySince, when the oldest unanswered command began to wait.
	away, awaySince time.Duration
	// idled is for how long the last connection was idle when the peer closed it; probe is what was learned from that, until
	// probeUntil. Zero: nothing. See returning.go.
	idled, probe, probeUntil time.Duration

	tried    bool // one attempt to connect has ended
	connects int
	deaths   int
	sheds    int

	// The same, about whether the node may have forgotten locks (R23) and is fit to keep them (R22).
	trust      pure.Trust
	looks      looks
	doubted    *fault        // the cause of missing votes while it is quarantined,
	doubtStale time.Duration // and when that must be made anew
	warnings   []string

	// Cursors, see broadcast. answered moves after the vote (docs/design.md), a batch of replies at a time.
	answered, sent atomic.Uint64
	laneNext       atomic.Uint64 // the lane's front
	replyTime      atomic.Int64  // smoothed, nanoseconds; written by the reader
	heard          atomic.Int64  // when the reader last got bytes, on the group's clock

	// polled is the connection that whoever polls reads; nil when the node's goroutine does, or nobody. ended gives it back.
	polled  atomic.Pointer[conn.Conn]
	ended   chan error
	adopted bool          // owned by the node's goroutine
	dialed  time.Duration // when the last attempt to connect began; owned by the node's goroutine

	// The following are owned by whoever reads: the node's goroutine, or from adopt to handBack the one with the poller's
	// role. (previous is written under the mutex, since owe reads it.)
	pos      uint64 // the round whose reply comes next; answered, or ahead of it
	replies  uint64 // how many have come on this connection
	sampled  bool   // the reply time of this batch was taken
	guessed  bool   // replyTime is the handshake's: the first that is measured replaces it
	refusal  refusal
	votes    [mergeMost]Vote // on the parts of a carrier
	previous previous

	proofs [MaxNodes]*proof // that twins are other servers; owned by the node's goroutine

	counters counters // see count.go for who owns what
	told     telling  // guarded by the group's mutex
}

func (n *node) blame(f *fault) *NodeError {
	return &NodeError{
		Node: n.index, Addr: n.addr, Err: f.err,
		tried: n.group.epoch.Add(f.tried), replicas: n.group.config.Allow.Replica,
	}
}
