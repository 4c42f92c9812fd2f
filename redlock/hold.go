package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A Hold is a lock with renewal until its release, its bound or its loss (R13).
// Work under it must stop at the end of its context. All methods may be called
// from any goroutine; methods of a nil or zero *Hold panic.
//
// A hold has no goroutine and no timer of its own: one goroutine of the client
// renews all holds. A hold must be released, even after its context has ended:
// a forgotten one is renewed forever.
type Hold struct {
	client  *Client
	options HoldOptions
	// begun is when the granted attempt began, or the lock was handed over.
	begun   instant
	own     tenure          // of the lock, if that has none already
	inner   context.Context // as package context made it
	context holdContext     // what Context returns
	cancel  context.CancelCauseFunc
	ends    holdEnds
	// said is the outcome of the last renewal, or nil if granted.
	said atomic.Pointer[account]

	// mu guards the following. The group may be called while it is held, but
	// see holdContext.Err.
	mu   sync.Mutex
	lock Lock
	// The validity counts from granted, the beginning of the last granted
	// attempt or renewal. asked is that of the renewal in flight.
	granted, asked instant
	renewal        pure.Renewal
	// unsure is the set of nodes first reached since their quarantine by the
	// renewal in flight.
	unsure   multiplex.Set
	entrance entrance
	detached bool // by Detach

	// The following are guarded by the keeper's mutex.
	place pure.Place // in the schedule
	gone  bool       // removed from the schedule for good
	slot  int        // in keeper.held
}

// Hold locks a resource, waiting for it as Acquire does, and keeps it until
// Release. ctx bounds only the wait. The hold has its values, but neither its
// cancellation nor its deadline: a deadline for waiting must not end the work.
// The errors are those of Acquire, and ErrHoldOptions. The caller must release
// the Hold.
func (c *Client) Hold(ctx context.Context, resource string, options HoldOptions) (*Hold, error) {
	return c.Lock(resource).Hold(ctx, options)
}

// errSlept is ErrExpired for a lock granted in time, but perhaps expired during
// a sleep of the machine.
var errSlept = fmt.Errorf("%w", ErrExpired)

// hold acquires a lock and gives it to the keeper.
func (c *Client) hold(
	ctx context.Context, l Locker, o HoldOptions, acquire func(ttl time.Duration) (Lock, error),
) (*Hold, error) {
	c.called(ctx)
	o, err := o.check(c, l.kind.Traits().Alone)
	if err != nil {
		return nil, err
	}
	// Between the grant and keeper.keep the lock belongs to this goroutine
	// alone, and it may be descheduled: Close must not end the connections
	// before the lock can be given back.
	c.group.DelayClose(1)
	defer c.group.DelayClose(-1)
	before := c.keeper.clock()
	lock, err := acquire(o.TTL)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		c.abandon(lock) // the grant came before the end was seen
		return nil, cancelledError(ctx, nil)
	}
	// The lock knows two clocks. If the third has moved, it is unknown whether
	// that was before or after the attempt began.
	granted := instant{lock.until.Add(pure.Drift(o.TTL, c.config.DriftFactor) - o.TTL), before.slept}
	begun := granted
	if t := lock.tenure; t != nil {
		begun.at = t.begun
	}
	h := c.newHold(ctx, lock, granted, begun, o)
	if left := h.Validity(); left <= 0 || left < c.config.MinValidity {
		c.abandon(lock)
		return nil, errSlept
	}
	if !c.keeper.keep(h) {
		c.abandon(lock)
		return nil, ErrClosed
	}
	return h, nil
}

// abandon releases a lock without a caller (R7), and then calls the next
// waiting caller of this client: its SET stands behind the release.
func (c *Client) abandon(lock Lock) {
	r := newRounds(&lock)
	defer r.recycle()
	kind, command := r.release()
	c.group.Tell(kind, &command)
	c.released(&lock)
}

// newHold returns the hold of a lock with a validity from granted on, and with
// bounds that count from begun.
func (c *Client) newHold(ctx context.Context, lock Lock, granted, begun instant, o HoldOptions) *Hold {
	validity := o.TTL - pure.Drift(o.TTL, c.config.DriftFactor)
	h := &Hold{client: c, options: o, begun: begun, lock: lock, granted: granted, slot: unplaced}
	if lock.tenure == nil {
		h.own.begun, h.own.streak = granted.at, c.streakAfter(yielding{}, granted.at)
		h.lock.tenure = &h.own
	}
	h.lock.tenure.rise(tenureKept, o.TTL)
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.inner, h.context, h.cancel = inner, holdContext{inner, h, cancel}, cancel
	age := h.begun.at.Sub(granted.at)
	h.renewal = pure.NewRenewal(validity, pure.Added(o.bound(), age), !o.NoRenewal)
	if !pure.Young(validity-age, validity) {
		h.renewal = h.renewal.AtOnce()
	}
	h.ends.set(c.keeper.begun, granted, validity)
	return h
}

