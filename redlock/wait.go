package redlock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
)

// How a caller waits in its turn. The nodes' reports are hints (see
// multiplex.Lookout), so it also tries now and then without one.
const (
	// fallbackMost bounds the time between two attempts of a head without news;
	// half of it is random.
	fallbackMost = kind.LongestPause
	// expiryMargin, and a random part of expirySpread, is how long after the
	// key's expiry the head tries: a server forgets a key a millisecond after
	// its end, but looks for such keys, and pushes, 4 to 18 ms later. The
	// spread keeps clients apart.
	expiryMargin = time.Millisecond
	expirySpread = 4 * time.Millisecond
	// pushedPauseMost bounds the pause before the head listens to pushes. So
	// pushes without a reason cause at most fifty attempts a second.
	pushedPauseMost = 20 * time.Millisecond
	// The head waits for the nodes' answers to its question for
	// answersPerQuorum times the usual time to a quorum, but at least for
	// answersLeast, and at most for answersMost. It is part of the time up to
	// fallbackMost.
	answersLeast     = 5 * time.Millisecond
	answersMost      = fallbackMost / 2
	answersPerQuorum = 4
)

// wait is Acquire without the tracer. If other callers of this client already
// wait for the same lock, it waits behind them, or with Config.Retry.Tries
// beside them. Otherwise it makes its first attempt at once. A caller that
// keeps a place at the nodes makes it in the queue: without a seat it would not
// renew the place, and those behind it would wait until that has lapsed.
func (c *Client) wait(ctx context.Context, r request, tries *int) (Lock, error) {
	apart := c.config.Retry.Tries > 0
	begun := time.Now()
	var last error
	if apart || !r.kind.Traits().KeepsPlace && !c.queues.has(r.key()) {
		if err := c.leaveToRivals(ctx, &r); err != nil {
			return Lock{}, c.failed(ctx, err, nil)
		}
		lock := c.wanted(r.kind, r.name, r.ttl)
		lock.grant.Label = r.label
		*tries++
		if last = c.try(ctx, *tries, &lock); last == nil {
			c.rivals.regained(&r, true)
			return lock, nil
		}
		if !c.config.goesOn(last, *tries) {
			return Lock{}, last
		}
	} else if err := c.checkWait(ctx, &r); err != nil {
		return Lock{}, err
	}
	r.ttl = pure.WholeMilliseconds(r.ttl)
	w := c.queues.join(c, r, last, time.Since(begun), apart)
	defer w.leave()
	w.begun = begun
	w.judgeDistance(last)
	return w.waitInTurn(ctx, last, tries)
}

// waitInTurn waits in a queue for the lock. last is the error of the caller's
// first attempt; nil without one.
func (w *waiter) waitInTurn(ctx context.Context, last error, tries *int) (Lock, error) {
	c := w.client
	p := patience{begun: w.begun}
	for {
		if err := c.impatient(&p, last); err != nil {
			c.queues.giveBackDue(w.queue) // the next caller finds that out at once
			return Lock{}, err
		}
		if err := w.await(ctx); err != nil {
			return Lock{}, c.failed(ctx, err, c.queues.lastOf(w.queue))
		}
		*tries++
		lock, err := w.tryInTurn(ctx, *tries)
		if err == nil {
			return lock, nil
		}
		if last = err; !c.config.goesOn(err, *tries) {
			c.queues.giveBackDue(w.queue)
			return Lock{}, err
		}
	}
}

// goesOn reports whether Acquire goes on after an attempt with an error.
func (config *Config) goesOn(err error, tries int) bool {
	_, cancelled := err.(*CancelledError) // which is also the last attempt's error
	return !cancelled && config.triesAgain(err) && tries != config.Retry.Tries
}

// await waits in a queue for the caller's turn, for a reason to try, and for
// other clients to have had their turn. Then the caller makes an attempt, or
// takes the lock handed to it.
func (w *waiter) await(ctx context.Context) error {
	c := w.client
	for !c.queues.hasTurn(w) {
		if _, err := w.doze(ctx, pure.Never, nil); err != nil {
			return err
		}
	}
	if !c.queues.isDue(w) {
		if err := w.lookOut(ctx); err != nil {
			return err
		}
	}
	return w.giveWay(ctx)
}

