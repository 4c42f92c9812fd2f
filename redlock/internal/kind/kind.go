// Package kind has the kinds of lock, one in each file: a lock's keys on a
// node, the commands to set, lengthen and delete them, the meaning of a
// refusal, and how callers wait. It knows no client: package redlock sends the
// rounds, keeps the clocks, and asks a kind through the interface Kind.
package kind

import (
	"context"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A Kind is what sets the locks of one kind apart. All methods but Attempt and
// Release may be called by several goroutines; none keeps its arguments.
type Kind interface {
	// Traits returns what does not change from lock to lock.
	Traits() *Traits
	// Key returns the key of the queue of callers for the lock.
	Key(name string) Key
	// Several returns the resources of a lock on several; nil of any other: its
	// resource is its name. The caller must not change them.
	Several() []string
	// Check returns what is wrong with the wanted lock, and the resource
	// concerned; "" for a good one.
	Check(name string) (resource, problem string)

	// Attempt makes the rounds of one attempt. After a grant it returns neither
	// a refusal nor an error.
	Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error)
	// Claim returns the command to set the lock's keys, and its kind. It is
	// encoded into room, as those of Extend and Release are.
	Claim(g *Grant, room []byte) (*multiplex.ClaimKind, multiplex.Encoded)
	// Extend returns the command to lengthen the keys' lives to the TTL.
	// promised is the TTL for a key without one.
	Extend(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded)
	// Release returns the command to end the lock.
	Release(g *Grant, room []byte) (*multiplex.ReleaseKind, multiplex.Encoded)

	// Hear reads the text of a node's refusal: the number at its beginning, and
	// the rest.
	Hear(s *Said, node, number int, text []byte)
	// Refusal fills in what most nodes said. number begins most of their texts.
	// It returns false if they said no more than held.
	Refusal(s *Said, name string, number int) bool
}

// Traits are what package redlock asks of all kinds alike.
type Traits struct {
	Serves, Needs Use
	// Many is for locks of which one may be free beside a held one.
	Many bool
	// Alone is for a lock with one key, its resource's. MinHold and Heal need
	// it.
	Alone bool
	// Numbered is for locks with a fencing number, in Grant.Number.
	Numbered bool
	// Continues is for a lock that follows from a held one: it is no new lock,
	// and a refusal means the loss of the other.
	Continues bool
	// Contested is for holders that exclude each other in no order.
	Contested bool

	// Seats is how many callers of one client ask the nodes, and MostSeats how
	// many during a run of grants (R34).
	Seats, MostSeats int
	// HandsOver allows a release to hand the lock to the next caller.
	HandsOver bool
	// KeepsPlace is for callers with a seat that keep a place at the nodes, by
	// asking again and again.
	KeepsPlace bool
}

// A Use is what a lock is good for: a set.
type Use uint8

// The uses of locks.
const (
	Excluding Use = 1 << iota // plain locks, on one resource or several
	Reading
	Writing
	Permitted
	InOrder
)

// A Key stands for the lock of a waiting caller. A lock handed to one suits any
// other with the same key.
type Key struct {
	use     Use
	name    string // of several resources, all in a fixed order
	several bool
	permits int
}

// A Grant is a lock as the nodes know it. A Kind fills in the number.
type Grant struct {
	wire.Value
	Name    string        // the resource; of several, all of them, for people
	TTL     time.Duration // the longest that the keys were given
	Number  int64         // the fencing number, or that of a permit
	Receipt multiplex.Receipt
	Final   bool // the attempt asks for no other permit after this one
}

// Rounds sends what an attempt needs.
type Rounds interface {
	// Round sends a claim with a new token (R3) and waits for its outcome.
	// After too many refusals it returns one with the reason, valid until the
	// next round.
	Round(ctx context.Context, g *Grant) (*Refusal, error)
	// Tell sends a release without waiting.
	Tell(kind *multiplex.ReleaseKind, command *multiplex.Command)
}

// Kinds makes the kinds of one client.
type Kinds struct {
	wire.Encoder
	Nodes     int           // of the client
	Tells     bool          // plain refusals name the holder
	FairLease time.Duration // Config.FairLease
	Tokens    *wire.Tokens
	Tickets   *pure.Numbers // of callers of fair locks
	Numbers   *Numbers      // nil without Config.Fenced

	// The same kinds for all locks.
	plain, reader, writer, marked, fair Kind
}

// Complete must be called before the kinds are used.
func (k *Kinds) Complete() *Kinds {
	k.plain = &plain{kinds: k}
	if k.Numbers != nil {
		k.plain = &numbered{plain: plain{kinds: k}}
	}
	k.reader, k.writer, k.marked = &reader{kinds: k}, &writer{kinds: k}, &writer{kinds: k, mark: MarkTime}
	k.fair = &fair{kinds: k}
	return k
}

// Plain returns the kind of a lock on one resource.
func (k *Kinds) Plain() Kind { return k.plain }

// Waiting returns the kind for a waiting call.
func Waiting(k Kind) Kind {
	if w, ok := k.(interface{ waiting() Kind }); ok {
		return w.waiting()
	}
	return k
}

