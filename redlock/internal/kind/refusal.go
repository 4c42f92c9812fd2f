package kind

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A Refusal is why an attempt got no lock, by most of the refusing nodes.
type Refusal struct {
	// Bare means that the nodes said no more than held.
	Bare     bool
	Resource string // which of several resources is in the way
	Owner    string // the label of its holder
	Place    int    // in the queue of a fair lock; 0 if that is not known
	Admitted int    // the nodes that have the caller in that queue

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
	owners  [multiplex.MaxNodes]string
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
		_, s.owners[node], _ = pure.SplitValue(string(value))
	}
}

// Refused returns what most nodes said.
func (s *Said) Refused(name string) *Refusal {
	s.dirty = true
	number := mostOf(s.numbers[:])
	for node, other := range s.numbers {
		if other != number {
			s.owners[node] = "" // it holds another key
		}
	}
	s.Refusal = Refusal{Owner: mostOf(s.owners[:])}
	s.Bare = number == 0 || !s.kind.Refusal(s, name, int(number)) // 0: the number was too low
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
