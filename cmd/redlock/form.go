package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// form has the flags of redlock run for locks that are not plain.
type form struct {
	Shared    bool `xor:"form" help:"Lock for reading: several may hold it at once, and none beside one without this flag."`
	Exclusive bool `xor:"form" help:"Lock for writing: alone, also among those with --shared. Without a flag of this kind, so is every lock of redlock run that has none of --also, --fenced, --min-hold and --heal."`
	Permits   *int `xor:"form" placeholder:"N" help:"Up to N commands run at once, in all. All should say the same number. If not, the least counts, until the TTL of the last command with it is over; those that run go on."`
	Fair      bool `xor:"form" help:"Wait in the order of all that wait with --fair."`
}

// is reports whether one of the flags was given.
func (f *form) is() bool { return *f != form{} }

// inTheWay reports whether participants that a quorum has, besides a holder,
// refuse an attempt that does not wait.
func (f *form) inTheWay(found admin.Inspection) bool {
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

// A strangerError is returned for a resource on which locks of another kind
// stand that a lock of ours does not see. The lock was granted beside them.
type strangerError struct {
	resource string
	theirs   string // the flag that takes such locks
	ours     string // what to use
}

// Error says what to use.
func (e *strangerError) Error() string {
	return fmt.Sprintf("resource %s: there are locks %s, which this one does not see; use %s, or another name", quoted(e.resource), e.theirs, e.ours)
}

// An unseenError is returned if no quorum of nodes has said which locks stand
// beside one that was granted. The lock may not be used.
type unseenError struct {
	resource string
	err      error // of the last look
}

// Error names what is unknown, and why.
func (e *unseenError) Error() string {
	return fmt.Sprintf("resource %s: no quorum of nodes says whether there are locks of another kind: %s", quoted(e.resource), message(e.err))
}

func (e *unseenError) Unwrap() error { return e.err }

// strangersTake bounds one look for locks of other kinds. A node that is
// missing delays a lock by that.
const strangersTake = 500 * time.Millisecond

// strangers returns a *strangerError if locks of another kind stand beside those
// that were just granted. Of two that are taken at one time, each asks after its
// grant, so at least one sees the other. If a quorum does not answer, it asks
// again for at most the given time and half of the TTL, and then returns an
// *unseenError.
func (f *form) strangers(ctx context.Context, client *redlock.Client, ttl, most time.Duration, resources ...string) error {
	ctx, cancel := context.WithTimeout(ctx, min(most, ttl/2))
	defer cancel()
	errs := make([]error, len(resources))
	var wg sync.WaitGroup
	for i, resource := range resources {
		wg.Go(func() { errs[i] = f.strangersOf(ctx, client, min(strangersTake, ttl/10), resource) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// strangersOf is strangers for one resource. It returns when ctx ends, at the
// latest. Each look may take so long.
func (f *form) strangersOf(ctx context.Context, client *redlock.Client, take time.Duration, resource string) error {
	var last error
	for {
		look, cancel := context.WithTimeout(ctx, take)
		found, err := admin.Inspect(look, client, resource)
		cancel()
		if err == nil {
			return f.strangersIn(found)
		}
		if ctx.Err() != nil {
			return &unseenError{resource, cmp.Or(last, err)}
		}
		if cancelled := (*redlock.CancelledError)(nil); errors.As(err, &cancelled) && cancelled.Last != nil {
			err = cancelled.Last // it names the nodes, and the deadline is ours
		}
		last = err
		pause(ctx, take/strangersRest)
	}
}

// strangersRest is how much shorter than a look the pause after it is.
const strangersRest = 10

// strangersIn judges what the nodes say of a resource. The key of a plain lock
// is also that of a writer and of the holder of a fair lock, so these see each
// other. It takes for there what a quorum has, or may have.
func (f *form) strangersIn(found admin.Inspection) error {
	missing := 0
	for _, n := range found.Nodes {
		if n.Err != nil {
			missing++
		}
	}
	quorum, holders := multiplex.Quorum(len(found.Nodes)), make(map[string]int)
	there := func(all []admin.Participant) bool {
		return slices.ContainsFunc(all, func(p admin.Participant) bool { return len(p.Nodes)+missing >= quorum })
	}
	held := slices.ContainsFunc(found.Nodes, func(n admin.InspectedNode) bool {
		holders[n.Holder]++
		return n.Holder != "" && holders[n.Holder]+missing >= quorum
	})
	switch reads := f.Shared || f.Exclusive; {
	case !reads && there(found.Readers):
		return &strangerError{found.Resource, "with --shared", "--exclusive"}
	case f.Permits == nil && there(found.PermitsHeld):
		return &strangerError{found.Resource, "with --permits", "--permits"}
	case !f.Fair && there(found.Queue):
		return &strangerError{found.Resource, "with --fair", "--fair"}
	case f.Permits != nil && held:
		return &strangerError{found.Resource, "without --permits", "no --permits"}
	}
	return nil
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
				return client.All(c.resources()...).TryHold(ctx, o)
			}, func(ctx context.Context, o redlock.HoldOptions) (*redlock.Hold, error) {
				return client.All(c.resources()...).Hold(ctx, o)
			}
	}
	return k.TryHold, k.Hold
}
