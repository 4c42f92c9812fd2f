package main

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ownerWord records which caller of this process holds a resource: the end of
// the holder's validity in microseconds of the process's clock in the high
// bits, the holder plus one in the low bits, or 0 for none. Since the end is in
// the word, the check is exact: a holder whose validity has ended is no holder,
// and another grant then no violation. A word fills a cache line, so that
// callers with resources of their own do not slow each other down.
type ownerWord struct {
	atomic.Uint64
	_ [56]byte
}

// A caller has two histograms of 30 KB, so the most callers need 4 GB.
const (
	callerBits = 16
	maxCallers = 1<<callerBits - 1
)

// claim is the word of one caller, or 0 if there is nothing to free.
type claim uint64

func newClaim(caller int, until time.Duration) claim {
	return claim(uint64(max(until, 0)/time.Microsecond)<<callerBits | uint64(caller+1))
}

// until is rounded down to the microsecond, so that rounding causes no false
// violation.
func (c claim) until() time.Duration { return time.Duration(c>>callerBits) * time.Microsecond }

// take claims the resource for a caller whose lock is valid until the given
// time. It reports a violation if it found another caller's claim and both were
// valid at a moment after that. So no pause of this goroutine, wherever and
// however long, causes a false violation.
func (w *ownerWord) take(caller int, until time.Duration, now func() time.Duration) (mine claim, violated bool) {
	mine = newClaim(caller, until)
	for {
		seen := claim(w.Load())
		if seen != 0 {
			at := now()
			if at >= mine.until() {
				return 0, false // our own validity has ended: nothing is held
			}
			if seen.until() > at {
				return 0, true
			}
		}
		if w.CompareAndSwap(uint64(seen), uint64(mine)) {
			return mine, false
		}
	}
}

// free ends a claim. It must be called before the release is sent. If another
// caller has replaced the claim, that is no finding here: take has checked it.
func (w *ownerWord) free(mine claim) {
	if mine != 0 {
		w.CompareAndSwap(uint64(mine), 0)
	}
}

// A crowd records the callers of this process that hold a resource which several
// may hold. Like an ownerWord it compares ends of validity. It is not made for
// speed.
type crowd struct {
	mu  sync.Mutex // guards the following
	all []holder
}

// A holder has a claim, and room for so many holders with it.
type holder struct {
	claim
	room int
}

// take claims the resource for a caller, like ownerWord.take. It reports a
// violation if there are more holders now than one of them has room for.
func (c *crowd) take(caller int, until time.Duration, room int, now func() time.Duration) (mine claim, violated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine, at := newClaim(caller, until), now()
	if at >= mine.until() {
		return 0, false
	}
	c.all = slices.DeleteFunc(c.all, func(h holder) bool { return h.until() <= at })
	c.all = append(c.all, holder{mine, room})
	least := math.MaxInt
	for _, h := range c.all {
		least = min(least, h.room)
	}
	return mine, len(c.all) > least
}

func (c *crowd) free(mine claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(h holder) bool { return h.claim == mine })
}

// take and free claim a resource and end the claim.
func (c *caller[L]) take(resource int, until time.Duration) (mine claim, violated bool) {
	if c.flags.Kind.shared() {
		return c.crowds[resource].take(c.id, until, c.room, c.clock.now)
	}
	return c.owners[resource].take(c.id, until, c.clock.now)
}

func (c *caller[L]) free(resource int, mine claim) {
	if c.flags.Kind.shared() {
		c.crowds[resource].free(mine)
		return
	}
	c.owners[resource].free(mine)
}
