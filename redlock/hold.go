package redlock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A Hold is a lock that renews itself until it is released, its bound is reached, or it is lost (R13). Work under it ends
// with its context. All methods may be called from any goroutine.
//
// No goroutine and no timer belong to it: one goroutine of the client looks after all holds. It must be released, also when
// its context has ended: a hold that is forgotten is renewed for ever.
type Hold struct {
	client  *Client
	options HoldOptions
	begun   instant         // when the attempt that was granted began
	inner   context.Context // as package context made it
	context holdContext     // what others see of it
	cancel  context.CancelCauseFunc
	ends    holdEnds
	said    atomic.Pointer[account] // what came of the last renewal, nil after one that was granted

	mu      sync.Mutex // guards the following. The group may be called while it is held, but see holdContext.Err
	lock    Lock
	granted instant // when the attempt or renewal began that the validity counts from
	asked   instant // when the renewal in flight began
	renewal pure.Renewal
	unsure  multiplex.Set // nodes that the renewal in flight was the first to reach since they were quarantined

	// The following are guarded by the keeper's mutex.
	at    time.Duration // when the keeper looks at it, on the keeper's clock
	place int           // in the schedule
	gone  bool          // not to be put into the schedule any more
	slot  int           // in keeper.held
}

// Hold locks a resource, waiting for it as Acquire does, and keeps it until Release. ctx bounds the waiting only; its values
// are the hold's, but neither its cancellation nor its deadline: a deadline for waiting must not end the work. The errors are
// those of Acquire, and ErrHoldOptions. The Hold is the caller's to release.
func (c *Client) Hold(ctx context.Context, resource string, options HoldOptions) (*Hold, error) {
	within, cancel := withMaxWait(ctx, cmp.Or(options.MaxWait, c.config.MaxWait))
	defer cancel()
	acquire := func(_ context.Context, resource string, ttl time.Duration) (Lock, error) {
		return c.acquireTold(within, resource, ttl)
	}
	for {
		h, slept, err := c.hold(ctx, resource, options, acquire)
		if !slept {
			return h, named(resource, err)
		}
	}
}

// TryHold is Hold with one attempt, as TryAcquire. The errors are those of TryAcquire, and ErrHoldOptions.
func (c *Client) TryHold(ctx context.Context, resource string, options HoldOptions) (*Hold, error) {
	h, _, err := c.hold(ctx, resource, options, c.TryAcquire)
	return h, named(resource, err)
}

type acquirer func(ctx context.Context, resource string, ttl time.Duration) (Lock, error)

// hold acquires and keeps. slept says that the lock was granted, but that the machine slept meanwhile, for so long that it
// may be over.
func (c *Client) hold(ctx context.Context, resource string, o HoldOptions, acquire acquirer) (h *Hold, slept bool, err error) {
	if o, err = o.check(c); err != nil {
		return nil, false, err
	}
	// Between the grant and keep the lock belongs to this goroutine alone, which
	// may stand still: Close must not end the connections before it is given back.
	c.group.Detain(1)
	defer c.group.Detain(-1)
	before := c.keeper.clock()
	lock, err := acquire(ctx, resource, o.TTL)
	if err != nil {
		return nil, false, err
	}
	// The lock knows two clocks. If the third has moved, it is not known whether before or after the attempt began.
	begun := instant{lock.until.Add(pure.Drift(o.TTL, c.config.DriftFactor) - o.TTL), before.slept}
	h = c.newHold(ctx, lock, begun, o)
	if left := h.Validity(); left <= 0 || left < c.config.MinValidity {
		c.abandon(lock)
		return nil, true, ErrExpired
	}
	if !c.keeper.keep(h) {
		c.abandon(lock)
		return nil, false, ErrClosed
	}
	return h, false, nil
}

// abandon gives back a lock that nobody gets (R7), and calls who waits for it here: its SET stands behind that.
func (c *Client) abandon(lock Lock) {
	c.tellRelease(&lock)
	c.queues.released(lock.resource)
}

func (c *Client) newHold(ctx context.Context, lock Lock, begun instant, o HoldOptions) *Hold {
	validity := o.TTL - pure.Drift(o.TTL, c.config.DriftFactor)
	h := &Hold{client: c, options: o, begun: begun, lock: lock, granted: begun, place: unplaced, slot: unplaced}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.inner, h.context, h.cancel = inner, holdContext{inner, h}, cancel
	h.renewal = pure.NewRenewal(validity, o.bound(), o.extensions())
	h.ends.set(c.keeper.begun, begun, validity)
	return h
}

// Context ends when the hold does: by Release, by MaxHold, by Client.Close, or, fired a little before the end of validity and
// by the local clocks alone, because no renewal was granted in time (R13). context.Cause says which: ErrReleased, ErrMaxHold,
// ErrClosed, or a *LostError, which is ErrLost. It has the values of the context that Hold was called with.
//
// Its methods Done and Err, and context.Cause, read the clocks. So they tell of
// a lost lock also when the process was stopped and goes on, before any timer
// has fired (R15). A context that derives from it, and a channel that Done
// returned before, follow when a timer fires: some time after the process goes
// on, and on a busy machine not at once. Work that must not go on for that
// long asks Err of this context, or Hold.Err, which FromContext finds.
func (h *Hold) Context() context.Context { return h.context }

// Err is nil while the lock is held, and then why it is not, as Context says. It reads the clocks (R15).
func (h *Hold) Err() error {
	h.judge()
	return context.Cause(h.inner)
}

