package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// How a lock passes from one caller of this client to the next without asking
// the nodes: the keys stay, with their token, and the validity that a quorum
// has confirmed passes on. That is safe by docs/safety.md, "The argument".

// A tenure is what this client knows of one grant that may be handed over. A
// Lock is a value, of which copies outlive a release; they share the tenure. So
// the tenure decides, once, whether the lock is handed over or goes back to the
// nodes. Its other fields do not change.
//
// A lock without a tenure is never handed over: that of TryAcquire, of an
// Acquire that did not wait, of AcquireAll and of Adopt. Only the nodes know
// whether a copy of it was released before.
type tenure struct {
	state atomic.Uint32
	begun time.Time // of this grant
	// chain is when the attempt began that the nodes granted. It is the same
	// for all grants that were handed on from that one.
	chain time.Time
	// slept is how long the machine had slept before the attempt or extension
	// began that the validity counts from.
	slept time.Duration
}

// The states of a tenure.
const (
	tenureHeld     uint32 = iota
	tenureShown           // its token was read: another process may release it
	tenureReleased        // the nodes were told, or are about to be
	tenureHanded          // another caller has the lock
)

// handed reports whether the lock was handed to another caller.
func (t *tenure) handed() bool { return t != nil && t.state.Load() == tenureHanded }

// show keeps the lock from being handed over.
func (t *tenure) show() {
	if t != nil {
		t.state.CompareAndSwap(tenureHeld, tenureShown)
	}
}

// end decides that the lock goes back to the nodes. It returns false if the
// lock was handed over. It may be called twice.
func (t *tenure) end() bool {
	for t != nil {
		state := t.state.Load()
		if state == tenureHanded {
			return false
		}
		if t.state.CompareAndSwap(state, tenureReleased) {
			break
		}
	}
	return true
}

// A baton is a lock on its way from one holder to the next.
type baton struct {
	lock  Lock
	end   instant   // of the validity that a quorum has confirmed
	chain time.Time // see tenure
}

// handOver gives a lock to the caller that waits for it next, and reports
// whether it did. end is the end of the validity that a quorum has confirmed.
// handOver asks no node and does not wait.
func (c *Client) handOver(l *Lock, end instant) bool {
	if l.tenure == nil || l.all != nil || c.queues.waiting.Load() == 0 {
		return false
	}
	return c.pass(&baton{*l, end, l.tenure.chain}, l.tenure)
}

// pass is handOver for a baton. from is the tenure that ends with it, or nil if
// that has ended.
//
// This client cannot know whether others wait: each asks the nodes for pushes
// over its own connections. So only the time since the nodes granted the lock
// bounds the hand-overs (Config.HandOver).
func (c *Client) pass(b *baton, from *tenure) bool {
	now := c.keeper.clock()
	if now.at.Sub(b.chain) >= c.config.HandOver {
		return false
	}
	c.group.Detain(1) // until it is taken, so that Close lets it be given back
	if !c.refusing.Load() && c.queues.give(b, from, b.end.left(now), &c.config) {
		return true
	}
	c.group.Detain(-1)
	return false
}

// give hands a lock to the head of its queue. It returns false if the head is
// making an attempt, if too little is left of the validity, or if the keys may
// live longer than the head's TTL: if the head dies, or forgets the lock, other
// clients must not wait for the TTL of an earlier holder.
func (qs *queues) give(b *baton, from *tenure, left time.Duration, config *Config) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of[b.lock.resource]
	if q == nil {
		return false
	}
	head := q.head()
	if head.trying || head.given != nil || b.lock.ttl > head.ttl || !config.worth(left, head.ttl) {
		return false
	}
	if from != nil && !from.state.CompareAndSwap(tenureHeld, tenureHanded) {
		return false // a copy was released, or another process may know the token
	}
	head.given = b
	head.summon()
	return true
}

// worth reports whether what is left of a validity is enough for a TTL.
func (config *Config) worth(left, ttl time.Duration) bool {
	whole := ttl - pure.Drift(ttl, config.DriftFactor)
	return pure.WorthHandingOver(left, whole) && left >= config.MinValidity
}

// take accepts a lock that was handed to the caller. If it returns an error,
// the lock is being released at the nodes, no key is left behind (R7), and the
// caller must ask the nodes for the lock.
func (c *Client) take(ctx context.Context, w *waiter, b *baton, try int) (lock Lock, err error) {
	defer c.group.Detain(-1)
	start, now := startIf(c.tracer.AttemptDone != nil), c.keeper.clock()
	left, whole := b.end.left(now), w.ttl-pure.Drift(w.ttl, c.config.DriftFactor)
	lock = b.lock
	lock.until = now.at.Add(left) // what was confirmed; at most whole, see give
	lock.ttl = w.ttl              // which is not shorter
	lock.tenure = &tenure{begun: now.at, chain: b.chain, slept: now.slept}
	switch {
	case !c.config.worth(left, w.ttl):
		err = ErrExpired // this goroutine was kept from running meanwhile
	case w.confirmed && !pure.Young(left, whole):
		lock, err = c.confirm(ctx, lock, w.ttl)
	}
	if err != nil {
		c.abandon(lock)
		return Lock{}, err
	}
	w.served = true
	c.queues.granted(w.queue, lock.ttl, now.at)
	c.handedOver(ctx, w, lock, start, try)
	return lock, nil
}

// confirm waits until a quorum has extended a lock that was handed over. If it
// returns an error, it returns the lock as it was.
func (c *Client) confirm(ctx context.Context, lock Lock, ttl time.Duration) (Lock, error) {
	longer, err := lock.extend(ctx, ttl)
	c.stats.extensions.count(err)
	if err != nil {
		return lock, err
	}
	return longer, nil
}

// handedOver counts and traces a grant without asking the nodes.
func (c *Client) handedOver(ctx context.Context, w *waiter, lock Lock, start time.Time, try int) {
	c.stats.attempts.count(nil)
	c.stats.handedOver.Add(1)
	if done := c.tracer.AttemptDone; done != nil {
		done(ctx, AttemptInfo{
			Resource: w.resource, TTL: w.ttl, Try: try, HandedOver: true,
			Start: start, Elapsed: time.Since(start), Validity: lock.Validity(),
		})
	}
}

// passOn is for a lock that was handed to a caller that no longer wants it. It
// gives it to the next caller, or releases it at the nodes (R7).
func (c *Client) passOn(b *baton) {
	if !c.pass(b, nil) {
		c.abandon(b.lock)
	}
	c.group.Detain(-1)
}