// checkWait returns the error of a TryAcquire in the caller's turn, but at
// once.
func (c *Client) checkWait(ctx context.Context, r *request) error {
	ttl, err := c.config.checkLock(r.kind, r.name, r.ttl)
	switch {
	case err != nil:
		return err
	case c.config.late(ttl, 0, pure.Drift(ttl, c.config.DriftFactor)):
		return c.config.tooShort(ttl)
	}
	return c.failed(ctx, ctx.Err(), nil)
}

// tryInTurn makes one attempt, or takes the lock handed to the caller.
func (w *waiter) tryInTurn(ctx context.Context, try int) (Lock, error) {
	c := w.client
	if b := c.queues.begin(w); b != nil {
		lock, err := w.take(ctx, b, try)
		if err != nil {
			c.queues.notTaken(w)
			err = ErrExpired // the caller goes on, whatever it was
		}
		return lock, err
	}
	begun := c.keeper.clock()
	w.begun = begun.at
	lock := c.wanted(w.next, w.name, w.ttl)
	lock.grant.Label = w.label
	err := c.try(ctx, try, &lock)
	w.seat.spent = time.Since(begun.at)
	if err == nil {
		w.recall()
		before := c.queues.granted(w)
		if w.kind.Traits().HandsOver {
			lock.tenure = newTenure(w.ttl, begun, c.streakAfter(before, begun.at))
		}
		return lock, nil
	}
	if cancelled, ok := err.(*CancelledError); ok {
		cancelled.Last = c.queues.lastOf(w.queue)
	} else if c.config.triesAgain(err) {
		c.queues.failed(w, err)
		w.judgeDistance(err)
	}
	return Lock{}, err
}

// judgeDistance notes after a failed attempt whether a quorum is too far away.
func (w *waiter) judgeDistance(err error) {
	c := w.client
	w.next = w.kind
	if err != nil && !isHeld(err) && w.tooFar() {
		w.next = kind.TooFar(w.kind, &rounds{client: c}, w.name, time.Since(w.begun))
	}
}

// tooFar reports whether a quorum of nodes usually answers too late for locks
// with this TTL. Such a caller cannot get any, so its wait must not stop the
// others: its attempts leave no mark. They leave a place in a queue only after
// a quorum has once confirmed it in time.
func (w *waiter) tooFar() bool {
	c := w.client
	near := 0
	for _, n := range c.group.Nodes() {
		if n.ReplyTime <= pure.VoteTimeout(c.config.NodeTimeout, w.ttl, n.ReplyTime) {
			near++
		}
	}
	return near < multiplex.Quorum(len(c.config.Nodes))
}

// lookOut blocks a caller in its turn until there is a reason to try. The
// reason depends on what is known of the lock:
//
//   - It was granted in this queue: its holder is here, and calls on release.
//   - Another client holds it: the nodes push a change.
//   - The holder is unknown, the nodes do not push, or Config.Retry.Tries is
//     set: time passes (R11).
//
// Attempts that fail one after another come at growing and random distances,
// whatever else happens. So clients woken by the same push drift apart, and
// pushes without a reason do not cause endless attempts. Only after a release
// by this client does the caller try at once.
func (w *waiter) lookOut(ctx context.Context) error {
	c := w.client
	s := w.seat
	if w.queue.local > 0 {
		_, err := w.doze(ctx, min(fallback(), w.queue.local+afterExpiry()), nil)
		return err
	}
	last := c.queues.lastOf(w.queue)
	w.mustAskAgain(last)
	pause := w.pause(rand.Float64())
	w.compete()
	if c.config.Retry.Tries > 0 || !isHeld(last) || !w.ask(keyInTheWay(last, &w.request)) {
		// A higher Config.Retry.MinDelay counts all the same.
		_, err := w.doze(ctx, min(pause, max(w.bound(pause), c.config.Retry.MinDelay)), nil)
		return err
	}
	defer s.lookout.Rest()
	begun := time.Now()
	why, err := w.doze(ctx, w.bound(min(pause, pushedPauseMost)), nil)
	if why == timeUp && err == nil {
		why, err = w.awaitPush(ctx)
	}
	// News much later than any pause is real. Earlier news may be a push
	// without a reason, and does not reset the pauses.
	if why == called || time.Since(begun) >= 2*w.pause(1) {
		s.fails = 0
	}
	if why == signalled {
		err = w.enter(ctx)
	}
	return err
}

