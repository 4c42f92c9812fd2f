// Package certmagiclock has the processes of a cluster that share certificates by github.com/caddyserver/certmagic take turns,
// by locks of package redlock. It does not import certmagic, so that it costs no dependency.
//
// certmagic wants its Locker to be part of its Storage. Any Storage gets these locks instead of its own by a struct around it:
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
// By the last of these certmagic finds out, before each attempt at a certificate, whether the lock was lost since.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/redlock"
)

// Options say how locks are held. The zero value works.
type Options struct {
	// Prefix stands before certmagic's names. If zero, "certmagic:". At most 953 bytes.
	Prefix string
	// TTL is how long a lock outlives a process that dies; a living one renews it, however long a certificate takes. If zero,
	// 30 s.
	TTL time.Duration
}

// A Locker is a certmagic.Locker, a certmagic.TryLocker and a certmagic.LockLeaseRenewer. Names may be of any length and any
// bytes: one that is too long for a resource is locked by its hash. Its methods may be called from any goroutine. The client
// is the caller's; the Locker has no goroutine and needs no end.
type Locker struct {
	client *redlock.Client
	prefix string
	hold   redlock.HoldOptions

	mu sync.Mutex // guards the following
	// holds are those that were not unlocked, by resource. Of several for one resource all but one have been lost.
	holds map[string][]*redlock.Hold
}

// New makes a Locker; it asks no node. The error is about the options.
func New(client *redlock.Client, options Options) (*Locker, error) {
	if options.Prefix == "" {
		options.Prefix = "certmagic:"
	}
	if options.TTL == 0 {
		options.TTL = 30 * time.Second
	}
	switch {
	case len(options.Prefix) > resource.LongestPrefix:
		return nil, fmt.Errorf("certmagiclock: Prefix has more than %d bytes", resource.LongestPrefix)
	case options.TTL < 0:
		return nil, errors.New("certmagiclock: TTL is negative")
	}
	return &Locker{
		client: client, prefix: options.Prefix, hold: redlock.HoldOptions{TTL: options.TTL},
		holds: make(map[string][]*redlock.Hold),
	}, nil
}

// Lock waits for the lock until ctx ends, and keeps it, renewed, until Unlock. The errors are those of redlock.Client.Hold.
func (l *Locker) Lock(ctx context.Context, name string) error {
	return l.lock(ctx, name, l.client.Hold)
}

// TryLock asks once, and says whether it has the lock now. That another has it is no error; the errors are those of
// redlock.Client.TryHold but for redlock.ErrHeld.
func (l *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	err := l.lock(ctx, name, l.client.TryHold)
	if errors.Is(err, redlock.ErrHeld) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

type holder func(ctx context.Context, resource string, options redlock.HoldOptions) (*redlock.Hold, error)

func (l *Locker) lock(ctx context.Context, name string, take holder) error {
	r := resource.Name(l.prefix, name)
	hold, err := take(ctx, r, l.hold)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[r] = append(l.holds[r], hold)
	return nil
}

// Unlock gives the lock back. It waits for the nodes up to the vote timeout, also when ctx has ended. redlock.ErrNotHeld says
// that it was lost before, so that another process may have done the same work, or was never locked here; redlock.ErrNoQuorum
// that nodes are down which get the release when they are back, or let the lock expire.
func (l *Locker) Unlock(ctx context.Context, name string) error {
	hold := l.take(resource.Name(l.prefix, name))
	if hold == nil {
		return fmt.Errorf("certmagiclock: not locked here: %w", redlock.ErrNotHeld)
	}
	return hold.Release(context.WithoutCancel(ctx))
}

// take removes the hold that an Unlock is about. A name does not tell whose it is: where one was lost and another goroutine
// has locked the same since, the lost one goes first, so that the other stays until both are unlocked.
func (l *Locker) take(r string) *redlock.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	holds := l.holds[r]
	if len(holds) == 0 {
		return nil
	}
	i := max(slices.IndexFunc(holds, lost), 0)
	hold := holds[i]
	if holds = slices.Delete(holds, i, i+1); len(holds) == 0 {
		delete(l.holds, r)
	} else {
		l.holds[r] = holds
	}
	return hold
}

func lost(h *redlock.Hold) bool { return h.Err() != nil }

// RenewLockLease says whether the lock is still held, by the local clocks. There is nothing to renew: that goes by itself, and
// the duration is of no consequence.
//
// A lock that was lost is asked for once more. certmagic gives nothing up for an error here: it comes again after minutes or
// hours, for thirty days, and did the lock stay lost, no certificate would be had in that time. Where it is granted certmagic
// looks whether another process has done the work meanwhile. The errors are those of redlock.Client.TryHold, ErrHeld where
// another is at it; and redlock.ErrNotHeld where it was never locked here.
func (l *Locker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	r := resource.Name(l.prefix, name)
	l.mu.Lock()
	holds := slices.Clone(l.holds[r])
	l.mu.Unlock()
	switch live := slices.IndexFunc(holds, func(h *redlock.Hold) bool { return !lost(h) }); {
	case len(holds) == 0:
		return fmt.Errorf("certmagiclock: not locked here: %w", redlock.ErrNotHeld)
	case live >= 0:
		return nil // by this process, at least; otherwise its loser would wait for the other, and that one for ever
	}
	_ = holds[0].Release(ctx) // what is left of it on the nodes; that it was lost is known
	hold, err := l.client.TryHold(ctx, r, l.hold)
	if err != nil {
		return fmt.Errorf("certmagiclock: the lock was lost, and cannot be had again: %w", err)
	}
	if l.replace(r, holds[0], hold) {
		return nil
	}
	_ = hold.Release(context.WithoutCancel(ctx))
	return fmt.Errorf("certmagiclock: unlocked meanwhile: %w", redlock.ErrNotHeld)
}

// replace puts a hold in the place of one that was lost. False says that it is not there any more.
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
