package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redmux/redmux/internal/errtext"
)

// Do locks a resource, waiting for it as Acquire does, runs fn while the lock
// is held and renews itself, and releases it. The TTL is how long the lock
// outlives a process that dies, not how long fn may take. Do is DoWith without
// other options; see there for fn's context and the error.
func (c *Client) Do(ctx context.Context, resource string, ttl time.Duration, fn func(context.Context) error) error {
	return c.DoWith(ctx, resource, HoldOptions{TTL: ttl}, fn)
}

// DoWith locks a resource, waiting for it as Hold does, runs fn while it holds
// the lock, and releases it, even if fn panics (R14). fn's context ends when
// the hold does, as Hold.Context says, or when ctx ends; its cause is that of
// the first. fn must then return. The release does not depend on ctx; DoWith
// waits for it up to the vote timeout. fn never starts with less validity than
// Config.MinValidity.
//
// ctx also bounds the wait for the lock; HoldOptions.MaxWait and Config.MaxWait
// bound nothing else. FromContext finds the hold from fn's context. Contexts
// that fn derives from it do not read the clocks: see Hold.Context.
//
// If fn was not called, the error is Hold's. Otherwise it joins the reason if
// the hold ended before fn returned (ErrLost, ErrMaxHold, ErrClosed), fn's own
// error, and the error of Hold.Release, so that errors.Is finds each. Two are
// left out: fn's error if it is only that of its context, which the hold ended
// and not the caller; and after a loss that of the release. If fn wraps the
// error of its context, errors.Is finds it: test for ErrLost before
// context.Canceled. nil means that all of fn was done within the validity of
// the lock. A release that hands the lock over asks no node, so it does not
// find out that keys were deleted meanwhile.
func (c *Client) DoWith(
	ctx context.Context, resource string, options HoldOptions, fn func(context.Context) error,
) error {
	must(fn != nil, noFunction)
	if options.Reentrant {
		if h := c.reenter(ctx, &request{kind: c.plain(), name: resource}); h != nil {
			return h.doWithin(ctx, fn)
		}
		options.Reentrant = false
	}
	h, err := c.Hold(ctx, resource, options)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
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

// ended returns a function's error, before run's end is called. If that says
// only that the context of its run had ended, a lock that was lost must not
// look like a request that was cancelled: the result is nil if the hold ended
// it, whose reason is reported, and the reason of an outer hold if that ended
// ctx.
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

// joined returns the error of Do. It joins the cause for which the hold had
// ended, which often is what fn returned, fn's own error, and the release's.
func joined(resource string, own, cause, released error) error {
	if cause != nil && errors.Is(own, cause) {
		cause = nil
	}
	if again := (*ResourceError)(nil); cause != nil && errors.As(released, &again) {
		released = again.Err // the resource is named once
	}
	cause = named(resource, cause)
	// If own is the only error, it is returned as it is: callers may compare it.
	return errtext.Join(cause, own, released)
}
