// Package certmagiclock gives github.com/caddyserver/certmagic locks of package
// redlock, so that the processes of a cluster that share certificates take
// turns. It does not import certmagic, so it adds no dependency.
//
// certmagic wants its Locker to be part of its Storage. A struct around any
// Storage replaces that Storage's locks by these:
//
//	type storage struct {
//		certmagic.Storage
//		locks *certmagiclock.Locker
//	}
//
//	func (s storage) Lock(ctx context.Context, name string) error   { return s.locks.Lock(ctx, name) }
//	func (s storage) Unlock(ctx context.Context, name string) error { return s.locks.Unlock(ctx, name) }
//
//	func (s storage) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
//		return s.locks.RenewLockLease(ctx, name, d)
//	}
//
// With RenewLockLease, certmagic checks before each attempt at a certificate
// whether the lock has been lost.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/contrib/internal/door"
	"github.com/redmux/redmux/contrib/internal/lost"
	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// Options configure a Locker. The zero value works.
type Options struct {
	// Prefix precedes certmagic's names. If zero, "certmagic:". At most 953
	// bytes, without ":redlock:".
	Prefix string
	// TTL is how long a lock outlives a process that dies. A process that lives
	// renews its lock, however long a certificate takes. If zero, 30 s.
	TTL time.Duration
}

// A Locker is a certmagic.Locker, a certmagic.TryLocker and a
// certmagic.LockLeaseRenewer. Names may have any length and any bytes: a name
// that cannot be a resource is replaced by its hash. A Locker is safe for
// concurrent use. The caller owns the client; the Locker starts no goroutine
// and does not need to be closed.
type Locker struct {
	client *redlock.Client
	prefix string
	hold   redlock.HoldOptions

	mu sync.Mutex // guards the following
	// holds are those not yet unlocked, by resource. If there are several for
	// one resource, all but one have been lost.
	holds map[string][]*redlock.Hold
}

// New creates a Locker without asking any node. It returns an error for invalid
// options.
func New(client *redlock.Client, options Options) (*Locker, error) {
	door.Must(client != nil, "certmagiclock: the client is nil")
	if options.Prefix == "" {
		options.Prefix = "certmagic:"
	}
	if options.TTL == 0 {
		options.TTL = 30 * time.Second
	}
	if err := errtext.Negative("TTL", options.TTL); err != nil {
		return nil, fmt.Errorf("certmagiclock: %w", err)
	}
	if err := resource.CheckPrefix("certmagiclock", options.Prefix); err != nil {
		return nil, err
	}
	return &Locker{
		client: client, prefix: options.Prefix, hold: redlock.HoldOptions{TTL: options.TTL},
		holds: make(map[string][]*redlock.Hold),
	}, nil
}

// Lock waits for the lock until ctx ends, and renews it until Unlock. The
// errors are those of redlock.Client.Hold.
func (l *Locker) Lock(ctx context.Context, name string) error {
	l.called(ctx)
	return l.lock(ctx, name, redlock.Locker.Hold)
}

// TryLock asks once and reports whether it acquired the lock. A lock held by
// another client is not an error; the errors are those of
// redlock.Locker.TryHold without redlock.ErrHeld.
func (l *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	l.called(ctx)
	err := l.lock(ctx, name, redlock.Locker.TryHold)
	if errors.Is(err, redlock.ErrHeld) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// called is the door of all methods.
func (l *Locker) called(ctx context.Context) {
	door.Must(l != nil && l.client != nil, "certmagiclock: a nil or zero Locker: New makes one")
	door.Must(ctx != nil, "certmagiclock: the context is nil")
}

type holder func(redlock.Locker, context.Context, redlock.HoldOptions) (*redlock.Hold, error)

func (l *Locker) lock(ctx context.Context, name string, take holder) error {
	r := resource.Name(l.prefix, name)
	hold, err := take(l.client.Lock(r), ctx, l.hold)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[r] = append(l.holds[r], hold)
	return nil
}

// Unlock releases the lock. It waits for the nodes up to the vote timeout, even
// if ctx has ended. It returns redlock.ErrNotHeld if the lock was never locked
// here, and redlock.ErrLost with the reason if it was lost before, so that
// another process may have done the same work. It returns redlock.ErrNoQuorum if too many nodes are down: they get the
// release when they are back, or let the lock expire.
func (l *Locker) Unlock(ctx context.Context, name string) error {
	l.called(ctx)
	hold := l.take(resource.Name(l.prefix, name))
	if hold == nil {
		return fmt.Errorf("certmagiclock: not locked here: %w", redlock.ErrNotHeld)
	}
	return lost.Release(ctx, hold)
}

// take removes and returns the hold that an Unlock is for. The name alone does
// not tell which: if a lock was lost and another goroutine has locked the same
// name since, take removes the lost hold first, so that the other stays until
// both are unlocked.
func (l *Locker) take(r string) *redlock.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	holds := l.holds[r]
	if len(holds) == 0 {
		return nil
	}
	i := max(slices.IndexFunc(holds, ended), 0)
	hold := holds[i]
	if holds = slices.Delete(holds, i, i+1); len(holds) == 0 {
		delete(l.holds, r)
	} else {
		l.holds[r] = holds
	}
	return hold
}

func ended(h *redlock.Hold) bool { return h.Err() != nil }

// RenewLockLease reports whether the lock is still held, by the local clocks.
// It renews nothing, since holds renew themselves, and it ignores the duration.
//
// If the lock was lost, RenewLockLease asks for it once more. certmagic does
// not give up after an error here: it tries again after minutes or hours, for
// thirty days, and would get no certificate in that time if the lock stayed
// lost. If the lock is granted again, certmagic checks whether another process
// has done the work meanwhile. If it is not granted, the error is
// redlock.ErrLost and that of redlock.Locker.TryHold (redlock.ErrHeld if another
// process holds the lock now). It is redlock.ErrNotHeld if the lock was never
// locked here.
func (l *Locker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	l.called(ctx)
	r := resource.Name(l.prefix, name)
	l.mu.Lock()
	holds := slices.Clone(l.holds[r])
	l.mu.Unlock()
	switch live := slices.IndexFunc(holds, func(h *redlock.Hold) bool { return !ended(h) }); {
	case len(holds) == 0:
		return fmt.Errorf("certmagiclock: not locked here: %w", redlock.ErrNotHeld)
	case live >= 0:
		// This process has the lock. If the goroutine that lost it asked again,
		// it would wait for the other one, and that one forever.
		return nil
	}
	why := holds[0].Err()
	_ = holds[0].Release(ctx) // deletes what is left on the nodes; the loss is already known
	hold, err := l.client.Lock(r).TryHold(ctx, l.hold)
	if err != nil {
		text := "certmagiclock: the lock was lost, and cannot be acquired again: " + errtext.Text(err)
		return errtext.Wrap(text, why, err)
	}
	if l.replace(r, holds[0], hold) {
		return nil
	}
	_ = hold.Release(context.WithoutCancel(ctx))
	return fmt.Errorf("certmagiclock: unlocked meanwhile: %w", redlock.ErrNotHeld)
}

// replace puts a hold in the place of a lost one. It returns false if the lost
// one has been removed.
func (l *Locker) replace(r string, old, hold *redlock.Hold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.holds[r], old)
	if i < 0 {
		return false
	}
	l.holds[r][i] = hold
	return true
}
