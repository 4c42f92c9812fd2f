package redlock

import (
	"context"
	"fmt"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// HoldOptions.Reentrant: a function runs under the hold of its context. The
// hold counts such functions, without the nodes: a count there could not be
// undone safely. After a lost answer to an increment, the undo could free the
// lock under the outer function.

// errReentrant is ErrHoldOptions for calls that return a Hold: it would have
// two owners.
var errReentrant = fmt.Errorf("%w: Reentrant is for DoWith", ErrHoldOptions)

// reenter returns the innermost hold of ctx with all resources of a request, or
// nil. The caller must call leave.
func (c *Client) reenter(ctx context.Context, r *request) *Hold {
	c.called(ctx)
	for in := c.outer(ctx); in != nil; in = c.outer(in.Context) {
		if h := in.hold; kind.Covers(h.lock.kind, r.kind, h.lock.grant.Name, r.name) && h.Err() == nil && h.enter() {
			return h
		}
	}
	return nil
}

// An entrance counts the functions under a hold besides the one it was acquired
// for. Hold.mu guards it.
type entrance struct {
	inside int
	closed bool // no further function enters
	// empty is closed as the last one leaves. It is nil before the outer
	// function waits for it.
	empty chan struct{}
}

func (h *Hold) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entrance.closed {
		return false
	}
	h.entrance.inside++
	return true
}

func (h *Hold) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entrance.inside--
	if h.entrance.inside == 0 && h.entrance.empty != nil {
		close(h.entrance.empty)
	}
}

// close makes enter return false, and waits for the functions inside.
func (h *Hold) close() {
	h.mu.Lock()
	h.entrance.closed = true
	if h.entrance.inside == 0 {
		h.mu.Unlock()
		return
	}
	h.entrance.empty = make(chan struct{})
	h.mu.Unlock()
	<-h.entrance.empty
}

// doWithin runs fn under an entered hold, and leaves it.
func (h *Hold) doWithin(ctx context.Context, fn func(context.Context) error) error {
	defer h.leave()
	if ctx.Err() != nil {
		return named(h.Resource(), cancelledError(ctx, nil))
	}
	run, end := h.during(ctx)
	defer end()
	if left := h.Validity(); left <= 0 || left < h.client.config.MinValidity {
		// This goroutine was not scheduled meanwhile.
		return named(h.Resource(), ErrExpired)
	}
	err := fn(run)
	cause := h.Err()
	return joined(h.Resource(), ended(err, run, ctx), cause, nil)
}