// Current returns the lock as it is now. Ask it for what it is; to end the hold, release the Hold. Releasing the Lock does not end the
// renewal, and where the hold heals may miss nodes that were healed since.
func (h *Hold) Current() Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	lock := h.lock
	if h.options.Heal {
		lock.receipt.Doubted = ^multiplex.Set(0) // it does not hear of nodes that are healed later (R23)
	}
	return lock
}

// Resource is what is locked, without the prefix.
func (h *Hold) Resource() string { return h.lock.resource } // it never changes

// Until is when the validity ends, by the local clock, unless the lock is renewed before.
func (h *Hold) Until() time.Time { return h.Current().until }

// Validity is how long the lock is still certain to be ours, as of the last renewal that was granted; zero or less when it was
// lost or released. It reads the monotonic and the wall clock, and how long the machine has slept, and believes the worst
// (R4, R15).
func (h *Hold) Validity() time.Duration {
	left := h.ends.remaining(h.client.keeper.begun, h.client.keeper.clock())
	if cause := context.Cause(h.inner); cause != nil && !errors.Is(cause, ErrMaxHold) && !errors.Is(cause, ErrClosed) {
		return min(left, 0)
	}
	return left
}

// Release ends the hold: its renewal, then its context, and then the lock, as Lock.Release does, with the same errors:
// ErrNotHeld says that the lock was lost before. With MinHold the keys are left for what remains of that time, and it waits
// for the nodes' answers to that. Releasing twice is harmless.
func (h *Hold) Release(ctx context.Context) error {
	lock := h.finish(ErrReleased)
	h.client.keeper.forget(h)
	start := startIf(h.client.tracer.ReleaseDone != nil)
	var room [commandRoom]byte
	kind, command := h.undo(&lock, room[:0])
	err := h.client.giveBack(ctx, lock.resource, kind, &command)
	h.client.keeper.strike(h)
	lock.releaseDone(ctx, start, err)
	return named(lock.resource, err)
}

// finish ends renewal and context, and returns the lock as it was left: no renewal is queued after that.
func (h *Hold) finish(cause error) Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel(cause)
	h.renewal, _ = h.renewal.On(pure.OnEnd, 0, 0)
	return h.lock
}

// undo is the command that ends the lock, encoded into room: a release, or, while MinHold lasts, one that shortens what is
// left of its keys' lives to the rest of that.
func (h *Hold) undo(lock *Lock, room []byte) (*multiplex.Kind, multiplex.Command) {
	c := h.client
	// By the monotonic clock, which says least after a suspend: this time is for others, who shall wait long enough.
	if rest := h.options.MinHold - c.keeper.clock().at.Sub(h.begun.at); rest > 0 {
		rest = rest + pure.Drift(rest, c.config.DriftFactor) + time.Millisecond // cut to whole ones
		return shortenKind, multiplex.Command{
			Bytes: c.appendShorten(room, lock.resource, &lock.token, rest), Key: c.keyPart(lock.resource),
			TTL: lock.ttl, Receipt: lock.receipt,
		}
	}
	return releaseKind, lock.release(room)
}

// step feeds an event to the renewal. The caller holds the mutex.
func (h *Hold) step(e pure.RenewalEvent, now instant, jitter float64) (act pure.RenewalAction) {
	h.renewal, act = h.renewal.On(e, now.since(h.granted), jitter)
	if act == pure.ToProlong {
		h.granted = h.asked
		h.lock.until = pure.Later(h.lock.until, h.granted.at.Add(h.renewal.Validity))
		h.ends.set(h.client.keeper.begun, h.granted, h.renewal.Validity)
		h.said.Store(nil)
	}
	return act
}

// lose ends the context because the lock is lost, and tells who listens. Only the first cause counts. It waits for nothing,
// and calls nothing of the group's.
func (h *Hold) lose(refused bool) {
	why := lostError(h.lock.resource, refused, h.said.Load(), h.client.keeper.addrs)
	h.cancel(why)
	if context.Cause(h.context) == error(why) {
		until := h.client.keeper.clock().at
		if end := h.end(); end.Before(until) {
			until = end
		}
		h.client.holdLost(HoldInfo{Resource: h.lock.resource, Since: h.begun.at, Until: until, Err: why.anonymous()})
	}
}

// end is when the validity ends, by the local clock. It takes no mutex.
func (h *Hold) end() time.Time {
	return h.client.keeper.begun.at.Add(time.Duration(h.ends.monotonic.Load()))
}

// judge ends the context if the clocks say that the validity is over.
func (h *Hold) judge() {
	if h.inner.Err() != nil {
		return
	}
	if k := h.client.keeper; h.ends.remaining(k.begun, k.clock()) <= 0 {
		h.lose(false)
	}
}

// holdEnds are when a validity ends, by each clock, from some beginning on. One who reads them while they are changed finds for
// each clock the end before or the end after the change, both of which were granted.
type holdEnds struct{ monotonic, wall, awake atomic.Int64 }

func (e *holdEnds) set(zero, granted instant, validity time.Duration) {
	monotonic := granted.at.Sub(zero.at)
	wall, slept := granted.ahead(zero)
	e.monotonic.Store(int64(monotonic + validity))
	e.wall.Store(int64(monotonic + wall + validity))
	e.awake.Store(int64(monotonic + slept + validity))
}

// remaining is the time until the end by the clock that says least.
func (e *holdEnds) remaining(zero, now instant) time.Duration {
	monotonic := now.at.Sub(zero.at)
	wall, slept := now.ahead(zero)
	return min(
		time.Duration(e.monotonic.Load())-monotonic,
		time.Duration(e.wall.Load())-monotonic-wall,
		time.Duration(e.awake.Load())-monotonic-slept,
	)
}
