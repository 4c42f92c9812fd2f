package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A Locker acquires one lock: Client.Lock, Client.All, RWLock.Read,
// RWLock.Write, Client.Semaphore and Client.Fair return one for each kind. It
// is a value, cheap to copy, and any goroutine may use it. Make one where it is
// used, or keep it.
type Locker struct {
	unprinted
	client *Client
	kind   kind.Kind
	name   string
}

// Lock returns the Locker of a plain lock. Its TryAcquire, Acquire, Hold and Do
// are those of Client.
func (c *Client) Lock(resource string) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Plain(), name: resource}
}

// TryAcquire is Client.TryAcquire. For a held resource, the error of every
// Locker but that of a plain lock has a *HeldError. An attempt for a permit may
// take up to four rounds, each bounded by the vote timeout.
func (l Locker) TryAcquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	lock := l.client.wanted(l.kind, l.name, ttl)
	err := l.client.try(ctx, 1, &lock)
	if err == nil || err == ErrHeld {
		return lock, err // without an allocation (R12)
	}
	return lock, named(l.name, err)
}

// Acquire is Client.Acquire.
func (l Locker) Acquire(ctx context.Context, ttl time.Duration) (Lock, error) {
	within, cancel := l.client.withMaxWait(ctx, 0)
	defer cancel()
	r := l.request()
	r.ttl, r.confirmed = ttl, true
	return l.client.acquireTraced(within, r)
}

// TryHold is Hold with a single attempt, as TryAcquire makes it. The errors are
// those of TryAcquire, and ErrHoldOptions.
func (l Locker) TryHold(ctx context.Context, options HoldOptions) (*Hold, error) {
	h, err := l.client.hold(ctx, l, options, func(ttl time.Duration) (Lock, error) {
		lock := l.client.wanted(l.kind, l.name, ttl)
		lock.grant.Label = options.Label
		err := l.client.try(ctx, 1, &lock)
		return lock, err
	})
	return h, named(l.name, err)
}

// Hold is Client.Hold. HoldOptions.MinHold and Heal are for plain locks: with
// them and another Locker, the error is ErrHoldOptions.
func (l Locker) Hold(ctx context.Context, options HoldOptions) (*Hold, error) {
	within, cancel := l.client.withMaxWait(ctx, options.MaxWait)
	defer cancel()
	r := l.request()
	r.confirmed, r.minHold, r.label = options.NoRenewal, options.MinHold, options.Label
	for {
		h, err := l.client.hold(ctx, l, options, func(ttl time.Duration) (Lock, error) {
			r.ttl = ttl
			return l.client.acquireTraced(within, r)
		})
		if err != errSlept {
			return h, named(l.name, err)
		}
	}
}

// Do is DoWith without other options than the TTL.
func (l Locker) Do(ctx context.Context, ttl time.Duration, fn func(context.Context) error) error {
	return l.DoWith(ctx, HoldOptions{TTL: ttl}, fn)
}

// DoWith waits for the lock as Hold does, runs fn under it, and releases it,
// even if fn panics or ctx has ended (R14). fn's context ends with the hold or
// with ctx, and has the cause of the first; fn must then return. It never
// starts with less validity than Config.MinValidity, and FromContext finds the
// hold.
//
// ctx also bounds the wait for the lock; MaxWait bounds nothing else. Without a
// call of fn, the error is Hold's. Otherwise it joins why the hold ended before
// fn returned (ErrLost, ErrMaxHold, ErrClosed), fn's error, and that of the
// release. It leaves out fn's error if it is only that of a context ended by
// the hold. Test for ErrLost before context.Canceled. After nil, all of fn was
// done within the validity of the lock.
func (l Locker) DoWith(ctx context.Context, options HoldOptions, fn func(context.Context) error) error {
	must(fn != nil, noFunction)
	if options.Reentrant {
		r := l.request()
		if h := l.client.reenter(ctx, &r); h != nil {
			return h.doWithin(ctx, fn)
		}
		options.Reentrant = false
	}
	h, err := l.Hold(ctx, options)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

func (l Locker) request() request { return request{kind: l.kind, name: l.name} }

// MaxResources is the most resources of one lock.
const MaxResources = wire.MaxResources

// All returns the Locker of one lock on 1 to MaxResources resources: it is
// granted on all of them, or none is locked. Their order does not matter. Each
// other client sees each of them as held, in any call. A waiting caller holds
// none of them: so callers cannot block each other, but one that wants many may
// wait for long if others keep taking some.
//
// ErrHeld is a *HeldError, with a resource in the way and the Config.Owner of
// its holder. Calls return ErrResource for too many resources, none, or one
// twice. For a single one, it is Client.Lock.
func (c *Client) All(resources ...string) Locker {
	c.made()
	k, text := c.kinds.All(resources)
	return Locker{client: c, kind: k, name: text}
}

// MaxPermits is the most permits that a semaphore may have.
const MaxPermits = kind.MaxPermits

// Semaphore returns the Locker of a semaphore: up to so many callers, 1 to
// MaxPermits, hold one of its permits at a time. Each permit is a lock. Make
// the Locker once and keep it: it remembers which permit was free last.
//
// All clients must name the same number of permits. While they do not, no more
// are held than the highest of their numbers; see docs/guide.md. Nothing keeps
// callers that hold several permits from waiting for each other.
//
// The error is ErrResource for another number of permits. They are fields of
// one hash beside the name's key: plain locks on the name do not see them. They
// have no fencing number.
func (c *Client) Semaphore(name string, permits int) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Permit(permits), name: name}
}

