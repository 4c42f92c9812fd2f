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

// A Locker is a gocron.Locker when L is gocron.Lock. The client is the caller's, and must be open for as long as the
// scheduler runs; the Locker itself needs no end. It may be used by several schedulers and from any goroutine.
type Locker[L Unlocker] struct {
	client *redlock.Client
	prefix string
	hold   redlock.HoldOptions
}

// An Unlocker is what gocron.Lock is.
type Unlocker interface {
	Unlock(context.Context) error
}

// NewLocker makes a Locker; it asks no node. The error is about the options, or says that L wants more than Unlock.
func NewLocker[L Unlocker](client *redlock.Client, options Options) (*Locker[L], error) {
	hold, err := options.hold()
	if err != nil {
		return nil, err
	}
	if _, ok := any(lock{}).(L); !ok {
		return nil, fmt.Errorf("gocronlock: a lock cannot be made what %T points to, which is not gocron.Lock", (*L)(nil))
	}
	return &Locker[L]{client, options.Prefix, hold}, nil
}

// Lock asks for the lock of a job of that name, and does not wait for another scheduler to release it: the job runs there. So
// the error is redlock.ErrHeld as a rule, which gocron gives to its AfterLockError listeners; the others are those of
// redlock.Client.TryHold, and mean that the job runs nowhere this time if no other scheduler fares better. The lock renews
// itself until it is unlocked.
//
// Schedulers that ask at one instant can split the votes, so that all of them are refused. Who is refused looks whether there
// is a holder, and asks again where there is none: for half of MinHold, or of its default where there is none, and for no more
// than a second.
func (l *Locker[L]) Lock(ctx context.Context, job string) (L, error) {
	hold, err := l.take(ctx, resource.Name(l.prefix, job))
	if err != nil {
		var none L
		return none, err
	}
	return any(lock{hold}).(L), nil
}

// patienceMost is the longest that schedulers contend for a free lock.
const patienceMost = time.Second

// take is TryHold until there is a holder. The pauses are random and grow, so that of several schedulers one comes first. All
// of it takes no more than half of MinHold, so that a later attempt is within that time.
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

// held says that a quorum of nodes names one holder. What the nodes do not answer in time is not waited for.
func (l *Locker[L]) held(ctx context.Context, resource string, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, _ := l.client.Inspect(ctx, resource)
	return found.State == redlock.StateHeld
}

// lock is a job's, while it runs.
type lock struct{ hold *redlock.Hold }

// Unlock releases the lock. It waits for the nodes up to the vote timeout, also when the scheduler is being shut down and
// has cancelled the job's context. The errors are those of redlock.Hold.Release.
func (l lock) Unlock(ctx context.Context) error { return l.hold.Release(context.WithoutCancel(ctx)) }
