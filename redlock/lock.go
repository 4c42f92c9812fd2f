package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A Lock is a resource granted for a time. It is an immutable value, cheap to
// copy; Extend returns another one. The zero Lock is not held.
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

// Token returns the value of the lock's keys. After it was read, the lock is
// not handed over to another caller of the client (see Release). So the token
// stays this holder's alone, and another process may release the lock with it.
// For a lock handed over before, Token returns the zero Token.
func (l Lock) Token() Token {
	if l.client == nil || !l.tenure.rise(tenureShown, 0) {
		return Token{}
	}
	return l.grant.Token.Unveil()
}

// Label returns the HoldOptions.Label of the lock, "" without one.
func (l Lock) Label() string { return l.grant.Label }

// Fence returns the lock's fencing number: higher than that of every lock for
// this resource, or any of several, granted before the request for this one.
// docs/fencing.md has the conditions. Pass it along with each write, and let
// the protected resource refuse a lower number than it has seen. It is 0
// without Config.Fenced, for an adopted lock, and for the locks of an RWLock,
// Semaphore and Fair.
func (l Lock) Fence() uint64 {
	if l.client == nil || !l.kind.Traits().Numbered {
		return 0
	}
	return uint64(l.grant.Number)
}

// Until returns the end of the validity, by the local clock, and the zero time
// for a lock handed over.
func (l Lock) Until() time.Time {
	if l.tenure.handed() {
		return time.Time{}
	}
	return l.until
}

// Validity returns what remains of the time for which the lock was granted.
// With zero or less, the lock may no longer be held. Validity reads the
// monotonic and the wall clock, and returns the smaller remainder (R4, R15); it
// asks no node. It is zero for a lock handed over. A Lock is a value and does
// not know of its release at the nodes; Hold.Validity does.
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
// The error is ErrExpired if the grants came too late, ErrNotHeld for a lock no
// longer held, and ErrNoQuorum for too few answers; others are as for
// TryAcquire. With an error, Extend returns the lock as it was: valid for as
// long as before, and still to be released.
func (l Lock) Extend(ctx context.Context, ttl time.Duration) (Lock, error) {
	if l.client == nil {
		return l, ErrNotHeld
	}
	must(ctx != nil, noContext)
	start := startIf(l.client.tracer.ExtendDone != nil)
	longer, err := l.extend(ctx, ttl)
	l.client.stats.extensions.count(err)
	if done := l.client.tracer.ExtendDone; done != nil {
		trace(ctx, done, CallInfo{Resource: l.grant.Name, TTL: ttl, Start: start, Validity: longer.Validity(), Err: err})
	}
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
	granted, err := c.group.Extend(ctx, kind, &multiplex.Command{
		Encoded: encoded,
		TTL:     max(l.grant.TTL, ttl), // the longest that the keys may live
		Receipt: l.grant.Receipt,       // see multiplex.Receipt.Doubted (R23)
		Ends:    l.until,
	})
	if err != nil {
		return Lock{}, c.failed(ctx, translate(err, ErrNotHeld), nil)
	}
	longer := l
	longer.grant.TTL = max(l.grant.TTL, ttl)
	longer.until = pure.Later(l.until, start.Add(ttl-pure.Drift(ttl, c.config.DriftFactor)))
	longer.votedBy(granted, l.until)
	switch left := l.Validity(); {
	case l.tenure.handed(): // meanwhile: the keys are another caller's
		return Lock{}, ErrNotHeld
	case left <= 0:
		return Lock{}, ErrExpired
	}
	return longer, nil
}

// votedBy takes in which nodes granted an extension of a lock that lasted until
// was. An extension that did not lengthen the lock leaves it as it was: of the
// nodes, only those that voted both times have votes up to both ends.
func (l *Lock) votedBy(nodes multiplex.Set, was time.Time) {
	if !l.until.After(was) {
		nodes &= l.grant.Receipt.Voted
	}
	l.grant.Receipt.Voted = nodes
}

// promised returns the longest TTL of this lock and its copies, with the TTL
// requested now. An extension gives it to a key without its own (PERSIST by
// hand): none may end too early (R10). Copies within the client share a tenure.
// Others are unknown: those of a lock without a tenure, and in another process,
// after a reading of the token. MaxTTL bounds their TTL; without this bound, it
// is a day at least.
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
// held the lock. It is ErrNotHeld if not: work may have been done without the
// lock. It is ErrNoQuorum for an unknown outcome: nodes that are down get the
// release later (R8). It is a CancelledError if ctx ended before the answers,
// and ErrClosed after Close. Releasing twice is harmless.
//
// Release returns after a quorum has answered (R5): call Client.Close before
// os.Exit, and the others get it too. Between two callers of this client that
// had to wait, Release hands the lock over and asks no node (Config.HandOver):
// from then on this Lock and its copies are not held.
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

