package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// How a lock passes from one caller of this client to the next without asking
// the nodes: the keys stay, with their token, and the validity confirmed by a
// quorum passes on. This is safe by docs/internals/safety.md, "The argument".

// A tenure is what this client knows of a grant open to hand-over. A Lock is a
// value, and copies of it outlive a release; they share the tenure. So the
// tenure decides, once, between hand-over and a release at the nodes. Its other
// fields do not change.
//
// A lock without a tenure is never handed over. These are the locks of
// TryAcquire, of Acquire without a wait, of Fair, of readers, and of Adopt.
// Only the nodes know of an earlier release of a copy.
type tenure struct {
	// word has the state and the longest requested TTL. Neither ever falls.
	word  atomic.Uint64
	begun time.Time // of this grant
	// streak is the one of the attempt at the nodes. All later holders have the
	// same.
	streak streak
	// The validity counts from an attempt or an extension. slept is how long
	// the machine had slept before it began.
	slept time.Duration
}

// The states of a tenure.
const (
	tenureHeld     uint64 = iota
	tenureKept            // by a hold, which a copy of its lock does not end
	tenureShown           // its token was read: another process may release it
	tenureReleased        // the nodes were told, or are about to be
	tenureHanded          // another caller has the lock
)

// tenureStates is the factor of the TTL in a word.
const tenureStates = 8

func tenureWord(state uint64, longest time.Duration) uint64 {
	return uint64(longest/time.Millisecond)*tenureStates + state
}

func newTenure(ttl time.Duration, begun instant, s streak) *tenure {
	t := &tenure{begun: begun.at, streak: s, slept: begun.slept}
	t.word.Store(tenureWord(tenureHeld, ttl))
	return t
}

// load returns the state, and the longest requested TTL.
func (t *tenure) load() (state uint64, longest time.Duration) {
	word := t.word.Load()
	return word % tenureStates, time.Duration(word/tenureStates) * time.Millisecond
}

// rise records a state, and a TTL longer than those before. For a lock handed
// over, it returns false and records nothing.
func (t *tenure) rise(state uint64, ttl time.Duration) bool {
	for t != nil {
		was, longest := t.load()
		if was == tenureHanded {
			return false
		}
		if t.word.CompareAndSwap(tenureWord(was, longest), tenureWord(max(was, state), max(longest, ttl))) {
			break
		}
	}
	return true
}

// hand decides to give a lock in the given state to a caller with the given
// TTL. It returns false for a released copy, for a token known to another
// process, and for keys with a longer life than the TTL: should the caller die,
// other clients must not wait for the TTL of an earlier holder.
func (t *tenure) hand(state uint64, ttl time.Duration) bool {
	was, longest := t.load()
	return was == state && longest <= ttl &&
		t.word.CompareAndSwap(tenureWord(was, longest), tenureWord(tenureHanded, longest))
}

// handed reports whether the lock has another holder.
func (t *tenure) handed() bool {
	if t == nil {
		return false
	}
	state, _ := t.load()
	return state == tenureHanded
}

// A baton is a lock on its way from one holder to the next.
type baton struct {
	lock Lock    // with the tenure that ends
	end  instant // of the validity that a quorum has confirmed
}

// handOver gives a lock to the next waiting caller, and reports whether it did.
// The tenure must be in the given state. end is the end of the validity
// confirmed by a quorum. handOver asks no node and does not wait.
func (c *Client) handOver(l *Lock, state uint64, end instant) bool {
	if l.tenure == nil || !l.kind.Traits().HandsOver || c.queues.waiting.Load() == 0 {
		return false
	}
	return c.pass(&baton{*l, end}, state)
}

// pass is handOver for a baton. A baton handed over before has the state
// tenureHanded.
func (c *Client) pass(b *baton, state uint64) bool {
	now := c.keeper.clock()
	if c.config.HandOver < 0 || b.lock.tenure.over(now.at) {
		return false
	}
	c.group.DelayClose(1) // until it is taken, so that Close lets it be given back
	if !c.refusing.Load() && c.queues.give(b, state, b.end.left(now), c.config) {
		return true
	}
	c.group.DelayClose(-1)
	return false
}

// give hands a lock to the first caller in its queue. In a queue with several
// locks it is the first caller without an attempt under way. give returns false
// without such a caller, with too little left of the validity, for a caller
// with another label, since the keys keep their values, or if tenure.hand
// refuses.
func (qs *queues) give(b *baton, state uint64, left time.Duration, config *Config) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of[b.lock.key()]
	if q == nil {
		return false
	}
	next := q.head()
	for e := q.waiters.Front(); next.busy() && b.lock.kind.Traits().MostSeats > 1; next = e.Value.(*waiter) {
		if e = e.Next(); e == nil {
			return false
		}
	}
	if next.busy() || !config.worth(left, &next.request) {
		return false
	}
	if b.lock.grant.Label != next.label || !b.lock.tenure.hand(state, next.ttl) {
		return false
	}
	next.given = b
	next.summon()
	return true
}

// busy reports whether a caller makes an attempt, or has a lock to take.
func (w *waiter) busy() bool { return w.trying || w.given != nil }

// worth reports whether the rest of a validity is enough for a request. A hold
// released early leaves its keys for the rest of MinHold, without a longer
// life.
func (config *Config) worth(left time.Duration, r *request) bool {
	whole := r.ttl - pure.Drift(r.ttl, config.DriftFactor)
	return pure.WorthHandingOver(left, whole) && left >= max(config.MinValidity, r.minHold)
}

// take accepts the lock handed to the caller. With an error, its release is
// under way, no key is left behind (R7), and the caller must ask the nodes for
// the lock.
func (w *waiter) take(ctx context.Context, b *baton, try int) (lock Lock, err error) {
	c := w.client
	defer c.group.DelayClose(-1)
	start, now := startIf(c.tracer.AttemptDone != nil), c.keeper.clock()
	left, whole := b.end.left(now), w.ttl-pure.Drift(w.ttl, c.config.DriftFactor)
	lock = b.lock
	lock.until = now.at.Add(left) // what was confirmed; at most whole, see give
	lock.grant.TTL = w.ttl        // which is not shorter
	lock.tenure = newTenure(w.ttl, now, b.lock.tenure.streak)
	switch {
	case !c.config.worth(left, &w.request):
		err = ErrExpired // this goroutine was kept from running meanwhile
	case w.confirmed && !pure.Young(left, whole):
		lock, err = c.confirm(ctx, lock, w.ttl)
	}
	if err != nil {
		c.abandon(lock)
		return Lock{}, err
	}
	w.served = true
	c.queues.granted(w)
	w.handedOver(ctx, lock, start, try)
	return lock, nil
}

// confirm waits for a quorum to extend a lock handed over. With an error, it
// returns the lock as it was.
func (c *Client) confirm(ctx context.Context, lock Lock, ttl time.Duration) (Lock, error) {
	longer, err := lock.extend(ctx, ttl)
	c.stats.extensions.count(err)
	if err != nil {
		return lock, err
	}
	return longer, nil
}

// handedOver counts and traces a grant without asking the nodes.
func (w *waiter) handedOver(ctx context.Context, lock Lock, start time.Time, try int) {
	c := w.client
	c.stats.attempts.count(nil)
	c.stats.handedOver.Add(1)
	if done := c.tracer.AttemptDone; done != nil {
		trace(ctx, done, CallInfo{Resource: w.name, TTL: w.ttl, Tries: try, HandedOver: true, Start: start, Validity: lock.Validity()})
	}
}
