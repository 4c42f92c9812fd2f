package redlock

import (
	"cmp"
	"sync/atomic"
	"time"
)

// Stats tell what came of the calls to a client since it was made; nothing is ever reset. Each number is exact, but they are
// not taken at one instant: a sum over several of them may be short of calls that are returning just now. They are meant
// for JSON too, and hold nothing secret (R27).
type Stats struct {
	// Attempts are those of TryAcquire, and each single one of Acquire; Extensions the calls to Extend, and each renewal of a
	// hold; Releases the calls to Release, of locks and of holds. The releases that undo a failed attempt, and those of Close,
	// are nobody's call and are not among them.
	Attempts, Extensions, Releases CallCounts
	// QuorumTime is the smoothed time from the beginning of an attempt to its quorum of grants, from which retries take
	// their pace (R11). Zero before the first.
	QuorumTime time.Duration
	// Quorum are all those times.
	Quorum Histogram
	// ReleaseForm is what locks are given back by at this moment: "DELEX" or "DELIFEQ" while every node that is up has it, else
	// "script" (R25).
	ReleaseForm string
	// Polling says that callers read replies by themselves, where a node's connection allows it (NodeStatus.Polled), and not
	// a goroutine for each node; see Config.Portable.
	Polling bool
}

// CallCounts are calls by what came of them (R12).
type CallCounts struct {
	Granted    uint64 // nil: acquired, extended or renewed, or released while it was ours
	Refused    uint64 // ErrHeld for an attempt, ErrNotHeld otherwise: ordinary
	NoQuorum   uint64 // ErrNoQuorum
	Expired    uint64 // ErrExpired: a quorum, too late
	Overloaded uint64 // ErrOverloaded: nothing was sent
	Cancelled  uint64 // CancelledError
	Closed     uint64 // ErrClosed
	Invalid    uint64 // any other: the call could not be made as it was
}

// Total is how many calls there were.
func (c CallCounts) Total() uint64 {
	return c.Granted + c.Refused + c.NoQuorum + c.Expired + c.Overloaded + c.Cancelled + c.Closed + c.Invalid
}

// Stats returns the numbers as they are now. It asks no node, and waits for nothing but a mutex.
func (c *Client) Stats() Stats {
	polling, _ := c.group.Polls()
	return Stats{
		Attempts:    c.stats.attempts.snapshot(),
		Extensions:  c.stats.extensions.snapshot(),
		Releases:    c.stats.releases.snapshot(),
		QuorumTime:  time.Duration(c.quorumTime.Load()),
		Quorum:      c.stats.quorum.snapshot(),
		ReleaseForm: cmp.Or(c.group.FormOf(releaseKind), "script"),
		Polling:     polling,
	}
}

// stats are where Stats come from. Each call adds to one number, and a grant to two more.
type stats struct {
	attempts, extensions, releases callCounts
	quorum                         histogram
}

// An ending is what came of a call.
type ending uint8

const (
	endGranted ending = iota
	endRefused
	endNoQuorum
	endExpired
	endOverloaded
	endCancelled
	endClosed
	endInvalid
	endings
)

// endingOf tells errors apart without allocating: sentinels come as they are, the others by their type.
func endingOf(err error) ending {
	switch err {
	case nil:
		return endGranted
	case ErrHeld, ErrNotHeld:
		return endRefused
	case ErrExpired:
		return endExpired
	case ErrOverloaded:
		return endOverloaded
	case ErrClosed:
		return endClosed
	}
	switch err.(type) {
	case *CancelledError:
		return endCancelled // whatever the last attempt came to
	case *noQuorumError:
		return endNoQuorum
	}
	return endInvalid
}

type callCounts [endings]atomic.Uint64

func (o *callCounts) count(err error) { o[endingOf(err)].Add(1) }

func (o *callCounts) snapshot() CallCounts {
	return CallCounts{
		Granted: o[endGranted].Load(), Refused: o[endRefused].Load(), NoQuorum: o[endNoQuorum].Load(),
		Expired: o[endExpired].Load(), Overloaded: o[endOverloaded].Load(), Cancelled: o[endCancelled].Load(),
		Closed: o[endClosed].Load(), Invalid: o[endInvalid].Load(),
	}
}
