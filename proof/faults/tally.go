package faults

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// A Count is something that client processes count, or the run.
type Count int

const (
	Operations Count = iota // acquisitions that were granted, and releases that a quorum confirmed

	// Attempts are all calls that asked for a lock; the others say what came of
	// them. Failed are those that ended with any other error: there should be
	// none.
	Attempts
	Grants
	Held
	NoQuorum
	Expired
	Overloaded
	Cancelled
	Failed

	HandedOver // grants of which no node was asked
	Fenced     // grants with a fencing number
	Sets       // grants on several resources
	FencedSets // grants that are both
	Renumbered // second rounds, since the number of the first was too low
	NoFloor    // those of NoQuorum for which nodes had no floor

	Reads
	Writes
	Permits
	InOrder // fair locks
	Upgrades
	Downgrades
	Gone   // upgrades and downgrades whose lock was over
	Queued // answers with a place in the queue
	Terms  // of leaders
	StepsDown

	Extensions     // asked for and granted
	Renewals       // those that holds made by themselves
	Holds          // that began
	Losses         // holds that ended before they were released
	ReleasesUnsure // ended without a quorum's answer, or their caller left
	ReleasesLost   // found the lock no longer theirs
	Looks          // locks that were compared with what the nodes hold

	// Of the run.
	Majorities // how often so many nodes were faulty that no quorum was left
	Rests
	Looked     // in how many rests orphans were looked for: not where a client had been killed lately, or all keys had ended
	Keys       // of living holds, found in the rests
	Excused    // locks that vanished while nodes forgot
	Resets     // of the fence
	AfterReset // grants with a number above the floor of the first

	// Of the history.
	Events
	Contended // grants
	Empty     // grants that were over when told
	Overdue   // locks that outlived their validity

	counts
)

// A Tally is how often each was counted.
type Tally [counts]uint64

// add puts what another process did to this.
func (t *Tally) add(o Tally) {
	for i, n := range o {
		t[i] += n
	}
}

// counters are a Tally that many goroutines add to.
type counters [counts]atomic.Uint64

func (c *counters) count(what Count) { c[what].Add(1) }

// attempt counts an attempt by what came of it.
func (c *counters) attempt(err error) {
	c.count(Attempts)
	switch {
	case err == nil:
		c.count(Grants)
		c.count(Operations)
	case cancelled(err): // first, because it is also what the last attempt came to
		c.count(Cancelled)
	case errors.Is(err, redlock.ErrHeld):
		c.count(Held)
	case errors.Is(err, redlock.ErrNoQuorum):
		c.count(NoQuorum)
		if errors.Is(err, redlock.ErrNoFloor) {
			c.count(NoFloor)
		}
	case errors.Is(err, redlock.ErrExpired):
		c.count(Expired)
	case errors.Is(err, redlock.ErrOverloaded):
		c.count(Overloaded)
	case errors.Is(err, redlock.ErrNotHeld): // of an upgrade or a downgrade
		c.count(Gone)
	default:
		c.count(Failed)
	}
}

// kind counts a grant by what kind of lock it is.
func (c *counters) kind(form history.Form, lock redlock.Lock) {
	switch form {
	case history.ReadForm:
		c.count(Reads)
	case history.WriteForm:
		c.count(Writes)
	case history.PermitForm:
		c.count(Permits)
	case history.FairForm:
		c.count(InOrder)
	}
	fenced, several := lock.Fence() != 0, len(lock.Resources()) > 1
	if fenced {
		c.count(Fenced)
	}
	if several {
		c.count(Sets)
	}
	if fenced && several {
		c.count(FencedSets)
	}
}

// release counts a release.
func (c *counters) release(err error) {
	switch {
	case err == nil:
		c.count(Operations)
	case errors.Is(err, redlock.ErrNotHeld):
		c.count(ReleasesLost)
	default:
		c.count(ReleasesUnsure)
	}
}

func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (c *counters) sum() *Tally {
	var t Tally
	for i := range c {
		t[i] = c[i].Load()
	}
	return &t
}
