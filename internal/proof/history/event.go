package history

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf8"
)

// An Event is one line of a history: what one client did or learned of one attempt to have one resource.
type Event struct {
	// T is when, in nanoseconds of the system's monotonic clock: see Clock.
	T int64 `json:"t"`

	// Client and Attempt name the attempt within the process that wrote it. Each try of a client has a number of its own.
	Client   int    `json:"client"`
	Resource string `json:"resource"`
	Attempt  uint64 `json:"attempt"`
	Ev       Kind   `json:"ev"`

	// Token is the first 8 hexadecimal digits of the token's SHA-256, or empty: see Digest.
	Token string `json:"token,omitempty"`

	// Until is when the validity ends, on the clock of T; 0 where there is none.
	Until int64 `json:"until,omitempty"`

	// Source is which of the merged histories the event is from. It is not in the line: Merge sets it.
	Source int `json:"-"`
}

// Kind is what an event tells of.
type Kind string

// The kinds. An attempt begins with Start and ends with Grant or one of the five refusals. A grant is followed by any number
// of Extend, then by Lost, by Release and what came of it, or by nothing where the client died.
const (
	Start    Kind = "start"
	Grant    Kind = "grant"    // written after the call returned
	Held     Kind = "held"     // refused: another holds it
	NoQuorum Kind = "noquorum" // refused: too few nodes could be asked
	Expired  Kind = "expired"  // a quorum came too late
	Cancel   Kind = "cancel"   // the caller left
	Error    Kind = "error"    // something else; after Release: it failed
	Extend   Kind = "extend"   // written after the call returned; Until is the new one
	Lost     Kind = "lost"     // the lock is known to be no longer ours
	Release  Kind = "release"  // written before the call
	Released Kind = "released" // a quorum confirmed it
)

// kinds finds a kind by its word, without making a string.
var kinds = func() map[string]Kind {
	all := make(map[string]Kind)
	for _, k := range []Kind{Start, Grant, Held, NoQuorum, Expired, Cancel, Error, Extend, Lost, Release, Released} {
		all[string(k)] = k
	}
	return all
}()

// digestBytes of a token's hash are shown, as twice as many digits.
const digestBytes = 4

// Digest is what a history shows of a token: enough to tell tokens apart, and nothing with which a lock could be released
// (R27).
func Digest(token []byte) (digits [2 * digestBytes]byte) {
	sum := sha256.Sum256(token)
	hex.Encode(digits[:], sum[:digestBytes])
	return digits
}

// AppendLine appends the event as one line of a history. It is made by hand: encoding/json would cost more than a lock does,
// and callers whose turns are to be shown would take them in another order.
func (e Event) AppendLine(b []byte) []byte {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, e.T, 10)
	b = append(b, `,"client":`...)
	b = strconv.AppendInt(b, int64(e.Client), 10)
	b = append(b, `,"resource":`...)
	b = appendString(b, e.Resource)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendUint(b, e.Attempt, 10)
	b = append(b, `,"ev":`...)
	b = appendString(b, string(e.Ev))
	if e.Token != "" {
		b = append(b, `,"token":`...)
		b = appendString(b, e.Token)
	}
	if e.Until != 0 {
		b = append(b, `,"until":`...)
		b = strconv.AppendInt(b, e.Until, 10)
	}
	return append(b, "}\n"...)
}

// appendString quotes s as JSON does. What is no UTF-8 becomes U+FFFD, so that such resources may look alike.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
