package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
)

// MaxResources is the most resources that one lock may have.
const MaxResources = wire.MaxResources

// TryAcquireAll is TryAcquire for 1 to MaxResources resources at once: the lock
// is granted on all of them, or none is locked. Their order does not matter.
// Another client sees each of them as held, whichever call it makes.
//
// The errors are those of TryAcquire; ErrHeld is a *HeldError, which names a
// resource that is in the way, and the Config.Owner of its holder. ErrResource
// also means that there are too many resources, or one twice.
func (c *Client) TryAcquireAll(ctx context.Context, resources []string, ttl time.Duration) (Lock, error) {
	return c.all(resources).TryAcquire(ctx, ttl)
}

// AcquireAll is TryAcquireAll until it has the lock, as Acquire is TryAcquire.
// While it waits, it holds none of the resources: so callers cannot block each
// other, but a caller that wants many resources may wait for long if others
// keep taking some of them. The nodes tell it when the resource that was in
// the way is released. Callers of this client that want the same resources are
// served in turn.
func (c *Client) AcquireAll(ctx context.Context, resources []string, ttl time.Duration) (Lock, error) {
	return c.all(resources).Acquire(ctx, ttl)
}

// TryHoldAll is HoldAll with a single attempt, as TryHold is Hold.
func (c *Client) TryHoldAll(ctx context.Context, resources []string, options HoldOptions) (*Hold, error) {
	return c.all(resources).TryHold(ctx, options)
}

// HoldAll is Hold for several resources, as AcquireAll is Acquire. MinHold and
// Heal are for a single resource; with them and several, the error is
// ErrHoldOptions.
func (c *Client) HoldAll(ctx context.Context, resources []string, options HoldOptions) (*Hold, error) {
	return c.all(resources).Hold(ctx, options)
}

// single reports whether the options are for a hold on a single resource.
func (o HoldOptions) single() bool { return o.MinHold != 0 || o.Heal }

var errKeep = fmt.Errorf("%w: MinHold is for a lock that is acquired, and Heal for a plain lock on a single resource", ErrHoldOptions)

var errHoldForm = fmt.Errorf("%w: MinHold and Heal are for a plain lock on a single resource", ErrHoldOptions)

// DoAll is DoWith for several resources, as HoldAll is Hold.
func (c *Client) DoAll(
	ctx context.Context, resources []string, options HoldOptions, fn func(context.Context) error,
) error {
	return c.all(resources).DoWith(ctx, options, fn)
}

// all returns the Locker of several resources.
func (c *Client) all(resources []string) Locker {
	c.made()
	k, text := c.kinds.All(resources)
	return Locker{client: c, kind: k, name: text}
}
