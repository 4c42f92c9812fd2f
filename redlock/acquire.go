package redlock

import (
	"cmp"
	"context"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// commandRoom is the size of buffers on the stack. It is enough for a command
// with a key of up to 130 bytes, or 60 with the longest owner.
const commandRoom = 256

// largeRoom is the same for commands that name the resource more than once.
const largeRoom = 448

// TryAcquire tries once to lock a resource for the TTL, which is truncated to
// whole milliseconds. It waits until a quorum of nodes has granted the lock or
// no longer can (R5), at most for the vote timeout of the slowest node (R6).
//
// The error is ErrHeld, ErrNoQuorum, ErrExpired, ErrOverloaded, ErrClosed,
// ErrResource, ErrTTL, or a CancelledError if ctx ended. If TryAcquire returns
// an error, it leaves no key behind: it has queued the release for every node
// (R7). The caller sends it itself, unless other goroutines use the client:
// then one of them does, with the next batch. A process that exits right after
// the error may leave keys until their TTL. It did in 194 and 196 of 200 runs,
// with 3 and 5 masters, beside 16 goroutines that took locks without a pause;
// in none without them, and in none after Client.Close. So call that before
// os.Exit.
//
// If several clients try at one time, all of them may get ErrHeld. If one is to
// win, use Acquire with a short Config.MaxWait or context.
func (c *Client) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	lock := Lock{client: c, resource: resource, ttl: ttl}
	err := c.try(ctx, 1, &lock)
	if err == ErrHeld {
		return lock, err // which allocates nothing (R12)
	}
	return lock, named(resource, err)
}

// attempt is one attempt for a lock of any form, without counting and tracing.
// lock has the resources and the TTL that are wanted. It is filled in where it
// stands, since it is large, and is zero after an error.
func (c *Client) attempt(ctx context.Context, lock *Lock) (err error) {
	switch {
	case c.fence != nil && lock.form.numbered():
		err = c.attemptFenced(ctx, lock)
	case lock.form.is(permit):
		err = c.attemptPermit(ctx, lock)
	case lock.form.is(fair):
		err = c.attemptFair(ctx, lock)
	case lock.form != nil:
		var set [largeRoom]byte
		err = c.claim(ctx, lock, set[:0])
	default:
		var set [commandRoom]byte
		err = c.claim(ctx, lock, set[:0])
	}
	if err != nil {
		*lock = Lock{}
	}
	return err
}

// claim is one round of an attempt. Its command is encoded into room.
func (c *Client) claim(ctx context.Context, lock *Lock, room []byte) (err error) {
	if c.refuses(ctx) && !lock.form.downgrades() {
		return ErrClosed
	}
	start := time.Now() // before the first byte is queued (R4)
	if lock.ttl, err = c.checkAttempt(lock.resource, lock.form, lock.ttl); err != nil {
		return err
	}
	slack := pure.Drift(lock.ttl, c.config.DriftFactor)
	if c.late(lock.ttl, 0, slack) {
		return c.tooShort(lock.ttl) // even an immediate answer would leave too little
	}
	// Close waits until it is known whether the grant came in time, since
	// otherwise it is undone.
	c.group.DelayClose(1)
	defer c.group.DelayClose(-1)
	lock.token = veil(c.tokens.next())
	kind, told := lock.claimKind(), noRefusals
	if lock.form != nil || c.config.Owner != "" {
		told = newRefusals(lock.form, kind.Script)
		defer told.recycle()
	}
	claim := lock.claim(room)
	lock.receipt, err = c.group.Claim(ctx, kind, &multiplex.Claim{
		Bytes: claim.Bytes,
		Key:   claim.Key,
		TTL:   lock.ttl,
		Undo: func(dst []byte) multiplex.Encoded {
			_, release := lock.release(dst)
			return release.Encoded
		},
		Told: told.told,
	})
	if err != nil {
		return c.failed(ctx, told.translate(err), nil)
	}
	return c.granted(lock, start)
}

// granted completes the lock of a claim that a quorum granted. It reads the
// clocks as the last act of an attempt (R4): a lock with too little validity is
// released, and the error is ErrExpired.
func (c *Client) granted(lock *Lock, start time.Time) error {
	slack := pure.Drift(lock.ttl, c.config.DriftFactor)
	lock.until = start.Add(lock.ttl - slack)
	spent := pure.Elapsed(start, time.Now())
	c.learn(spent)
	if c.late(lock.ttl, spent, slack) {
		c.tellRelease(lock)
		return ErrExpired
	}
	return nil
}

// late reports whether an attempt that has spent so much time leaves too little
// validity.
func (c *Client) late(ttl, spent, slack time.Duration) bool {
	left := pure.Validity(ttl, spent, slack)
	return left <= 0 || left < c.config.MinValidity
}

