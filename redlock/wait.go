package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// How the head of a queue waits. What the nodes tell it is a hint, see
// multiplex.Lookout, so it also tries now and then without one.
const (
	// fallbackMost bounds the time between two attempts of a head without news;
	// half of it is random.
	fallbackMost = time.Second
	// expiryMargin and expirySpread are when the head tries after the key must
	// have expired: servers forget a key a millisecond after its end, but look
	// for such keys, and push, 4 to 18 ms later. The spread is for clients that
	// wait together.
	expiryMargin = time.Millisecond
	expirySpread = 4 * time.Millisecond
	// pushedPauseMost bounds the pause before a push is believed. It limits
	// pushes without a reason to fifty attempts a second.
	pushedPauseMost = 20 * time.Millisecond
	// The nodes' answers to the head's question are waited for answersPerQuorum
	// times the usual time to a quorum, but at least answersLeast.
	answersLeast     = 5 * time.Millisecond
	answersPerQuorum = 4
)

// acquireInTurn is Acquire by queue: one attempt at once, unless other callers
// wait here already, and then in turn.
func (c *Client) acquireInTurn(ctx context.Context, r request, tries *int) (Lock, error) {
	var last error
	start := time.Now()
	p := patience{begun: start}
	if !c.queues.has(r.resource) {
		var lock Lock
		*tries++
		if last = c.try(ctx, r.resource, r.ttl, *tries, &lock); last == nil || !c.triesAgain(last) {
			return lock, last
		}
		if err := c.impatient(&p, last); err != nil {
			return Lock{}, err
		}
	} else if err := c.checkWait(ctx, r.resource, r.ttl); err != nil {
		return Lock{}, err
	}
	r.ttl = pure.WholeMilliseconds(r.ttl)
	w := c.queues.join(r, last, time.Since(start))
	defer c.leave(w)
	return c.waitInTurn(ctx, w, &p, tries)
}

// waitInTurn waits at a place in a queue until the caller has the lock.
func (c *Client) waitInTurn(ctx context.Context, w *waiter, p *patience, tries *int) (Lock, error) {
	_, err := c.doze(ctx, w, pure.Never, nil) // until its turn
	for err == nil {
		if !c.queues.isDue(w) {
			if err = c.lookOut(ctx, w); err != nil {
				break
			}
		}
		if err = c.giveWay(ctx, w); err != nil {
			break
		}
		*tries++
		var lock Lock
		var again bool
		var failure error
		if b := c.queues.begin(w); b != nil {
			lock, failure = c.take(ctx, w, b, *tries)
			again = failure != nil
		} else {
			lock, again, failure = c.tryInTurn(ctx, w, p, *tries)
		}
		if !again {
			return lock, failure
		}
	}
	return Lock{}, c.failed(ctx, err, c.queues.lastOf(w.queue))
}

// checkWait refuses at once what TryAcquire would refuse when the caller's turn
// comes.
func (c *Client) checkWait(ctx context.Context, resource string, ttl time.Duration) error {
	ttl, err := c.check(resource, ttl)
	switch {
	case err != nil:
		return err
	case c.late(ttl, 0, pure.Drift(ttl, c.config.DriftFactor)):
		return c.tooShort(ttl)
	}
	return c.failed(ctx, ctx.Err(), nil)
}

// tryInTurn is one attempt of the head. again reports that it must wait and try
// again.
func (c *Client) tryInTurn(
	ctx context.Context, w *waiter, p *patience, try int,
) (lock Lock, again bool, err error) {
	q := w.queue
	begun := c.keeper.clock()
	start := begun.at
	err = c.try(ctx, w.resource, w.ttl, try, &lock)
	q.spent = time.Since(start)
	switch {
	case err == nil:
		lock.tenure = &tenure{begun: start, chain: start, slept: begun.slept}
		c.queues.granted(q, w.ttl, start)
	case c.triesAgain(err):
		c.queues.failed(q, err)
		if err := c.impatient(p, err); err != nil {
			c.queues.giveBackDue(q) // the next head finds that out at once
			return Lock{}, false, err
		}
		return Lock{}, true, err
	default:
		if cancelled, ok := err.(*CancelledError); ok {
			cancelled.Last = c.queues.lastOf(q)
		}
		c.queues.giveBackDue(q)
	}
	return lock, false, err
}

