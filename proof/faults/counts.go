package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// A Count is something that client processes count, or the run. Its text says
// what there were so many of.
type Count string

// The counts.
const (
	Operations Count = "operations" // acquisitions that were granted, and releases that a quorum confirmed

	// Attempts are all calls that asked for a lock; the others say what came of
	// them. Failed are those that ended with any other error: there should be
	// none.
	Attempts   Count = "attempts"
	Grants     Count = "locks"
	Held       Count = "held"
	NoQuorum   Count = "no quorum"
	Expired    Count = "expired"
	Overloaded Count = "overloaded"
	Cancelled  Count = "cancelled"
	Failed     Count = "failed"

	HandedOver Count = "handed over" // grants of which no node was asked
	Fenced     Count = "fenced locks"
	Sets       Count = "locks on several resources"
	FencedSets Count = "fenced locks on several resources"
	Renumbered Count = "second rounds with a higher number"
	NoFloor    Count = "fenced locks that were refused since the nodes had no floor" // of those of NoQuorum

	Reads      Count = "readers"
	Writes     Count = "writers"
	Permits    Count = "permits"
	InOrder    Count = "fair locks"
	Upgrades   Count = "upgrades"
	Downgrades Count = "downgrades"
	Gone       Count = "upgrades and downgrades whose lock was over"
	Queued     Count = "places in a queue"
	Terms      Count = "leaders"
	StepsDown  Count = "leaders that stepped down"

	Extensions     Count = "extensions" // asked for and granted
	Renewals       Count = "renewals"   // those that holds made by themselves
	Holds          Count = "holds"
	Losses         Count = "holds that ended before they were released"
	ReleasesUnsure Count = "releases without a quorum's answer" // or whose caller left
	ReleasesLost   Count = "releases of locks that were lost"
	Looks          Count = "locks that were compared with what the nodes hold"

	// Of the run.
	Majorities Count = "times no quorum was left"
	Rests      Count = "rests"
	Looked     Count = "rests with a look for orphans" // not where a client had been killed lately, or all keys had ended
	Keys       Count = "keys of holders in the rests"
	Excused    Count = "locks that vanished while nodes forgot"
	Resets     Count = "resets of the fence"
	AfterReset Count = "fenced locks after a reset" // with a number above the floor of the first

	// Of the history.
	Events    Count = "events"
	Contended Count = "contended grants"
	Empty     Count = "grants that were over when told"
	Overdue   Count = "locks that outlived their validity"
)

// A Tally is how often each was counted.
type Tally map[Count]uint64

// add puts what another process did to this.
func (t Tally) add(o Tally) {
	for what, n := range o {
		t[what] += n
	}
}

// String lists what was counted, by name.
func (t Tally) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		all = append(all, fmt.Sprintf("%d %s", t[what], what))
	}
	return strings.Join(all, ", ")
}

// counters are a Tally that many goroutines add to.
type counters struct {
	all sync.Map // of *atomic.Uint64
}

func (c *counters) count(what Count) { c.countN(what, 1) }

func (c *counters) countN(what Count, n uint64) {
	counter, there := c.all.Load(what)
	if !there {
		counter, _ = c.all.LoadOrStore(what, new(atomic.Uint64))
	}
	counter.(*atomic.Uint64).Add(n)
}

func (c *counters) sum() Tally {
	t := make(Tally)
	for what, n := range c.all.Range {
		t[what.(Count)] = n.(*atomic.Uint64).Load()
	}
	return t
}

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
