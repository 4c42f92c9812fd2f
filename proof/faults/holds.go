package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// The load with holds, which renew and heal themselves. Some are contended,
// some live for many renewals.

// heldKeys is the number of keys that all processes compete for with holds.
const heldKeys = 2

// holdTick is how often a holder looks at its hold.
const holdTick = 5 * time.Millisecond

func (w *worker) loadHolds(caller int) {
	number := firstHolder + caller
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|uint64(number)))
	for w.parking.pass() {
		resource, life := fmt.Sprint("h:", random.IntN(heldKeys)), randomTime(random, time.Second)
		if caller%2 == 0 { // one of its own, for long
			resource, life = fmt.Sprintf("l:%d:%d", w.Name, caller), randomTime(random, 20*time.Second)
		}
		// At least as long as a busy machine leaves a process alone; shorter
		// ones are renewed more often.
		ttl := 600*time.Millisecond + randomTime(random, w.MaxTTL-600*time.Millisecond)
		if nameless(number) {
			ttl = 600 * time.Millisecond
		}
		options := redlock.HoldOptions{TTL: ttl, Heal: caller%4 < 2}
		if random.IntN(4) == 0 {
			options.MinHold = randomTime(random, 100*time.Millisecond)
		}
		w.hold(random, w.bid(number, resource), func(ctx context.Context) (*redlock.Hold, error) {
			return w.push.Hold(ctx, resource, options)
		}, life)
		w.parking.sleep(randomTime(random, 20*time.Millisecond))
	}
}

// hold takes a hold, works under it for some time or until it is lost, and
// releases it.
func (w *worker) hold(random *rand.Rand, b bid, begin func(context.Context) (*redlock.Hold, error), life time.Duration) {
	ctx, cancel := w.patience(context.Background(), random, b)
	defer cancel()
	start := time.Now()
	w.attempts(b)
	h, err := begin(ctx)
	if w.denied(b, err) {
		w.parking.sleep(failurePause)
		return
	}
	w.count(Holds)
	lock, told := w.under(h.Context(), h, b, life)
	lost := h.Err() != nil
	err = h.Release(context.Background())
	w.forget(h)
	w.counters.release(err)
	if errors.Is(err, redlock.ErrNotHeld) && !lost && time.Until(told) > 0 {
		w.odd(start, true, "a hold was lost within its validity, and its holder not told")
	}
	w.note(releasedBy(err), b, lock, told)
	if lost {
		w.count(Losses)
	}
}

// patience returns a context for an attempt that may wait.
func (w *worker) patience(ctx context.Context, random *rand.Rand, b bid) (context.Context, context.CancelFunc) {
	if b.form == history.FairForm {
		ctx = context.WithValue(ctx, bidKey{}, b)
	}
	return context.WithTimeout(ctx, 50*time.Millisecond+randomTime(random, 500*time.Millisecond))
}

// under works under a hold for some time or until ctx ends, and notes all of
// it up to the release, which is the caller's. It returns the lock, and the last
// end of its validity that was noted.
func (w *worker) under(ctx context.Context, h *redlock.Hold, b bid, life time.Duration) (lock redlock.Lock, told time.Time) {
	w.keep(h)
	lock = h.Current()
	told = lock.Until()
	w.note(history.Grant, b, lock, told)
	w.counters.kind(b.form, lock)
	w.parking.park()
	told = w.workUnder(ctx, h, b, told, life)
	w.parking.unpark()
	// What ends the hold comes first: from its release on another may rightly
	// have the lock.
	if !w.breakLeader(b) {
		w.note(history.Release, b, lock, told)
	}
	return lock, told
}

// workUnder looks at the hold again and again, records its renewals, and checks
// that its end is told in time. It returns the last end of validity that was
// recorded.
func (w *worker) workUnder(ctx context.Context, h *redlock.Hold, b bid, told time.Time, life time.Duration) time.Time {
	ends := time.Now().Add(life)
	tick := time.NewTicker(holdTick)
	defer tick.Stop()
	for time.Now().Before(ends) {
		select {
		case <-ctx.Done():
			return told
		case <-w.parking.stopped:
			return told
		case <-tick.C:
		}
		w.checkTold(h)
		until, now := h.Until(), time.Now()
		if h.Err() != nil {
			return told
		}
		// If the validity that was told ended unseen, because this process was
		// stopped, the history is left as it is: what the renewal was worth
		// meanwhile is not known here.
		if until.After(told) && now.Before(told) {
			told = until
			w.note(history.Extend, b, h.Current(), told)
		}
	}
	return told
}

// checkTold checks that a hold that is over reports it (R13, R15). The end is
// read before and after, because a renewal may have moved it between.
func (w *worker) checkTold(h *redlock.Hold) {
	end, now := h.Until(), time.Now()
	if now.Before(end) {
		return
	}
	if h.Err() == nil && h.Until().Equal(end) {
		w.odd(now, false, "the holder was not told that its hold is over (R13, R15)")
	}
}

// keep and forget list the holds that live.
func (w *worker) keep(h *redlock.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[h] = struct{}{}
}

func (w *worker) forget(h *redlock.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, h)
}
