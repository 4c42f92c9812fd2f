package redlock

import (
	"strconv"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// A HeldError is ErrHeld with what the nodes said when they refused, which may
// be outdated when it is read. It is the error of
//
//   - an attempt for several resources, unless all are free and only its
//     fencing number was too low;
//   - an attempt of a Locker;
//   - any attempt of a client with Config.Owner, if the holder has a label too,
//     and if the client has Config.Fenced or the nodes know SET … NX GET
//     (Redis 7.0, Valkey).
//
// In all other cases, the error is ErrHeld itself.
type HeldError struct {
	// Resource is the one of several resources that is in the way; "" if there
	// was one only.
	Resource string
	// Owner is the Config.Owner of the holder of that resource, by most of the
	// nodes that refused; "" if it has none, or if it is not known. If several
	// clients asked at once and none got a quorum, it is one of theirs.
	Owner string
	// Place is the caller's place in the queue of Client.Fair when it asked, from
	// 1 on, by most of the nodes that refused; the holder has none. It is 0 if
	// none of them has let the caller in yet, for other locks, and for
	// TryAcquire.
	Place int
	// Admitted is how many nodes said that they have the caller in that queue.
	// If they are a quorum, it is served before each that asks later, for as
	// long as it reaches a quorum within Config.FairLease. Nodes that answered
	// after the attempt was decided are not counted.
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
