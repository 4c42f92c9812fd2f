package redlock

import (
	"context"
	"fmt"

	"github.com/redmux/redmux/internal/pure"
)

var errKeep = fmt.Errorf("%w: MinHold and Label are for a lock that is acquired, and Heal for a plain lock on a single resource", ErrHoldOptions)

// A lock of any kind becomes a hold, and a hold a lock again. So each can do
// what the other can: an adopted, upgraded or downgraded lock is renewed, and a
// renewed one is downgraded.

// Keep makes a Hold of a valid lock of this client, of any kind. The Hold
// renews it until Release or Detach, at least with the lock's TTL; the lock and
// its copies must not be used any more. MaxHold counts from the call. The hold
// has the values of ctx. Keep asks no node.
//
// The error is ErrNotHeld after the validity, or for a lock of another client;
// ErrHoldOptions, also with MinHold, with a Label that the lock does not have,
// and with Heal for any but a plain lock;
// ErrTTL; and ErrClosed. With an error, the lock is as it was.
func (c *Client) Keep(ctx context.Context, lock Lock, options HoldOptions) (*Hold, error) {
	h, err := c.keepLock(ctx, lock, options)
	return h, named(lock.grant.Name, err)
}

func (c *Client) keepLock(ctx context.Context, lock Lock, o HoldOptions) (*Hold, error) {
	c.called(ctx)
	if lock.client != c {
		return nil, ErrNotHeld
	}
	o.TTL = max(o.TTL, lock.grant.TTL)
	o, err := o.check(c, true)
	switch {
	case err != nil:
		return nil, err
	case o.MinHold != 0 || o.Label != "" && o.Label != lock.grant.Label || !lock.kind.Traits().Alone && o.single():
		return nil, errKeep
	case lock.over():
		return nil, ErrNotHeld
	}
	lock.grant.TTL = o.TTL // what renewals ask for
	c.group.DelayClose(1)
	defer c.group.DelayClose(-1)
	now := c.keeper.clock()
	validity := o.TTL - pure.Drift(o.TTL, c.config.DriftFactor)
	h := c.newHold(ctx, lock, instant{lock.until.Add(-validity), now.slept}, now, o)
	// Copies of the lock are not told from it, so another may release it.
	h.lock.tenure.rise(tenureShown, o.TTL)
	if h.Validity() <= 0 {
		return nil, ErrNotHeld // this goroutine was not scheduled
	}
	if !c.keeper.keep(h) {
		return nil, ErrClosed
	}
	return h, nil
}

// over reports whether the lock is certainly not held.
func (l *Lock) over() bool {
	if l.Validity() <= 0 {
		return true
	}
	if l.tenure == nil {
		return false
	}
	state, _ := l.tenure.load()
	return state >= tenureReleased
}

// Detach ends the renewal and the context, with the cause ErrReleased, but
// leaves the lock as it is and returns it: to downgrade it, to hand it to
// another process, or to let it expire. Later calls of Release do nothing, and
// return ErrNotHeld.
//
// After the end of the hold the error is the reason, as from Err, and the lock
// is returned all the same: after ErrMaxHold it may still be valid, and it must
// be released in any case. Do not call Detach within the function of Do or
// Election.Run: they release the lock themselves.
func (h *Hold) Detach() (Lock, error) {
	h.made()
	cause := h.Err()
	lock, _ := h.finish(ErrReleased)
	h.mu.Lock()
	again := h.detached
	h.detached = true
	h.mu.Unlock()
	k := h.client.keeper
	k.forget(h)
	k.strike(h)
	if again {
		return Lock{}, named(lock.grant.Name, ErrNotHeld)
	}
	return h.unsureOf(lock), named(lock.grant.Name, cause)
}
