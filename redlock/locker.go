package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
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
	kind   kind.Kind
	name   string
}

// TryAcquire is Client.TryAcquire. If the resource is held, the error is a
// *HeldError, which is ErrHeld. An attempt for a permit may take up to four
// rounds, each of which is bounded by the vote timeout: see Client.Semaphore.
func (k Locker) TryAcquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	lock := k.client.wanted(k.kind, k.name, ttl)
	err := k.client.try(ctx, 1, &lock)
	return lock, named(k.name, err)
}

// Acquire is Client.Acquire.
func (k Locker) Acquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	within, cancel := k.client.withMaxWait(ctx, 0)
	defer cancel()
	return k.client.acquireTraced(within, request{kind: k.kind, name: k.name, ttl: ttl})
}

// TryHold is Client.TryHold.
func (k Locker) TryHold(ctx context.Context, options HoldOptions) (*Hold, error) {
	k.client.made()
	if !k.kind.Traits().Alone && options.single() {
		return nil, named(k.name, errHoldForm)
	}
	h, err := k.client.hold(ctx, k.name, options, k.client.trying(k.kind))
	return h, named(k.name, err)
}

// Hold is Client.Hold.
func (k Locker) Hold(ctx context.Context, options HoldOptions) (*Hold, error) {
	k.client.made()
	if !k.kind.Traits().Alone && options.single() {
		return nil, named(k.name, errHoldForm)
	}
	return k.client.holdInTime(ctx, request{kind: k.kind, name: k.name}, options)
}

// DoWith is Client.DoWith. With HoldOptions.Reentrant, a function that reads
// runs under an outer hold that reads or writes, and one that writes under one
// that writes.
func (k Locker) DoWith(ctx context.Context, options HoldOptions, fn func(context.Context) error) error {
	must(fn != nil, noFunction)
	if options.Reentrant {
		if h := k.client.reenter(ctx, &request{kind: k.kind, name: k.name}); h != nil {
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
