package multiplex

import (
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// A node is one server of the group, through all its connections. One goroutine
// owns it: it dials, fences, pays, reads, and buries, as its life says.
//
// conn, server and the node's life are written under the group's mutex, and by
// the owner goroutine alone, so that goroutine may read them without the mutex.
// (Two writes come from elsewhere, and the owner reads neither without the mutex:
// shedLocked changes the life of a node that is up, and unlearn the accepted steps
// of server.)
type node struct {
	group *Group
	index int
	addr  string // without credentials

	dialer // owned by the node's goroutine

	// The following are guarded by the group's mutex; see above for the first three.
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
	// previous is written under the group's mutex by the goroutine that reads, which may
	// read it without.
	previous previous

	counters counters // states its own guards
}

// A dialer is what the node's goroutine needs to connect.
type dialer struct {
	config   conn.Config
	protocol int              // as configured; config's changes when a node turns out to speak RESP2 only
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
	skip     int    // bytes of the log's buffer that were queued before the node joined
	attached bool   // its cursors pin rounds; from the join until it is buried
	limit    uint64 // rounds from this position on are not for this connection; set when it stops being live
}

// A progress is how far a connection is: cursors (see broadcast) and times, read
// without the mutex.
type progress struct {
	// answered moves after the votes, a batch of replies at a time (docs/design.md, "The vote comes before the cursor moves").
	answered, sent atomic.Uint64
	laneNext       atomic.Uint64 // the lane's front
	replyTime      atomic.Int64  // smoothed, nanoseconds; written by the reader
	heard          atomic.Int64  // when the reader last got bytes, on the group's clock
}

// A pollSide connects the node's goroutine to the poller.
type pollSide struct {
	polled  atomic.Pointer[conn.Conn] // the connection that the poller reads; nil when the node's goroutine reads, or is about to
	ended   chan error                // gives the connection back
	adopted bool                      // owned by the node's goroutine
}

// A reader is owned by the goroutine that reads the connection: the node's own,
// or from adoptLocked to handBack the one that has the poller's role.
type reader struct {
	pos     uint64 // the round whose reply comes next; answered, or ahead of it
	replies uint64 // how many have come on this connection
	sampled bool   // the reply time of this batch was taken
	guessed bool   // replyTime is the handshake's: the first that is measured replaces it
	refusal refusal
	votes   [mergeMost]Vote // on the parts of a carrier
}

func (n *node) blame(f *fault) *NodeError {
	return &NodeError{
		Node: n.index, Addr: n.addr, Err: f.err,
		tried: n.group.epoch.Add(f.tried), replicas: n.group.config.Allow.Replica,
	}
}
