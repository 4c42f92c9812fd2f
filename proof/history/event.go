package history

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/redmux/redmux/internal/errtext"
)

// An Event is one line of a history: what a client did or learned in one
// attempt to acquire one resource.
type Event struct {
	// T is the time, in nanoseconds of the system's monotonic clock: see Clock.
	T int64 `json:"t"`

	// Client and Attempt identify the attempt within the process that wrote it.
	// Each try of a client has a number of its own.
	Client   int    `json:"client"`
	Resource string `json:"resource"`
	Attempt  uint64 `json:"attempt"`
	Ev       Kind   `json:"ev"`

	// Token is the first 16 hexadecimal digits of the token's SHA-256, or empty:
	// see Digest.
	Token string `json:"token,omitempty"`

	// Until is the end of the validity, on the clock of T, or 0 if there is
	// none.
	Until int64 `json:"until,omitempty"`

	// Fence is the fencing number of a grant, or 0 if there is none.
	Fence uint64 `json:"fence,omitempty"`

	// Form is the form of the lock that the attempt is for: on every event of
	// the attempt, or at least on its Start and its Grant.
	Form Form `json:"form,omitempty"`

	// Permits is how many permits there are as the client knows it, with
	// PermitForm only.
	Permits int `json:"permits,omitempty"`

	// From is another attempt of the client for the resource, whose lock is
	// exchanged for this one, or 0 if there is none. With WriteForm it is the
	// reader of an upgrade, which stays a reader. With ReadForm it is the writer
	// of a downgrade, whose Release comes before the Start of this attempt.
	From uint64 `json:"from,omitempty"`

	// Source is the number of the merged history that the event is from. Merge
	// sets it; the line does not contain it.
	Source int `json:"-"`
}

// Form is what a lock excludes.
type Form string

// The forms. Locks on several resources and fenced ones are plain locks of each
// resource.
const (
	PlainForm  Form = ""       // excludes all others
	ReadForm   Form = "read"   // shares with other readers
	WriteForm  Form = "write"  // excludes all others, but not the reader that it was
	PermitForm Form = "permit" // shares with others, up to Permits in all
	FairForm   Form = "fair"   // a plain lock whose callers are served in order
)

// forms finds a form by its name without allocating a string.
var forms = func() map[string]Form {
	all := make(map[string]Form)
	for _, f := range []Form{PlainForm, ReadForm, WriteForm, PermitForm, FairForm} {
		all[string(f)] = f
	}
	return all
}()

// Kind is the kind of an event.
type Kind string

// The kinds. An attempt begins with Start and ends with Grant or one of the
// five refusals. Before that, one for a fair lock has a Queued for each answer
// by which a quorum of nodes has the client in its queue. A grant is followed by
// any number of Extends, then by Lost, by Release and its outcome, or by nothing
// if the client died.
const (
	Start    Kind = "start"
	Queued   Kind = "queued"   // has a place in the queue, which is certain until Until: see Exclusion
	Grant    Kind = "grant"    // recorded after the call returned
	Held     Kind = "held"     // refused: another client holds the lock
	NoQuorum Kind = "noquorum" // refused: too few nodes were available
	Expired  Kind = "expired"  // a quorum came too late
	Cancel   Kind = "cancel"   // the caller gave up
	Error    Kind = "error"    // another error; after Release: it failed
	Extend   Kind = "extend"   // recorded after the call returned; Until is the new one
	Lost     Kind = "lost"     // the client knows that it lost the lock
	Release  Kind = "release"  // recorded before the call
	Released Kind = "released" // a quorum confirmed it
)

// kinds finds a kind by its name without allocating a string.
var kinds = func() map[string]Kind {
	all := make(map[string]Kind)
	for _, k := range []Kind{Start, Queued, Grant, Held, NoQuorum, Expired, Cancel, Error, Extend, Lost, Release, Released} {
		all[string(k)] = k
	}
	return all
}()

// digestBytes is how many bytes of a token's hash are shown, each as two
// digits: with so many, no two look alike by chance.
const digestBytes = 8

// Digest returns the part of a token that a history shows: enough to tell
// tokens apart, and useless for releasing a lock (R27).
func Digest(token []byte) (digits [2 * digestBytes]byte) {
	sum := sha256.Sum256(token)
	hex.Encode(digits[:], sum[:digestBytes])
	return digits
}

// AppendLine appends the event as one line of a history. It does not use
// encoding/json, which would cost more than a lock and change the order in
// which callers take turns.
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
	if e.Fence != 0 {
		b = append(b, `,"fence":`...)
		b = strconv.AppendUint(b, e.Fence, 10)
	}
	if e.Form != PlainForm {
		b = append(b, `,"form":`...)
		b = appendString(b, string(e.Form))
	}
	if e.Permits != 0 {
		b = append(b, `,"permits":`...)
		b = strconv.AppendInt(b, int64(e.Permits), 10)
	}
	if e.From != 0 {
		b = append(b, `,"from":`...)
		b = strconv.AppendUint(b, e.From, 10)
	}
	return append(b, "}\n"...)
}

// appendString quotes s as JSON does, after errtext.Name: so no two resources
// look alike.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i, r := range s {
		switch {
		case errtext.Escapes(s, i, r):
			b = append(b, `\\x`...)
			b = append(b, "0123456789abcdef"[s[i]>>4], "0123456789abcdef"[s[i]&15])
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
