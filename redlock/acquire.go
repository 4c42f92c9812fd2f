package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// commandRoom holds a command with a resource name of usual length without allocating.
const commandRoom = 320

// TryAcquire tries once to lock a resource for the TTL, which is cut to whole milliseconds. It waits until a quorum of nodes
// granted the lock or cannot any more (R5), at most for the vote timeout of the slowest node (R6).
//
// The error is ErrHeld, ErrNoQuorum, ErrExpired, ErrOverloaded, ErrClosed, ErrResource, ErrTTL, or a CancelledError when
// ctx ended. With any of them no key is left behind: its release is queued for every node before TryAcquire returns (R7).
func (c *Client) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	lock, err := c.try(ctx, resource, ttl, 1)
	return lock, named(resource, err)
}

// attempt is TryAcquire, without anybody being told.
func (c *Client) attempt(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	if c.refuses(ctx) {
		return Lock{}, ErrClosed
	}
	start := time.Now() // before the first byte is queued (R4)
	ttl, err := c.check(resource, ttl)
	if err != nil {
		return Lock{}, err
	}
	slack := pure.Drift(ttl, c.config.DriftFactor)
	if c.late(ttl, 0, slack) {
		return Lock{}, c.tooShort(ttl) // not even an answer in no time would leave enough
	}
	lock := Lock{client: c, resource: resource, token: c.tokens.next(), ttl: ttl}
	var set, undo [commandRoom]byte
	command := multiplex.Command{
		Bytes: c.appendAcquire(set[:0], resource, &lock.token, ttl),
		Key:   c.keyPart(resource), // of the release that undoes it
		TTL:   ttl,
		Undo:  c.appendRelease(undo[:0], resource, &lock.token),
		Late:  func() bool { return c.late(ttl, pure.Elapsed(start, time.Now()), slack) },
	}
	lock.receipt, err = c.group.Ask(ctx, acquireKind, &command)
	if err != nil {
		return Lock{}, c.failed(ctx, translate(err, ErrHeld), nil)
	}
	return c.granted(lock, &command, start)
}

// granted makes a lock of a claim that a quorum granted. It reads the clocks again, since much may have happened since Ask
// looked (R4): a lock that has too little validity left is given back, and the error is ErrExpired.
func (c *Client) granted(lock Lock, claim *multiplex.Command, start time.Time) (Lock, error) {
	slack := pure.Drift(lock.ttl, c.config.DriftFactor)
	lock.until = start.Add(lock.ttl - slack)
	spent := pure.Elapsed(start, time.Now())
	c.learn(spent)
	if c.late(lock.ttl, spent, slack) {
		c.group.Tell(releaseKind, &multiplex.Command{
			Bytes: claim.Undo, Key: claim.Key, TTL: lock.ttl, Receipt: lock.receipt,
		})
		return Lock{}, ErrExpired
	}
	return lock, nil
}

// late reports whether what is left of an attempt's validity is not worth having.
func (c *Client) late(ttl, spent, slack time.Duration) bool {
	left := pure.Validity(ttl, spent, slack)
	return left <= 0 || left < c.config.MinValidity
}

// Acquire tries until it has the lock, ctx ends or Config.MaxTries are used up, with a new token for each attempt (R3, R11).
// It tries again after ErrHeld, ErrNoQuorum (unless Config.FailFast), ErrExpired and ErrOverloaded; after ErrClosed,
// ErrNested, ErrResource and ErrTTL there is nothing to wait for. When ctx ends, the error is a CancelledError, which is also the last
// attempt's; so it is when Config.MaxWait is over, with ErrMaxWait for its cause. When the tries are used up, the error is the
// last attempt's. As with TryAcquire, an error leaves no key behind.
//
// A call that finds no quorum for half a second reports that as a warning, with
// the cause for each node, to Config.Logger, or to slog.Default without one; one
// report a minute stands for all calls of the client (R31). Waiting ends with
// ErrNoQuorum when it cannot help: so many nodes refused us that no quorum is
// left, for wrong credentials, a missing permission, not being an independent
// master, another MaxTTL, a certificate that does not verify, or another
// protocol such as TLS on one side only. Only what was tried since the call began
// counts, so a cause that was removed does not end it. A node that refuses the
// credentials is tried again after 1 to 30 seconds, so that is how long it may
// take to know. A node that refuses connections may come back, and is waited for.
//
// Callers of one client that wait for the same resource are served in the order in which they came, and only the first of
// them asks the nodes; between clients, and towards TryAcquire, there is no order. Where others hold the lock, the nodes
// tell the first when it is released (CLIENT TRACKING, over RESP3) and when it will expire, and it tries then; if it is told
// nothing, within a second. Where the nodes cannot tell, and after the other errors, it tries again after a
// random delay that doubles up to 200 ms, unless Config.RetryDelayMin and RetryDelayMax say otherwise. With Config.MaxTries
// or Config.Poll each caller does so by itself.
func (c *Client) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	within, cancel := withMaxWait(ctx, c.config.MaxWait)
	defer cancel()
	return c.acquireTold(within, resource, ttl)
}