// giveBack sends the command to end a lock and waits for the answers. The next
// caller of this client is called once the command is queued: its SET stands
// behind it. With the keys left in place by MinHold, the attempt of this caller
// fails, and it asks the nodes for the time of their expiry. After a hand-over
// the keys are another caller's: nothing is sent, and the error is ErrNotHeld.
func (c *Client) giveBack(
	ctx context.Context, l *Lock, as *multiplex.ReleaseKind, command *multiplex.Command,
) (err error) {
	if !l.tenure.rise(tenureReleased, 0) {
		return ErrNotHeld
	}
	c.rivals.released(l)
	kind.Freed(l.kind, &l.grant)
	if c.awaited(l) {
		lock := *l // on the heap only here
		err = c.group.HandOver(ctx, as, command, func() { c.released(&lock) })
	} else {
		err = c.group.Release(ctx, as, command)
	}
	if err == nil {
		return nil
	}
	return c.failed(ctx, translate(err, ErrNotHeld), nil)
}

// Adopt returns a Lock acquired, or last extended, and handed over by another
// process: the resource, the token, the label, the TTL and the end of the
// validity. It asks no node; Extend and Release find out whether the lock is
// still held. The client must have the Config.Owner of the first client with
// the lock. The error is ErrResource, ErrTTL, or ErrHoldOptions for the label.
//
// until is trusted, so it must come from a clock of both processes, never from
// another machine. A parsed time has only the wall clock (R4): with another
// clock, such as CLOCK_BOOTTIME, pass time.Now plus the smallest remainder by
// any. With an until of zero, or later than the TTL allows, the lock has no
// validity and can only be released.
//
// The first process may still use its own Lock. An extension does not count on
// a node now in quarantine (R23). Lock.Fence is 0: pass the number on too.
func (c *Client) Adopt(resource string, token Token, label string, ttl time.Duration, until time.Time) (Lock, error) {
	c.made()
	ttl, err := c.config.checkLock(c.kinds.Plain(), resource, ttl)
	if err = cmp.Or(err, checkLabel(label)); err != nil {
		return Lock{}, named(resource, err)
	}
	if longest := ttl - pure.Drift(ttl, c.config.DriftFactor); pure.Remaining(until, time.Now()) > longest {
		until = time.Time{}
	}
	// Any node may have the key, perhaps since its quarantine. Receipt.Pos is
	// zero, the first: a release is repeated after the end of its connection.
	every := multiplex.All(len(c.config.Nodes))
	anywhere := multiplex.Receipt{Sent: every, Doubted: every}
	lock := c.wanted(c.kinds.Plain(), resource, ttl)
	lock.grant.Value = wire.Value{Token: wire.Veil(token), Label: label}
	lock.grant.Receipt, lock.until = anywhere, until
	return lock, nil
}

// A Token is the value of a lock's keys, new for each attempt (R3): 27
// characters of base64url. A client that knows it can release the lock, so only
// Reveal returns it as text (R27). It is not a fencing number: tokens have no
// order.
type Token [pure.TokenText]byte

// Reveal returns the token's 27 characters, to pass them to another process,
// which parses them with ParseToken. They are secret: a client that knows them
// can release the lock.
func (t Token) Reveal() string { return string(t[:]) }

// ErrToken is returned for a text that is not a token. The error does not show
// the text (R27).
var ErrToken = errors.New("redlock: a token is 27 characters of base64url (A-Z, a-z, 0-9, - and _)")

// ParseToken is the inverse of Token.Reveal. The error is ErrToken.
func ParseToken(text string) (Token, error) {
	var token Token
	if len(text) != len(token) {
		return Token{}, ErrToken
	}
	// The decoder skips line breaks, so the number of bytes is checked too.
	var random [wire.TokenBytes]byte
	if n, err := wire.TokenEncoding.Decode(random[:], []byte(text)); err != nil || n != len(random) {
		return Token{}, ErrToken
	}
	copy(token[:], text)
	return token, nil
}

// Fingerprint returns a hash of the token that may be shown. It identifies the
// holder in an Inspection, and serves no other purpose.
func (t Token) Fingerprint() string { return pure.Fingerprint(t[:]) }
