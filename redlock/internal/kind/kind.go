// Package kind has the kinds of lock, one in each file: which keys a lock has
// on a node, which commands set, lengthen and delete them, what a refusal
// means, and how callers wait. It knows no client: package redlock sends the
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
	// Key returns the key of the queue of callers that want the lock.
	Key(name string) Key
	// Several returns the resources of a lock on several; nil of any other,
	// whose resource is its name. The caller must not change them.
	Several() []string
	// Check returns what is wrong with the lock that is wanted, and the
	// resource concerned; "" if nothing is.
	Check(name string) (resource, problem string)

	// Attempt makes the rounds of one attempt. It returns neither a refusal nor
	// an error if the lock was granted.
	Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error)
	// Claim returns the command that sets the lock's keys, and its kind. It is
	// encoded into room, as those of Extend and Release are.
	Claim(g *Grant, room []byte) (*multiplex.ClaimKind, multiplex.Encoded)
	// Extend returns the command that lengthens the keys' lives to the TTL.
	// promised is the TTL for a key that has none.
	Extend(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded)
	// Release returns the command that ends the lock.
	Release(g *Grant, room []byte) (*multiplex.ReleaseKind, multiplex.Encoded)

	// Hear reads what a node said when it refused: the number that its text
	// begins with, and the rest.
	Hear(s *Said, node, number int, text []byte)
	// Refusal fills in what most nodes said. number is what most of their texts
	// begin with. It returns false if that is no more than that the lock is held.
	Refusal(s *Said, name string, number int) bool
}

// Traits are what package redlock asks of all kinds alike.
type Traits struct {
	Serves, Needs Use
	// Many means that one may be free while another is held.
	Many bool
	// Alone means that the lock has one key, that of its resource. MinHold and
	// Heal need that.
	Alone bool
	// Numbered means that Grant.Number is a fencing number.
	Numbered bool
	// Continues means that the lock follows from one that is held: it is no new
	// lock, and a refusal says that the other one was lost.
	Continues bool
	// Contested means that holders exclude each other in no order.
	Contested bool

	// Seats is how many callers of one client ask the nodes, and MostSeats how
	// many while their attempts are granted (R34).
	Seats, MostSeats int
	// HandsOver means that a release may hand the lock to the next caller.
	HandsOver bool
	// KeepsPlace means that a caller with a seat keeps a place at the nodes, by
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

// A Key says which lock a caller waits for. What one is handed would have
// suited any other with the same key.
type Key struct {
	use     Use
	name    string // of several resources, all in a fixed order
	several bool
	permits int
}

// A Grant is a lock as the nodes know it. A Kind fills in the number.
type Grant struct {
	Name    string // the resource; of several, all of them, for people
	Token   wire.Veiled
	TTL     time.Duration // the longest that the keys were given
	Number  int64         // the fencing number, or that of a permit
	Receipt multiplex.Receipt
}

// Rounds sends what an attempt needs.
type Rounds interface {
	// Round sends a claim with a new token (R3) and waits for its outcome. If
	// too many nodes refused, the refusal says why; it is valid until the next
	// round.
	Round(ctx context.Context, g *Grant) (*Refusal, error)
	// Tell sends a release without waiting.
	Tell(kind *multiplex.ReleaseKind, command *multiplex.Command)
}

// Kinds makes the kinds of one client.
type Kinds struct {
	wire.Encoder
	Nodes     int           // of the client
	FairLease time.Duration // Config.FairLease
	Tokens    *wire.Tokens
	Tickets   *pure.Numbers // of callers of fair locks
	Numbers   *Numbers      // nil without Config.Fenced

	// Those that are the same for all locks.
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

// Waiting returns the kind for a call that waits.
func Waiting(k Kind) Kind {
	if w, ok := k.(interface{ waiting() Kind }); ok {
		return w.waiting()
	}
	return k
}

// TooFar returns the kind for the next attempt of a call that waits, though a
// quorum usually answers too late for the TTL: it must not stop others. spent is
// what its last attempt took.
func TooFar(k Kind, r Rounds, name string, spent time.Duration) Kind {
	if f, ok := k.(interface {
		tooFar(r Rounds, name string, spent time.Duration) Kind
	}); ok {
		return f.tooFar(r, name, spent)
	}
	return k
}

// Leave gives up the place of a call that waited and gets no lock. Its last
// attempt has been undone.
func Leave(k Kind, r Rounds, name string) {
	if l, ok := k.(interface{ leave(r Rounds, name string) }); ok {
		l.leave(r, name)
	}
}

// Freed tells a kind that a lock is about to be released.
func Freed(k Kind, g *Grant) {
	if f, ok := k.(interface{ freed(number int64) }); ok {
		f.freed(g.Number)
	}
}

// Meets reports whether a request for a lock may have to wait for one that is
// held.
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

// Covers reports whether a lock that is held is as good as the one that is
// wanted.
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

// once is for kinds whose attempts have one round.
type once struct{}

func (once) Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	return r.Round(ctx, g)
}

// single is for kinds with one resource, of which nothing can be wrong but the
// name.
type single struct{}

func (single) Several() []string             { return nil }
func (single) Check(string) (string, string) { return "", "" }

// scripted is the kind of a command whose script returns 1 or 0.
var scripted = multiplex.Kind{Judge: wire.JudgeScript, Script: true}

// telling is the kind of a claim whose script says what is in the way.
var telling = multiplex.Kind{Judge: wire.JudgeTelling, Script: true}
