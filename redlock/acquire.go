package redlock

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// TryAcquire tries once to lock a resource for the TTL, which is truncated to
// whole milliseconds. It waits until a quorum of nodes has granted the lock or
// no longer can (R5), at most for the vote timeout of the slowest node (R6).
//
// The error is ErrHeld, ErrNoQuorum, ErrExpired, ErrOverloaded, ErrClosed,
// ErrResource, ErrTTL, or a CancelledError after the end of ctx. With an error,
// the release is queued for every node (R7), so no key is left behind; but call
// Close before os.Exit, since another goroutine may be writing it. Of several
// clients at one time, all may get ErrHeld: for one to win, use Acquire with a
// short Config.MaxWait.
func (c *Client) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	return c.Lock(resource).TryAcquire(ctx, ttl)
}

// wanted returns what attempt fills in.
func (c *Client) wanted(k kind.Kind, name string, ttl time.Duration) Lock {
	return Lock{client: c, kind: k, grant: kind.Grant{Name: name, TTL: ttl}}
}

// try makes one attempt, and counts and traces it. lock is as attempt wants it.
func (c *Client) try(ctx context.Context, try int, lock *Lock) error {
	c.called(ctx)
	resource, ttl := lock.grant.Name, lock.grant.TTL
	start := startIf(c.tracer.AttemptDone != nil)
	err := c.attempt(ctx, lock)
	c.stats.attempts.count(err)
	if err == nil || isHeld(err) {
		c.stalls.over()
	}
	if done := c.tracer.AttemptDone; done != nil {
		trace(ctx, done, CallInfo{Resource: resource, TTL: ttl, Tries: try, Start: start, Validity: lock.Validity(), Err: err})
	}
	return err
}

// attempt is one attempt for a lock of any kind, without counting and tracing.
// lock has the wanted resources and TTL. It is filled in where it stands, since
// it is large, and is zero after an error.
func (c *Client) attempt(ctx context.Context, lock *Lock) error {
	r := newRounds(lock)
	defer r.recycle()
	refusal, err := r.kind.Attempt(ctx, r, &r.grant)
	switch {
	case refusal != nil && r.kind.Traits().Continues:
		err = ErrNotHeld // the key of the lock before was not there
	case refusal != nil && refusal.Bare:
		err = ErrHeld
	case refusal != nil:
		f := refusal
		err = &HeldError{Resource: f.Resource, Owner: f.Owner, Label: f.Label, Place: f.Place, Admitted: f.Admitted, key: f.Key, soon: f.Soon}
	}
	if err != nil {
		*lock = Lock{}
		return err
	}
	lock.grant, lock.until = r.grant, r.until
	return nil
}

// rounds are what an attempt needs in memory, or the one round of an extension
// or a release. They come from a pool: behind an interface nothing stays on the
// stack.
type rounds struct {
	client *Client
	kind   kind.Kind
	grant  kind.Grant
	until  time.Time // when the validity ends
	said   kind.Said
	// room is for commands: enough for one with three keys of up to 100 bytes.
	room [448]byte

	// Made once.
	undo func(dst []byte) multiplex.Encoded
	told func(node int, text []byte)
}

var roundsPool = sync.Pool{New: func() any {
	r := &rounds{}
	r.undo = func(dst []byte) multiplex.Encoded {
		_, release := r.kind.Release(&r.grant, dst)
		return release
	}
	r.told = r.said.Hear
	return r
}}

func newRounds(lock *Lock) *rounds {
	r := roundsPool.Get().(*rounds)
	r.client, r.kind, r.grant = lock.client, lock.kind, lock.grant
	return r
}

// recycle must be called after the last read.
func (r *rounds) recycle() {
	r.client, r.kind, r.grant = nil, nil, kind.Grant{}
	roundsPool.Put(r)
}

