package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// A Locker acquires one lock: Client.Lock, Client.All, RWLock.Read,
// RWLock.Write, Client.Semaphore and Client.Fair return one for each kind. It is
// a value that is cheap to copy, and any goroutine may use it. Make one where
// it is used, or keep it.
type Locker struct {
	unprinted
	client *Client
	kind   kind.Kind
	name   string
}

// Lock returns the Locker of a plain lock. Its TryAcquire, Acquire, Hold and Do
// are those of Client.
func (c *Client) Lock(resource string) Locker {
	return Locker{client: c, kind: c.plain(), name: resource}
}

// TryAcquire is Client.TryAcquire. If the resource is held, the error of every
// Locker but that of a plain lock is a *HeldError. An attempt for a permit may
// take up to four rounds, each of which is bounded by the vote timeout.
func (l Locker) TryAcquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	lock := l.client.wanted(l.kind, l.name, ttl)
	err := l.client.try(ctx, 1, &lock)
	return lock, named(l.name, err)
}

// Acquire is Client.Acquire.
func (l Locker) Acquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	within, cancel := l.client.withMaxWait(ctx, 0)
	defer cancel()
	r := l.request()
	r.ttl, r.confirmed = ttl, true
	return l.client.acquireTraced(within, r)
}

// TryHold is Hold with a single attempt, as TryAcquire makes it. The errors are
// those of TryAcquire, and ErrHoldOptions.
func (l Locker) TryHold(ctx context.Context, options HoldOptions) (*Hold, error) {
	h, err := l.client.hold(ctx, l, options, func(ttl time.Duration) (Lock, error) {
		lock := l.client.wanted(l.kind, l.name, ttl)
		err := l.client.try(ctx, 1, &lock)
		return lock, err
	})
	return h, named(l.name, err)
}

// Hold is Client.Hold. HoldOptions.MinHold and Heal are for plain locks: with
// them and another Locker, the error is ErrHoldOptions.
func (l Locker) Hold(ctx context.Context, options HoldOptions) (*Hold, error) {
	within, cancel := l.client.withMaxWait(ctx, options.MaxWait)
	defer cancel()
	r := l.request()
	r.confirmed, r.minHold = options.NoRenewal, options.MinHold
	for {
		h, err := l.client.hold(ctx, l, options, func(ttl time.Duration) (Lock, error) {
			r.ttl = ttl
			return l.client.acquireTraced(within, r)
		})
		if err != errSlept {
			return h, named(l.name, err)
		}
	}
}

// Do is DoWith without other options than the TTL.
func (l Locker) Do(ctx context.Context, ttl time.Duration, fn func(context.Context) error) error {
	return l.DoWith(ctx, HoldOptions{TTL: ttl}, fn)
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
//
// With HoldOptions.Reentrant, a function that reads runs under an outer hold
// that reads or writes, and one that writes under one that writes.
func (l Locker) DoWith(ctx context.Context, options HoldOptions, fn func(context.Context) error) error {
	must(fn != nil, noFunction)
	if options.Reentrant {
		r := l.request()
		if h := l.client.reenter(ctx, &r); h != nil {
			return h.doWithin(ctx, fn)
		}
		options.Reentrant = false
	}
	h, err := l.Hold(ctx, options)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

func (l Locker) request() request { return request{kind: l.kind, name: l.name} }
