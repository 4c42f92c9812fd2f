package pure

import "time"

// Floors is what one client knows of the floors that its nodes give their
// fencing numbers (docs/internals/fencing.md). It decides when a node without
// memory gets a new one, and of what height. Sight, Part, Blind, Ordered and
// Answered are events.
//
// A node is sealed once its process was given a floor. Only then does its grant
// of a number count. A node that is not may be given one once its quarantine is
// over (R23), as its own seal proves: no attempt from before its loss is still
// in flight then. The floor is the highest number that the other nodes
// remember. So many of them are asked, after that, that each grant had one of
// them. If fewer of them are sealed, nothing can be learned, and only an
// operator can go on.
//
// What one node says is one node's word (R33). A record that cannot be true is
// no answer: its node is not sealed, no other learns from it, and only an
// operator gives it a floor. So no floor is higher than what a correct clock,
// or a quorum of nodes, accounts for.
type Floors struct {
	needed int   // others to be asked
	clock  int64 // of most nodes, in microseconds, at the last look
	nodes  []footing
}

// A Footing is what a look has found of a node's memory of fencing numbers.
type Footing struct {
	Record Record
	Known  bool // there is a record, and it could be read
	// Strange says that something else stands in its place.
	Strange bool
	// Run is the name of the asked process (ProcessName); "" without the
	// right to ask. If Durable, any process is the same.
	Run     string
	Durable bool
	// Proof is the value of a seal that proves the end of the node's
	// quarantine, for a node that counts; "" otherwise.
	Proof string
}

type footing struct {
	Footing
	seen  bool
	asked time.Duration // when the last look was asked for
	// ripe is the time of the first of the latest looks with this proof and
	// no floor.
	ripe time.Duration
	busy bool // a floor is being written
}

// NewFloors returns what is known at first of so many nodes.
func NewFloors(nodes int) Floors {
	return Floors{needed: nodes - (nodes/2 + 1) + 1, nodes: make([]footing, nodes)}
}

// Sight is a look at a node, which was asked for at the given time. clock is
// that of most nodes, in microseconds.
func (f *Floors) Sight(node int, s Footing, asked, now time.Duration, clock int64) {
	n := &f.nodes[node]
	f.clock = clock
	if n.Proof != s.Proof || f.Sealed(node) {
		n.ripe = now
	}
	n.Footing, n.seen, n.asked = s, true, asked
}

// Part is the end of a node's connection: what was found may be another
// process's.
func (f *Floors) Part(node int) { f.nodes[node] = footing{} }

// Blind is a grant by a node without a floor: what the last look found is gone.
func (f *Floors) Blind(node int) { f.nodes[node] = footing{seen: true, busy: f.nodes[node].busy} }

// Ordered is a floor on its way to a node, and Answered the end of that.
func (f *Floors) Ordered(node int) { f.nodes[node].busy = true }

// Answered is the node's answer to the floor on its way, or the end of hope for
// it.
func (f *Floors) Answered(node int) { f.nodes[node].busy = false }

// Seen reports whether a node was looked at over this connection.
func (f *Floors) Seen(node int) bool { return f.nodes[node].seen }

// Sealed reports whether a node's grants count.
func (f *Floors) Sealed(node int) bool {
	n := &f.nodes[node]
	return n.Known && n.Record.Floored(n.Run, n.Durable) && !f.Beyond(node)
}

// recordSlack is how far a node's record may be ahead of what a quorum of nodes
// remember. A record is a second ahead of its numbers, and not all nodes are
// looked at in one moment.
const recordSlack = 2_000_000

// Beyond reports whether a node's record cannot be true, or is none (R33).
func (f *Floors) Beyond(node int) bool {
	n := &f.nodes[node]
	return n.Strange || n.Known && n.Record.High() > Believable(f.clock, f.Common()+recordSlack)
}

// Common returns the highest number that a quorum of nodes remember, or a
// higher one, and 0 without such a quorum.
func (f *Floors) Common() int64 {
	var all [mostNodes]int64
	for i := range f.nodes {
		if f.nodes[i].Known {
			all[i] = f.nodes[i].Record.High()
		}
	}
	return CommonOf(all[:len(f.nodes)])
}

// Due returns the floor for a node that is not sealed. If ok is false, it
// cannot be known yet. The nodes of the set are to be looked at again first;
// with none in it, that must wait for something else.
func (f *Floors) Due(node int) (floor int64, again uint16, ok bool) {
	n := &f.nodes[node]
	switch {
	case n.Proof == "", n.busy, f.Sealed(node), f.Beyond(node):
		return 0, 0, false
	}
	floor = n.Record.High() // what it remembers does no harm
	asked := 0
	for i := range f.nodes {
		switch other := &f.nodes[i]; {
		case i == node || !f.Sealed(i):
		case other.asked < n.ripe:
			again |= 1 << i
		default:
			floor = max(floor, other.Record.High())
			asked++
		}
	}
	return floor, again, asked >= f.needed
}

// Proof returns the seal that a floor must be written beside.
func (f *Floors) Proof(node int) string { return f.nodes[node].Proof }

// Learnable reports whether enough other nodes to learn a floor from are
// sealed, or may be, not yet looked at.
func (f *Floors) Learnable(node int) bool {
	others := 0
	for i := range f.nodes {
		if i != node && (f.Sealed(i) || !f.Seen(i)) {
			others++
		}
	}
	return others >= f.needed
}
