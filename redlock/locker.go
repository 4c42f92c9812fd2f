package redlock

import (
	"context"
	"time"
)

// A Locker acquires one kind of lock on one resource. RWLock.Read,
// RWLock.Write, Client.Semaphore and Client.Fair return one. It is a value that
// is cheap to copy, and any goroutine may use it. Its methods do what those of
// Client with the same name do for a plain lock; what they return is extended
// and released in the same way. HoldOptions.MinHold and Heal are for plain
// locks: with them, the error is ErrHoldOptions.
type Locker struct {
	unprinted
	client *Client
	name   string
	try    *form // of an attempt that is not repeated
	wait   *form
}

// TryAcquire is Client.TryAcquire. If the resource is held, the error is a
// *HeldError, which is ErrHeld. An attempt for a permit may take up to four
// rounds, each of which is bounded by the vote timeout: see Client.Semaphore.
func (k Locker) TryAcquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	lock := Lock{client: k.client, resource: k.name, form: k.try, ttl: ttl}
	err := k.client.try(ctx, 1, &lock)
	return lock, named(k.name, err)
}

// Acquire is Client.Acquire. But for Client.Fair, callers are not served in
// turn; no lock is handed over.
func (k Locker) Acquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	within, cancel := k.client.withMaxWait(ctx, 0)
	defer cancel()
	return k.client.acquireTraced(within, request{resource: k.name, form: k.wait, ttl: ttl})
}

// TryHold is Client.TryHold.
func (k Locker) TryHold(ctx context.Context, options HoldOptions) (*Hold, error) {
	if options.single() {
		return nil, named(k.name, errHoldForm)
	}
	h, err := k.client.hold(ctx, k.name, options, k.client.tryForm(k.try))
	return h, named(k.name, err)
}

// Hold is Client.Hold.
func (k Locker) Hold(ctx context.Context, options HoldOptions) (*Hold, error) {
	if options.single() {
		return nil, named(k.name, errHoldForm)
	}
	return k.client.holdInTime(ctx, request{resource: k.name, form: k.wait}, options)
}

// DoWith is Client.DoWith. With HoldOptions.Reentrant, a function that reads
// runs under an outer hold that reads or writes, and one that writes under one
// that writes.
func (k Locker) DoWith(ctx context.Context, options HoldOptions, fn func(context.Context) error) error {
	must(fn != nil, noFunction)
	if options.Reentrant {
		if h := k.client.reenter(ctx, &request{resource: k.name, form: k.wait}); h != nil {
			return h.doWithin(ctx, fn)
		}
		options.Reentrant = false
	}
	h, err := k.Hold(ctx, options)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}