// Round is one round of an attempt (kind.Rounds).
func (r *rounds) Round(ctx context.Context, g *kind.Grant) (*kind.Refusal, error) {
	c := r.client
	if c.refuses(ctx) && !r.kind.Traits().Continues {
		return nil, ErrClosed
	}
	start := time.Now() // before the first byte is queued (R4)
	ttl, err := c.config.checkLock(r.kind, g.Name, g.TTL)
	if err != nil {
		return nil, err
	}
	slack := pure.Drift(ttl, c.config.DriftFactor)
	if c.config.late(ttl, 0, slack) {
		return nil, c.config.tooShort(ttl) // even an instant answer is too late
	}
	// Close waits for the outcome: a grant that comes too late is undone.
	c.group.DelayClose(1)
	defer c.group.DelayClose(-1)
	g.TTL = ttl
	c.kinds.NewToken(&g.Value, c.kinds.Tokens, start)
	command, claim := r.kind.Claim(g, r.room[:0])
	r.said.Begin(r.kind, command.Script)
	g.Receipt, err = c.group.Claim(ctx, command, &multiplex.Claim{
		Bytes: claim.Bytes, Key: claim.Key, TTL: ttl, Undo: r.undo, Told: r.told,
	})
	switch err {
	case nil:
		return nil, r.granted(start)
	case multiplex.ErrRefused:
		return r.said.Refused(g.Name), nil
	}
	return nil, c.failed(ctx, translate(err, ErrHeld), nil)
}

// Tell sends a release without waiting (kind.Rounds).
func (r *rounds) Tell(kind *multiplex.ReleaseKind, command *multiplex.Command) {
	r.client.group.Tell(kind, command)
}

// granted completes a round that a quorum granted. It reads the clocks as the
// last act of an attempt (R4): a lock with too little validity is released, and
// the error is ErrExpired.
func (r *rounds) granted(start time.Time) error {
	c := r.client
	slack := pure.Drift(r.grant.TTL, c.config.DriftFactor)
	r.until = start.Add(r.grant.TTL - slack)
	spent := pure.Elapsed(start, time.Now())
	c.learn(spent)
	if c.config.late(r.grant.TTL, spent, slack) {
		kind, release := r.release()
		c.group.Tell(kind, &release)
		return ErrExpired
	}
	return nil
}

// release returns the release of the lock, and its kind.
func (r *rounds) release() (kind *multiplex.ReleaseKind, command multiplex.Command) {
	kind, command.Encoded = r.kind.Release(&r.grant, r.room[:0])
	command.TTL, command.Receipt = r.grant.TTL, r.grant.Receipt
	return kind, command
}

// late reports whether an attempt of this length leaves too little validity.
func (config *Config) late(ttl, spent, slack time.Duration) bool {
	left := pure.Validity(ttl, spent, slack)
	return left <= 0 || left < config.MinValidity
}

// Acquire tries until it has the lock, ctx ends, or Config.MaxWait or
// Config.Retry.Tries is used up, with a new token for each attempt (R3, R11).
// It tries again after ErrHeld, ErrExpired, ErrOverloaded and, without
// Config.Retry.FailFast, ErrNoQuorum. At the end of ctx the error is a
// CancelledError, and also the last attempt's error. An error leaves no key
// behind.
//
// After half a second without a quorum, a call reports each node's cause to
// Config.Logger or slog.Default, once a minute for all calls (R31). It ends
// with ErrNoQuorum if waiting cannot help: too many nodes for a quorum refuse
// the client, for its credentials, permissions, MaxTTL, certificates and the
// like. It waits for nodes that are down.
//
// Callers of one client are served in the order in which they came, and hand
// the lock on among themselves for up to Config.HandOver. Between clients there
// is no order, but all get like shares of a lock wanted again and again. The
// nodes tell when the lock may be free; without such news, a caller tries after
// a random delay (Config.Retry).
func (c *Client) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	return c.Lock(resource).Acquire(ctx, ttl)
}

// withMaxWait returns ctx with a limit to the wait for a lock: Config.MaxWait,
// or the call's own. If both are zero, there is none.
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
	if done := c.tracer.AcquireDone; done != nil {
		trace(ctx, done, CallInfo{Resource: r.name, TTL: r.ttl, Tries: tries, Start: start, Validity: lock.Validity(), Err: err})
	}
	return lock, named(r.name, err)
}

