package redlock

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/multiplex"
)

// A form says which keys a lock has on a node, and which commands set, lengthen
// and delete them. The form of a plain lock, which has one key, is nil. A form
// never changes.
type form struct {
	kind  formKind
	key   queueKey
	names []string // of the resources
	text  string   // all of them, for people

	// For writing and permit: how long the mark of a caller that waits stands,
	// 0 for one that does not wait.
	mark time.Duration
	// For writing, the token of the reader that it stays; for reading, of the
	// writer that it was. Zero if there is none.
	other veiled
	// For permit: how many there are, and the number of the one that was granted
	// last.
	permits int
	last    *atomic.Int32
	gate    *gate
	// For fair: the caller's place in the queue, nil for an attempt without one.
	turn *turn
}

// A formKind says which keys and commands a lock has.
type formKind uint8

const (
	plain   formKind = iota
	several          // all.go
	reading          // rw.go
	writing
	permit // semaphore.go
	fair   // fair.go
)

func (f *form) is(kind formKind) bool { return f.what() == kind }

func (f *form) what() formKind {
	if f == nil {
		return plain
	}
	return f.kind
}

// numbered reports whether locks of this form have fencing numbers, if the
// client has.
func (f *form) numbered() bool { return f.is(plain) || f.is(several) }

// Resources returns the lock's resources, without the prefix.
func (l Lock) Resources() []string {
	if l.form != nil {
		return slices.Clone(l.form.names)
	}
	return []string{l.resource}
}

// has reports whether a resource is one of the lock's.
func (l *Lock) has(resource string) bool {
	if l.form != nil {
		return slices.Contains(l.form.names, resource)
	}
	return l.resource == resource
}

// meets reports whether a request may have to wait for the lock.
func (l *Lock) meets(r *request) bool {
	switch {
	case l.form.is(permit) != r.form.is(permit):
		return false // permits have keys of their own
	case r.form.is(permit) && r.form.permits > 1:
		return false // another one may be free
	case r.form != nil:
		return slices.ContainsFunc(r.form.names, l.has)
	}
	return l.has(r.resource)
}

// covers reports whether a lock is as good as the one that is requested.
func (l *Lock) covers(r *request) bool {
	suits := false
	switch has, wants := l.form.what(), r.form.what(); wants {
	case plain, several:
		suits = has == plain || has == several
	case reading:
		suits = has == reading || has == writing
	default:
		suits = has == wants
	}
	if r.form.is(several) {
		return suits && !slices.ContainsFunc(r.form.names, func(name string) bool { return !l.has(name) })
	}
	return suits && l.has(r.resource)
}

// claim returns the command that sets the lock's keys, encoded into room.
func (l *Lock) claim(room []byte) multiplex.Encoded {
	c := l.client
	switch {
	case l.form.is(reading), l.form.is(writing):
		return l.claimRW(room)
	case l.form.is(permit):
		return l.claimPermit(room)
	case l.form.is(fair):
		return l.claimFair(room)
	case c.fence != nil:
		return multiplex.Encoded{Bytes: c.appendFenced(room, l)}
	case l.form.is(several):
		return c.appendAll(room, &acquireAllScript, l.form, &l.token, l.ttl)
	}
	return c.appendAcquire(room, l.resource, &l.token, l.ttl)
}

// claimKind returns the kind of that command.
func (l *Lock) claimKind() *multiplex.ClaimKind {
	c, all := l.client, l.form.is(several)
	switch {
	case l.form.downgrades():
		return downgradeKind
	case l.form.is(fair):
		return fairKind
	case !l.form.numbered():
		return lockerKind
	case c.fence != nil && all:
		return c.fence.allKind
	case c.fence != nil:
		return c.fence.kind
	case all:
		return acquireAllKind
	case c.config.Owner != "":
		return ownedKind
	}
	return acquireKind
}

// extension returns the extension of a lock, and its kind.
func (l *Lock) extension(room []byte, ttl time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	c, promised := l.client, l.promised(ttl)
	switch l.form.what() {
	case several:
		return extendAllKind, c.appendAll(room, &extendAllScript, l.form, &l.token, ttl, promised)
	case reading:
		return extendLockerKind, c.appendExtendRead(room, l, ttl)
	case permit:
		return extendLockerKind, c.appendExtendPermit(room, l, ttl, promised)
	}
	return extendKind, c.appendExtend(room, l.resource, &l.token, ttl, promised)
}

