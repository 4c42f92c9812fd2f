package redlock

import (
	"strconv"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// A HeldError is ErrHeld with the words of the refusing nodes, perhaps
// outdated. It is the error of all Lockers but plain ones. With Config.Owner
// any attempt may get it: if the holder has a label too and the nodes can say
// it (Redis 7.0, Valkey, or Config.Fenced). Otherwise it is ErrHeld itself.
type HeldError struct {
	// Resource is the one of several in the way; "" for a single one.
	Resource string
	// Owner is the Config.Owner of the holder of that resource, by most of the
	// refusing nodes; "" if unknown.
	Owner string
	// Place is the caller's place in the queue of Client.Fair, from 1 on, by
	// most of the refusing nodes; 0 without one.
	Place int
	// Admitted is how many nodes said to have the caller in that queue. From a
	// quorum on, it is served before all later callers.
	Admitted int

	key  string        // which the nodes push about; "": that of the resource
	soon time.Duration // after which to try again at the latest, or 0
}

func newHeldError(r *kind.Refusal) *HeldError {
	return &HeldError{Resource: r.Resource, Owner: r.Owner, Place: r.Place, Admitted: r.Admitted, key: r.Key, soon: r.Soon}
}

// Error says what is held, and by which client.
func (e *HeldError) Error() string {
	must(e != nil, noError)
	text := ErrHeld.Error()
	if e.Resource != "" {
		text = "redlock: " + quoted(e.Resource) + " is held"
	}
	if e.Owner != "" {
		text += " by " + strconv.Quote(e.Owner)
	}
	return text
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// isHeld reports whether an attempt's error is ErrHeld or a HeldError.
func isHeld(err error) bool {
	if err == ErrHeld {
		return true
	}
	_, ok := err.(*HeldError)
	return ok
}
