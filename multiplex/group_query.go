package multiplex

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// Query sends the same commands to every node that is up, in its lane. It is
// for questions about each node, not about a quorum. Each reply, errors
// included, is passed to each with the index of its node and of its command.
// each must not keep the value and must not wait. It is not called
// concurrently, nor after Query has returned. Its error ends that node's
// connection (R16).
//
// Query returns after the answer or failure of each node, or the end of ctx.
// The result has one element per node: nil, or why its answers are missing or
// incomplete.
func (g *Group) Query(ctx context.Context, commands [][]byte, each func(node, i int, v resp.Value) error) []error {
	return g.QueryEach(ctx, len(commands), func(int) [][]byte { return commands }, each)
}

// QueryEach is Query with n commands of its own for each node. A node without
// commands is not asked, and its error is nil. commandsOf is called under the
// group's mutex: it must not wait, nor call the group.
func (g *Group) QueryEach(
	ctx context.Context, n int, commandsOf func(node int) [][]byte, each func(node, i int, v resp.Value) error,
) []error {
	g.called(ctx)
	q := &query{group: g, each: each, last: n - 1, errs: make([]error, g.size), done: make(chan struct{})}
	q.open = All(g.size)
	g.mu.Lock()
	for _, n := range g.nodes {
		commands := commandsOf(n.index)
		switch {
		case len(commands) == 0:
			q.skip(n)
		case g.life.closing():
			q.settle(n, &fault{err: ErrClosed})
		case !g.live.Has(n.index):
			q.settle(n, n.fault)
		case !n.inquireLocked(q.inquiryOf(n), commands...):
			q.settle(n, &fault{err: ErrOverloaded})
		}
	}
	g.mu.Unlock()
	if p := g.poller; p != nil {
		defer p.readFor()()
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		q.cut(ctx.Err())
	case <-g.life.stopped.Done():
		q.cut(ErrClosed)
	}
	return q.errs
}

// A query is what the inquiries of one Query share.
type query struct {
	group *Group
	each  func(node, i int, v resp.Value) error
	last  int // index of the last command

	// mu guards the following. The group's mutex may be held when it is taken.
	mu   sync.Mutex
	open Set // nodes that have yet to answer
	errs []error
	done chan struct{} // closed when open is empty
}

// inquiryOf returns the inquiry of one node.
func (q *query) inquiryOf(n *node) *inquiry {
	return &inquiry{
		answer: func(i int, v resp.Value) error {
			q.mu.Lock()
			defer q.mu.Unlock()
			if !q.open.Has(n.index) {
				return nil // Query has returned
			}
			err := q.each(n.index, i, v)
			if err == nil && i == q.last {
				q.closeLocked(n.index)
			}
			return err
		},
		abandoned: func(why *fault) { q.settle(n, why) },
	}
}

// settle records why a node does not answer.
func (q *query) settle(n *node, why *fault) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open.Has(n.index) {
		q.errs[n.index] = n.blame(why)
		q.closeLocked(n.index)
	}
}

// skip ends the part of a node that is not asked.
func (q *query) skip(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeLocked(n.index)
}

// closeLocked ends one node's part.
func (q *query) closeLocked(node int) {
	if q.open &^= setOf(node); q.open == 0 {
		close(q.done)
	}
}

// cut ends the parts of all nodes that have not answered.
func (q *query) cut(cause error) {
	for _, n := range q.group.nodes {
		q.settle(n, &fault{err: cause})
	}
}

