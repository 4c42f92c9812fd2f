package redlock

import (
	"strconv"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A HeldError is ErrHeld with the label of the client that holds the resource.
// Only clients with Config.Owner get one, and only if the nodes know SET … NX
// GET (Redis 7.0, Valkey) and the holder has a label too; otherwise the error is
// ErrHeld itself. It is what the nodes said when they refused, and may be
// outdated when it is read.
type HeldError struct {
	// Owner is the holder's Config.Owner, by most of the nodes that refused. If
	// several clients asked at once and none got a quorum, it is one of theirs.
	Owner string
}

// Error says who holds the resource.
func (e *HeldError) Error() string { return ErrHeld.Error() + " by " + strconv.Quote(e.Owner) }

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// isHeld reports whether an attempt's error is ErrHeld, with or without its
// owner.
func isHeld(err error) bool {
	if err == ErrHeld {
		return true
	}
	_, ok := err.(*HeldError)
	return ok
}

// owners are the labels in the values that were in the way of an attempt. nil
// hears nothing.
type owners struct {
	labels [multiplex.MaxNodes]string // "" for a node that said nothing of use
}

// hear takes what one node said. Of a value that is not of this form it keeps
// nothing: it may be secret (R27).
func (o *owners) hear(node int, value []byte) {
	if _, owner, ok := pure.SplitValue(string(value)); ok {
		o.labels[node] = owner
	}
}

// translate returns the error of an attempt for the group's.
func (o *owners) translate(err error) error {
	if o == nil || err != multiplex.ErrRefused {
		return translate(err, ErrHeld)
	}
	count, most, owner := make(map[string]int), 0, ""
	for _, label := range o.labels {
		if label == "" {
			continue
		}
		if count[label]++; count[label] > most {
			most, owner = count[label], label
		}
	}
	if owner == "" {
		return ErrHeld
	}
	return &HeldError{owner}
}