// Fair returns the Locker of a lock with callers served in the order of their
// coming, in all processes: a caller let into the queue by a quorum of nodes
// gets the lock before all later ones. A dead one, or one without a quorum,
// stops the others for Config.FairLease and then loses its place. TryAcquire
// and TryHold get the lock only if no caller waits.
//
// HeldError.Place says where a caller stands. Order costs throughput: each
// caller asks the nodes several times a second. The resource must be locked by
// Fair only: a plain lock on it excludes the others, but does not queue. Fair
// locks have no fencing number.
func (c *Client) Fair(name string) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Fair(), name: name}
}

// An RWLock is a lock on a resource for several readers at once, or one writer
// alone. Client.RW returns one. It is a value, cheap to make and to copy, and
// any goroutine may use it.
//
// The resource must be locked by RWLock only: a plain lock on it keeps readers
// and writers out, but does not see the readers.
type RWLock struct {
	unprinted
	client *Client
	name   string
}

// RW returns the read/write lock on a resource. Calls of an RWLock whose name
// cannot be locked return ErrResource.
//
// Waiting readers and writers are not served in turn. Writers have precedence:
// with one waiting for the readers to finish, no new reader is let in. So a
// holder must not wait for a second read lock: a writer may wait for its first
// one, and keep it out. With the context of a hold that reads, such a call
// returns ErrNested at once.
//
// The masters' user needs further rights: see docs/deploy.md,
// "Users and rights".
// Locks of an RWLock have no fencing number.
func (c *Client) RW(name string) RWLock { return RWLock{client: c, name: name} }

// Read returns the Locker of readers.
func (rw RWLock) Read() Locker {
	rw.client.made()
	return Locker{client: rw.client, kind: rw.client.kinds.Reader(), name: rw.name}
}

// Write returns the Locker of writers.
func (rw RWLock) Write() Locker {
	rw.client.made()
	return Locker{client: rw.client, kind: rw.client.kinds.Writer(), name: rw.name}
}

// Upgrade makes one attempt to acquire the write lock for a reader, which must
// be the only one. The read lock stays as it is: after the release of the write
// lock the reader still has it, if extended in time. No call waits here: two
// readers would wait for each other.
//
// The error is ErrHeld if there is another reader, or a writer; ErrNotHeld if
// the validity of the read lock is over, or it is none of this RWLock; and
// otherwise as for TryAcquire. With an error, the read lock is as it was.
//
// Under a hold that reads, pass Hold.Current. The write lock is not renewed
// with that hold: make a hold of it with Client.Keep, or extend it, and release
// it before the other.
func (rw RWLock) Upgrade(ctx context.Context, read Lock, ttl time.Duration) (Lock, error) {
	rw.client.called(ctx)
	if !rw.granted(&read, kind.IsReader) || read.Validity() <= 0 {
		return Lock{}, named(rw.name, ErrNotHeld)
	}
	lock := rw.client.wanted(rw.client.kinds.Upgraded(read.grant.Value), rw.name, ttl)
	lock.grant.Label = read.grant.Label
	err := rw.client.try(ctx, 1, &lock)
	return lock, named(rw.name, err)
}

// Downgrade makes the holder of the write lock a reader, at one moment on each
// node: no other writer gets in between. From the call on, the write lock is
// not held, whatever comes of it, and its copies must not be used. For that of
// a Hold, pass what Hold.Detach returns; Client.Keep makes a hold of the read
// lock. Drain does not refuse a downgrade, since it is no new lock.
//
// With an error that is ErrReleased, neither lock is held: the write lock has
// been released. The error is then also ErrNotHeld if the validity of the write
// lock is over, or if there is no quorum and a node says that it has lost the
// lock; and otherwise as for TryAcquire. With another error the keys are as
// they were: ErrNotHeld alone for a lock that is none of this RWLock's writers,
// and ErrClosed.
func (rw RWLock) Downgrade(ctx context.Context, write Lock, ttl time.Duration) (Lock, error) {
	rw.client.called(ctx)
	switch {
	case !rw.granted(&write, kind.IsWriter) || !write.tenure.rise(tenureReleased, 0):
		return Lock{}, named(rw.name, ErrNotHeld) // or another caller has it now
	case write.Validity() <= 0:
		return Lock{}, rw.giveUp(write, ErrNotHeld) // an extension may have come late
	}
	lock := rw.client.wanted(rw.client.kinds.Downgraded(write.grant.Value), rw.name, ttl)
	lock.grant.Label = write.grant.Label
	if err := rw.client.try(ctx, 1, &lock); err != nil {
		return Lock{}, rw.giveUp(write, err) // the attempt may have sent nothing
	}
	// A node that the downgrade was not sent to may have the writer's key, or
	// get it late, and is owed the release all the same (R8).
	lock.grant.TTL = max(lock.grant.TTL, write.grant.TTL)
	lock.grant.Receipt.Sent |= write.grant.Receipt.Sent
	lock.grant.Receipt.Pos = write.grant.Receipt.Pos
	return lock, nil
}

// giveUp releases a writer that could not be downgraded, and returns the error
// that says so.
func (rw RWLock) giveUp(write Lock, err error) error {
	rw.client.abandon(write)
	if err == ErrClosed {
		return named(rw.name, err) // nothing is released any more
	}
	text := "redlock: not downgraded, and the write lock was released: " + errtext.Text(err)
	return named(rw.name, errtext.Wrap(text, err, ErrReleased))
}

// granted reports whether a lock was granted by this RWLock.
func (rw RWLock) granted(l *Lock, is func(kind.Kind) bool) bool {
	return l.client == rw.client && is(l.kind) && l.grant.Name == rw.name
}