// lookOut blocks the head until there is a reason to try. Which one depends on
// what is known of the lock:
//
//   - It was granted in this queue: its holder is here, and calls when it
//     releases.
//   - Another client holds it: the nodes push when that changes.
//   - That is unknown, or the nodes do not push: time passes (R11).
//
// Attempts that fail one after another come at growing and random distances,
// whatever else happens. So clients that were woken by the same push part, and
// pushes without a reason do not cause endless attempts. Only a release by this
// client is believed at once.
func (c *Client) lookOut(ctx context.Context, w *waiter) error {
	q := w.queue
	if q.local > 0 {
		return c.awaitLocal(ctx, w)
	}
	pause := c.pause(q, rand.Float64())
	if c.queues.lastOf(q) != ErrHeld || !c.ask(q, w.resource) {
		_, err := c.doze(ctx, w, pause, nil)
		return err
	}
	defer q.lookout.Rest()
	begun := time.Now()
	why, err := c.doze(ctx, w, min(pause, pushedPauseMost), nil)
	if why == timeUp && err == nil {
		why, err = c.awaitPush(ctx, w)
	}
	// News that took much longer than any pause here was real; news at once may
	// be a push without a reason.
	if why == called || time.Since(begun) >= 2*c.pause(q, 1) {
		q.fails = 0
	}
	return err
}

// ask asks the nodes to push; false means that too few of them do.
func (c *Client) ask(q *queue, resource string) bool {
	if q.lookout == nil {
		q.lookout = c.group.Lookout([]byte(c.config.Prefix + resource))
	}
	return q.lookout != nil && q.lookout.Ask()
}

// awaitPush waits until the nodes report that the lock may be free, by a push
// or by the expiry of the key, but not much longer than a second.
func (c *Client) awaitPush(ctx context.Context, w *waiter) (reason, error) {
	q := w.queue
	answers := max(answersLeast, answersPerQuorum*time.Duration(c.quorumTime.Load()))
	why, err := c.doze(ctx, w, answers, q.lookout.Signal())
	if err != nil || why != timeUp {
		return why, err
	}
	limit := fallback()
	if at, ok := q.lookout.Expiry(); ok {
		// An attempt shortly before the end would fail, and the pause after it
		// would outlast the end.
		if end := max(0, time.Until(at)) + afterExpiry(); end < limit+2*pushedPauseMost {
			limit = end
		}
	}
	return c.doze(ctx, w, limit, q.lookout.Signal())
}

// awaitLocal waits until the holder, who got the lock in this queue, releases
// it or hands it over, or it must have expired.
func (c *Client) awaitLocal(ctx context.Context, w *waiter) error {
	_, err := c.doze(ctx, w, min(fallback(), w.queue.local+afterExpiry()), nil)
	return err
}

// giveWay waits after a long streak, before the attempt of the head: other
// clients get the time for one.
func (c *Client) giveWay(ctx context.Context, w *waiter) error {
	q := w.queue
	if q.local == 0 || !q.streak.over(time.Now(), c.longStreak()) || !c.queues.triesNext(w) {
		return nil
	}
	q.streak = streak{}
	_, err := c.doze(ctx, w, c.pause(q, rand.Float64()), nil)
	return err
}

// longStreak returns how long a streak may last.
func (c *Client) longStreak() time.Duration {
	if c.config.HandOver < 0 {
		return streakLong
	}
	return c.config.HandOver
}

// pause returns the time to the next attempt after the failed ones. random is
// uniform in [0, 1), or 1 for the longest.
func (c *Client) pause(q *queue, random float64) time.Duration {
	usual := time.Duration(c.quorumTime.Load())
	if usual == 0 {
		usual = q.spent // this client has got no lock yet
	}
	return c.retryDelay(max(1, q.fails), usual, random)
}

func fallback() time.Duration {
	return fallbackMost/2 + rand.N(fallbackMost/2)
}

func afterExpiry() time.Duration { return expiryMargin + rand.N(expirySpread) }

// A reason says why a waiter woke.
type reason uint8

const (
	timeUp    reason = iota
	called           // its turn has come, or the lock was released here
	signalled        // by the lookout
)

// doze waits for the given time, a call, a signal, the end of ctx or Close; the
// last two are errors. If d is pure.Never, time does not end the wait; if
// signal is nil, there is none.
func (c *Client) doze(ctx context.Context, w *waiter, d time.Duration, signal <-chan struct{}) (reason, error) {
	var over <-chan time.Time
	if d != pure.Never {
		timer := time.NewTimer(max(pure.Soon, d))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return timeUp, nil
	case <-w.call:
		return called, nil
	case <-signal:
		return signalled, nil
	case <-ctx.Done():
		return timeUp, ctx.Err()
	case <-c.over(ctx):
		return timeUp, ErrClosed
	}
}
