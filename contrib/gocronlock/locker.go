package gocronlock

import (
	"context"
	"fmt"

	"github.com/redmux/redmux/contrib/internal/door"
	"github.com/redmux/redmux/contrib/internal/lost"
	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/contrib/internal/turn"
	"github.com/redmux/redmux/redlock"
)

// A Locker is a gocron.Locker if L is gocron.Lock. The caller owns the client,
// and must keep it open while the scheduler runs; the Locker itself does not
// need to be closed. It is safe for concurrent use, and several schedulers may
// share it.
type Locker[L Unlocker] struct {
	client *redlock.Client
	prefix string
	hold   redlock.HoldOptions
}

// An Unlocker is what gocron.Lock must be.
type Unlocker interface {
	Unlock(context.Context) error
}

// NewLocker creates a Locker without asking any node. It returns an error if
// the options are invalid or if L has more methods than Unlock.
func NewLocker[L Unlocker](client *redlock.Client, options Options) (*Locker[L], error) {
	door.Must(client != nil, noClient)
	hold, err := options.hold()
	if err != nil {
		return nil, err
	}
	if _, ok := any(lock{}).(L); !ok {
		return nil, fmt.Errorf("gocronlock: the locks do not implement what %T points to, which is not gocron.Lock", (*L)(nil))
	}
	return &Locker[L]{client, options.Prefix, hold}, nil
}

// Lock acquires the lock for the job of that name. It does not wait for another
// scheduler to release it, since the job runs there. So the usual error is
// redlock.ErrHeld, which gocron passes to its AfterLockError listeners. The
// other errors are those of redlock.Locker.TryHold; after them this run of the
// job is lost, unless another scheduler gets the lock. The lock renews itself
// until it is unlocked.
//
// Schedulers that ask at the same instant can split the votes, so that all of
// them are refused. A refused scheduler checks whether there is a holder, and
// asks again if there is none: for half of MinHold, or half of MinHold's
// default if there is no minimum, and for a second at most.
func (l *Locker[L]) Lock(ctx context.Context, job string) (L, error) {
	door.Must(l != nil && l.client != nil, "gocronlock: a nil or zero Locker: NewLocker makes one")
	door.Must(ctx != nil, noContext)
	hold, err := turn.Take(ctx, l.client, resource.Name(l.prefix, job), l.hold)
	if err != nil {
		var none L
		return none, err
	}
	return any(lock{hold}).(L), nil
}

// lock is the lock of a running job.
type lock struct{ hold *redlock.Hold }

// Unlock releases the lock. It waits for the nodes up to the vote timeout, even
// if the scheduler is shutting down and has cancelled the job's context. The
// errors are those of redlock.Hold.Release, and redlock.ErrLost with its reason
// if the lock was lost before.
func (l lock) Unlock(ctx context.Context) error {
	door.Must(ctx != nil, noContext)
	return lost.Release(ctx, l.hold)
}

const (
	noClient  = "gocronlock: the client is nil"
	noContext = "gocronlock: the context is nil"
)
