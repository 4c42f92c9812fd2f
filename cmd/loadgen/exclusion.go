package main

import (
	"sync/atomic"
	"time"
)

// ownerWord says who of this process holds a resource: the end of the holder's
// validity in microseconds of the process's clock in the high bits, the holder
// plus one in the low ones, 0 for nobody. That the end is in the word is what
// makes the check exact: a holder whose validity has ended is no holder, and a
// grant over it no violation. A word fills a cache line, so that callers with a
// resource of their own do not slow one another.
type ownerWord struct {
	atomic.Uint64
	_ [56]byte
}

// A caller keeps two histograms of 30 KB, so the most callers need 4 GB.
const (
	callerBits = 16
	maxCallers = 1<<callerBits - 1
)

// claim is what one caller put into a word; 0 when there is nothing to free.
type claim uint64

func newClaim(caller int, until time.Duration) claim {
	return claim(uint64(max(until, 0)/time.Microsecond)<<callerBits | uint64(caller+1))
}

// until is rounded down to the microsecond, so that rounding never accuses.
func (c claim) until() time.Duration { return time.Duration(c>>callerBits) * time.Microsecond }

// take claims the resource for a caller whose lock is valid until the given
// time. It reports a violation when another's claim stood there and both are
// valid at one moment after it was seen, so that no pause of this goroutine,
// however long and wherever, can accuse anybody falsely.
func (w *ownerWord) take(caller int, until time.Duration, now func() time.Duration) (mine claim, violated bool) {
	mine = newClaim(caller, until)
	for {
		seen := claim(w.Load())
		if seen != 0 {
			at := now()
			if at >= mine.until() {
				return 0, false // ours has ended: nothing can be said, nothing is held
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

// free ends a claim. It must come before the release is sent. That another has
// taken the word over is no finding here: the taker has judged it.
func (w *ownerWord) free(mine claim) {
	if mine != 0 {
		w.CompareAndSwap(uint64(mine), 0)
	}
}
