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

// The loads with plain locks: uncontended, contended, and cancelled.

// failurePause keeps callers from spinning if an attempt fails before anything
// was sent.
const failurePause = time.Millisecond

// How seldom an uncontended lock is extended, and how seldom it is compared
// with what the nodes hold. The looks cost more than the lock.
const (
	extendEach = 16
	lookEach   = 64
	askEach    = 128
)

// loadUncontended takes locks without competition, each with a name of its own,
// so that "held" can only be the answer to another question (R16).
func (w *worker) loadUncontended(caller int) {
	client := w.push
	for n := uint64(1); w.parking.pass(); n++ {
		resource := fmt.Sprintf("u:%d:%d:%d", w.Name, caller, n)
		start := time.Now()
		lock, err := client.TryAcquire(context.Background(), resource, w.MaxTTL)
		w.counters.attempt(err)
		if err != nil {
			if errors.Is(err, redlock.ErrHeld) {
				w.odd(start, false, "mix-up: a resource that was never asked for is held")
			}
			w.parking.sleep(failurePause)
			continue
		}
		if n%extendEach == 0 {
			lock = w.extend(lock, start)
		}
		switch {
		case n%lookEach == uint64(caller)%lookEach:
			w.inspectFromSide(lock, start)
		case n%askEach == uint64(caller)%askEach:
			w.inspectThroughClient(client, lock, start)
		}
		w.release(context.Background(), lock, start)
	}
}

// extend is counted apart from the operations.
func (w *worker) extend(lock redlock.Lock, start time.Time) redlock.Lock {
	longer, err := lock.Extend(context.Background(), w.MaxTTL)
	switch {
	case err == nil:
		w.count(Extensions)
		return longer
	case errors.Is(err, redlock.ErrNotHeld) && lock.Validity() > 0:
		w.odd(start, true, "an extension found the lock lost within its validity")
	}
	return lock
}

// release releases a lock. A lock that was lost while it was valid is a
// finding, unless nodes forgot their keys.
func (w *worker) release(ctx context.Context, lock redlock.Lock, start time.Time) error {
	w.breakRelease(lock)
	err := lock.Release(ctx)
	w.counters.release(err)
	if errors.Is(err, redlock.ErrNotHeld) && lock.Validity() > 0 {
		w.odd(start, true, "a release found the lock lost within its validity")
	}
	return err
}

// contendedKeys is the number of keys that all processes compete for.
const contendedKeys = 6

// loadContended competes: some callers wait until the nodes tell, some poll,
// some try once.
func (w *worker) loadContended(caller int) {
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|uint64(caller)))
	for w.parking.pass() {
		resource := fmt.Sprint("c:", random.IntN(contendedKeys))
		if nameless(caller) { // the same as others of its client
			resource = fmt.Sprint("c:", w.Name%contendedKeys)
		}
		patience := 50*time.Millisecond + randomTime(random, 500*time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		acquire := waiting(w.push)
		switch caller % 4 {
		case 2:
			acquire = waiting(w.poll)
		case 3:
			acquire = trying(w.push)
		}
		w.compete(ctx, random, caller, []string{resource}, acquire)
		cancel()
		// A caller that takes a key again at once leaves it to no other.
		w.parking.sleep(randomTime(random, 10*time.Millisecond))
	}
}

