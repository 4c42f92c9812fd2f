package redlock

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
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

	hint refusalHint
}

// A refusalHint is what a caller needs to know for its next attempt.
type refusalHint struct {
	key  string        // which the nodes push about; "": that of the resource
	soon time.Duration // after which to try again at the latest, or 0
	free freePermits
	// Of a fair lock: the nodes that say that they have the caller in their
	// queues, those that say that they had let in a later ticket, and the latest
	// of these that is believed, or 0.
	admitted multiplex.Set
	passed   multiplex.Set
	late     int64
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

// refusals are what the nodes said when they refused an attempt.
type refusals struct {
	told func(node int, text []byte) // hear, made once
	form *form                       // of the lock
	// scripted is set if a script refused, whose text is read by readBlocker.
	// Otherwise the text is the value that is in the way.
	scripted bool
	// blockers are what readBlocker read, by node; 0 if a node did not say it.
	blockers [multiplex.MaxNodes]uint8
	owners   [multiplex.MaxNodes]string
	free     []int // the numbers of permits that are free, by each node
	places   queuePlaces
}

// noRefusals hears nothing.
var noRefusals = &refusals{}

// An attempt takes its refusals from a pool: one that is granted allocates
// nothing.
var refusalsPool = sync.Pool{New: func() any {
	r := &refusals{}
	r.told = r.hear
	return r
}}

func newRefusals(f *form, scripted bool) *refusals {
	r := refusalsPool.Get().(*refusals)
	r.form, r.scripted = f, scripted
	return r
}

// recycle must be called when the attempt is over, and its error translated.
func (r *refusals) recycle() {
	*r = refusals{told: r.told, free: r.free[:0]}
	refusalsPool.Put(r)
}

// hear takes what one node said. It keeps nothing of a value that is not of a
// lock's form: it may be secret (R27).
func (r *refusals) hear(node int, text []byte) {
	i, value := 1, text
	if r.scripted {
		if i, value = readBlocker(text); i > r.form.places() {
			return
		}
	}
	r.blockers[node] = uint8(i)
	if r.form.is(permit) {
		r.free = appendFree(r.free, value, r.form.permits)
		return
	}
	if r.form.is(fair) && !r.places.hear(node, i, value) {
		return
	}
	if len(value) > pure.TokenText {
		_, r.owners[node], _ = pure.SplitValue(string(value))
	}
}

// readBlocker reads the text of a script that refused. It begins with a number
// from 1 on: the place of the key that is in the way among those of several
// resources or of a read/write lock, the code of ask_fair.lua for a fair lock,
// and otherwise 1. The rest is the value of that key, "" if that is not
// shown, or what the script says instead. The number is 0 if the text has
// another form.
func readBlocker(text []byte) (i int, value []byte) {
	place, value, found := bytes.Cut(text, blank)
	n, err := strconv.ParseUint(string(place), 10, 8)
	if !found || err != nil || n > MaxResources {
		return 0, nil
	}
	return int(n), value
}

var blank = []byte(" ")

// translate turns the group's error into the attempt's.
func (r *refusals) translate(err error) error {
	if err != multiplex.ErrRefused || r == noRefusals {
		return translate(err, ErrHeld)
	}
	if r.form.downgrades() {
		return ErrNotHeld // the writer's key was not there
	}
	blocker := mostOf(r.blockers[:])
	if blocker == 0 {
		return ErrHeld // the number was too low
	}
	for node, other := range r.blockers {
		if other != blocker {
			r.owners[node] = "" // it holds another key
		}
	}
	err = r.form.blocked(blocker, mostOf(r.owners[:]))
	if held, ok := err.(*HeldError); ok {
		held.hint.free = mostFree(r.free)
		if r.form.is(fair) {
			r.places.tell(held, r.form)
		}
	}
	return err
}

// mostOf returns what most nodes said, and zero if none said anything.
func mostOf[T comparable](all []T) (which T) {
	var none T
	count, most := make(map[T]int), 0
	for _, said := range all {
		if said == none {
			continue
		}
		if count[said]++; count[said] > most {
			which, most = said, count[said]
		}
	}
	return which
}
