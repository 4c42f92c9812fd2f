package multiplex

import (
	"context"
	"sync"

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

// QueryEach is Query with n commands of its own for each node. commandsOf is
// called under the group's mutex: it must not wait, nor call the group.
func (g *Group) QueryEach(
	ctx context.Context, n int, commandsOf func(node int) [][]byte, each func(node, i int, v resp.Value) error,
) []error {
	g.called(ctx)
	q := &query{group: g, each: each, last: n - 1, errs: make([]error, g.size), done: make(chan struct{})}
	q.open = All(g.size)
	g.mu.Lock()
	for _, n := range g.nodes {
		switch {
		case g.life.closing():
			q.settle(n, &fault{err: ErrClosed})
		case !g.live.Has(n.index):
			q.settle(n, n.fault)
		case !n.inquireLocked(q.inquiryOf(n), commandsOf(n.index)...):
			q.settle(n, &fault{err: ErrOverloaded})
		}
	}
	g.mu.Unlock()
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
