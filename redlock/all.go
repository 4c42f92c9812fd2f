package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
)

// One lock on several resources: all of them or none. One script sets the keys
// of all on a node, or changes nothing there, so a node votes for all or none.
// No caller waits while it has a part of them, so callers cannot wait for each
// other in a circle.

// MaxResources is the most resources that one lock may have.
const MaxResources = 64

// TryAcquireAll is TryAcquire for 1 to MaxResources resources at once: the lock
// is granted on all of them, or none is locked. Their order does not matter.
// Another client sees each of them as held, whichever call it makes.
//
// The errors are those of TryAcquire; ErrHeld is a *HeldError, which names a
// resource that is in the way, and the Config.Owner of its holder. ErrResource
// also means that there are too many resources, or one twice.
func (c *Client) TryAcquireAll(ctx context.Context, resources []string, ttl time.Duration) (Lock, error) {
	s, err := newSeveral(resources)
	switch {
	case err != nil:
		return Lock{}, err
	case len(s.names) == 1:
		return c.TryAcquire(ctx, s.names[0], ttl)
	}
	lock := Lock{client: c, resource: s.text, form: s, ttl: ttl}
	err = c.try(ctx, 1, &lock)
	return lock, named(s.text, err)
}

// AcquireAll is TryAcquireAll until it has the lock, as Acquire is TryAcquire.
// While it waits, it holds none of the resources: so callers cannot block each
// other, but a caller that wants many resources may wait for long if others
// keep taking some of them. The nodes tell it when the resource that was in
// the way is released. Callers of this client that want the same resources are
// served in turn.
func (c *Client) AcquireAll(ctx context.Context, resources []string, ttl time.Duration) (Lock, error) {
	s, err := newSeveral(resources)
	switch {
	case err != nil:
		return Lock{}, err
	case len(s.names) == 1:
		return c.Acquire(ctx, s.names[0], ttl)
	}
	within, cancel := c.withMaxWait(ctx, 0)
	defer cancel()
	return c.acquireTraced(within, request{resource: s.text, form: s, ttl: ttl})
}

// TryHoldAll is HoldAll with a single attempt, as TryHold is Hold.
func (c *Client) TryHoldAll(ctx context.Context, resources []string, options HoldOptions) (*Hold, error) {
	s, err := newSeveral(resources)
	switch {
	case err != nil:
		return nil, err
	case len(s.names) == 1:
		return c.TryHold(ctx, s.names[0], options)
	case options.single():
		return nil, named(s.text, errHoldForm)
	}
	h, err := c.hold(ctx, s.text, options, c.tryForm(s))
	return h, named(s.text, err)
}

// HoldAll is Hold for several resources, as AcquireAll is Acquire. MinHold and
// Heal are for a single resource; with them and several, the error is
// ErrHoldOptions.
func (c *Client) HoldAll(ctx context.Context, resources []string, options HoldOptions) (*Hold, error) {
	s, err := newSeveral(resources)
	switch {
	case err != nil:
		return nil, err
	case len(s.names) == 1:
		return c.Hold(ctx, s.names[0], options)
	case options.single():
		return nil, named(s.text, errHoldForm)
	}
	return c.holdInTime(ctx, request{resource: s.text, form: s}, options)
}

// single reports whether the options are for a hold on a single resource.
func (o HoldOptions) single() bool { return o.MinHold != 0 || o.Heal }

var errKeep = fmt.Errorf("%w: MinHold is for a lock that is acquired, and Heal for a plain lock on a single resource", ErrHoldOptions)

var errHoldForm = fmt.Errorf("%w: MinHold and Heal are for a plain lock on a single resource", ErrHoldOptions)

// DoAll is DoWith for several resources, as HoldAll is Hold.
func (c *Client) DoAll(
	ctx context.Context, resources []string, options HoldOptions, fn func(context.Context) error,
) error {
	must(fn != nil, noFunction)
	if options.Reentrant {
		s, err := newSeveral(resources)
		if err != nil {
			return err
		}
		if h := c.reenter(ctx, &request{form: s}); h != nil {
			return h.doWithin(ctx, fn)
		}
		options.Reentrant = false
	}
	h, err := c.HoldAll(ctx, resources, options)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

// newSeveral checks and copies the names of resources.
func newSeveral(names []string) (*form, error) {
	if n := len(names); n < 1 || n > MaxResources {
		return nil, errtext.Wrap(fmt.Sprintf("redlock: %d resources: there must be 1 to %d", n, MaxResources), ErrResource)
	}
	f := &form{kind: several, names: slices.Clone(names)}
	seen := make(map[string]bool, len(f.names))
	for _, name := range f.names {
		if err := checkLockable(name); err != nil {
			return nil, named(name, err)
		}
		if seen[name] {
			return nil, named(name, errtext.Wrap("redlock: the resource is named twice", ErrResource))
		}
		seen[name] = true
	}
	f.text = strings.Join(f.names, ", ")
	f.key = queueKey{kind: several, name: fmt.Sprintf("%q", slices.Sorted(slices.Values(f.names)))}
	return f, nil
}

// The commands of a lock on several resources. Merged, its release is that of
// so many locks with one token, by the same script, and so is its extension,
// which then lengthens the keys that are ours though others are not. That does
// no harm (R10): the vote is a refusal all the same.
var (
	acquireAllKind = &multiplex.ClaimKind{Kind: multiplex.Kind{Judge: judgeAll, Script: true}, Undo: releaseAllKind, Telling: true}
	extendAllKind  = &multiplex.ExtendKind{Kind: scripted, Merger: extendKind.Merger}
	releaseAllKind = &multiplex.ReleaseKind{Kind: scripted, Merger: releaseKind.Merger}
)
