package history_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

const (
	lockTTL = time.Second
	permits = 2
)

// caller is one goroutine that takes locks, one after another, and writes what
// it sees into a history.
type caller struct {
	w        *history.Writer
	client   *redlock.Client
	id       int
	random   *rand.Rand
	attempt  uint64
	resource string

	// Of locks of other forms.
	form    history.Form
	permits int
	from    uint64
	rw      redlock.RWLock
	wrong   bool // see TestHistoriesOfBrokenLockers_OnRealServers
}

func (c *caller) note(kind history.Kind, token *redlock.Token, until time.Time) {
	c.noteAt(c.w.Clock().Now(), kind, token, until)
}

func (c *caller) noteAt(t int64, kind history.Kind, token *redlock.Token, until time.Time) {
	e := history.Event{
		T: t, Client: c.id, Resource: c.resource, Attempt: c.attempt, Ev: kind, Form: c.form, Permits: c.permits, From: c.from,
	}
	if !until.IsZero() {
		e.Until = c.w.Clock().At(until)
	}
	if token != nil {
		digits := history.Digest(token[:])
		e.Token = string(digits[:])
	}
	c.w.Add(e)
}

// use takes a lock for some time. One in ten is kept for longer than it is
// valid, and one in fifty is never released.
func (c *caller) use(acquire func() (redlock.Lock, error)) {
	c.note(history.Start, nil, time.Time{})
	lock, err := acquire()
	if err != nil {
		c.refused(err)
		return
	}
	token := c.tokenOf(lock)
	c.note(history.Grant, token, lock.Until())
	c.work()
	for c.random.IntN(3) == 0 {
		longer, err := lock.Extend(context.Background(), lockTTL)
		if err != nil {
			break
		}
		lock = longer
		c.note(history.Extend, token, lock.Until())
		c.work()
	}
	if c.form == history.ReadForm || c.form == history.WriteForm {
		if lock, err = c.exchange(lock); err != nil {
			return
		}
		token = c.tokenOf(lock)
	}
	if c.random.IntN(50) != 0 {
		c.note(history.Release, token, lock.Until())
		c.released(token, lock.Release(context.Background()))
	}
}

func (c *caller) work() {
	if c.random.IntN(30) == 0 {
		time.Sleep(lockTTL * 11 / 10)
	}
	time.Sleep(upTo(c.random, 8*time.Millisecond))
}

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// locker takes a lock of another form for some time.
func (c *caller) locker(parent context.Context) {
	leaves := time.Duration(1+c.random.IntN(400)) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.WithValue(parent, callerKey{}, c), leaves)
	defer cancel()
	locker := c.someLocker()
	acquire := locker.Acquire
	switch {
	case c.wrong && c.form == history.FairForm && c.random.IntN(2) == 0: // as a plain lock
		acquire = func(ctx context.Context, ttl time.Duration) (redlock.Lock, error) {
			return c.client.Acquire(ctx, c.resource, ttl)
		}
	case c.random.IntN(3) == 0:
		acquire = locker.TryAcquire
	}
	c.use(func() (redlock.Lock, error) { return acquire(ctx, lockTTL) })
}

// someLocker draws a form, of those that the caller is limited to.
func (c *caller) someLocker() redlock.Locker {
	c.permits, c.from = 0, 0
	switch n := c.random.IntN(8); {
	case c.resource == "s" || c.resource[0] == 'k' && n < 2:
		c.resource, c.form, c.permits = "s", history.PermitForm, permits
		if c.wrong {
			return c.client.Semaphore(c.resource, permits+1)
		}
		return c.client.Semaphore(c.resource, permits)
	case c.resource == "f" || c.resource[0] == 'k' && n < 4:
		c.resource, c.form = "f", history.FairForm
		return c.client.Fair(c.resource)
	case n < 5:
		c.resource, c.form = "rw", history.WriteForm
		c.rw = c.client.RW(c.resource)
		if c.wrong {
			return c.rw.Read()
		}
		return c.rw.Write()
	}
	c.resource, c.form = "rw", history.ReadForm
	c.rw = c.client.RW(c.resource)
	return c.rw.Read()
}

// exchange now and then makes a reader a writer for a while, or a writer a
// reader, and returns the lock that the caller has then. With an error it has
// none.
func (c *caller) exchange(lock redlock.Lock) (redlock.Lock, error) {
	if c.wrong || c.random.IntN(2) == 0 {
		return lock, nil
	}
	if c.form == history.WriteForm { // it ends whatever comes of it
		c.note(history.Release, c.tokenOf(lock), lock.Until())
		c.form, c.from, c.attempt = history.ReadForm, c.attempt, c.attempt+1
		c.note(history.Start, nil, time.Time{})
		reader, err := c.rw.Downgrade(context.Background(), lock, lockTTL)
		if err != nil {
			c.refused(err)
			return reader, err
		}
		c.note(history.Grant, c.tokenOf(reader), reader.Until())
		c.work()
		return reader, nil
	}
	w := *c
	w.form, w.from, w.attempt = history.WriteForm, c.attempt, c.attempt+1
	w.note(history.Start, nil, time.Time{})
	writer, err := c.rw.Upgrade(context.Background(), lock, lockTTL)
	if err != nil {
		w.refused(err)
	} else {
		w.note(history.Grant, c.tokenOf(writer), writer.Until())
		w.work()
		w.note(history.Release, c.tokenOf(writer), writer.Until())
		w.released(c.tokenOf(writer), writer.Release(context.Background()))
	}
	return lock, nil
}

// callerKey is the key of a context's caller.
type callerKey struct{}

// noteQueued is a tracer of attempts with a caller's context. It notes that a
// quorum has the caller in the queue: certainly for half of a lease, of which a
// node leaves three quarters at least, if it does not leave before.
func noteQueued(ctx context.Context, a redlock.CallInfo, nodes int) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	held := (*redlock.HeldError)(nil)
	if !ok || !errors.As(a.Err, &held) || held.Admitted <= nodes/2 {
		return
	}
	until := a.Start.Add(250 * time.Millisecond)
	if leaves, ok := ctx.Deadline(); ok && leaves.Before(until) {
		until = leaves
	}
	c.note(history.Queued, nil, until)
}

// tokenOf returns the token of a lock for the history. Every second caller
// leaves it out: a lock whose token was read is not handed over to another
// caller of the client.
func (c *caller) tokenOf(lock redlock.Lock) *redlock.Token {
	if c.id%2 == 1 {
		return nil
	}
	token := lock.Token()
	return &token
}

// refusals names the reasons why an attempt was not granted; the first match
// applies.
var refusals = []struct {
	err  error
	kind history.Kind
}{
	{context.Canceled, history.Cancel}, {redlock.ErrHeld, history.Held}, {redlock.ErrNoQuorum, history.NoQuorum},
	{redlock.ErrExpired, history.Expired}, {context.DeadlineExceeded, history.Cancel},
}

func (c *caller) refused(err error) {
	kind := history.Error
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			kind = r.kind
			break
		}
	}
	c.note(kind, nil, time.Time{})
	time.Sleep(upTo(c.random, 3*time.Millisecond))
}

func (c *caller) released(token *redlock.Token, err error) {
	switch {
	case err == nil:
		c.note(history.Released, token, time.Time{})
	case errors.Is(err, redlock.ErrNotHeld):
		c.note(history.Lost, token, time.Time{})
	default:
		c.note(history.Error, token, time.Time{})
	}
}
