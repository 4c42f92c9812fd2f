package sim

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Read/write locks, semaphores and fair locks, on resources of their own.

// permits are those of the semaphore, by most callers; some name one more.
const permits = 2

// attemptRounds is how many rounds an attempt for a permit may take.
const attemptRounds = 4

// exchangeErrors are those of Upgrade and Downgrade.
var exchangeErrors = append([]error{redlock.ErrNotHeld}, attemptErrors...)

// lockWith takes one of these locks once, and may turn a reader into a writer or
// a writer into a reader.
func (k *worker) lockWith() {
	p, ttl := k.process, k.ttl()
	rw := p.client.RW("w")
	t := &tenure{of: k, since: time.Now(), ttl: ttl, room: 1, unkeyed: true}
	var with redlock.Locker
	switch k.random.IntN(6) {
	case 0, 1:
		with, t.resource, t.room = rw.Read(), "w", math.MaxInt
	case 2:
		with, t.resource, t.unkeyed = rw.Write(), "w", false
	case 3, 4:
		t.resource, t.room = "s", permits+k.random.IntN(4)/3
		with = p.client.Semaphore("s", t.room)
	default:
		with, t.resource, t.unkeyed = p.client.Fair("f"), "f", false
	}
	if !k.take(t, with) {
		return
	}
	k.pause(span(k.random, t.lock.Validity()))
	switch n := k.random.IntN(4); {
	case n == 0 && t.room == math.MaxInt:
		k.upgrade(rw, t)
	case n == 0 && t.resource == "w":
		if t = k.downgrade(rw, t); t == nil {
			return
		}
	case n == 1:
		longer, err := t.lock.Extend(context.WithValue(context.Background(), workerKey{}, k), ttl)
		k.expectHeld("Extend", t.lock, err)
		if err == nil {
			p.world.referee.extended(t, ttl, longer)
		}
	}
	k.pause(span(k.random, t.lock.Validity()))
	if p.isDead() || k.random.IntN(8) == 0 {
		return // it is left to its TTL
	}
	k.expectHeld("Release", t.lock, k.release(t, 0, t.lock.Release))
}

// take acquires the lock of a tenure, and reports whether it was granted.
func (k *worker) take(t *tenure, with redlock.Locker) bool {
	w := k.process.world
	ctx, cancel := k.patience(300 * ms)
	defer cancel()
	name, most, errs, acquire := "TryAcquire", attemptRounds*w.draw.voteTimeout(), attemptErrors, with.TryAcquire
	if k.random.IntN(3) > 0 {
		name, most, errs, acquire = "Acquire", waitForCtx, acquireErrors, with.Acquire
	}
	err := k.call(name, most, ctx, errs, func() (err error) {
		t.lock, err = acquire(ctx, t.ttl)
		return err
	})
	if err != nil {
		return false
	}
	w.count("grants to "+t.resource, 1)
	w.referee.begin(t)
	k.process.awake()
	return true
}

// upgrade makes a reader the writer for a while.
func (k *worker) upgrade(rw redlock.RWLock, read *tenure) {
	w := k.process.world
	t := &tenure{of: k, resource: "w", since: time.Now(), ttl: read.ttl, room: 1, under: read}
	ctx := context.WithValue(context.Background(), workerKey{}, k)
	err := k.call("Upgrade", 0, ctx, exchangeErrors, func() (err error) {
		t.lock, err = rw.Upgrade(ctx, read.lock, t.ttl)
		return err
	})
	if err != nil {
		return
	}
	w.count("upgrades", 1)
	w.referee.begin(t)
	k.pause(span(k.random, t.lock.Validity()))
	k.expectHeld("Release", t.lock, k.release(t, 0, t.lock.Release))
}

// downgrade makes the writer a reader. It returns nil if it holds nothing then.
func (k *worker) downgrade(rw redlock.RWLock, write *tenure) *tenure {
	w := k.process.world
	t := &tenure{of: k, resource: "w", since: time.Now(), ttl: write.ttl, room: math.MaxInt, unkeyed: true}
	w.referee.gaveUp(write)
	ctx := context.WithValue(context.Background(), workerKey{}, k)
	err := k.call("Downgrade", 0, ctx, exchangeErrors, func() (err error) {
		t.lock, err = rw.Downgrade(ctx, write.lock, t.ttl)
		return err
	})
	if err != nil {
		return nil
	}
	w.count("downgrades", 1)
	w.referee.begin(t)
	return t
}

// crowded reports whether the holders of a resource are too many: the last one
// is new. Of permits, the most that any of them named is the limit.
func crowded(holders []*tenure) bool {
	n, last := len(holders), holders[len(holders)-1]
	if last.resource == "s" {
		return n > slices.MaxFunc(holders, func(a, b *tenure) int { return a.room - b.room }).room
	}
	under := last.under
	if under != nil && slices.Contains(holders, under) {
		n-- // its holder has both locks
	}
	return slices.ContainsFunc(holders, func(t *tenure) bool { return t != under && n > t.room })
}

// ofLockers are the ends of keys of such locks that no holder owns: they end by
// themselves.
var ofLockers = []string{"w:redlock:mark", "w:redlock:readers", "s:redlock:wanted", "s:redlock:permits", "f:redlock:ticket", "f:redlock:queue"}

func isOfLockers(key string) bool {
	for _, end := range ofLockers {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return strings.Contains(key, "f:redlock:queue:") || strings.HasSuffix(key, "f:redlock:turn")
}
