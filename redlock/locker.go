package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// A Locker acquires one lock: Client.Lock, Client.All, RWLock.Read,
// RWLock.Write, Client.Semaphore and Client.Fair return one for each kind. It
// is a value, cheap to copy, and any goroutine may use it. Make one where it is
// used, or keep it.
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

// TryAcquire is Client.TryAcquire. For a held resource, the error of every
// Locker but that of a plain lock is a *HeldError. An attempt for a permit may
// take up to four rounds, each bounded by the vote timeout.
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

// DoWith waits for the lock as Hold does, runs fn under it, and releases it,
// even if fn panics or ctx has ended (R14). fn's context ends with the hold or
// with ctx, and has the cause of the first; fn must then return. It never
// starts with less validity than Config.MinValidity, and FromContext finds the
// hold.
//
// ctx also bounds the wait for the lock; MaxWait bounds nothing else. Without a
// call of fn, the error is Hold's. Otherwise it joins why the hold ended before
// fn returned (ErrLost, ErrMaxHold, ErrClosed), fn's error, and that of the
// release. It leaves out fn's error if it is only that of a context ended by
// the hold. Test for ErrLost before context.Canceled. After nil, all of fn was
// done within the validity of the lock.
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