// acquire is Acquire without the tracer. It counts the attempts.
func (c *Client) acquire(ctx context.Context, r request, tries *int) (lock Lock, err error) {
	if c.nested(ctx, &r) {
		if ctx.Err() != nil {
			return Lock{}, cancelledError(ctx, nil) // the hold is about to be released
		}
		return Lock{}, ErrNested
	}
	r.kind = kind.Waiting(r.kind)
	if r.kind.Traits().KeepsPlace {
		c.group.DelayClose(1) // so that Close lets the place be given up
		defer func() {
			if err != nil {
				kind.Leave(r.kind, &rounds{client: c}, r.name)
			}
			c.group.DelayClose(-1)
		}()
	}
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

// learn updates the smoothed time to a quorum, the base of delays between
// attempts. Concurrent callers may lose a sample, without harm.
func (c *Client) learn(spent time.Duration) {
	c.quorumTime.Store(int64(pure.Smoothed(time.Duration(c.quorumTime.Load()), spent)))
	c.stats.quorum.record(spent)
}

// checkLock truncates the TTL to whole milliseconds, and refuses an unusable
// lock or TTL.
func (config *Config) checkLock(k kind.Kind, name string, ttl time.Duration) (time.Duration, error) {
	if resource, problem := k.Check(name); problem != "" {
		return 0, named(cmp.Or(resource, name), errtext.Wrap("redlock: "+problem, ErrResource))
	}
	if several := k.Several(); several != nil {
		for _, resource := range several {
			if err := config.checkLockable(resource); err != nil {
				return 0, named(resource, err)
			}
		}
		return config.checkTTL(ttl)
	}
	if err := config.checkLockable(name); err != nil {
		return 0, err
	}
	return config.checkTTL(ttl)
}

// checkLockable refuses what cannot be locked, for a client with fencing
// numbers also the names of their keys.
func (config *Config) checkLockable(resource string) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if resource == wire.SealName || resource == wire.RecordName {
		return errtext.Wrap("redlock: the name is not for use as a resource: clients keep their seal there", ErrResource)
	}
	if strings.Contains(resource, wire.Reserved) {
		return errtext.Wrap(`redlock: a resource must not contain "`+wire.Reserved+`": readers, writers, permits and queues have keys with it`, ErrResource)
	}
	if config.Fenced && strings.HasSuffix(resource, wire.FenceSuffix) {
		return errtext.Wrap("redlock: a resource must not end in "+wire.FenceSuffix+": fencing numbers are kept there", ErrResource)
	}
	return nil
}

func checkResource(resource string) error {
	if n := len(resource); n < 1 || n > wire.LongestResource {
		return errtext.Wrap(fmt.Sprintf("redlock: a resource of %d bytes: it must have 1 to %d", n, wire.LongestResource), ErrResource)
	}
	return nil
}

// checkTTL also refuses a TTL longer than the quarantine of a node that forgot
// the lock (R23).
func (config *Config) checkTTL(given time.Duration) (time.Duration, error) {
	ttl := pure.WholeMilliseconds(given)
	switch {
	case ttl < time.Millisecond:
		return 0, ttlError(given, "it must be at least 1ms")
	case ttl > pure.LongestTTL:
		return 0, ttlError(given, fmt.Sprint("it must be at most ", pure.LongestTTL))
	case config.MaxTTL > 0 && ttl > config.MaxTTL:
		return 0, ttlError(given, fmt.Sprint("Config.MaxTTL is ", config.MaxTTL, "; a longer one must be set on all clients"))
	}
	return ttl, nil
}

// tooShort returns the error for a TTL that leaves too little after the drift.
func (config *Config) tooShort(ttl time.Duration) error {
	return ttlError(ttl, fmt.Sprintf("%v of it are for the drift of clocks, and Config.MinValidity is %v",
		pure.Drift(ttl, config.DriftFactor), config.MinValidity))
}

func ttlError(ttl time.Duration, why string) error {
	return errtext.Wrap(fmt.Sprintf("redlock: a TTL of %v cannot be used: %s", ttl, why), ErrTTL)
}
