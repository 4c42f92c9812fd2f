package redlock

import (
	"context"
	"time"
)

// A Tracer is told what a client does. Each of its functions may be nil and then costs nothing but that look.
//
// AttemptDone, AcquireDone, ExtendDone and ReleaseDone are called by the caller's own goroutine, right before the call
// returns, so they delay it: what they take is lost from the lock's validity. They may be called by many goroutines at
// once. They get resource names, and the caller's context as it came, from which a span finds its parent; spans are made
// afterwards, from Start and Elapsed. They never get a token (R27).
//
// NodeChanged and HoldLost are called by a goroutine of the client's own, one at a time, and delay nobody. Where they are too
// slow, the oldest news are dropped, and the next one says how many. They may use the client but not close it, and may be
// called before New has returned it.
type Tracer struct {
	// AttemptDone is told of each single attempt, those of Acquire among them.
	AttemptDone func(context.Context, AttemptInfo)
	// AcquireDone is told of each call to Acquire as a whole, waits included.
	AcquireDone func(context.Context, AcquireInfo)
	// ExtendDone is told of each call to Extend, and not of renewals, which are nobody's calls; Stats counts them.
	ExtendDone func(context.Context, ExtendInfo)
	// ReleaseDone is told of each call to Release, of locks and of holds.
	ReleaseDone func(context.Context, ReleaseInfo)
	// NodeChanged is told when a node comes up or is not up any more, and of each new cause of that.
	NodeChanged func(NodeChange)
	// HoldLost is told of each hold that is lost before it is released.
	HoldLost func(HoldInfo)
}

// AttemptInfo tells of one attempt to get a lock.
type AttemptInfo struct {
	Resource string
	TTL      time.Duration // as it was asked for
	Try      int           // which attempt of one Acquire, from 1
	Start    time.Time
	Elapsed  time.Duration
	Validity time.Duration // of the lock; zero if there is none
	Err      error         // as it is returned, but without the resource
}

// AcquireInfo tells of one whole wait for a lock.
type AcquireInfo struct {
	Resource string
	TTL      time.Duration // as it was asked for
	Tries    int           // how many attempts it took
	Start    time.Time
	Elapsed  time.Duration
	Validity time.Duration // of the lock; zero if there is none
	Err      error         // as it is returned, but without the resource
}

// ExtendInfo tells of one extension.
type ExtendInfo struct {
	Resource string
	TTL      time.Duration // as it was asked for
	Start    time.Time
	Elapsed  time.Duration
	Validity time.Duration // of the extended lock; zero if it failed
	Err      error         // as it is returned, but without the resource
}

// ReleaseInfo tells of one release.
type ReleaseInfo struct {
	Resource string
	Start    time.Time
	Elapsed  time.Duration
	Err      error // as it is returned, but without the resource
}

// HoldInfo tells of a hold: of one that was lost, or, from Client.Held, of one
// that is not released yet.
type HoldInfo struct {
	Resource string
	Since    time.Time // when the attempt that was granted began
	Until    time.Time // when its validity ends by the local clock, or when it was lost before that
	Err      error     // why it ended: a *LostError; from Client.Held also another one, or nil
	// Dropped are news before this one that were not told. Zero from Client.Held.
	Dropped uint64
}

// try is one attempt, counted and told.
func (c *Client) try(ctx context.Context, resource string, ttl time.Duration, try int) (Lock, error) {
	start := startIf(c.tracer.AttemptDone != nil)
	lock, err := c.attempt(ctx, resource, ttl)
	c.stats.attempts.count(err)
	if err == nil || err == ErrHeld {
		c.stalls.over()
	}
	if done := c.tracer.AttemptDone; done != nil {
		done(ctx, AttemptInfo{
			Resource: resource, TTL: ttl, Try: try,
			Start: start, Elapsed: time.Since(start), Validity: lock.Validity(), Err: err,
		})
	}
	return lock, err
}

// acquireDone tells of a whole wait. The tracer wants to know.
func (c *Client) acquireDone(ctx context.Context, info AcquireInfo, lock Lock) {
	info.Elapsed, info.Validity = time.Since(info.Start), lock.Validity()
	c.tracer.AcquireDone(ctx, info)
}

// extendDone counts an extension and tells of it.
func (l Lock) extendDone(ctx context.Context, longer Lock, ttl time.Duration, start time.Time, err error) {
	l.client.stats.extensions.count(err)
	if done := l.client.tracer.ExtendDone; done != nil {
		done(ctx, ExtendInfo{
			Resource: l.resource, TTL: ttl,
			Start: start, Elapsed: time.Since(start), Validity: longer.Validity(), Err: err,
		})
	}
}

// releaseDone counts a release and tells of it.
func (l Lock) releaseDone(ctx context.Context, start time.Time, err error) {
	l.client.stats.releases.count(err)
	if done := l.client.tracer.ReleaseDone; done != nil {
		done(ctx, ReleaseInfo{Resource: l.resource, Start: start, Elapsed: time.Since(start), Err: err})
	}
}

// startIf reads the clock only where somebody will ask for it.
func startIf(traced bool) time.Time {
	if !traced {
		return time.Time{}
	}
	return time.Now()
}
