package multiplex

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A round is one command sent to all nodes, and their votes. It is recycled.
// The log holds it until every node has answered or died, its caller up to its
// reading of the outcome, and a lane entry that repeats its command up to the
// reply of that node. The last holder gives it back (R20).
//
// Votes, expiry, cancellation and shutdown all go through one word, and exactly
// one compare-and-swap decides it. The goroutine of that swap wakes a sleeping
// caller.
type round struct {
	// Several nodes' replies touch each round, and with a thousand callers the
	// rounds fill a processor's cache. So the fields are in the order of their
	// use: 64 bytes for what a vote needs, 64 for what a claim needs besides,
	// and the rest.

	word    atomic.Uint64
	holders atomic.Int32

	// The following are written under the group's mutex before the round is
	// published, and only read from then on, unless stated otherwise.

	carrier bool // it stands in the log for several merged rounds, its parts
	unusual bool // it has a posting
	// discounted is the set of nodes that got the round, but make no lock
	// by their vote: they may have forgotten another lock (R23). The votes
	// of those in void have failed already; code that sets a key by other
	// means must check discounted.
	discounted Set
	verb       *verb
	group      *Group

	at      time.Duration // when it was queued, on the group's clock
	ttl     time.Duration
	receipt Receipt         // of the claim that this round releases or lengthens
	ctx     context.Context // nil if no caller waits
	next    *round          // in a free list, or an inbox
	form    *Form           // the native form in the log; nil for command itself

	wake chan struct{} // wakes the caller, who sets it to sleep; see park
	kept
	carrying
	posting Posting // empty for a round that a caller waits for
	// texts is nil before the round's first Telling form. Readers write
	// what it points to.
	texts *texts
	// blamed is set once a cause is stored, by any goroutine, so
	// that recycling clears causes only where there are any.
	blamed atomic.Bool
	// causes says why a node's vote is missing; nil with the failed bit set is
	// a timeout.
	causes [MaxNodes]atomic.Pointer[fault]
}

// kept is a copy of a command that may be sent again, or merged. A carrier
// keeps none: its parts do.
type kept struct {
	command []byte
	key     Part            // of command, for merging and for native forms
	room    [roundRoom]byte // for a command of usual length
}

// roundRoom is enough for a script with a key of 120 bytes, and makes a round a
// whole number of cache lines.
const roundRoom = 272

// carrying is what a carrier carries.
type carrying struct {
	// parts are the rounds that a carrier carries, with a hold on each. They
	// are empty for any other round.
	parts  []*round
	itself [1]*round // what members returns for any other round
}

// The word, from the low end:
//
//	0       16      32      48     49      50        51     52      53
//	granted refused failed  parked decided cancelled closed polling called
//
// Once it is decided, votes no longer change it: the verdict is that of the
// moment of decision (R12).
const (
	refusedShift = 16
	failedShift  = 32

	parked    uint64 = 1 << 48
	decided   uint64 = 1 << 49
	cancelled uint64 = 1 << 50
	closed    uint64 = 1 << 51
	polling   uint64 = 1 << 52
	called    uint64 = 1 << 53 // a caller waits for the outcome, and is counted
)

func grantedOf(w uint64) Set { return Set(w) }

func refusedOf(w uint64) Set { return Set(w >> refusedShift) }

func failedOf(w uint64) Set { return Set(w >> failedShift) }

func votedOf(w uint64) Set { return grantedOf(w) | refusedOf(w) | failedOf(w) }

func bitOf(v Vote, node int) uint64 {
	switch v {
	case Granted:
		return 1 << uint(node)
	case Refused:
		return 1 << uint(node+refusedShift)
	default:
		return 1 << uint(node+failedShift)
	}
}

func (r *round) tallyOf(w uint64) Tally {
	return Tally{
		Nodes:   r.group.size,
		Granted: grantedOf(w).Len(),
		Refused: refusedOf(w).Len(),
		Failed:  failedOf(w).Len(),
	}
}

func (r *round) verdictOf(w uint64) Verdict {
	t := r.tallyOf(w)
	return t.Verdict(r.group.quorum, r.verb.mode)
}

// vote records one node's answer and reports whether it counted. A vote after
// the decision, or after this node's vote was given up, changes nothing (R17).
func (r *round) vote(node int, v Vote, why *fault) bool {
	bit := bitOf(v, node)
	for {
		w := r.word.Load()
		if w&decided != 0 || votedOf(w).Has(node) {
			return false
		}
		if why != nil {
			// The cause is stored before the swap. So a goroutine
			// that sees the failed bit also sees the cause.
			r.causes[node].Store(why)
			r.blamed.Store(true)
		}
		next := w | bit
		if r.verdictOf(next) != Open {
			next |= decided
		}
		if r.word.CompareAndSwap(w, next) {
			if next&decided != 0 {
				r.rouse(w)
			}
			return true
		}
	}
}