// Context returns the context of the work. It ends with the hold: by Release,
// by MaxHold, by Client.Close, or, without a renewal in time, a little before
// the validity ends, by the local clocks alone (R13). context.Cause returns
// ErrReleased, ErrMaxHold, ErrClosed, or a *LostError. It has the values of the
// context passed to Hold.
//
// Done and Err read the clocks, so they report a lost lock even if the process
// was stopped and continues (R15). Derived contexts follow some time later, by
// a timer: work that must not go on for so long must call Err of this context,
// or Hold.Err.
func (h *Hold) Context() context.Context {
	h.made()
	return &h.context
}

// Err returns nil while the lock is held, and then the reason of its end, the
// cause of Context. It reads the clocks (R15).
func (h *Hold) Err() error {
	h.made()
	h.judge()
	return context.Cause(h.inner)
}

// Current returns the lock as it is now, to be inspected. To end the hold,
// release the Hold: releasing the Lock does not end the renewal.
func (h *Hold) Current() Lock {
	h.made()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unsureOf(h.lock)
}

// unsureOf returns a copy of the lock for the user. It does not learn of later
// healing (R23).
func (h *Hold) unsureOf(lock Lock) Lock {
	if h.options.Heal {
		lock.grant.Receipt.Doubted = multiplex.All(len(h.client.config.Nodes))
	}
	return lock
}

// Resource returns the resource as Lock.Resource does.
func (h *Hold) Resource() string {
	h.made()
	return h.lock.grant.Name // it never changes
}

// Until returns the end of the validity without a further renewal, by the local
// clock.
func (h *Hold) Until() time.Time { return h.Current().until }

// Validity returns how long the lock is certain to be held: zero or less after
// its loss or release. It reads the clocks, also of a sleep (R4, R15).
func (h *Hold) Validity() time.Duration {
	h.made()
	left := h.ends.remaining(h.client.keeper.begun, h.client.keeper.clock())
	if cause := context.Cause(h.inner); cause != nil && !errors.Is(cause, ErrMaxHold) && !errors.Is(cause, ErrClosed) {
		return min(left, 0)
	}
	return left
}

// Release ends the renewal and the context, and then releases the lock as
// Lock.Release does, or hands it over, with the same errors: ErrNotHeld means
// an earlier loss. With MinHold the keys stay for the rest of that time.
// Releasing twice is harmless.
func (h *Hold) Release(ctx context.Context) error {
	h.made()
	must(ctx != nil, noContext)
	lock, end := h.finish(ErrReleased)
	h.client.keeper.forget(h)
	if h.isDetached() {
		return named(lock.grant.Name, ErrNotHeld)
	}
	start := startIf(h.client.tracer.ReleaseDone != nil)
	var err error
	if h.stands() > 0 || !h.client.handOver(&lock, tenureKept, end) {
		r := newRounds(&lock)
		defer r.recycle()
		kind, command := h.undo(r)
		err = h.client.giveBack(ctx, &lock, kind, &command)
	}
	h.client.keeper.strike(h)
	lock.releaseDone(ctx, start, err)
	return named(lock.grant.Name, err)
}

func (h *Hold) isDetached() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.detached
}

// finish ends the renewal and the context. It returns the lock and the end of
// the validity confirmed by a quorum, or zero after an earlier end. No renewal
// is queued after it. One in flight is not awaited: it can only lengthen the
// lives of keys before their release.
func (h *Hold) finish(cause error) (lock Lock, end instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel(cause) // without effect if another cause came first
	if h.renewal.Held() && context.Cause(h.inner) == cause {
		end = instant{h.granted.at.Add(h.renewal.Validity), h.granted.slept}
	}
	h.renewal, _ = h.renewal.On(pure.OnEnd, 0, 0)
	return h.lock, end
}

