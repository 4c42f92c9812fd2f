package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// Read/write locks. A node has a writer's key, which is that of a plain lock; a
// sorted set of its readers, each with the end of its time by the node's clock;
// and the mark of a writer that waits, which keeps new readers out. A node
// grants a reader only without a writer, and a writer only without readers. Two
// quorums share a node, so a writer is alone.

// An RWLock is a lock on a resource that several readers may hold at once, or
// one writer alone. Client.RW returns one. It is a value that is cheap to make
// and to copy, and any goroutine may use it.
//
// The resource must be locked by RWLock only: a plain lock on it keeps readers
// and writers out, but does not see the readers.
type RWLock struct {
	unprinted
	client *Client
	name   string
	read   *form
	try    *form // of a writer that does not wait
	write  *form // of one that does
}

// RW returns the read/write lock on a resource. Calls of an RWLock whose name
// cannot be locked return ErrResource.
//
// Readers and writers that wait are not served in turn. Writers have
// precedence: while one waits for the readers to finish, no new reader is let
// in. So a holder must not wait for a second read lock: a writer may wait for
// its first one, and keep it out. With the context of a hold that reads, such a
// call returns ErrNested at once.
//
// The masters' user needs further rights: see docs/deploy.md,
// "Users and rights".
// Locks of an RWLock have no fencing number.
func (c *Client) RW(name string) RWLock {
	names, writers := []string{name}, queueKey{kind: writing, name: name}
	return RWLock{
		client: c, name: name,
		read:  &form{kind: reading, key: queueKey{kind: reading, name: name}, names: names, text: name},
		try:   &form{kind: writing, key: writers, names: names, text: name},
		write: &form{kind: writing, key: writers, names: names, text: name, mark: markTime},
	}
}

// markTime is for how long an attempt of a waiting writer keeps new readers
// out. Attempts in the first quarter do not set the mark again: see write.lua.
// The next attempt begins half of it after the last one did at the latest, or
// at once if that took longer. So the mark has no gap where a quorum answers
// within 250 ms.
const markTime = 300 * time.Millisecond

// The keys of a read/write lock besides the writer's.
const (
	readersSuffix = reserved + "readers"
	markSuffix    = reserved + "mark"
	rwKeys        = 3
	readersPlace  = 2 // of the readers among the keys
)

// Read returns the Locker of readers.
func (rw RWLock) Read() Locker {
	return Locker{client: rw.client, name: rw.name, try: rw.read, wait: rw.read}
}

// Write returns the Locker of writers.
func (rw RWLock) Write() Locker {
	return Locker{client: rw.client, name: rw.name, try: rw.try, wait: rw.write}
}

// Upgrade makes one attempt to acquire the write lock for a reader, which must
// be the only one. The read lock stays as it is: after the release of the write
// lock the reader still has it, if it was extended in time. There is no call
// that waits: two readers would wait for each other.
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
	if !rw.granted(&read, reading) || read.Validity() <= 0 {
		return Lock{}, named(rw.name, ErrNotHeld)
	}
	f := *rw.try
	f.other = read.token
	lock, err := rw.attempt(ctx, &f, ttl)
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
	case !rw.granted(&write, writing) || !write.tenure.rise(tenureReleased, 0):
		return Lock{}, named(rw.name, ErrNotHeld) // or another caller has it now
	case write.Validity() <= 0:
		return Lock{}, rw.giveUp(write, ErrNotHeld) // an extension may have come late
	}
	f := *rw.read
	f.other = write.token
	lock, err := rw.attempt(ctx, &f, ttl)
	if err != nil {
		return Lock{}, rw.giveUp(write, err) // the attempt may have sent nothing
	}
	// A node that the downgrade was not sent to may have the writer's key, or
	// get it late, and is owed the release all the same (R8).
	lock.ttl = max(lock.ttl, write.ttl)
	lock.receipt.Sent |= write.receipt.Sent
	lock.receipt.Pos = write.receipt.Pos
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
func (rw RWLock) granted(l *Lock, kind formKind) bool {
	return l.client == rw.client && l.form.is(kind) && l.resource == rw.name
}

// attempt is one attempt for a form.
func (rw RWLock) attempt(ctx context.Context, f *form, ttl time.Duration) (Lock, error) {
	lock := Lock{client: rw.client, resource: rw.name, form: f, ttl: ttl}
	err := rw.client.try(ctx, 1, &lock)
	return lock, err
}

// downgrades reports whether a reader has been a writer: other is the writer's
// token then. A writer's other is the token of the reader that it stays.
func (f *form) downgrades() bool { return f.is(reading) && f.other != veiled{} }

// claimRW encodes the command that lets a reader or a writer in.
func (l *Lock) claimRW(dst []byte) multiplex.Encoded {
	c, f := l.client, l.form
	switch {
	case f.kind == writing:
		dst = c.appendRW(dst, &writeScript, l.resource, 4)
		dst = c.appendValue(dst, &l.token)
		dst = appendMilliseconds(dst, l.ttl)
		dst = c.appendOther(dst, f)
		dst = appendMilliseconds(dst, f.mark)
	case f.downgrades():
		dst = c.appendRW(dst, &downgradeScript, l.resource, 3)
		dst = c.appendValue(dst, &f.other)
		dst = c.appendValue(dst, &l.token)
		dst = appendMilliseconds(dst, l.ttl)
	default:
		dst = c.appendRW(dst, &readScript, l.resource, 2)
		dst = c.appendValue(dst, &l.token)
		dst = appendMilliseconds(dst, l.ttl)
	}
	return multiplex.Encoded{Bytes: dst}
}

// appendRW appends the head of a script with the three keys.
func (c *Client) appendRW(dst []byte, s *script, resource string, arguments int) []byte {
	dst = appendScriptHead(dst, s, rwKeys, 3+rwKeys+arguments)
	dst = c.appendKey(dst, resource)
	dst = c.appendKeyWith(dst, resource, readersSuffix)
	return c.appendKeyWith(dst, resource, markSuffix)
}

// appendOther appends the value of the other lock, or an empty one.
func (c *Client) appendOther(dst []byte, f *form) []byte {
	if f.other == (veiled{}) {
		return resp.AppendBulkString(dst, "")
	}
	return c.appendValue(dst, &f.other)
}

func (c *Client) appendExtendRead(dst []byte, l *Lock, ttl time.Duration) multiplex.Encoded {
	dst = appendScriptHead(dst, &extendReadScript, 1, 3+1+2)
	dst = c.appendKeyWith(dst, l.resource, readersSuffix)
	dst = c.appendValue(dst, &l.token)
	return multiplex.Encoded{Bytes: appendMilliseconds(dst, ttl)}
}

func (c *Client) appendReleaseRead(dst []byte, l *Lock) multiplex.Encoded {
	dst = appendScriptHead(dst, &releaseReadScript, 2, 3+2+2)
	dst = c.appendKeyWith(dst, l.resource, readersSuffix)
	dst = c.appendKey(dst, l.resource)
	dst = c.appendValue(dst, &l.token)
	return multiplex.Encoded{Bytes: c.appendOther(dst, l.form)}
}

// unmarked returns the form of a writer that keeps no readers out.
func (f *form) unmarked() *form {
	own := *f
	own.mark = 0
	return &own
}

// keyInTheWay returns the key, without the prefix, that a caller waits for.
func (f *form) keyInTheWay(place uint8) string {
	return f.names[0] + [rwKeys]string{"", readersSuffix, markSuffix}[place-1]
}
