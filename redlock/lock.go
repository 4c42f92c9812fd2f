package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
)

// A Lock is a resource that was granted for a time. It is an immutable value
// that is cheap to copy; Extend returns another one. The zero Lock is not held.
//
// A lock is a promise within its validity only. Work that takes longer must
// extend it in time. Work that must not continue after its end must call
// Validity before each step: the process may have been stopped since (R15).
type Lock struct {
	client *Client
	kind   kind.Kind
	grant  kind.Grant
	until  time.Time // by both clocks
	tenure *tenure   // nil for a lock that is not handed over within the client
}

// Resource returns the resource, without the prefix; of several, a text with
// all of them, for people. See Resources.
func (l Lock) Resource() string { return l.grant.Name }

// Resources returns the lock's resources, without the prefix.
func (l Lock) Resources() []string {
	if l.client == nil {
		return []string{""}
	}
	return slices.Clone(kind.Names(l.kind, l.grant.Name))
}

// Token returns the value of the lock's keys. A lock whose token was read is
// not handed over to another caller of the client (see Release). So the token
// stays this holder's alone, and another process may release the lock with it.
// If the lock was handed over before, the token is another holder's, and Token
// returns the zero Token.
func (l Lock) Token() Token {
	if l.client == nil || !l.tenure.rise(tenureShown, 0) {
		return Token{}
	}
	return l.grant.Token.Unveil()
}

// Fence returns the lock's fencing number: higher than that of every lock for
// this resource, or any of several, that was granted before it was asked for,
// under the conditions of docs/fencing.md. Pass it along with each write, and
// let the protected resource refuse a write whose number is lower than one that
// it has seen. It is 0 without Config.Fenced, for an adopted lock, and for the
// locks of an RWLock, Semaphore and Fair, which have no number.
func (l Lock) Fence() uint64 {
	if l.client == nil || !l.kind.Traits().Numbered {
		return 0
	}
	return uint64(l.grant.Number)
}

// Until returns when the validity ends, by the local clock: the zero time if
// the lock was handed over.
func (l Lock) Until() time.Time {
	if l.tenure.handed() {
		return time.Time{}
	}
	return l.until
}

// Validity returns what remains of the time for which the lock was granted.
// Zero or less means that the lock may no longer be held. Validity reads the
// monotonic and the wall clock, and returns the smaller remainder (R4, R15); it
// asks no node. It is zero if the lock was handed over. A Lock is a value and
// does not know of its release at the nodes; Hold.Validity does.
func (l Lock) Validity() time.Duration {
	if l.client == nil || l.tenure.handed() {
		return 0
	}
	return pure.Remaining(l.until, time.Now())
}

// Extend makes the lock last for the TTL from now on, and never shortens it
// (R10). The new lock counts only if a quorum granted it before the old
// validity ended.
//
// The error is ErrExpired if the grants came too late, ErrNotHeld if the lock
// is no longer held, and ErrNoQuorum if too few nodes answered; others are as
// for TryAcquire. With an error, Extend returns the lock as it was: valid for
// as long as before, and still to be released.
func (l Lock) Extend(ctx context.Context, ttl time.Duration) (Lock, error) {
	if l.client == nil {
		return l, ErrNotHeld
	}
	must(ctx != nil, noContext)
	start := startIf(l.client.tracer.ExtendDone != nil)
	longer, err := l.extend(ctx, ttl)
	l.extendDone(ctx, longer, ttl, start, err)
	if err != nil {
		return l, named(l.grant.Name, err)
	}
	return longer, nil
}