// Acquire tries until it has the lock, ctx ends, or Config.Retry.Tries is used
// up, with a new token for each attempt (R3, R11). It retries after ErrHeld,
// ErrNoQuorum (unless Config.Retry.FailFast), ErrExpired and ErrOverloaded, but
// not after ErrClosed, ErrNested, ErrResource and ErrTTL. If ctx ends, the
// error is a CancelledError, which is also the last attempt's error. If
// Config.MaxWait is over, it is one too, with the cause ErrMaxWait. If the
// tries are used up, the error is the last attempt's. As with TryAcquire, no
// key is left behind if there is an error.
//
// If a call finds no quorum for half a second, it reports a warning, with the
// cause for each node, to Config.Logger, or to slog.Default if there is none;
// one report a minute stands for all calls of the client (R31). Acquire stops
// waiting, with ErrNoQuorum, if waiting cannot help: if so many nodes refuse
// the client that no quorum is left, because of wrong credentials, a missing
// permission, not being an independent master, another MaxTTL, floors that an
// operator must reset (ErrNoFloor), a certificate that does not verify, or
// another protocol such as TLS on one side only. Only
// attempts since the call began count, so a cause that was removed does not end
// it. A node that refuses the credentials is tried again after 1 to 30 seconds,
// so it may take that long to find out. Acquire keeps waiting for a node that
// refuses connections: it may come back.
//
// Callers of one client that wait for the same resource are served in the order
// in which they came, and only the first of them asks the nodes. There is no
// order between clients, nor among callers of TryAcquire. If another client
// holds the lock, the nodes tell the first caller when the lock is released
// (CLIENT TRACKING, over RESP3) and when it will expire, and it tries then;
// without such news it tries within a second. If the nodes cannot tell, and
// after the other errors, it tries again after a random delay that doubles up
// to 200 ms, unless Config.Retry.MinDelay and MaxDelay say otherwise. With
// Config.Retry.Tries each caller does so on its own.
//
// Clients that want a lock again and again get like shares of it: one that had
// to wait, and calls Acquire again right after its release, lets others try
// first, for a few round trips or a third of the time for which it had the
// lock, and at most 20 milliseconds where nodes are near. Clients that lost a
// lock to others spread their attempts over as long.
//
// If the lock was granted to a caller that had waited, its release hands it to
// the next caller without asking the nodes, for up to Config.HandOver. The next
// caller gets it with at least half of the validity that it asked for. If less
// than nine tenths are left, Acquire extends the lock before it returns.
func (c *Client) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	within, cancel := c.withMaxWait(ctx, 0)
	defer cancel()
	return c.acquireTraced(within, request{resource: resource, ttl: ttl, confirmed: true})
}

// withMaxWait returns ctx with a limit to the wait for a lock: Config.MaxWait
// unless the call has its own. If both are zero, there is none.
func (c *Client) withMaxWait(ctx context.Context, own time.Duration) (context.Context, context.CancelFunc) {
	c.called(ctx)
	limit := cmp.Or(own, c.config.MaxWait)
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, ErrMaxWait)
}

// acquireTraced is Acquire without Config.MaxWait. It calls the tracer.
func (c *Client) acquireTraced(ctx context.Context, r request) (Lock, error) {
	start, tries := time.Now(), 0
	lock, err := c.acquire(ctx, r, &tries)
	c.stats.waits.record(time.Since(start))
	if c.tracer.AcquireDone != nil {
		c.acquireDone(ctx, AcquireInfo{Resource: r.resource, TTL: r.ttl, Tries: tries, Start: start, Err: err}, lock)
	}
	return lock, named(r.resource, err)
}

// acquire is Acquire without the tracer. It counts the attempts.
func (c *Client) acquire(ctx context.Context, r request, tries *int) (lock Lock, err error) {
	if c.nested(ctx, &r) {
		if ctx.Err() != nil {
			return Lock{}, cancelledError(ctx, nil) // the hold is about to be released
		}
		return Lock{}, ErrNested
	}
	c.arrives(&r)
	defer func() { c.departs(&r, err) }()
	return c.wait(ctx, r, tries)
}

// failed makes the context's own error a CancelledError, and returns any other
// unchanged.
func (c *Client) failed(ctx context.Context, err, last error) error {
	if err != ctx.Err() || err == nil {
		return err
	}
	return cancelledError(ctx, last)
}

func cancelledError(ctx context.Context, last error) error {
	e := &CancelledError{Err: ctx.Err(), Last: last}
	if cause := context.Cause(ctx); cause != e.Err {
		e.Cause = cause
	}
	return e
}

// learn updates the smoothed time to a quorum, from which retries derive their
// delays. Concurrent callers may lose a sample, which does no harm.
func (c *Client) learn(spent time.Duration) {
	c.quorumTime.Store(int64(pure.Smoothed(time.Duration(c.quorumTime.Load()), spent)))
	c.stats.quorum.record(spent)
}