// loadCancelled competes with contexts that end at a random moment of the
// attempt.
func (w *worker) loadCancelled(caller int) {
	caller += firstCanceller
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|uint64(caller)))
	for n := uint64(0); w.parking.pass(); n++ {
		resource := fmt.Sprint("c:", random.IntN(contendedKeys))
		if n%2 == 0 { // every second one would have been granted
			resource = fmt.Sprintf("x:%d:%d:%d", w.Name, caller, n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		stop := time.AfterFunc(randomTime(random, 2*time.Millisecond), cancel)
		acquire := trying(w.push)
		if caller%2 == 0 {
			acquire = waiting(w.poll)
		}
		w.compete(ctx, random, caller, []string{resource}, acquire)
		stop.Stop()
		cancel()
	}
}

type acquirer = func(ctx context.Context, resources []string, ttl time.Duration) (redlock.Lock, error)

// trying and waiting are the acquirers that make one attempt, and that wait.
func trying(c *redlock.Client) acquirer {
	return func(ctx context.Context, resources []string, ttl time.Duration) (redlock.Lock, error) {
		return c.All(resources...).TryAcquire(ctx, ttl)
	}
}

func waiting(c *redlock.Client) acquirer {
	return func(ctx context.Context, resources []string, ttl time.Duration) (redlock.Lock, error) {
		return c.All(resources...).Acquire(ctx, ttl)
	}
}

// A bid is an attempt for a lock on contended resources, as the history has it.
type bid struct {
	caller    int
	resources []string
	attempt   uint64
	form      history.Form
	permits   int            // of a semaphore
	from      uint64         // the attempt that an upgrade or a downgrade came from
	rw        redlock.RWLock // of a read/write lock
}

func (w *worker) bid(caller int, resources ...string) bid {
	return bid{caller: caller, resources: resources, attempt: w.attempt.Add(1)}
}

// compete makes one attempt for a plain lock, works, and releases it.
func (w *worker) compete(ctx context.Context, random *rand.Rand, caller int, resources []string, acquire acquirer) {
	w.competeFor(ctx, random, w.bid(caller, resources...), func(ctx context.Context, ttl time.Duration) (redlock.Lock, error) {
		return acquire(ctx, w.breakSet(resources), ttl)
	})
}

// shortest is the least TTL of contended locks.
const shortest = 200 * time.Millisecond

// competeFor makes one attempt for any lock, works, and releases it. All of it
// goes into the history.
func (w *worker) competeFor(
	ctx context.Context, random *rand.Rand, b bid, acquire func(context.Context, time.Duration) (redlock.Lock, error),
) {
	ttl := shortest + randomTime(random, w.MaxTTL-shortest)
	switch {
	case b.form == history.FairForm:
		ttl = max(ttl, placeTime) // no place that is certain outlives the lock that follows it
	case nameless(b.caller):
		ttl = shortest // its keys live no longer than the next caller asks for
	}
	start := time.Now()
	w.attempts(b)
	lock, err := acquire(ctx, ttl)
	if w.denied(b, err) {
		w.parking.sleep(failurePause)
		return
	}
	w.note(history.Grant, b, lock, lock.Until())
	w.counters.kind(b.form, lock)
	if w.drops(random, ttl) {
		w.dropped(lock)
		return
	}
	w.parking.sleep(randomTime(random, 4*time.Millisecond))
	if random.IntN(8) == 0 {
		longer := w.extend(lock, start)
		if longer.Until() != lock.Until() {
			lock = longer
			w.note(history.Extend, b, lock, lock.Until())
		}
	}
	if b, lock, err = w.exchange(random, b, lock); err != nil {
		return
	}
	// With the attempt's context, which may have ended: the release goes out
	// all the same (R9).
	_ = w.giveUp(ctx, b, lock, start)
}

// giveUp releases a lock, and notes it.
func (w *worker) giveUp(ctx context.Context, b bid, lock redlock.Lock, start time.Time) error {
	until := lock.Until() // not of a lock that was handed over
	w.note(history.Release, b, lock, until)
	err := w.release(ctx, lock, start)
	w.note(releasedBy(err), b, lock, until)
	return err
}

// releasedBy returns the event of a release that ended with an error or nil.
func releasedBy(err error) history.Kind {
	switch {
	case err == nil:
		return history.Released
	case errors.Is(err, redlock.ErrNotHeld):
		return history.Lost
	}
	return history.Error
}

// drops reports whether a lock is left to its end, as by a crashed holder. The
// next holder gets it as soon as its keys have expired: then a validity that is
// a little too long shows (R4). Short locks are dropped more often, since all
// callers wait for the key.
func (w *worker) drops(random *rand.Rand, ttl time.Duration) bool {
	if ttl < 500*time.Millisecond {
		return random.IntN(10) == 0
	}
	return random.IntN(40) == 0
}

// dropped remembers locks whose keys will stay for some time.
func (w *worker) dropped(lock redlock.Lock) {
	token := lock.Token()
	digest := history.Digest(token[:])
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for digest, gone := range w.left {
		if gone.Before(now) {
			delete(w.left, digest)
		}
	}
	// On a slow node, whose clock steps back, they stand longer.
	w.left[string(digest[:])] = lock.Until().Add(w.MaxTTL/50 + 3*mostBack)
}

// refusal returns the event of an attempt that ended without the lock.
func refusal(err error) history.Kind {
	switch {
	case cancelled(err):
		return history.Cancel
	case errors.Is(err, redlock.ErrHeld):
		return history.Held
	case errors.Is(err, redlock.ErrNoQuorum):
		return history.NoQuorum
	case errors.Is(err, redlock.ErrExpired):
		return history.Expired
	}
	return history.Error
}

// randomTime is exponential with a mean of a quarter of the most, which it does
// not exceed: short times are the common ones.
func randomTime(random *rand.Rand, most time.Duration) time.Duration {
	return min(time.Duration(random.ExpFloat64()*float64(most)/4), most)
}
