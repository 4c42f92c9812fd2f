package pure

import (
	"slices"
	"sync/atomic"
	"time"
)

// Numbers gives the attempts of one client their fencing numbers
// (docs/internals/fencing.md). A number is the time in microseconds, by the
// nodes' clocks, so that it is most often higher than those of other clients.
// Where it is not, the nodes say so, and the next one is. Nothing but the
// number of rounds depends on a clock. Its methods may be called by several
// goroutines.
type Numbers struct {
	zero  time.Time    // with both clocks
	ahead atomic.Int64 // of the nodes' clocks to this one, in microseconds
	// highest is the highest number that was given out, or learned from a node.
	highest atomic.Int64
	// stale is the highest last number for which a node refused a lower one.
	stale atomic.Int64
}

// NewNumbers returns the numbers of a client whose clock is read now.
func NewNumbers(now time.Time) *Numbers { return &Numbers{zero: now} }

// Correct says how far the nodes' clocks are ahead of this client's.
func (n *Numbers) Correct(ahead time.Duration) { n.ahead.Store(ahead.Microseconds()) }

// Next returns the number of an attempt that begins now. It is higher than any
// that it returned before.
func (n *Numbers) Next(now time.Time) int64 {
	clock := n.clock(now)
	for {
		highest := n.highest.Load()
		next := min(max(clock, highest+1), LastNumber)
		if n.highest.CompareAndSwap(highest, next) {
			return next
		}
	}
}

// clock returns the nodes' time. This client's part is monotonic. Setting a
// clock does not matter.
func (n *Numbers) clock(now time.Time) int64 {
	return n.zero.UnixMicro() + now.Sub(n.zero).Microseconds() + n.ahead.Load()
}

// Learn is the last number that a node has granted for some resource. It must
// be believed.
func (n *Numbers) Learn(last int64) { raise(&n.highest, last) }

// Stale is Learn with the last number of a resource, from a node that refused
// one as no higher.
func (n *Numbers) Stale(last int64) {
	n.Learn(last)
	raise(&n.stale, last)
}

// Outdated reports whether a node has refused a number as too low since it was
// given out.
func (n *Numbers) Outdated(number int64) bool { return n.stale.Load() >= number }

// raise makes a number at least as high as another one.
func raise(n *atomic.Int64, to int64) {
	for {
		was := n.Load()
		if was >= to || n.CompareAndSwap(was, to) {
			return
		}
	}
}

// Clocks is how far each node's clock is ahead of this client's, as of the best
// of its latest answers.
type Clocks []Reading

// A Reading is an answer to TIME.
type Reading struct {
	Ahead time.Duration // of the node's clock, if it was read in the middle
	Trip  time.Duration // from the question to the answer
	At    time.Duration // when it came, which may be at 0 on a coarse clock
	taken bool          // there was one
}

// clockAging is how much better an old reading must be than a new one to be
// kept: by a millisecond for each second of its age.
const clockAging = 1000

// Take takes in a reading of a node's clock and returns the median of all
// nodes'. A clock that was not read counts as this client's: one node alone
// does not say what time it is (R33).
func (c Clocks) Take(node int, r Reading) (ahead time.Duration) {
	if old := &c[node]; !old.taken || r.Trip <= old.Trip+(r.At-old.At)/clockAging {
		*old = r
		old.taken = true
	}
	var all [mostNodes]time.Duration
	for i := range c {
		all[i] = c[i].Ahead
	}
	slices.Sort(all[:len(c)])
	return all[(len(c)-1)/2]
}
