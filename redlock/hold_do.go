package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redmux/redmux/internal/errtext"
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