// release returns the release of the lock, encoded into room, and its kind.
func (l *Lock) release(room []byte) (kind *multiplex.ReleaseKind, command multiplex.Command) {
	c := l.client
	command.TTL, command.Receipt = l.ttl, l.receipt
	switch l.form.what() {
	case several:
		kind, command.Encoded = releaseAllKind, c.appendAll(room, &releaseAllScript, l.form, &l.token)
	case reading:
		kind, command.Encoded = releaseLockerKind, c.appendReleaseRead(room, l)
	case writing, permit:
		kind, command.Encoded = releaseLockerKind, c.appendReleaseMarked(room, l)
	case fair:
		kind, command.Encoded = releaseLockerKind, c.appendReleaseFair(room, l, !l.form.turn.waiting())
	default:
		kind, command.Encoded = releaseKind, c.appendRelease(room, l.resource, &l.token)
	}
	return kind, command
}

// blocked returns the error of an attempt that key number place, from 1 on,
// refused.
func (f *form) blocked(place uint8, owner string) error {
	switch f.what() {
	case several:
		return &HeldError{Resource: f.names[place-1], Owner: owner}
	case reading, writing:
		hint := refusalHint{key: f.keyInTheWay(place)}
		if place == readersPlace {
			hint.soon = f.mark / 2
		}
		return &HeldError{Owner: owner, hint: hint}
	case permit:
		return &HeldError{hint: refusalHint{key: f.names[0] + wantedSuffix}}
	case fair:
		return &HeldError{Owner: owner, hint: refusalHint{key: f.names[0], soon: askTime}}
	}
	if owner == "" {
		return ErrHeld
	}
	return &HeldError{Owner: owner}
}

// places returns how many keys may be in the way; for fair, how many codes
// there are.
func (f *form) places() int {
	switch f.what() {
	case plain, permit:
		return 1
	case several:
		return len(f.names)
	case fair:
		return fairCodes
	}
	return rwKeys
}

// tryForm returns what makes one attempt for a hold of a form.
func (c *Client) tryForm(f *form) acquirer {
	return func(ctx context.Context, _ string, ttl time.Duration) (Lock, error) {
		lock := Lock{client: c, resource: f.text, form: f, ttl: ttl}
		err := c.try(ctx, 1, &lock)
		return lock, err
	}
}

// awaited reports whether a caller waits in a queue for the lock, or for one of
// several resources.
func (c *Client) awaited(l *Lock) bool {
	return c.queues.has(l.key()) || l.form.is(several) && slices.ContainsFunc(l.form.names, func(name string) bool {
		return c.queues.has(queueKey{name: name})
	})
}

// released calls the callers that wait in queues for the lock, or for one of
// several resources: its release is queued.
func (c *Client) released(l *Lock) {
	c.queues.released(l.key(), l.tenure)
	if l.form.is(several) {
		for _, name := range l.form.names {
			c.queues.released(queueKey{name: name}, nil) // it belonged to no streak
		}
	}
}

// key returns the key of the queue for locks like this.
func (l *Lock) key() queueKey {
	r := request{resource: l.resource, form: l.form}
	return r.key()
}

// How callers of each kind wait.
type manner struct {
	seats, most int  // how many ask the nodes, and after grants at most
	handsOver   bool // a release may hand the lock to the next caller
	keepsPlace  bool // each caller with a seat asks again and again
	sole        bool // the resource's own key is always the one in the way
}

var manners = [...]manner{
	plain:   {seats: 1, most: 1, handsOver: true, sole: true},
	several: {seats: 1, most: 1, handsOver: true},
	reading: {seats: 1, most: 1024},
	writing: {seats: 1, most: 1, handsOver: true},
	permit:  {seats: 1, most: 8, handsOver: true},
	fair:    {seats: 8, most: 8, keepsPlace: true},
}

func (f *form) seatsLeast() int  { return manners[f.what()].seats }
func (f *form) seatsMost() int   { return manners[f.what()].most }
func (f *form) handsOver() bool  { return manners[f.what()].handsOver }
func (f *form) keepsPlace() bool { return manners[f.what()].keepsPlace }

// soleKey returns the resource, if its key is always the one in the way.
func (f *form) soleKey(resource string) string {
	if manners[f.what()].sole {
		return resource
	}
	return ""
}

// attempted returns the form of an attempt; far as in waiter.
func (f *form) attempted(far bool) *form {
	if far && f.is(writing) {
		return f.unmarked()
	}
	return f
}

// tooSlow is called after an attempt that showed that a quorum is too far away.
func (c *Client) tooSlow(r *request, spent time.Duration) {
	if r.form.is(fair) && !r.form.turn.kept {
		c.moveBack(r, spent, 0)
	}
}

// arrives prepares a request for waiting; departs must be called with the
// outcome.
func (c *Client) arrives(r *request) {
	switch r.form.what() {
	case fair:
		r.form = c.queueUp(r.form)
		c.group.DelayClose(1) // so that Close lets the place be given up
	case permit:
		r.form.gate.wait(1)
	}
}

func (c *Client) departs(r *request, err error) {
	switch r.form.what() {
	case fair:
		if err != nil {
			c.leaveQueue(r)
		}
		c.group.DelayClose(-1)
	case permit:
		r.form.gate.wait(-1)
	}
}
