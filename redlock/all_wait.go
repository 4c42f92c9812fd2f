package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// acquireAll is Acquire for several resources. The caller waits on its own, as
// the head of a queue that no other joins: for the resource that was in the way
// of its last attempt.
func (c *Client) acquireAll(ctx context.Context, r request, tries *int) (Lock, error) {
	w := &waiter{request: r, queue: &queue{}}
	defer w.lookElsewhere("")
	q := w.queue
	p := patience{begun: time.Now()}
	for {
		*tries++
		begun := time.Now()
		lock := Lock{client: c, resource: r.resource, all: r.all, ttl: r.ttl}
		err := c.try(ctx, *tries, &lock)
		q.spent = time.Since(begun)
		if err == nil {
			return lock, nil
		}
		if cancelled, ok := err.(*CancelledError); ok {
			cancelled.Last = q.last
		}
		if !c.triesAgain(err) || *tries == c.config.MaxTries {
			return Lock{}, err
		}
		if err := c.impatient(&p, err); err != nil {
			return Lock{}, err
		}
		q.last = err
		q.fails++
		if err := c.awaitAll(ctx, w); err != nil {
			return Lock{}, c.failed(ctx, err, q.last)
		}
	}
}

// awaitAll waits until there is a reason for the next attempt.
func (c *Client) awaitAll(ctx context.Context, w *waiter) error {
	q := w.queue
	held := (*HeldError)(nil)
	if c.config.MaxTries > 0 || c.config.Poll || !errors.As(q.last, &held) {
		delay := c.retryDelay(q.fails, time.Duration(c.quorumTime.Load()), rand.Float64())
		return sleep(ctx, delay, c.over(ctx))
	}
	w.lookElsewhere(held.Resource)
	return c.lookOut(ctx, w)
}

// lookElsewhere ends the lookout for a resource, unless it is the one to wait
// for next.
func (w *waiter) lookElsewhere(resource string) {
	q := w.queue
	if w.resource == resource {
		return
	}
	w.resource, q.fails = resource, 1
	if q.lookout != nil {
		q.lookout.Stop()
		q.lookout = nil
	}
}
