package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock/internal/kind"
)

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
	lock := rw.client.wanted(rw.client.kinds.Upgraded(read.grant.Token), rw.name, ttl)
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
	lock := rw.client.wanted(rw.client.kinds.Downgraded(write.grant.Token), rw.name, ttl)
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
