package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock/internal/kind"
)

// Do locks a resource, waiting for it as Acquire does, runs fn under the lock
// with renewal, and releases it. The TTL is how long the lock outlives a dead
// process, not how long fn may take. Do is Locker.DoWith without other options;
// see there for fn's context and the error.
func (c *Client) Do(ctx context.Context, resource string, ttl time.Duration, fn func(context.Context) error) error {
	return c.Lock(resource).Do(ctx, ttl, fn)
}

// do is DoWith from the grant on.
func (h *Hold) do(ctx context.Context, fn func(context.Context) error) (err error) {
	run, end := h.during(ctx)
	called := false
	defer func() {
		end()
		h.close()
		cause := h.Err() // before the release sets another cause
		released := h.Release(context.WithoutCancel(ctx))
		if errors.Is(cause, ErrLost) {
			released = nil // it would name the same nodes again
		}
		if called {
			err = joined(h.Resource(), err, cause, released)
		}
	}()
	if left := h.Validity(); left <= 0 || left < h.client.config.MinValidity {
		// This goroutine was not scheduled meanwhile.
		return named(h.Resource(), ErrExpired)
	}
	called = true
	return ended(fn(run), run, ctx)
}

// during returns ctx with a cancellation that follows the hold. end releases
// both.
func (h *Hold) during(ctx context.Context) (run context.Context, end func()) {
	inner, cancel := context.WithCancelCause(ctx)
	// This watches h.inner, since h.context reads the clocks in each call.
	stop := context.AfterFunc(h.inner, func() { cancel(context.Cause(h.inner)) })
	return &holdContext{inner, h, cancel}, func() {
		stop()
		cancel(nil)
	}
}

// ended returns a function's error, before run's end is called. It may be only
// that of the run's ended context. Then a lost lock must not look like a
// cancelled request: the result is nil if the hold ended the context, since its
// reason is reported. It is the reason of an outer hold if this one ended ctx.
func ended(own error, run, ctx context.Context) error {
	if own == nil || own != run.Err() {
		return own
	}
	if ctx.Err() == nil {
		return nil
	}
	var c *Client // any
	for in := c.outer(ctx); in != nil; in = c.outer(in.Context) {
		if cause := in.hold.Err(); cause != nil && cause == context.Cause(ctx) {
			return cause
		}
	}
	return own
}

// joined returns the error of Do. It joins the cause of the hold's end, often
// what fn returned, fn's own error, and the release's.
func joined(resource string, own, cause, released error) error {
	if cause != nil && errors.Is(own, cause) {
		cause = nil
	}
	if again := (*ResourceError)(nil); cause != nil && errors.As(released, &again) {
		released = again.Err // the resource is named once
	}
	cause = named(resource, cause)
	// A single error is returned as it is: callers may compare it.
	return errtext.Join(cause, own, released)
}

// DoValue is Locker.DoWith for a function with a value. The value is fn's, also
// with an error: after ErrLost, fn may have read or made it under a lost lock.
// Without a call of fn it is zero.
func DoValue[T any](
	ctx context.Context, k Locker, options HoldOptions, fn func(context.Context) (T, error),
) (value T, err error) {
	must(fn != nil, noFunction)
	err = k.DoWith(ctx, options, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	})
	return value, err
}

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