// TooFar returns the kind for the next attempt of a waiting call that a quorum
// usually answers too late for the TTL: it must not stop others. spent is the
// length of its last attempt.
func TooFar(k Kind, r Rounds, name string, spent time.Duration) Kind {
	if f, ok := k.(interface {
		tooFar(r Rounds, name string, spent time.Duration) Kind
	}); ok {
		return f.tooFar(r, name, spent)
	}
	return k
}

// Leave gives up the place of a waiting call without a lock. Its last attempt
// has been undone.
func Leave(k Kind, r Rounds, name string) {
	if l, ok := k.(interface{ leave(r Rounds, name string) }); ok {
		l.leave(r, name)
	}
}

// Freed tells a kind of a coming release.
func Freed(k Kind, g *Grant) {
	if f, ok := k.(interface{ freed(number int64) }); ok {
		f.freed(g.Number)
	}
}

// Meets reports whether a request for a lock may have to wait for a held one.
func Meets(held, wanted Kind, heldName, wantedName string) bool {
	of, wants := held.Traits(), wanted.Traits()
	if (of.Serves == Permitted) != (wants.Needs == Permitted) || wants.Many {
		return false // permits have keys of their own, and another may be free
	}
	several := wanted.Several()
	if several == nil {
		return has(held, heldName, wantedName)
	}
	return slices.ContainsFunc(several, func(name string) bool { return has(held, heldName, name) })
}

// Covers reports whether a held lock is as good as the wanted one.
func Covers(held, wanted Kind, heldName, wantedName string) bool {
	if held.Traits().Serves&wanted.Traits().Needs == 0 {
		return false
	}
	for _, name := range Names(wanted, wantedName) {
		if !has(held, heldName, name) {
			return false
		}
	}
	return true
}

// has reports whether a resource is one of a lock's.
func has(k Kind, name, resource string) bool {
	if several := k.Several(); several != nil {
		return slices.Contains(several, resource)
	}
	return name == resource
}

// Names returns the resources of a lock with a name.
func Names(k Kind, name string) []string {
	if several := k.Several(); several != nil {
		return several
	}
	return []string{name}
}

// once is for kinds with one round to an attempt.
type once struct{}

func (once) Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	return r.Round(ctx, g)
}

// single is for kinds with one resource: only its name can be wrong.
type single struct{}

func (single) Several() []string             { return nil }
func (single) Check(string) (string, string) { return "", "" }

// scripted is the kind of a command with a script that returns 1 or 0.
var scripted = multiplex.Kind{Judge: wire.JudgeScript, Script: true}

// telling is the kind of a claim with a script that says what is in the way.
var telling = multiplex.Kind{Judge: wire.JudgeTelling, Script: true}

// A Refusal is why an attempt got no lock, by most of the refusing nodes.
type Refusal struct {
	// Bare means that the nodes said no more than held.
	Bare        bool
	Resource    string // which of several resources is in the way
	pure.Labels        // of its holder
	Place       int    // in the queue of a fair lock; 0 if that is not known
	Admitted    int    // the nodes that have the caller in that queue

	// Key is the key for the nodes to push about, without the prefix; "" if
	// unknown.
	Key string
	// Soon is the longest time between the beginnings of this attempt and the
	// next; 0: no bound.
	Soon time.Duration

	free             []int // permits
	admitted, passed multiplex.Set
	late             int64 // see Said.passed
}

// Said is what the nodes said in refusals of one round.
type Said struct {
	Refusal
	kind     Kind
	scripted bool
	dirty    bool
	// numbers are those at the beginning of the nodes' texts; 0 for a silent
	// node.
	numbers [multiplex.MaxNodes]uint8
	holders [multiplex.MaxNodes]pure.Labels
	free    []int // the numbers of permits that are free, by each node
	queued  queued
}

// Begin prepares for a round. scripted is set for scripts: the text of their
// refusal begins with a number. Otherwise the text is the value in the way.
func (s *Said) Begin(k Kind, scripted bool) {
	if s.dirty {
		*s = Said{free: s.free[:0]}
	}
	s.kind, s.scripted = k, scripted
}

// Hear takes what one node said. It keeps nothing of a value of another form
// than a lock's: it may be secret (R27).
func (s *Said) Hear(node int, text []byte) {
	s.dirty = true
	number, value := 1, text
	if s.scripted {
		number, value = wire.ReadRefusal(text)
	}
	s.kind.Hear(s, node, number, value)
}

// hold notes what a node said of a key in the way, with a number up to places,
// and of its value.
func (s *Said) hold(node, number, places int, value []byte) {
	if number > places {
		return
	}
	s.numbers[node] = uint8(number)
	if len(value) > pure.TokenText {
		v, _ := pure.ParseValue(string(value))
		s.holders[node] = v.Labels
	}
}

// Refused returns what most nodes said.
func (s *Said) Refused(name string) *Refusal {
	s.dirty = true
	number := mostOf(s.numbers[:])
	for node, other := range s.numbers {
		if other != number {
			s.holders[node] = pure.Labels{} // it holds another key
		}
	}
	s.Refusal = Refusal{Labels: mostOf(s.holders[:])}
	s.Bare = number == 0 || !s.kind.Refusal(s, name, int(number)) // 0: too low
	return &s.Refusal
}

// mostOf returns what most nodes said, and zero if all were silent.
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
