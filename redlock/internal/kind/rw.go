package kind

import (
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// Read/write locks. A node has a writer's key, as of a plain lock; a sorted set
// of its readers, each with the end of its time by the node's clock; and the
// mark of a waiting writer, to keep new readers out. A node grants a reader
// only without a writer, and a writer only without readers. Two quorums share a
// node, so a writer is alone.

// A reader is one of several that hold the lock together.
type reader struct {
	once
	single
	kinds *Kinds
	// writer is its former value as a writer; zero without one.
	writer wire.Value
}

// A writer holds the lock alone.
type writer struct {
	once
	single
	kinds *Kinds
	// mark is how long the mark of a waiting caller stands; 0 without a wait.
	mark time.Duration
	// reader is its lasting value as a reader; zero without one.
	reader wire.Value
}

// MarkTime is how long an attempt of a waiting writer keeps new readers out.
// Attempts in the first quarter do not set the mark again: see write.lua. The
// next attempt begins half of it after the last one did at the latest, or at
// once after a longer attempt. So the mark has no gap where a quorum answers
// within 250 ms.
const MarkTime = 300 * time.Millisecond

// mostReaders bounds how many readers of one client ask the nodes at one time,
// after others were let in.
const mostReaders = 1024

var (
	readerTraits     = Traits{Serves: Reading, Needs: Reading | Writing, Seats: 1, MostSeats: mostReaders}
	downgradedTraits = Traits{Serves: Reading, Needs: Reading | Writing, Seats: 1, MostSeats: mostReaders, Continues: true}
	writerTraits     = Traits{
		Serves: Writing, Needs: Writing, Contested: true, Seats: 1, MostSeats: 1, HandsOver: true,
	}
)

// Reader returns the kind of readers.
func (k *Kinds) Reader() Kind { return k.reader }

// Downgraded returns the kind of a reader made of the writer with a value.
func (k *Kinds) Downgraded(value wire.Value) Kind { return &reader{kinds: k, writer: value} }

// Writer returns the kind of writers.
func (k *Kinds) Writer() Kind { return k.writer }

// Upgraded returns the kind of a writer made of the reader with a token.
func (k *Kinds) Upgraded(value wire.Value) Kind { return &writer{kinds: k, reader: value} }

// IsReader and IsWriter report the kind of a lock.
func IsReader(k Kind) bool { _, ok := k.(*reader); return ok }

// IsWriter is described at IsReader.
func IsWriter(k Kind) bool { _, ok := k.(*writer); return ok }

func (r *reader) Traits() *Traits {
	if r.writer != (wire.Value{}) {
		return &downgradedTraits
	}
	return &readerTraits
}

func (*writer) Traits() *Traits     { return &writerTraits }
func (*reader) Key(name string) Key { return Key{use: Reading, name: name} }
func (*writer) Key(name string) Key { return Key{use: Writing, name: name} }

func (w *writer) waiting() Kind                             { return w.kinds.marked }
func (w *writer) tooFar(Rounds, string, time.Duration) Kind { return w.kinds.writer }

// The commands of readers and writers. Writers are extended as plain locks are.
var (
	lockerKind        = &multiplex.ClaimKind{Kind: telling, Undo: releaseLockerKind, Telling: true}
	downgradeKind     = &multiplex.ClaimKind{Kind: scripted, Undo: releaseLockerKind}
	extendLockerKind  = &multiplex.ExtendKind{Kind: scripted}
	releaseLockerKind = &multiplex.ReleaseKind{Kind: scripted}
)

func (r *reader) Claim(g *Grant, dst []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	kind := lockerKind
	if r.Traits().Continues {
		kind = downgradeKind
		dst = r.kinds.rw(dst, &wire.Downgrade, g.Name, 3)
		dst = r.kinds.Value(dst, &r.writer)
	} else {
		dst = r.kinds.rw(dst, &wire.Read, g.Name, 2)
	}
	dst = r.kinds.Value(dst, &g.Value)
	return kind, multiplex.Encoded{Bytes: wire.Milliseconds(dst, g.TTL)}
}

func (w *writer) Claim(g *Grant, dst []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	dst = w.kinds.rw(dst, &wire.Write, g.Name, 4)
	dst = w.kinds.Value(dst, &g.Value)
	dst = wire.Milliseconds(dst, g.TTL)
	dst = w.kinds.other(dst, &w.reader)
	return lockerKind, multiplex.Encoded{Bytes: wire.Milliseconds(dst, w.mark)}
}

// rwKeys is how many keys a read/write lock has: the writer's, the readers' and
// the mark.
const rwKeys = 3

// rw appends the head of a script with the three keys.
func (k *Kinds) rw(dst []byte, s *wire.Script, resource string, arguments int) []byte {
	dst = s.Call(dst, rwKeys, 3+rwKeys+arguments)
	dst = k.Encoder.Key(dst, resource)
	dst = k.KeyWith(dst, resource, wire.ReadersSuffix)
	return k.KeyWith(dst, resource, wire.MarkSuffix)
}

// other appends the value of another lock, or an empty one.
func (k *Kinds) other(dst []byte, value *wire.Value) []byte {
	if *value == (wire.Value{}) {
		return wire.Text(dst, "")
	}
	return k.Value(dst, value)
}

func (r *reader) Extend(g *Grant, dst []byte, ttl, _ time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	dst = wire.ExtendRead.Call(dst, 1, 3+1+2)
	dst = r.kinds.KeyWith(dst, g.Name, wire.ReadersSuffix)
	dst = r.kinds.Value(dst, &g.Value)
	return extendLockerKind, multiplex.Encoded{Bytes: wire.Milliseconds(dst, ttl)}
}

func (w *writer) Extend(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	return extendKind, w.kinds.Encoder.Extend(room, g.Name, &g.Value, ttl, promised)
}

func (r *reader) Release(g *Grant, dst []byte) (*multiplex.ReleaseKind, multiplex.Encoded) {
	dst = wire.ReleaseRead.Call(dst, 2, 3+2+2)
	dst = r.kinds.KeyWith(dst, g.Name, wire.ReadersSuffix)
	dst = r.kinds.Encoder.Key(dst, g.Name)
	dst = r.kinds.Value(dst, &g.Value)
	return releaseLockerKind, multiplex.Encoded{Bytes: r.kinds.other(dst, &r.writer)}
}

func (w *writer) Release(g *Grant, dst []byte) (*multiplex.ReleaseKind, multiplex.Encoded) {
	dst = wire.ReleaseMarked.Call(dst, 2, 3+2+1)
	dst = w.kinds.Encoder.Key(dst, g.Name)
	dst = w.kinds.KeyWith(dst, g.Name, wire.MarkSuffix)
	return releaseLockerKind, multiplex.Encoded{Bytes: w.kinds.Value(dst, &g.Value)}
}

func (*reader) Hear(s *Said, node, number int, text []byte) { s.hold(node, number, rwKeys, text) }
func (*writer) Hear(s *Said, node, number int, text []byte) { s.hold(node, number, rwKeys, text) }

func (*reader) Refusal(s *Said, name string, place int) bool {
	s.Key = keyInTheWay(name, place)
	return true
}

func (w *writer) Refusal(s *Said, name string, place int) bool {
	s.Key = keyInTheWay(name, place)
	if place == readersPlace {
		s.Soon = w.mark / 2
	}
	return true
}

// readersPlace is the readers' place among the keys.
const readersPlace = 2

// keyInTheWay returns the key in a caller's way, without the prefix.
func keyInTheWay(name string, place int) string {
	return name + [rwKeys]string{"", wire.ReadersSuffix, wire.MarkSuffix}[place-1]
}