// giveUp fails the votes of nodes whose time is over, all at once: their effect
// must not depend on an order (R12). It returns the nodes whose votes it
// failed.
func (r *round) giveUp(over Set) (counted Set) {
	for {
		w := r.word.Load()
		over &^= votedOf(w)
		if w&decided != 0 || over == 0 {
			return 0
		}
		next := w | uint64(over)<<failedShift
		if r.verdictOf(next) != Open {
			next |= decided
		}
		if r.word.CompareAndSwap(w, next) {
			if next&decided != 0 {
				r.rouse(w)
			}
			return over
		}
	}
}

// conclude decides a round for an outside reason (cancelled or closed), unless
// it is decided already.
func (r *round) conclude(reason uint64) bool {
	for {
		w := r.word.Load()
		if w&decided != 0 {
			return false
		}
		if r.word.CompareAndSwap(w, w|decided|reason) {
			r.rouse(w)
			return true
		}
	}
}

// rouse wakes a caller that slept, or waited in the poller, by the word w. It
// puts a posted round into its inbox. Only the goroutine that decided the round
// calls it, so it wakes no caller twice, and puts no round into an inbox twice.
func (r *round) rouse(w uint64) {
	if w&called != 0 {
		r.group.flusher.answered.Add(1)
	}
	if w&(parked|polling) == 0 {
		return
	}
	p := r.group.poller
	if w&polling != 0 {
		p.events.Kick()
		return
	}
	if p != nil {
		p.waiting.Add(-1)
	}
	if r.isPosted() {
		r.posting.Inbox.put(r)
		return
	}
	r.wake <- struct{}{}
}

// await sleeps until the round is decided and returns its word.
func (r *round) await() uint64 {
	for {
		w := r.word.Load()
		if w&decided != 0 {
			return w
		}
		if r.park(w) {
			return r.word.Load()
		}
	}
}

// park sleeps until the round is decided, and reports true, if the word is
// still w. A round has a channel only for that time: a stopped node pins
// thousands more rounds than there are callers.
func (r *round) park(w uint64) bool {
	pool := &r.group.wakes
	wake, _ := pool.Get().(chan struct{})
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	defer pool.Put(wake)
	r.wake = wake
	if !r.word.CompareAndSwap(w, w|parked) {
		return false
	}
	<-wake // the goroutine that sent is done with it
	return true
}

// hold adds a holder to a round that has one.
func (r *round) hold() { r.holders.Add(1) }

// drop releases one hold. The last holder gives the round back to the log.
func (r *round) drop() {
	if r.holders.Add(-1) == 0 {
		r.group.log.giveBack(r)
	}
}

// clear readies the round for its next use. Nothing else refers to it.
func (r *round) clear() {
	r.word.Store(0)
	if r.blamed.Load() {
		for i := range r.causes {
			r.causes[i].Store(nil)
		}
		r.blamed.Store(false)
	}
	if r.unusual {
		r.posting, r.unusual = Posting{}, false
	}
	r.ctx, r.verb, r.receipt, r.discounted = nil, nil, Receipt{}, 0
	r.key, r.form = Part{}, nil
	if cap(r.command) > keepCommand {
		r.command = r.room[:]
	}
	r.texts.empty()
	r.command = r.command[:0]
	if r.carrier {
		clear(r.parts)
		r.parts = r.parts[:0]
	}
	if poisoning {
		r.poison()
	}
}

// keepCommand bounds the buffer of a recycled round. One long resource name
// does not cost memory forever (R26). append first doubles the room that a
// round has.
const keepCommand = 3 * roundRoom

// begin prepares a round before it is published.
func (r *round) begin(v *verb, at, ttl time.Duration, receipt Receipt, holders int32) {
	r.verb, r.at, r.ttl, r.receipt = v, at, ttl, receipt
	r.holders.Store(holders)
}

// members returns the rounds whose votes a reply to this one decides: the parts
// of a carrier, or the round itself.
func (r *round) members() []*round {
	if r.carrier {
		return r.parts
	}
	return r.itself[:]
}

// owedBy reports whether the round releases a key that this node may hold.
func (r *round) owedBy(node int) bool { return r.verb.releases && r.receipt.Sent.Has(node) }

// void returns the quarantined nodes whose votes on the round do not count. For
// a release there are none: it makes no lock.
func (r *round) void() Set {
	if r.verb.releases {
		return 0
	}
	return pure.Void(r.verb.claims, r.discounted, r.receipt.Doubted)
}

// waited returns how long the caller has waited for nodes before.
func (r *round) waited() time.Duration {
	if !r.unusual {
		return 0
	}
	return r.posting.waited
}

// patience returns the least time to wait for the round's votes.
func (r *round) patience() time.Duration {
	if !r.unusual || r.group.config.VoteTimeout != 0 {
		return 0
	}
	return r.posting.Patience
}

// isPosted reports whether the outcome goes into an inbox.
func (r *round) isPosted() bool { return r.unusual && r.posting.Inbox != nil }

// postLocked prepares a posted round. Before it is published, the round is
// counted as waiting and marked as asleep: the goroutine that decides it
// uncounts it and puts it into the inbox (see rouse).
func (r *round) postLocked() {
	r.word.Store(parked)
	if p := r.group.poller; p != nil {
		p.waiting.Add(1)
	}
}
