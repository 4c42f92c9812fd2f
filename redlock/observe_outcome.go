package redlock

import (
	"errors"
	"iter"
	"sync/atomic"
)

// Outcome returns the word for how a call ended (R12), by its error: "granted"
// for nil, "held", "not_held", "no_quorum", "expired", "overloaded",
// "cancelled", "closed" and "lost" for the errors of these names, and "invalid"
// for any other, and for one that joins several without ErrLost. Stats,
// metrics, spans and the commands use these words for the same events
// (docs/cli.md).
func Outcome(err error) string {
	if err == nil {
		return words[endGranted]
	}
	for at := err; at != nil; at = errors.Unwrap(at) {
		if e := endingOf(at); e != endInvalid {
			return words[e]
		}
	}
	if errors.Is(err, ErrLost) {
		return words[endLost]
	}
	return words[endInvalid]
}

// CallCounts counts calls by outcome.
type CallCounts struct {
	Granted    uint64 `json:"granted"`    // no error
	Held       uint64 `json:"held"`       // ErrHeld: another client holds the lock
	NotHeld    uint64 `json:"not_held"`   // ErrNotHeld: the lock is no longer ours
	NoQuorum   uint64 `json:"no_quorum"`  // ErrNoQuorum
	Expired    uint64 `json:"expired"`    // ErrExpired: a quorum, but too late
	Overloaded uint64 `json:"overloaded"` // ErrOverloaded: nothing was sent
	Cancelled  uint64 `json:"cancelled"`  // CancelledError
	Closed     uint64 `json:"closed"`     // ErrClosed
	Invalid    uint64 `json:"invalid"`    // any other error: the call was wrong
}

// All returns each outcome by its word, as Outcome has it, with its number.
func (c CallCounts) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for e, n := range c.numbers() {
			if !yield(words[e], *n) {
				return
			}
		}
	}
}

// Total returns how many calls there were.
func (c CallCounts) Total() (total uint64) {
	for _, n := range c.numbers() {
		total += *n
	}
	return total
}

// numbers has the fields in the order of endings.
func (c *CallCounts) numbers() [endLost]*uint64 {
	return [...]*uint64{
		&c.Granted, &c.Held, &c.NotHeld, &c.NoQuorum, &c.Expired, &c.Overloaded, &c.Cancelled, &c.Closed, &c.Invalid,
	}
}

// Losses returns the lost holds by cause, in the words of Outcome: "not_held"
// if a quorum did not hold the lock for us any more, "expired" if the validity
// ended.
func (s Stats) Losses() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		_ = yield(words[endNotHeld], s.LostNotHeld) && yield(words[endExpired], s.Lost-s.LostNotHeld)
	}
}

// An ending is the outcome of a call, or of a hold if it is endLost.
type ending uint8

const (
	endGranted ending = iota
	endHeld
	endNotHeld
	endNoQuorum
	endExpired
	endOverloaded
	endCancelled
	endClosed
	endInvalid
	endLost // of no call, so CallCounts does not have it
)

// words are the only place where an outcome gets its word.
var words = [...]string{
	"granted", "held", "not_held", "no_quorum", "expired", "overloaded", "cancelled", "closed", "invalid", "lost",
}

// endingOf classifies the error of a call without allocating: it compares
// sentinels, and tells other errors by their types.
func endingOf(err error) ending {
	switch err {
	case nil:
		return endGranted
	case ErrHeld:
		return endHeld
	case ErrNotHeld:
		return endNotHeld
	case ErrNoQuorum:
		return endNoQuorum
	case ErrExpired:
		return endExpired
	case ErrOverloaded:
		return endOverloaded
	case ErrClosed:
		return endClosed
	}
	switch err.(type) {
	case *HeldError:
		return endHeld
	case *CancelledError:
		return endCancelled // and not what the last attempt returned
	case *noQuorumError:
		return endNoQuorum
	}
	return endInvalid
}

// callCounts are the counters of CallCounts.
type callCounts [endLost]atomic.Uint64

func (o *callCounts) count(err error) { o[endingOf(err)].Add(1) }

func (o *callCounts) snapshot() (all CallCounts) {
	for e, n := range all.numbers() {
		*n = o[e].Load()
	}
	return all
}
