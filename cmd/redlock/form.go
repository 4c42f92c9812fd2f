package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redmux/redmux/redlock"
)

// form has the flags of redlock run for locks that are not plain.
type form struct {
	Shared    bool `xor:"form" help:"Lock for reading: several may hold it at once, and none beside one with --exclusive. Other locks on the resource do not see them."`
	Exclusive bool `xor:"form" help:"Lock for writing: alone, also among those with --shared."`
	Permits   *int `xor:"form" placeholder:"N" help:"Up to N commands run at once, in all. All should say the same number. If not, the least counts, until the TTL of the last command with it is over; those that run go on."`
	Fair      bool `xor:"form" help:"Wait in the order of all that wait with --fair."`
}

// is reports whether one of the flags was given.
func (f *form) is() bool { return *f != form{} }

// inTheWay reports whether participants that a quorum has, besides a holder,
// refuse an attempt that does not wait.
func (f *form) inTheWay(found redlock.Inspection) bool {
	switch {
	case f.Shared:
		return found.WriterWaits
	case f.Exclusive:
		return len(onQuorum(found, found.Readers)) > 0
	case f.Permits != nil:
		return found.Permits > 0 && len(onQuorum(found, found.PermitsHeld)) >= min(found.Permits, *f.Permits)
	case f.Fair:
		return len(onQuorum(found, found.Queue)) > 0
	}
	return false
}

// validateForm refuses what such locks do not have.
func (c *runCommand) validateForm() error {
	switch {
	case c.Permits != nil && (*c.Permits < 1 || *c.Permits > redlock.MaxPermits):
		return fmt.Errorf("--permits must be between 1 and %d", redlock.MaxPermits)
	case c.is() && (len(c.Also) > 0 || c.Fenced || c.MinHold > 0 || c.Heal):
		return errors.New("--shared, --exclusive, --permits and --fair do not go with --also, --fenced, --min-hold and --heal")
	}
	return nil
}

// A holder takes the lock of redlock run.
type holder func(context.Context, redlock.HoldOptions) (*redlock.Hold, error)

// holders returns what tries once for the lock, and what waits for it.
func (c *runCommand) holders(client *redlock.Client) (try, wait holder) {
	var k redlock.Locker
	switch {
	case c.Shared:
		k = client.RW(c.Resource).Read()
	case c.Exclusive:
		k = client.RW(c.Resource).Write()
	case c.Permits != nil:
		k = client.Semaphore(c.Resource, *c.Permits)
	case c.Fair:
		k = client.Fair(c.Resource)
	default:
		return func(ctx context.Context, o redlock.HoldOptions) (*redlock.Hold, error) {
				return client.TryHoldAll(ctx, c.resources(), o)
			}, func(ctx context.Context, o redlock.HoldOptions) (*redlock.Hold, error) {
				return client.HoldAll(ctx, c.resources(), o)
			}
	}
	return k.TryHold, k.Hold
}
