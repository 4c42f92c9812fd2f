package redlock

import (
	"strconv"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A HeldError is ErrHeld with what the nodes said when they refused. An
// attempt for several resources gets one, and so does a client with
// Config.Owner if the nodes know SET … NX GET (Redis 7.0, Valkey) and the
// holder has a label too. Otherwise the error is ErrHeld itself. What it says
// may be outdated when it is read.
type HeldError struct {
	// Resource is the one of several resources that is in the way; "" if there
	// was one only.
	Resource string
	// Owner is the holder's Config.Owner, by most of the nodes that refused; ""
	// if it is not known, which it never is for several resources. If several
	// clients asked at once and none got a quorum, it is one of theirs.
	Owner string
}

// Error says what is held, and by which client.
func (e *HeldError) Error() string {
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

// refusals are what the nodes said when they refused an attempt: an owner's
// label, or the name of the resource that is in the way. nil hears nothing.
type refusals struct {
	all   *resources // of several resources; nil for one
	names [multiplex.MaxNodes]string
}

// hear takes what one node said. It keeps nothing of a value that is not of a
// lock's form: it may be secret (R27).
func (r *refusals) hear(node int, text []byte) {
	if r.all == nil {
		_, r.names[node], _ = pure.SplitValue(string(text))
		return
	}
	if i, err := strconv.Atoi(string(text)); err == nil && i < 0 && -i <= len(r.all.names) {
		r.names[node] = r.all.names[-i-1]
	}
}

// translate returns the error of an attempt for the group's.
func (r *refusals) translate(err error) error {
	if err != multiplex.ErrRefused || r == nil {
		return translate(err, ErrHeld)
	}
	switch name := r.most(); {
	case name == "" && r.all == nil:
		return ErrHeld
	case r.all == nil:
		return &HeldError{Owner: name}
	default:
		return &HeldError{Resource: name}
	}
}

// most returns the name that most nodes said.
func (r *refusals) most() (name string) {
	count, most := make(map[string]int), 0
	for _, said := range r.names {
		if said == "" {
			continue
		}
		if count[said]++; count[said] > most {
			name, most = said, count[said]
		}
	}
	return name
}
