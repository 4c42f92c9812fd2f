package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Fault is a kind of error in a history.
type Fault string

// The faults. TwoHolders is the one that matters; the others violate a rule
// themselves, or show that the history was recorded wrongly.
const (
	TwoHolders        Fault = "two holders at a time"
	TokenReused       Fault = "a token was granted twice" // R3
	GrantedTwice      Fault = "an attempt was granted twice"
	NoGrant           Fault = "extended or released, but never granted"
	OtherLock         Fault = "another token than was granted"
	Shortened         Fault = "an extension that ends earlier"           // R10
	ExtendedAfterLoss Fault = "extended after it was told lost"          // R10
	ExtendedOver      Fault = "extended although another was granted it" // R10
	TooManyPermits    Fault = "more holders than permits"
	LetAWriterIn      Fault = "another was granted the lock between a writer and the reader that it became"
	Overtook          Fault = "granted although another that was in the queue before it began was still there"
	NumberNotHigher   Fault = "a fencing number that is not higher than one granted before the attempt began"
	NumberTwice       Fault = "a fencing number was granted twice"
	Disorder          Fault = "events out of order: nothing else is certain"
)

// A Violation is a fault and the events that show it.
type Violation struct {
	Fault Fault
	// First and Second are the two grants, or the grant and the wrong event.
	// First is empty if there is none. With Overtook it is the event by which
	// the other knew its place.
	First, Second Event
	// From is when the two began to overlap, Overlap is how long both were
	// valid. With TooManyPermits, all of the holders.
	From    int64
	Overlap time.Duration
}

// String names the resource, shortened, and what each client did when.
func (v Violation) String() string {
	s := fmt.Sprintf("%s: %s: ", v.Second.shown(), v.Fault)
	if v.First.Ev != "" {
		s += v.First.who() + ", then "
	}
	s += v.Second.who()
	if v.Overlap > 0 {
		s += fmt.Sprintf("; both valid for %v from t=%d on", v.Overlap, v.From)
	}
	return s
}

// shownBytes is how many bytes of a resource's name are shown.
const shownBytes = 12

// shown returns a resource's name, shortened if it is long: whole keys must not
// be printed (R27).
func (e Event) shown() string {
	if len(e.Resource) <= shownBytes {
		return fmt.Sprintf("%q", e.Resource)
	}
	return fmt.Sprintf("%q…", e.Resource[:shownBytes])
}

func (e Event) who() string {
	s := fmt.Sprintf("client %d.%d attempt %d %s at t=%d", e.Source, e.Client, e.Attempt, e.Ev, e.T)
	if e.Form != PlainForm {
		s += fmt.Sprintf(" (%s)", e.Form)
	}
	if e.Until != 0 {
		s += fmt.Sprintf(" until %+v", time.Duration(e.Until-e.T))
	}
	if e.Fence != 0 {
		s += fmt.Sprintf(" with number %d", e.Fence)
	}
	return s
}

// accusation is a violation whose overlap is unknown until both holds have
// ended.
type accusation struct {
	fault         Fault
	first, second *hold   // first may be nil
	all           []*hold // of TwoHolders and TooManyPermits: those that overlap
	by            Event
	from          int64
}

// maxFound bounds what is kept of a history with very many violations.
const maxFound = 1000

func (x *Exclusion) accuse(f Fault, first, second *hold, by Event) {
	if len(x.found) == maxFound {
		x.uncounted++
		return
	}
	x.found = append(x.found, accusation{fault: f, first: first, second: second, by: by, from: by.T})
}

// accuseAll is accuse for holds that overlap, the last of which is new.
func (x *Exclusion) accuseAll(f Fault, all []*hold, by Event) {
	n := len(x.found)
	x.accuse(f, all[0], all[len(all)-1], by)
	if len(x.found) > n {
		x.found[n].all = all
	}
}

// Violated reports whether anything was found so far.
func (x *Exclusion) Violated() bool { return len(x.found) > 0 }

// Violations returns the violations found so far, in order. If there are very
// many, only the first are kept; More tells how many were not.
func (x *Exclusion) Violations() (all []Violation) {
	for _, a := range x.found {
		v := Violation{Fault: a.fault, Second: a.by, From: a.from}
		if a.first != nil {
			v.First = a.first.grant
		}
		if len(a.all) > 0 {
			ends := slices.MinFunc(a.all, func(h, other *hold) int { return cmp.Compare(h.end, other.end) })
			if v.Overlap = time.Duration(ends.end - a.from); v.Overlap <= 0 {
				continue // one was released exactly when the last was granted
			}
		}
		all = append(all, v)
	}
	return all
}

// More returns how many violations were found beyond those that are kept.
func (x *Exclusion) More() int { return x.uncounted }