// withMaxWait returns ctx with a limit to the wait for a lock; zero is none.
func withMaxWait(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, ErrMaxWait)
}

// acquireTold is Acquire without Config.MaxWait; the tracer is told.
func (c *Client) acquireTold(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	start, tries := startIf(c.tracer.AcquireDone != nil), 0
	lock, err := c.acquire(ctx, resource, ttl, &tries)
	if c.tracer.AcquireDone != nil {
		c.acquireDone(ctx, AcquireInfo{Resource: resource, TTL: ttl, Tries: tries, Start: start, Err: err}, lock)
	}
	return lock, named(resource, err)
}

// acquire is Acquire, without anybody being told. It counts the attempts.
func (c *Client) acquire(ctx context.Context, resource string, ttl time.Duration, tries *int) (Lock, error) {
	if c.nested(ctx, resource) {
		return Lock{}, ErrNested
	}
	if c.config.MaxTries == 0 && !c.config.Poll {
		return c.acquireInTurn(ctx, resource, ttl, tries)
	}
	var last error
	p := patience{begun: time.Now()}
	for try := 1; ; try++ {
		*tries = try
		lock, err := c.try(ctx, resource, ttl, try)
		if err == nil {
			return lock, nil
		}
		if cancelled, ok := err.(*CancelledError); ok {
			cancelled.Last = last
		}
		if !c.triesAgain(err) || try == c.config.MaxTries {
			return Lock{}, err
		}
		if err := c.impatient(&p, err); err != nil {
			return Lock{}, err
		}
		last = err
		if err := sleep(ctx, c.retryDelay(try, time.Duration(c.quorumTime.Load()), rand.Float64()), c.over(ctx)); err != nil {
			return Lock{}, c.failed(ctx, err, last)
		}
	}
}

// retryDelay is the time to wait after so many failed attempts (R11). random is
// uniform in [0, 1).
func (c *Client) retryDelay(failed int, usual time.Duration, random float64) time.Duration {
	return pure.RetryDelay(failed, usual, c.config.RetryDelayMin, c.config.RetryDelayMax, random)
}

func (c *Client) triesAgain(err error) bool {
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrExpired), errors.Is(err, ErrOverloaded):
		return true
	case errors.Is(err, ErrNoQuorum):
		return !c.config.FailFast
	default:
		return false
	}
}

// check cuts the TTL to whole milliseconds and refuses what cannot be asked, the name of the seal among it.
func (c *Client) check(resource string, ttl time.Duration) (time.Duration, error) {
	if err := checkResource(resource); err != nil {
		return 0, err
	}
	if resource == sealName {
		return 0, errtext.Wrap("redlock: "+sealName+" is not for use as a resource: clients keep their seal there", ErrResource)
	}
	return c.checkTTL(ttl)
}

func checkResource(resource string) error {
	if n := len(resource); n < 1 || n > maxResource {
		return errtext.Wrap(fmt.Sprintf("redlock: a resource of %d bytes: it must have 1 to %d", n, maxResource), ErrResource)
	}
	return nil
}

const maxResource = 1024

// checkTTL also refuses a TTL that would outlast the quarantine of a node that forgot the lock (R23).
func (c *Client) checkTTL(given time.Duration) (time.Duration, error) {
	ttl := pure.WholeMilliseconds(given)
	switch {
	case ttl < time.Millisecond:
		return 0, ttlError(given, "it must be at least 1ms")
	case ttl > pure.LongestTTL:
		return 0, ttlError(given, fmt.Sprint("it must be at most ", pure.LongestTTL))
	case c.config.MaxTTL > 0 && ttl > c.config.MaxTTL:
		return 0, ttlError(given, fmt.Sprint("Config.MaxTTL is ", c.config.MaxTTL))
	}
	return ttl, nil
}

// tooShort is the error of a TTL that leaves too little after the drift.
func (c *Client) tooShort(ttl time.Duration) error {
	return ttlError(ttl, fmt.Sprintf("%v of it are for the drift of clocks, and Config.MinValidity is %v",
		pure.Drift(ttl, c.config.DriftFactor), c.config.MinValidity))
}

func ttlError(ttl time.Duration, why string) error {
	return errtext.Wrap(fmt.Sprintf("redlock: a TTL of %v cannot be used: %s", ttl, why), ErrTTL)
}

// failed gives an error its context, if it is the context's.
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

// learn smooths the time to a quorum, from which retries take their pace. Two callers at once may lose a sample; nothing
// depends on one.
func (c *Client) learn(spent time.Duration) {
	old := c.quorumTime.Load()
	if old == 0 {
		old = int64(spent)
	}
	c.quorumTime.Store(old + (int64(spent)-old)/8)
	c.stats.quorum.record(spent)
}
