package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/resp"
)

// outcome is how an attempt ended (R12).
type outcome int

const (
	granted outcome = iota
	held
	noQuorum
	expired
	cancelled
	failed
	outcomes // the number of outcomes
)

// outcomeEvents are their names in the history.
var outcomeEvents = [outcomes]event{evGrant, evHeld, evNoQuorum, evExpired, evCancel, evError}

// outcomeNames are their names in results.
var outcomeNames = [outcomes]string{"granted", "held", "noquorum", "expired", "cancelled", "error"}

// tally counts each outcome.
type tally [outcomes]int64

// String lists the outcomes that occurred.
func (t tally) String() string {
	var parts []string
	for o, n := range t {
		if n > 0 {
			parts = append(parts, outcomeNames[o]+" "+thousands(float64(n)))
		}
	}
	return strings.Join(parts, " ")
}

// byName returns all outcomes, including those that did not occur.
func (t tally) byName() map[string]int64 {
	all := make(map[string]int64, outcomes)
	for o, n := range t {
		all[outcomeNames[o]] = n
	}
	return all
}

// judge classifies an attempt's error. If the deadline of the retries ended the
// attempt, the outcome of the last try counts.
func judge(err error) outcome {
	switch {
	case err == nil:
		return granted
	case err == redlock.ErrHeld:
		return held // the usual one, without a walk through the chain
	case errors.Is(err, context.Canceled):
		return cancelled
	case errors.Is(err, redlock.ErrHeld):
		return held
	case errors.Is(err, redlock.ErrNoQuorum):
		return noQuorum
	case errors.Is(err, redlock.ErrExpired):
		return expired
	case errors.Is(err, context.DeadlineExceeded):
		return cancelled
	default:
		return failed
	}
}

// maxCauses bounds the table of causes, maxCause the text of one.
const (
	maxCauses = 64
	maxCause  = 80
)

// causes counts why attempts and releases failed.
type causes map[string]int64

// cutWithoutQuorum is the cause of an attempt that had to retry for longer than
// its phase lasted.
const cutWithoutQuorum = "no quorum until the end of the run"

// classes are errors that only name a kind; next to the errors that name the
// reason, they would count the same failure twice.
var classes = []error{redlock.ErrNoQuorum, multiplex.ErrUndecided, multiplex.ErrDown}

// add counts every leaf of err: each node of a missing quorum has its own
// cause. The wrapping errors name the operation and the address, which would
// split one cause into as many as there are nodes.
func (c causes) add(err error) {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		for _, wrapped := range all {
			if len(all) == 1 || !slices.Contains(classes, wrapped) {
				c.add(wrapped)
			}
		}
		return
	case interface{ Unwrap() error }:
		if wrapped := e.Unwrap(); wrapped != nil {
			c.add(wrapped)
			return
		}
	}
	c.count(causeText(err), 1)
}

func (c causes) count(cause string, n int64) {
	if _, known := c[cause]; !known && len(c) >= maxCauses {
		cause = "other"
	}
	c[cause] += n
}

// causeText returns the class of a server's error (NOAUTH, LOADING, …) if it
// has a telling one, and otherwise the error's own text. It takes the class
// from the text because rueidis has its own error type.
func causeText(err error) string {
	text := err.Error()
	if e, ok := err.(*resp.Error); ok {
		text = e.Message
	}
	class, _, ok := strings.Cut(text, " ")
	if ok && len(class) > len("ERR") && len(class) <= maxCause && strings.ToUpper(class) == class {
		return printable(class)
	}
	return printable(text)
}

// printable makes external text safe for a terminal: short, and without control
// characters, with which a server could write anywhere on it.
func printable(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxCause)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}