// keyInTheWay returns the key for the nodes to push about, without the prefix.
// It is "" for an unknown one.
func keyInTheWay(err error, r *request) string {
	if held := (*HeldError)(nil); errors.As(err, &held) && held.key+held.Resource != "" {
		return cmp.Or(held.key, held.Resource)
	}
	if r.kind.Traits().Alone {
		return r.name
	}
	return ""
}

// ask asks the nodes to push about a key. It returns false if too few of them
// do.
func (w *waiter) ask(key string) bool {
	s := w.seat
	if s.key != key {
		s.stop()
		s.key, s.fails = key, 1
	}
	if s.lookout == nil && key != "" {
		s.lookout = w.client.group.Lookout([]byte(w.client.config.Prefix + key))
	}
	return s.lookout != nil && s.lookout.Ask()
}

// awaitPush waits for a sign of a free lock, a push or the expiry of the key,
// but not much longer than a second.
func (w *waiter) awaitPush(ctx context.Context) (reason, error) {
	c := w.client
	s := w.seat
	answers := min(answersMost, max(answersLeast, answersPerQuorum*time.Duration(c.quorumTime.Load())))
	why, err := w.doze(ctx, w.bound(answers), s.lookout.Signal())
	if err != nil || why != timeUp {
		return why, err
	}
	limit := fallback() - answers
	if at, ok := s.lookout.Expiry(); ok {
		s.contests.ends = at
		// An attempt shortly before the expiry would fail, and the pause after
		// it would outlast the expiry.
		if end := max(0, time.Until(at)) + afterExpiry(); end < limit+2*pushedPauseMost {
			limit = end
		}
	}
	return w.doze(ctx, w.bound(limit), s.lookout.Signal())
}

// pause returns the time to the next attempt after the failed ones (R11).
// random is uniform in [0, 1), or 1 for the longest.
func (w *waiter) pause(random float64) time.Duration {
	c, s := w.client, w.seat
	usual := time.Duration(c.quorumTime.Load())
	if usual == 0 {
		usual = s.spent // this client has not had a quorum yet
	}
	return pure.RetryDelay(max(1, s.fails), usual, c.config.Retry.MinDelay, c.config.Retry.MaxDelay, random)
}

// mustAskAgain notes the latest time for the next attempt, after one from
// w.begun on has failed with an error.
func (w *waiter) mustAskAgain(err error) {
	if held := (*HeldError)(nil); errors.As(err, &held) {
		w.retryEvery = held.soon
	}
	w.retryBy = time.Time{}
	if w.retryEvery > 0 {
		w.retryBy = w.begun.Add(w.retryEvery)
	}
}

// bound returns the shorter of a time and the rest before retryBy.
func (w *waiter) bound(d time.Duration) time.Duration {
	if w.retryBy.IsZero() {
		return d
	}
	return min(d, time.Until(w.retryBy))
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
// returns an error for the last two. With d = pure.Never, time does not end the
// wait.
func (w *waiter) doze(ctx context.Context, d time.Duration, signal <-chan struct{}) (reason, error) {
	c := w.client
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

// triesAgain reports whether Acquire retries after an error.
func (config *Config) triesAgain(err error) bool {
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrExpired), errors.Is(err, ErrOverloaded):
		return true
	case errors.Is(err, ErrNoQuorum):
		return !config.Retry.FailFast
	default:
		return false
	}
}

// sleep waits. It returns the context's error at the end of ctx, and ErrClosed
// once done is closed.
func sleep(ctx context.Context, d time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(max(pure.Soon, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return ErrClosed
	}
}
