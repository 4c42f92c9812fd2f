package redlock

import (
	"context"
	"time"
)

// A Tracer receives what a client does. Each of its functions may be nil.
//
// AttemptDone, AcquireDone, ExtendDone and ReleaseDone are called by the
// caller's own goroutine right before the call returns, with its context and
// the resource, but never a token (R27). The time they take shortens the lock's
// validity. NodeChanged and HoldLost are called by a goroutine of the client,
// one at a time; if they are too slow, the oldest events are dropped. They must
// not close the client.
type Tracer struct {
	// AttemptDone receives each single attempt, including those of Acquire.
	AttemptDone func(context.Context, CallInfo)
	// AcquireDone receives each call to Acquire as a whole, including waits.
	AcquireDone func(context.Context, CallInfo)
	// ExtendDone receives each call to Extend, but not renewals; Stats counts
	// those.
	ExtendDone func(context.Context, CallInfo)
	// ReleaseDone receives each call to Release, of locks and of holds.
	ReleaseDone func(context.Context, CallInfo)
	// NodeChanged receives each NodeChange: a node comes up or is no longer up,
	// or the cause for that changes.
	NodeChanged func(NodeChange)
	// HoldLost receives each hold that is lost before it is released.
	HoldLost func(HoldInfo)
}

// CallInfo describes one attempt or one call.
type CallInfo struct {
	Resource string        // without the prefix
	TTL      time.Duration // as requested; zero of a release
	// Tries is how many attempts a call to Acquire made, and of an attempt, its
	// number within Acquire, from 1.
	Tries int
	// HandedOver reports of an attempt that another caller of this client handed
	// its lock over, and no node was asked (Config.HandOver).
	HandedOver bool
	Start      time.Time     // when it began
	Elapsed    time.Duration // until it returned
	Validity   time.Duration // of the lock; zero if there is none
	Err        error         // as returned, but without the resource
}

// HoldInfo describes a hold: one that was lost, or, from Client.Held, one that
// is not released yet.
type HoldInfo struct {
	Resource string    // without the prefix
	Since    time.Time // when the granted attempt began, or the hand-over
	Until    time.Time // when the validity ends, or when the hold was lost
	Err      error     // why it ended, such as a *LostError, or nil
	Dropped  uint64    // how many earlier events were dropped
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

// trace adds the time that a call took, and passes it to a tracer's function.
func trace(ctx context.Context, done func(context.Context, CallInfo), info CallInfo) {
	info.Elapsed = time.Since(info.Start)
	done(ctx, info)
}

// releaseDone counts and traces a release.
func (l *Lock) releaseDone(ctx context.Context, start time.Time, err error) {
	l.client.stats.releases.count(err)
	if done := l.client.tracer.ReleaseDone; done != nil {
		trace(ctx, done, CallInfo{Resource: l.grant.Name, Start: start, Err: err})
	}
}

// startIf reads the clock only if the call is traced.
func startIf(traced bool) time.Time {
	if !traced {
		return time.Time{}
	}
	return time.Now()
}