// undo returns the command to end a lock: a release, or within MinHold a
// command to shorten the lives of the keys to the rest of MinHold.
func (h *Hold) undo(r *rounds) (*multiplex.ReleaseKind, multiplex.Command) {
	kind, command := r.release()
	if rest := h.stands(); rest > 0 {
		// The command has whole milliseconds, and cuts off less than one.
		rest = rest + pure.Drift(rest, h.client.config.DriftFactor) + time.Millisecond
		kind, command.Encoded = h.client.kinds.Shorten(&r.grant, r.room[:0], rest)
	}
	return kind, command
}

// stands returns for how long MinHold still keeps the keys, or zero or less. It
// uses the monotonic clock, the slowest across a suspend: other clients wait
// long enough.
func (h *Hold) stands() time.Duration {
	if h.options.MinHold == 0 {
		return 0
	}
	return h.options.MinHold - h.client.keeper.clock().at.Sub(h.begun.at)
}

// stepLocked feeds an event to the renewal. The caller must hold h.mu.
func (h *Hold) stepLocked(e pure.RenewalEvent, now instant, jitter float64) (act pure.RenewalAction) {
	h.renewal, act = h.renewal.On(e, now.since(h.granted), jitter)
	if act == pure.ToProlong {
		h.granted = h.asked
		h.lock.until = pure.Later(h.lock.until, h.granted.at.Add(h.renewal.Validity))
		h.ends.set(h.client.keeper.begun, h.granted, h.renewal.Validity)
		h.said.Store(nil)
	}
	return act
}

// lose ends the context of a lost lock, and reports the loss. Only the first
// cause counts. It never blocks, and calls nothing of the group.
func (h *Hold) lose(notHeld bool) {
	why := lostError(h.lock.grant.Name, notHeld, h.said.Load(), h.client.keeper.addrs)
	h.cancel(why)
	if context.Cause(h.inner) == error(why) {
		if notHeld {
			h.client.stats.lostNotHeld.Add(1)
		} else {
			h.client.stats.lostExpired.Add(1)
		}
		until := h.client.keeper.clock().at
		if end := h.end(); end.Before(until) {
			until = end
		}
		h.client.holdLost(HoldInfo{Resource: h.lock.grant.Name, Since: h.begun.at, Until: until, Err: why.anonymous()})
	}
}

// end returns the end of the validity by the local clock. It takes no mutex.
func (h *Hold) end() time.Time {
	return h.client.keeper.begun.at.Add(time.Duration(h.ends.monotonic.Load()))
}

// judge ends the context if the validity is over by any clock.
func (h *Hold) judge() {
	if h.inner.Err() != nil {
		return
	}
	if k := h.client.keeper; h.ends.remaining(k.begun, k.clock()) <= 0 {
		h.lose(false)
	}
}

// holdEnds is when a validity ends, by each clock, relative to keeper.begun. A
// reader during a change finds, for each clock, the end from before or after
// the change; both were granted.
type holdEnds struct{ monotonic, wall, awake atomic.Int64 }

func (e *holdEnds) set(zero, granted instant, validity time.Duration) {
	monotonic := granted.at.Sub(zero.at)
	wall, slept := granted.ahead(zero)
	e.monotonic.Store(int64(monotonic + validity))
	e.wall.Store(int64(monotonic + wall + validity))
	e.awake.Store(int64(monotonic + slept + validity))
}

// remaining returns the time to the end, the least by any clock.
func (e *holdEnds) remaining(zero, now instant) time.Duration {
	monotonic := now.at.Sub(zero.at)
	wall, slept := now.ahead(zero)
	return min(
		time.Duration(e.monotonic.Load())-monotonic,
		time.Duration(e.wall.Load())-monotonic-wall,
		time.Duration(e.awake.Load())-monotonic-slept,
	)
}

