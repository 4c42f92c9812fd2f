package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/contrib/internal/resource"
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
// other errors are those of redlock.Client.TryHold; after them this run of the
// job is lost, unless another scheduler gets the lock. The lock renews itself
// until it is unlocked.
//
// Schedulers that ask at the same instant can split the votes, so that all of
// them are refused. A refused scheduler checks whether there is a holder, and
// asks again if there is none: for half of MinHold, or half of MinHold's
// default if there is no minimum, and for a second at most.
func (l *Locker[L]) Lock(ctx context.Context, job string) (L, error) {
	hold, err := l.take(ctx, resource.Name(l.prefix, job))
	if err != nil {
		var none L
		return none, err
	}
	return any(lock{hold}).(L), nil
}

// patienceMost is the longest time for which schedulers contend for a free
// lock.
const patienceMost = time.Second

// take repeats TryHold until there is a holder. The pauses are random and grow,
// so that one of several schedulers comes first. All of it takes at most half
// of MinHold, so a later attempt also falls into that time.
func (l *Locker[L]) take(ctx context.Context, resource string) (*redlock.Hold, error) {
	begun := time.Now()
	most := l.hold.MinHold / 2
	if most == 0 {
		most = defaultMinHold / 2
	}
	most = min(most, patienceMost)
	for spread := time.Duration(2); ; spread *= 2 {
		asked := time.Now()
		hold, err := l.client.TryHold(ctx, resource, l.hold)
		if !errors.Is(err, redlock.ErrHeld) || ctx.Err() != nil {
			return hold, err
		}
		pause := rand.N(min(spread*max(time.Since(asked), time.Millisecond/4), most))
		left := most - time.Since(begun)
		if left <= pause || l.held(ctx, resource, left) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// held reports whether a quorum of nodes names one holder. It does not wait
// longer than patience for the answers.
func (l *Locker[L]) held(ctx context.Context, resource string, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, _ := l.client.Inspect(ctx, resource)
	return found.State == redlock.StateHeld
}

// lock is the lock of a running job.
type lock struct{ hold *redlock.Hold }

// Unlock releases the lock. It waits for the nodes up to the vote timeout, even
// if the scheduler is shutting down and has cancelled the job's context. The
// errors are those of redlock.Hold.Release.
func (l lock) Unlock(ctx context.Context) error { return l.hold.Release(context.WithoutCancel(ctx)) }
