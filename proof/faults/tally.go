package faults

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// A Tally counts what client processes did and what came of it.
type Tally struct {
	// Operations are acquisitions that were granted and releases that a quorum
	// confirmed.
	Operations uint64
	// Attempts are all calls that asked for a lock, by what came of them.
	Attempts, Grants, Held, NoQuorum, Expired, Overloaded, Cancelled uint64
	// Failed are attempts that ended with any other error: there should be
	// none.
	Failed uint64
	// HandedOver are grants of which no node was asked.
	HandedOver uint64
	// Fenced are grants with a fencing number, Sets those on several resources,
	// FencedSets those that are both.
	Fenced, Sets, FencedSets uint64
	// Renumbered are second rounds, since the number of the first was too low.
	// NoFloor are those of NoQuorum for which nodes had no floor.
	Renumbered, NoFloor uint64
	// Reads, Writes, Permits and InOrder are the locks of these kinds: of readers
	// and writers, of a semaphore, and of callers that are served in order.
	// Upgrades and Downgrades are those that were granted; Gone are those whose
	// lock was over. Queued are answers with a place in the queue, Terms those of
	// leaders, and StepsDown those of them that ended so.
	Reads, Writes, Permits, InOrder, Upgrades, Downgrades, Gone, Queued, Terms, StepsDown uint64
	// Extensions are those asked for and granted, Renewals those that holds
	// made by themselves.
	Extensions, Renewals uint64
	// Holds are those that began, Losses those that ended before they were
	// released.
	Holds, Losses uint64
	// ReleasesUnsure are releases that ended without a quorum's answer, or
	// whose caller left; ReleasesLost found the lock no longer theirs.
	ReleasesUnsure, ReleasesLost uint64
	// Looks are locks that were compared with what the nodes hold, from the
	// side or through the client.
	Looks uint64
}

// add puts what another process did to this.
func (t *Tally) add(o Tally) {
	t.Operations += o.Operations
	t.Attempts += o.Attempts
	t.Grants += o.Grants
	t.Held += o.Held
	t.NoQuorum += o.NoQuorum
	t.Expired += o.Expired
	t.Overloaded += o.Overloaded
	t.Cancelled += o.Cancelled
	t.Failed += o.Failed
	t.HandedOver += o.HandedOver
	t.Fenced += o.Fenced
	t.Sets += o.Sets
	t.FencedSets += o.FencedSets
	t.Renumbered += o.Renumbered
	t.NoFloor += o.NoFloor
	t.Reads += o.Reads
	t.Writes += o.Writes
	t.Permits += o.Permits
	t.InOrder += o.InOrder
	t.Upgrades += o.Upgrades
	t.Downgrades += o.Downgrades
	t.Gone += o.Gone
	t.Queued += o.Queued
	t.Terms += o.Terms
	t.StepsDown += o.StepsDown
	t.Extensions += o.Extensions
	t.Renewals += o.Renewals
	t.Holds += o.Holds
	t.Losses += o.Losses
	t.ReleasesUnsure += o.ReleasesUnsure
	t.ReleasesLost += o.ReleasesLost
	t.Looks += o.Looks
}

// counters are a Tally that many goroutines add to.
type counters struct {
	operations, attempts, grants, held, noQuorum, expired, overloaded, cancelled, failed  atomic.Uint64
	fenced, sets, fencedSets, noFloor                                                     atomic.Uint64
	reads, writes, permits, inOrder, upgrades, downgrades, gone, queued, terms, stepsDown atomic.Uint64
	extensions, holds, losses, releasesUnsure, releasesLost, looks                        atomic.Uint64
}

// attempt counts an attempt by what came of it.
func (c *counters) attempt(err error) {
	c.attempts.Add(1)
	switch {
	case err == nil:
		c.grants.Add(1)
		c.operations.Add(1)
	case cancelled(err): // first, because it is also what the last attempt came to
		c.cancelled.Add(1)
	case errors.Is(err, redlock.ErrHeld):
		c.held.Add(1)
	case errors.Is(err, redlock.ErrNoQuorum):
		c.noQuorum.Add(1)
		if errors.Is(err, redlock.ErrNoFloor) {
			c.noFloor.Add(1)
		}
	case errors.Is(err, redlock.ErrExpired):
		c.expired.Add(1)
	case errors.Is(err, redlock.ErrOverloaded):
		c.overloaded.Add(1)
	case errors.Is(err, redlock.ErrNotHeld): // of an upgrade or a downgrade
		c.gone.Add(1)
	default:
		c.failed.Add(1)
	}
}

// kind counts a grant by what kind of lock it is.
func (c *counters) kind(form history.Form, lock redlock.Lock) {
	switch form {
	case history.ReadForm:
		c.reads.Add(1)
	case history.WriteForm:
		c.writes.Add(1)
	case history.PermitForm:
		c.permits.Add(1)
	case history.FairForm:
		c.inOrder.Add(1)
	}
	fenced, several := lock.Fence() != 0, len(lock.Resources()) > 1
	if fenced {
		c.fenced.Add(1)
	}
	if several {
		c.sets.Add(1)
	}
	if fenced && several {
		c.fencedSets.Add(1)
	}
}

// release counts a release.
func (c *counters) release(err error) {
	switch {
	case err == nil:
		c.operations.Add(1)
	case errors.Is(err, redlock.ErrNotHeld):
		c.releasesLost.Add(1)
	default:
		c.releasesUnsure.Add(1)
	}
}

func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (c *counters) tally() *Tally {
	return &Tally{
		Operations: c.operations.Load(), Attempts: c.attempts.Load(), Grants: c.grants.Load(), Held: c.held.Load(),
		NoQuorum: c.noQuorum.Load(), Expired: c.expired.Load(), Overloaded: c.overloaded.Load(),
		Cancelled: c.cancelled.Load(), Failed: c.failed.Load(), Fenced: c.fenced.Load(), Sets: c.sets.Load(),
		FencedSets: c.fencedSets.Load(), NoFloor: c.noFloor.Load(), Reads: c.reads.Load(), Writes: c.writes.Load(),
		Permits: c.permits.Load(), InOrder: c.inOrder.Load(), Upgrades: c.upgrades.Load(), Downgrades: c.downgrades.Load(),
		Gone: c.gone.Load(), Queued: c.queued.Load(), Terms: c.terms.Load(), StepsDown: c.stepsDown.Load(), Extensions: c.extensions.Load(),
		Holds: c.holds.Load(), Losses: c.losses.Load(), ReleasesUnsure: c.releasesUnsure.Load(),
		ReleasesLost: c.releasesLost.Load(), Looks: c.looks.Load(),
	}
}