// A Status is what a group knows of one node. It holds nothing secret, and has
// a JSON form with the names of docs/cli.md (R27). Programs read it: fields are
// added, never renamed.
type Status struct {
	Addr  string `json:"addr"`  // without credentials
	State State  `json:"state"` // the stage of its life
	// Server is what it said of itself when it was last connected.
	Server conn.Server `json:"-"`
	Debts  int         `json:"debts"` // releases that it has yet to confirm (R8)
	// Connects counts handshakes, Deaths ended connections, and Sheds those
	// of them given up by this group for silence or a full backlog (R26).
	Connects int `json:"connects"`
	Deaths   int `json:"-"` // see Counts.Deaths
	Sheds    int `json:"-"`
	// Polled reports whether callers read this node's replies themselves.
	Polled bool `json:"polled"`
	// Counts has what happened so far.
	Counts NodeCounts `json:"counts"`
	// ReplyTime is the smoothed time to a reply.
	ReplyTime time.Duration `json:"-"`
	// Err is why the node is not up, nil when it is.
	Err error `json:"-"`
	// Quarantined reports whether the node's grants do not count yet, since it
	// may have forgotten locks (R23). QuarantineLeft is how long that lasts if
	// the node stays connected and no seal ends it earlier. QuarantineWhy is
	// its reason. They are zero for a node that counts as soon as it is up.
	Quarantined    bool          `json:"quarantined"`
	QuarantineLeft time.Duration `json:"-"`
	QuarantineWhy  string        `json:"quarantine_why,omitempty"`
	// FailsOver reports whether the server behind the node may change, and
	// FailoverBound for how long a former primary may go on accepting writes:
	// as declared, or as the present server says. It is zero if nothing is
	// known to bound that.
	FailsOver     bool          `json:"fails_over,omitempty"`
	FailoverBound time.Duration `json:"-"`
	// Sealed reports whether a seal of the node's process is known to exist.
	Sealed bool `json:"sealed"`
	// Deployment is the id of the deployment in the last look at the node,
	// and DeploymentNodes its size (R30). Both are zero for none.
	Deployment      string `json:"deployment,omitempty"`
	DeploymentNodes int    `json:"deployment_nodes,omitempty"`
	// Opening is the id of the deployment that another client is, or was at
	// its death, about to open with the node. It is "" if there is none.
	Opening string `json:"opening,omitempty"`
	// Started is when the server's process started, by its own account, to the
	// second. It is zero if the server does not say.
	Started time.Time `json:"started,omitzero"`
	// Warnings lists what should be changed about the server (R22), as found
	// when it was last connected, and why its grants of numbered claims do not
	// count, one sentence each. The slice is the caller's.
	Warnings []string `json:"warnings,omitempty"`
}

// MarshalJSON adds what has another form in JSON.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	return json.Marshal(struct {
		Product        string  `json:"product,omitempty"`
		Version        string  `json:"version,omitempty"`
		ReplyTime      float64 `json:"reply_time_us"`
		QuarantineLeft float64 `json:"quarantine_left_s,omitempty"`
		FailoverBound  float64 `json:"failover_bound_s,omitempty"`
		Err            string  `json:"error,omitempty"`
		plain
	}{
		s.Server.Product, s.Server.Version, float64(s.ReplyTime) / float64(time.Microsecond), s.QuarantineLeft.Seconds(), s.FailoverBound.Seconds(),
		errtext.JSON(s.Err), plain(s),
	})
}

// Nodes returns the status of each node, in the order of the configuration.
func (g *Group) Nodes() []Status {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, g.size)
	for _, n := range g.nodes {
		s := Status{
			Addr: n.addr, State: n.life.State, Server: n.server, Debts: len(n.ledger.Debts),
			Connects: n.counters.connects, Deaths: n.counters.ended, Sheds: n.counters.sheds, ReplyTime: time.Duration(n.replyTime.Load()),
		}
		s.Polled, s.Counts = n.polled.conn.Load() != nil, n.countsLocked()
		if n.life.State != Up && n.fault != nil {
			s.Err = n.fault.err
		}
		n.tellMembershipLocked(&s, g.now())
		s.Warnings = n.reporter.warningsLocked()
		if s.State == Up && g.members.Floorless.Has(n.index) {
			s.Warnings = append(s.Warnings, errtext.Text(errorOf(g.members.NoFloor(n.index))))
		}
		all = append(all, s)
	}
	return all
}
