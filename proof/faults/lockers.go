package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// The load with readers and writers, permits, and callers that are served in
// order.

const (
	rwKeys    = 2
	permitKey = "m"
	permits   = 3
	fairKey   = "f"
	// placeTime is for how long a place in the queue is certain after a
	// question, by this process's clock: half of a lease, of which a node leaves
	// three quarters at least.
	placeTime = 250 * time.Millisecond
)

func (w *worker) loadLockers(caller int) {
	number := firstLocker + caller
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|uint64(number)))
	for w.parking.pass() {
		b, locker := w.someLocker(random, number)
		if random.IntN(8) == 0 && b.rw == (redlock.RWLock{}) {
			options := redlock.HoldOptions{TTL: 600*time.Millisecond + randomTime(random, w.MaxTTL-600*time.Millisecond)}
			w.hold(random, b, func(ctx context.Context) (*redlock.Hold, error) {
				return locker.Hold(ctx, options)
			}, randomTime(random, 500*time.Millisecond))
		} else {
			w.useLocker(random, b, locker)
		}
		w.parking.sleep(randomTime(random, 10*time.Millisecond))
	}
}

// someLocker draws a kind of lock.
func (w *worker) someLocker(random *rand.Rand, caller int) (b bid, locker redlock.Locker) {
	switch n := random.IntN(8); {
	case n < 4:
		b = w.bid(caller, fmt.Sprint("r:", random.IntN(rwKeys)))
		b.rw, b.form = w.push.RW(b.resources[0]), history.ReadForm
		if n == 0 {
			b.form = history.WriteForm
			return b, w.breakWriter(b.rw)
		}
		return b, b.rw.Read()
	case n < 6:
		b = w.bid(caller, permitKey)
		b.form, b.permits = history.PermitForm, permits
		return b, w.semaphore
	}
	b = w.bid(caller, fairKey)
	b.form = history.FairForm
	return b, w.push.Fair(fairKey)
}

// useLocker makes one attempt, with a context that may end soon.
func (w *worker) useLocker(random *rand.Rand, b bid, locker redlock.Locker) {
	ctx, cancel := w.patience(context.Background(), random, b)
	defer cancel()
	acquire := locker.Acquire
	switch n := random.IntN(8); {
	case b.form == history.FairForm && w.breakQueue():
		acquire = func(ctx context.Context, ttl time.Duration) (redlock.Lock, error) {
			return w.push.Acquire(ctx, fairKey, ttl)
		}
	case n < 2:
		acquire = locker.TryAcquire
	case n == 2:
		soon, stop := context.WithTimeout(ctx, randomTime(random, 2*time.Millisecond))
		defer stop()
		ctx = soon
	}
	w.competeFor(ctx, random, b, acquire)
}

// bidKey is the key of a context's bid.
type bidKey struct{}

// asked is called after each attempt of push. It notes a place in a queue that
// is certain: until the nodes might forget it, or the caller leaves.
func (w *worker) asked(ctx context.Context, a redlock.CallInfo) {
	if a.Err == nil {
		return
	}
	b, ok := ctx.Value(bidKey{}).(bid)
	held := (*redlock.HeldError)(nil)
	if !ok || !errors.As(a.Err, &held) || held.Admitted < multiplex.Quorum(len(w.Nodes)) {
		return
	}
	until := a.Start.Add(placeTime)
	if leaves, ok := ctx.Deadline(); ok && leaves.Before(until) {
		until = leaves
	}
	w.count(Queued)
	w.note(history.Queued, b, redlock.Lock{}, until)
}

// exchange now and then makes a reader a writer for a while, or a writer a
// reader. With an error, nothing is held any more.
func (w *worker) exchange(random *rand.Rand, b bid, lock redlock.Lock) (bid, redlock.Lock, error) {
	if b.rw == (redlock.RWLock{}) || random.IntN(3) > 0 {
		return b, lock, nil
	}
	if b.form == history.ReadForm {
		w.upgrade(random, b, lock)
		return b, lock, nil
	}
	return w.downgrade(b, lock)
}

// next is the bid of an upgrade or a downgrade.
func (w *worker) next(b bid, form history.Form) bid {
	b.attempt, b.form, b.from = w.attempt.Add(1), form, b.attempt
	w.attempts(b)
	return b
}

func (w *worker) upgrade(random *rand.Rand, read bid, lock redlock.Lock) {
	b, start := w.next(read, history.WriteForm), time.Now()
	writer, err := b.rw.Upgrade(context.Background(), lock, w.MaxTTL)
	if w.denied(b, err) {
		return
	}
	w.note(history.Grant, b, writer, writer.Until())
	w.count(Upgrades)
	w.parking.sleep(randomTime(random, 4*time.Millisecond))
	_ = w.giveUp(context.Background(), b, writer, start)
}

func (w *worker) downgrade(write bid, lock redlock.Lock) (bid, redlock.Lock, error) {
	w.note(history.Release, write, lock, lock.Until()) // the write lock is over whatever comes of it
	b := w.next(write, history.ReadForm)
	reader, err := b.rw.Downgrade(context.Background(), lock, w.MaxTTL)
	if w.denied(b, err) {
		return b, redlock.Lock{}, err
	}
	w.note(history.Grant, b, reader, reader.Until())
	w.count(Downgrades)
	return b, reader, nil
}

// The load with fenced locks and with locks on several resources. They compete
// with each other, and some of them with plain locks and those of clients
// without numbers.

// setKeys is the number of keys of which locks on several resources have some,
// up to mostTogether.
const (
	setKeys      = 8
	mostTogether = 3
)

func (w *worker) loadFenced(caller int) {
	number := firstFencer + caller
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|uint64(number)))
	for w.parking.pass() {
		client, resources := w.fenced, someKeys(random)
		switch random.IntN(4) {
		case 0:
			client = w.push
		case 1: // one that plain locks want
			resources = []string{fmt.Sprint("c:", random.IntN(contendedKeys))}
		}
		w.fence(random, client, number, resources)
		w.parking.sleep(randomTime(random, 10*time.Millisecond))
	}
}

// fence makes one attempt of one of the three ways.
func (w *worker) fence(random *rand.Rand, client *redlock.Client, caller int, resources []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond+randomTime(random, 500*time.Millisecond))
	defer cancel()
	switch random.IntN(8) {
	case 0:
		options := redlock.HoldOptions{TTL: 600*time.Millisecond + randomTime(random, w.MaxTTL-600*time.Millisecond)}
		options.Heal = len(resources) == 1
		w.hold(random, w.bid(caller, resources...), func(ctx context.Context) (*redlock.Hold, error) { return client.All(resources...).Hold(ctx, options) }, randomTime(random, 500*time.Millisecond))
	case 1, 2, 3:
		w.compete(ctx, random, caller, resources, trying(client))
	default:
		w.compete(ctx, random, caller, resources, waiting(client))
	}
}

// someKeys draws some of the keys, in any order.
func someKeys(random *rand.Rand) (some []string) {
	for _, i := range random.Perm(setKeys)[:1+random.IntN(mostTogether)] {
		some = append(some, fmt.Sprint("s:", i))
	}
	return some
}
