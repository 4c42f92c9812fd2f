package pure

import (
	"slices"
	"sync/atomic"
	"time"
)

// Belief is how far a number may be ahead of the nodes' clocks that one node
// alone says to have granted (R33). A reset puts numbers FenceLead ahead of
// them, and a node grants what is up to twice that ahead of its own. So most
// nodes accept a number made from a believed one, with clocks less than half a
// minute apart.
const (
	FenceLead = time.Minute
	Belief    = FenceLead + FenceLead/2
)

// MostNumber is the highest number that is believed. There are too few above
// it to go on with.
const MostNumber = LastNumber - int64(Belief/time.Microsecond)

// Believable returns the highest number that takes one node's word only: a
// correct clock accounts for it, or a quorum of nodes.
func Believable(clock, common int64) int64 {
	return min(max(clock+Belief.Microseconds(), common), MostNumber)
}

// CommonOf returns the highest number than which a quorum of nodes said no
// lower one. said has what each node of the set said, and is sorted.
func CommonOf(said []int64) int64 {
	slices.Sort(said)
	return said[(len(said)-1)/2]
}

// Beliefs says which numbers one client learns from a single node (R33). Its
// methods may be called by several goroutines.
type Beliefs struct {
	zero   time.Time    // with both clocks
	ahead  atomic.Int64 // of most nodes' clocks to this client's, in microseconds
	common atomic.Int64 // what a quorum of nodes remembered at the last look
}

// NewBeliefs returns those of a client whose clock is read now.
func NewBeliefs(now time.Time) *Beliefs { return &Beliefs{zero: now} }

// Correct says how far most nodes' clocks are ahead of this client's.
func (b *Beliefs) Correct(ahead time.Duration) { b.ahead.Store(ahead.Microseconds()) }

// Agree says which number a quorum of nodes remember.
func (b *Beliefs) Agree(common int64) { b.common.Store(common) }

// Believes reports whether to learn a number that one node says to have
// granted. The later of this client's clocks counts: the monotonic one stops
// while the machine is suspended, and the other one may be set back.
func (b *Beliefs) Believes(number int64, now time.Time) bool {
	clock := max(b.zero.UnixMicro()+now.Sub(b.zero).Microseconds(), now.UnixMicro())
	return number <= Believable(clock+b.ahead.Load(), b.common.Load())
}
