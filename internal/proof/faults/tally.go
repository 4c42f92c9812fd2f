package faults

import (
	"context"
	"errors"
	"sync/atomic"

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
	operations, attempts, grants, held, noQuorum, expired, overloaded, cancelled, failed atomic.Uint64
	fenced, sets, fencedSets, noFloor                                                    atomic.Uint64
	extensions, holds, losses, releasesUnsure, releasesLost, looks                       atomic.Uint64
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
	default:
		c.failed.Add(1)
	}
}

// kind counts a grant by what kind of lock it is.
func (c *counters) kind(lock redlock.Lock) {
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
		FencedSets: c.fencedSets.Load(), NoFloor: c.noFloor.Load(), Extensions: c.extensions.Load(),
		Holds: c.holds.Load(), Losses: c.losses.Load(), ReleasesUnsure: c.releasesUnsure.Load(),
		ReleasesLost: c.releasesLost.Load(), Looks: c.looks.Load(),
	}
}
