package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// How the head of a queue waits. What the nodes report to it is a hint (see
// multiplex.Lookout), so it also tries now and then without one.
const (
	// fallbackMost bounds the time between two attempts of a head that gets no
	// news; half of it is random.
	fallbackMost = time.Second
	// expiryMargin, and a random part of expirySpread, is how long after the
	// key's expiry the head tries: a server forgets a key a millisecond after
	// its end, but looks for such keys, and pushes, 4 to 18 ms later. The
	// spread is for clients that wait together.
	expiryMargin = time.Millisecond
	expirySpread = 4 * time.Millisecond
	// pushedPauseMost bounds the pause before the head listens to pushes. It
	// limits the attempts that pushes without a reason cause to fifty a second.
	pushedPauseMost = 20 * time.Millisecond
	// The head waits for the nodes' answers to its question for
	// answersPerQuorum times the usual time to a quorum, but at least for
	// answersLeast, and at most for answersMost. This is part of the time that
	// fallbackMost bounds.
	answersLeast     = 5 * time.Millisecond
	answersMost      = fallbackMost / 2
	answersPerQuorum = 4
)

// acquireInTurn is Acquire with a queue. It makes one attempt at once, unless
// other callers of this client already wait, and then waits in turn.
func (c *Client) acquireInTurn(ctx context.Context, r request, tries *int) (Lock, error) {
	var last error
	start := time.Now()
	p := patience{begun: start}
	if !c.queues.has(r.resource) {
		if err := c.leaveToRivals(ctx, &r); err != nil {
			return Lock{}, c.failed(ctx, err, nil)
		}
		lock := Lock{client: c, resource: r.resource, ttl: r.ttl}
		*tries++
		if last = c.try(ctx, *tries, &lock); last == nil || !c.triesAgain(last) {
			if last == nil {
				c.rivals.regained(r.resource, nil, true)
			}
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

// waitInTurn waits in a queue until the caller has the lock.
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

// checkWait returns at once the error that TryAcquire would return when the
// caller's turn comes.
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
	lock = Lock{client: c, resource: w.resource, ttl: w.ttl}
	err = c.try(ctx, try, &lock)
	q.spent = time.Since(begun.at)
	switch {
	case err == nil:
		c.recall(w)
		before := c.queues.granted(q, w.ttl)
		lock.tenure = newTenure(w.ttl, begun, c.streakAfter(before, begun.at))
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
// whatever else happens. So clients that were woken by the same push drift
// apart, and pushes without a reason do not cause endless attempts. Only after
// a release by this client does the head try at once.
func (c *Client) lookOut(ctx context.Context, w *waiter) error {
	q := w.queue
	if q.local > 0 {
		return c.awaitLocal(ctx, w)
	}
	pause := c.pause(q, rand.Float64())
	c.compete(w)
	if !isHeld(c.queues.lastOf(q)) || !c.ask(q, w.resource) {
		_, err := c.doze(ctx, w, c.inTime(w, pause), nil)
		return err
	}
	defer q.lookout.Rest()
	begun := time.Now()
	why, err := c.doze(ctx, w, w.bound(min(pause, pushedPauseMost)), nil)
	if why == timeUp && err == nil {
		why, err = c.awaitPush(ctx, w)
	}
	// News that came much later than any pause is real. Earlier news may be a
	// push without a reason, and does not reset the pauses.
	if why == called || time.Since(begun) >= 2*c.pause(q, 1) {
		q.fails = 0
	}
	if why == signalled {
		err = c.enter(ctx, w)
	}
	return err
}

// ask asks the nodes to push. It returns false if too few of them do.
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
	answers := min(answersMost, max(answersLeast, answersPerQuorum*time.Duration(c.quorumTime.Load())))
	why, err := c.doze(ctx, w, w.bound(answers), q.lookout.Signal())
	if err != nil || why != timeUp {
		return why, err
	}
	limit := fallback() - answers
	if at, ok := q.lookout.Expiry(); ok {
		q.contests.ends = at
		// An attempt shortly before the expiry would fail, and the pause after
		// it would outlast the expiry.
		if end := max(0, time.Until(at)) + afterExpiry(); end < limit+2*pushedPauseMost {
			limit = end
		}
	}
	return c.doze(ctx, w, w.bound(limit), q.lookout.Signal())
}

// awaitLocal waits until the holder, which got the lock in this queue, releases
// it or hands it over, or until the lock must have expired.
func (c *Client) awaitLocal(ctx context.Context, w *waiter) error {
	_, err := c.doze(ctx, w, min(fallback(), w.queue.local+afterExpiry()), nil)
	return err
}

// pause returns the time to the next attempt after the failed ones. random is
// uniform in [0, 1), or 1 for the longest.
func (c *Client) pause(q *queue, random float64) time.Duration {
	usual := time.Duration(c.quorumTime.Load())
	if usual == 0 {
		usual = q.spent // this client has not had a quorum yet
	}
	return c.retryDelay(max(1, q.fails), usual, random)
}

func fallback() time.Duration {
	return fallbackMost/2 + rand.N(fallbackMost/2)
}

func afterExpiry() time.Duration { return expiryMargin + rand.N(expirySpread) }

// A reason is why a waiter woke.
type reason uint8

const (
	timeUp    reason = iota
	called           // its turn has come, or the lock was released here
	signalled        // by the lookout
)

// doze waits for the given time, a call, a signal, the end of ctx, or Close. It
// returns an error for the last two. If d is pure.Never, time does not end the
// wait.
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