// HoldOptions says how a lock is held. Every field may be zero.
type HoldOptions struct {
	// Label says what the lock is for, beside Config.Owner: people see it in an
	// Inspection, redlock status and list, and others that wait in HeldError.
	// It is in the values of the lock's keys, so it is readable by all users of
	// the nodes: 1 to 64 bytes of printable ASCII, with blanks only in between,
	// and no secret. A lock is not handed over to a caller with another label
	// (Config.HandOver), and Keep cannot change it. If zero, there is none.
	Label string
	// TTL is how long the lock outlives a crashed client: the life of its keys,
	// counted from the last renewal. A shorter TTL is renewed more often, at a
	// third of the validity. If zero, the lesser of ten seconds and
	// Config.MaxTTL.
	TTL time.Duration
	// MaxWait bounds the wait of Hold and DoWith for the lock, and leaves ctx
	// to bound the work of DoWith; see Config.MaxWait. TryHold does not wait.
	// If zero, Config.MaxWait.
	MaxWait time.Duration
	// MaxHold bounds how long the context lasts, counted from the grant. If
	// zero, it is unbounded.
	MaxHold time.Duration
	// NoRenewal leaves the lock as it was granted: the context ends with its
	// validity. If zero, the lock is renewed.
	NoRenewal bool
	// MinHold keeps other clients out for at least this long after the grant,
	// even after an earlier release. So a job started by many schedulers at the
	// same time runs once, however short it is. It is at most the TTL. If zero,
	// a release takes effect at once.
	MinHold time.Duration
	// Heal makes each renewal set the key again on nodes that forgot it, but
	// not over another client's (R10). So a lock survives restarts one after
	// another, even of more nodes than a quorum can spare. Do not use it with
	// Config.Forgetful: after too many restarts at once, a hold would not
	// notice that another client had the lock. If zero, a missing key is a
	// refusal.
	Heal bool
	// Reentrant makes DoWith run its function under the hold that ctx comes
	// from. The hold must have all of its resources, and not have ended. No
	// node is asked, and the other options have no effect. The call with the
	// lock releases it, after all functions have returned. Hold and TryHold
	// return ErrHoldOptions. If zero, such a call is ErrNested.
	Reentrant bool
}

// defaultHoldTTL is for a zero HoldOptions.TTL.
const defaultHoldTTL = 10 * time.Second

// ErrHoldOptions is returned for HoldOptions that cannot work; the error says
// why. Nothing was sent.
var ErrHoldOptions = errors.New("redlock: bad options for a hold")

// check returns the options with their defaults, for a lock that is Alone or
// not: see kind.Traits.
func (o HoldOptions) check(c *Client, alone bool) (HoldOptions, error) {
	if !alone && o.single() {
		return o, errHoldForm
	}
	if o.TTL == 0 {
		o.TTL = defaultHoldTTL
		if c.config.MaxTTL > 0 {
			o.TTL = min(o.TTL, c.config.MaxTTL)
		}
	}
	ttl, err := c.config.checkTTL(o.TTL)
	if err != nil {
		return o, err
	}
	o.TTL = ttl
	negative := cmp.Or(
		errtext.Negative("MaxWait", o.MaxWait), errtext.Negative("MaxHold", o.MaxHold),
		errtext.Negative("MinHold", o.MinHold),
	)
	switch {
	case o.Reentrant:
		return o, errReentrant
	case negative != nil:
		return o, fmt.Errorf("%w: %w", ErrHoldOptions, negative)
	case o.MinHold > ttl:
		return o, fmt.Errorf("%w: MinHold %v is longer than the TTL, %v", ErrHoldOptions, o.MinHold, ttl)
	}
	return o, checkLabel(o.Label)
}

// checkLabel refuses what cannot be in the value of a key.
func checkLabel(label string) error {
	if err := pure.CheckLabel("the Label", label); err != nil {
		return fmt.Errorf("%w: %w", ErrHoldOptions, err)
	}
	return nil
}

// bound returns MaxHold as pure.NewRenewal takes it.
func (o HoldOptions) bound() time.Duration {
	if o.MaxHold == 0 {
		return pure.Never
	}
	return o.MaxHold
}

// single reports whether the options are for a hold on a single resource.
func (o HoldOptions) single() bool { return o.MinHold != 0 || o.Heal }

var errHoldForm = fmt.Errorf("%w: MinHold and Heal are for a plain lock on a single resource", ErrHoldOptions)

// An instant is a reading of all clocks at once: the wall clock, the monotonic
// one, which may stand still during a sleep of the machine, and the time slept,
// where the system tells (R4, R13).
type instant struct {
	at    time.Time // wall and monotonic
	slept time.Duration
}

func readClocks() instant { return instant{time.Now(), slept()} }

// since returns the time from one reading to another, the most by any clock. An
// error in this direction can only cost a lock.
func (i instant) since(start instant) time.Duration {
	return max(pure.Elapsed(start.at, i.at), i.at.Sub(start.at)+i.slept-start.slept)
}

// ahead returns by how much the other clocks have run ahead of the monotonic
// one since start. Timers do not follow them.
func (i instant) ahead(start instant) (wall, slept time.Duration) {
	return i.at.Round(0).Sub(start.at.Round(0)) - i.at.Sub(start.at), i.slept - start.slept
}

// left returns the time from now to i, the least by any clock.
func (i instant) left(now instant) time.Duration {
	return min(pure.Remaining(i.at, now.at), i.at.Sub(now.at)-(now.slept-i.slept))
}
