package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
)

// HoldOptions says how a lock is held. Every field may be zero.
type HoldOptions struct {
	// TTL is how long the lock outlives a crashed client: the life of its keys,
	// counted from the last renewal. A shorter TTL is renewed more often, at a
	// third of the validity. If zero, the lesser of ten seconds and
	// Config.MaxTTL.
	TTL time.Duration
	// MaxWait bounds the wait of Hold and DoWith for the lock, and leaves ctx
	// to bound the work of DoWith; see Config.MaxWait. TryHold does not wait.
	// If zero, Config.MaxWait.
	MaxWait time.Duration
	// MaxHold bounds how long the context lasts, counted from the grant. If
	// zero, it is unbounded.
	MaxHold time.Duration
	// NoRenewal leaves the lock as it was granted: the context ends with its
	// validity. If zero, the lock is renewed.
	NoRenewal bool
	// MinHold keeps other clients out for at least this long after the grant,
	// even after an earlier release. So a job started by many schedulers at the
	// same time runs once, however short it is. It is at most the TTL. If zero,
	// a release takes effect at once.
	MinHold time.Duration
	// Heal makes each renewal set the key again on nodes that forgot it, but
	// not over another client's (R10). So a lock survives restarts one after
	// another, even of more nodes than a quorum can spare. Do not use it with
	// Config.Forgetful: after too many restarts at once, a hold would not
	// notice that another client had the lock. If zero, a missing key is a
	// refusal.
	Heal bool
	// Reentrant makes DoWith run its function under the hold that ctx comes
	// from. The hold must have all of its resources, and not have ended. No
	// node is asked, and the other options have no effect. The call with the
	// lock releases it, after all functions have returned. Hold and TryHold
	// return ErrHoldOptions. If zero, such a call is ErrNested.
	Reentrant bool
}

// defaultHoldTTL is for a zero HoldOptions.TTL.
const defaultHoldTTL = 10 * time.Second

// ErrHoldOptions is returned for HoldOptions that cannot work; the error says
// why. Nothing was sent.
var ErrHoldOptions = errors.New("redlock: bad options for a hold")

// check returns the options with their defaults, for a lock that is Alone or
// not: see kind.Traits.
func (o HoldOptions) check(c *Client, alone bool) (HoldOptions, error) {
	if !alone && o.single() {
		return o, errHoldForm
	}
	if o.TTL == 0 {
		o.TTL = defaultHoldTTL
		if c.config.MaxTTL > 0 {
			o.TTL = min(o.TTL, c.config.MaxTTL)
		}
	}
	ttl, err := c.config.checkTTL(o.TTL)
	if err != nil {
		return o, err
	}
	o.TTL = ttl
	negative := cmp.Or(
		errtext.Negative("MaxWait", o.MaxWait), errtext.Negative("MaxHold", o.MaxHold),
		errtext.Negative("MinHold", o.MinHold),
	)
	switch {
	case o.Reentrant:
		return o, errReentrant
	case negative != nil:
		return o, fmt.Errorf("%w: %w", ErrHoldOptions, negative)
	case o.MinHold > ttl:
		return o, fmt.Errorf("%w: MinHold %v is longer than the TTL, %v", ErrHoldOptions, o.MinHold, ttl)
	}
	return o, nil
}

// bound returns MaxHold as pure.NewRenewal takes it.
func (o HoldOptions) bound() time.Duration {
	if o.MaxHold == 0 {
		return pure.Never
	}
	return o.MaxHold
}

// single reports whether the options are for a hold on a single resource.
func (o HoldOptions) single() bool { return o.MinHold != 0 || o.Heal }

var errHoldForm = fmt.Errorf("%w: MinHold and Heal are for a plain lock on a single resource", ErrHoldOptions)
