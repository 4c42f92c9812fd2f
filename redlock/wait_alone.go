package redlock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// acquireAlone is Acquire for a lock that is not plain. The caller waits on its
// own, as the head of a queue that no other joins: for the key that was in the
// way of its last attempt.
func (c *Client) acquireAlone(ctx context.Context, r request, tries *int) (lock Lock, err error) {
	if r.form.is(fair) {
		r.form = c.queueUp(r.form)
		c.group.DelayClose(1) // so that Close lets the place be given up
		defer func() {
			if err != nil {
				c.leaveQueue(&r)
			}
			c.group.DelayClose(-1)
		}()
	}
	if err := c.leaveToRivals(ctx, &r); err != nil {
		return Lock{}, c.failed(ctx, err, nil)
	}
	if r.form.is(permit) {
		r.form.gate.wait(1)
		defer r.form.gate.wait(-1)
	}
	w := &waiter{request: r, queue: &queue{}}
	defer w.lookElsewhere("")
	q := w.queue
	p := patience{begun: time.Now()}
	far := false // the last attempt showed that it is too far away
	for {
		*tries++
		begun := time.Now()
		lock := Lock{client: c, resource: r.resource, form: r.form, ttl: r.ttl}
		if far && r.form.is(writing) {
			lock.form = r.form.unmarked()
		}
		err := c.tryAlone(ctx, w, *tries, &lock)
		q.spent = time.Since(begun)
		if err == nil {
			c.recall(w)
			return lock, nil
		}
		if cancelled, ok := err.(*CancelledError); ok {
			cancelled.Last = q.last
			return Lock{}, err
		}
		if !c.triesAgain(err) || *tries == c.config.MaxTries {
			return Lock{}, err
		}
		if err := c.impatient(&p, err); err != nil {
			return Lock{}, err
		}
		if far = !isHeld(err) && c.tooFar(r.ttl); far && r.form.is(fair) && !r.form.turn.kept {
			c.moveBack(&r, q.spent, 0)
		}
		q.last = err
		q.fails++
		q.contests.lose(err)
		if err := c.awaitAlone(ctx, w, begun); err != nil {
			return Lock{}, c.failed(ctx, err, q.last)
		}
	}
}

// tryAlone is one attempt of a caller that waits on its own. Of those that wait
// for one semaphore, a few ask the nodes at one time: see gate.
func (c *Client) tryAlone(ctx context.Context, w *waiter, try int, lock *Lock) error {
	if !lock.form.is(permit) || try == 1 || c.config.MaxTries > 0 || c.config.Poll {
		return c.try(ctx, try, lock)
	}
	g := lock.form.gate
	asks, err := g.enter(ctx, c.over(ctx))
	if err != nil {
		return c.failed(ctx, err, w.queue.last)
	}
	defer g.leave()
	if !asks {
		return w.queue.last
	}
	return c.try(ctx, try, lock)
}

// tooFar reports whether a quorum of nodes usually answers too late for locks
// with this TTL. Such a caller cannot get any, so it must not stop the others
// while it waits: its attempts leave no mark, and no place in a queue unless a
// quorum has once said in time that it has one.
func (c *Client) tooFar(ttl time.Duration) bool {
	near := 0
	for _, n := range c.group.Nodes() {
		if n.ReplyTime <= pure.VoteTimeout(c.config.NodeTimeout, ttl, n.ReplyTime) {
			near++
		}
	}
	return near < multiplex.Quorum(len(c.config.Nodes))
}

// awaitAlone waits until there is a reason for the next attempt. The last one
// began at the given time.
func (c *Client) awaitAlone(ctx context.Context, w *waiter, begun time.Time) error {
	q := w.queue
	held := (*HeldError)(nil)
	knows := errors.As(q.last, &held)
	if knows {
		w.soon = held.hint.soon
	}
	w.by = time.Time{}
	if w.soon > 0 {
		w.by = begun.Add(w.soon)
	}
	if c.config.MaxTries > 0 || c.config.Poll || !knows {
		delay := c.retryDelay(q.fails, time.Duration(c.quorumTime.Load()), rand.Float64())
		return sleep(ctx, c.inTime(w, delay), c.over(ctx))
	}
	w.lookElsewhere(cmp.Or(held.hint.key, held.Resource))
	return c.lookOut(ctx, w)
}

// bound returns the shorter of a time and what is left until by.
func (w *waiter) bound(d time.Duration) time.Duration {
	if w.by.IsZero() {
		return d
	}
	return min(d, time.Until(w.by))
}

// inTime bounds the delay of a waiter that polls. A higher Config.RetryDelayMin
// counts all the same.
func (c *Client) inTime(w *waiter, delay time.Duration) time.Duration {
	return min(delay, max(w.bound(delay), c.config.RetryDelayMin))
}

// lookElsewhere ends the lookout for a key, unless it is the one to wait for
// next.
func (w *waiter) lookElsewhere(key string) {
	q := w.queue
	if w.resource == key {
		return
	}
	w.resource, q.fails = key, 1
	if q.lookout != nil {
		q.lookout.Stop()
		q.lookout = nil
	}
}