// extend is Extend without counting and tracing. With an error, it returns the
// zero Lock.
func (l Lock) extend(ctx context.Context, ttl time.Duration) (Lock, error) {
	start := time.Now()
	ttl, err := l.client.config.checkTTL(ttl)
	if err != nil {
		return Lock{}, err
	}
	if pure.Remaining(l.until, start) <= 0 || !l.tenure.rise(tenureHeld, ttl) {
		return Lock{}, ErrNotHeld // no answer could make it ours without a gap (R15)
	}
	c := l.client
	r := newRounds(&l)
	defer r.recycle()
	kind, encoded := r.kind.Extend(&r.grant, r.room[:0], ttl, l.promised(ttl))
	err = c.group.Extend(ctx, kind, &multiplex.Command{
		Encoded: encoded,
		TTL:     max(l.grant.TTL, ttl), // the longest that the keys may live
		Receipt: l.grant.Receipt,       // see multiplex.Receipt.Doubted (R23)
	})
	if err != nil {
		return Lock{}, c.failed(ctx, translate(err, ErrNotHeld), nil)
	}
	longer := l
	longer.grant.TTL = max(l.grant.TTL, ttl)
	longer.until = pure.Later(l.until, start.Add(ttl-pure.Drift(ttl, c.config.DriftFactor)))
	switch left := l.Validity(); {
	case l.tenure.handed(): // meanwhile: the keys are another caller's
		return Lock{}, ErrNotHeld
	case left <= 0:
		return Lock{}, ErrExpired
	}
	return longer, nil
}

// promised returns the longest TTL that this lock, or a copy of it, may have
// been granted, if the TTL is asked for now: what an extension gives to a key
// that has lost its own (PERSIST by hand), so that none ends too early (R10).
// Copies within the client share a tenure, which knows. Others are not known:
// those of a lock without a tenure, and in another process, once the token was
// read. Then MaxTTL bounds what they asked for; where TTLs have no such bound,
// it is a day at least.
func (l *Lock) promised(ttl time.Duration) time.Duration {
	if l.tenure != nil {
		if state, longest := l.tenure.load(); state < tenureShown {
			return max(ttl, longest)
		}
	}
	if config := l.client.config; config.MaxTTL > 0 && !config.Allow.OtherMaxTTL {
		return config.MaxTTL
	}
	return max(ttl, l.grant.TTL, 24*time.Hour)
}

// Release releases the lock on every node (R9). The command is queued before
// Release returns, even if ctx has ended. The error is nil if a quorum still
// held the lock; ErrNotHeld if not, so work may have been done without the
// lock; and ErrNoQuorum if that is unknown: nodes that are down get the release
// when they are back (R8). It is a CancelledError if ctx ended before the
// answers, and ErrClosed if the client is closed. Releasing twice is harmless.
//
// Release returns when a quorum has answered (R5): call Client.Close before
// os.Exit, so that the others get it too. If a caller of this client waits for
// the resource, and this one had waited too, Release hands the lock over and
// asks no node (Config.HandOver): from then on this Lock and its copies are not
// held.
func (l Lock) Release(ctx context.Context) error {
	if l.client == nil {
		return ErrNotHeld
	}
	must(ctx != nil, noContext)
	start := startIf(l.client.tracer.ReleaseDone != nil)
	var err error
	if !l.client.handOver(&l, tenureHeld, l.end()) {
		r := newRounds(&l)
		defer r.recycle()
		kind, command := r.release()
		err = l.client.giveBack(ctx, &l, kind, &command)
	}
	l.releaseDone(ctx, start, err)
	return named(l.grant.Name, err)
}

// end returns the end of the validity, as an instant.
func (l *Lock) end() instant {
	if l.tenure == nil {
		return instant{at: l.until}
	}
	return instant{l.until, l.tenure.slept}
}

// giveBack sends the command that ends a lock and waits for the answers. If a
// caller of this client waits for the resource, it is called once the command
// is queued, so that its SET stands behind that. If MinHold leaves the keys in
// place, that caller's attempt fails, and it asks the nodes when they expire.
// If the lock was handed to another caller, the keys are that caller's: nothing
// is sent, and the error is ErrNotHeld.
func (c *Client) giveBack(
	ctx context.Context, l *Lock, as *multiplex.ReleaseKind, command *multiplex.Command,
) (err error) {
	if !l.tenure.rise(tenureReleased, 0) {
		return ErrNotHeld
	}
	c.rivals.released(l)
	kind.Freed(l.kind, &l.grant)
	if c.awaited(l) {
		err = c.group.HandOver(ctx, as, command, c.handover(*l))
	} else {
		err = c.group.Release(ctx, as, command)
	}
	if err == nil {
		return nil
	}
	return c.failed(ctx, translate(err, ErrNotHeld), nil)
}

// tellRelease queues the release of a lock that no caller gets (R7).
func (c *Client) tellRelease(l *Lock) {
	r := newRounds(l)
	defer r.recycle()
	kind, command := r.release()
	c.group.Tell(kind, &command)
}
