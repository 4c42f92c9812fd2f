package multiplex

import (
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// outcome returns the error that a decided word stands for.
func (r *round) outcome(w uint64) error {
	switch {
	case w&cancelled != 0:
		return r.ctx.Err()
	case w&closed != 0:
		return ErrClosed
	}
	switch r.verdictOf(w) {
	case Won:
		return nil
	case Lost:
		return ErrRefused
	default:
		return r.undecided(failedOf(w))
	}
}

// undecided names the nodes whose votes were missing at the moment of decision,
// each with its own cause (R12).
func (r *round) undecided(failed Set) error {
	e := &UndecidedError{Of: r.group.size}
	for i, n := range r.group.nodes {
		if !failed.Has(i) {
			continue
		}
		why := r.causes[i].Load()
		if why == nil {
			why = timedOut
		}
		e.Nodes = append(e.Nodes, n.blame(why))
	}
	return e
}

// Outcomes is an inbox for the outcomes of posted commands. Any number of
// groups and goroutines may put into it; only one goroutine at a time may take.
type Outcomes struct {
	ready chan struct{}
	// top is the latest round; each is linked to the one before it.
	top atomic.Pointer[round]

	// rest has rounds that were taken off top already, the earliest first. The
	// goroutine that calls Take owns it.
	rest *round
}

// NewOutcomes returns an empty inbox.
func NewOutcomes() *Outcomes { return &Outcomes{ready: make(chan struct{}, 1)} }

// Ready returns a channel that receives with something to take.
func (o *Outcomes) Ready() <-chan struct{} {
	o.made()
	return o.ready
}

// A Posting says where the outcome of a posted command goes.
type Posting struct {
	Inbox *Outcomes // gets the outcome
	Tag   any       // returned with the outcome
	// Patience is the least time to wait for votes if Config.VoteTimeout is
	// zero. Posted commands can wait longer than others, since no caller
	// waits for them. Without any answer, no node is shed in the first half
	// of that time, unless Config.ShedAfter is set. If zero, votes and
	// nodes have the usual time.
	Patience time.Duration
	// waited is how long the caller of a command that is not posted has waited
	// for nodes to return. The wait for its votes is shorter by that (R26).
	waited time.Duration
}

// An Outcome is the outcome of a posted command.
type Outcome struct {
	// Tag is that of the Posting.
	Tag any
	// Err is nil if a quorum granted; otherwise ErrRefused, an *UndecidedError
	// or ErrClosed, as from Group.Claim.
	Err error
	// Granted is the set of nodes that had granted by the decision of the
	// round.
	Granted Set
	// Answers has each node's answer at the decision of the round, in the
	// order of the configuration; nil after a quorum of grants.
	Answers []Answer
}

// An Answer is one node's answer to a command.
type Answer struct {
	Node int    // index of the node in the configuration
	Addr string // its address, without credentials (R27)
	// Vote is Granted, Refused or Failed. It is zero if the round was decided
	// before the node's answer came.
	Vote Vote
	// Err is why the vote failed. Of a node that refuses to extend a lock it may
	// be an explanation: another server has taken its place. Otherwise nil.
	Err error
}

// Take appends outcomes to dst in the order in which they were decided, up to
// dst's capacity, and returns it. If some are left, Ready receives again. Take
// never waits, and allocates only for outcomes that are not success.
func (o *Outcomes) Take(dst []Outcome) []Outcome {
	o.made()
	for len(dst) < cap(dst) {
		if o.rest == nil {
			o.fetch()
		}
		r := o.rest
		if r == nil {
			return dst
		}
		o.rest, r.next = r.next, nil
		dst = append(dst, r.posted())
	}
	if o.rest != nil || o.top.Load() != nil {
		o.signal()
	}
	return dst
}

// fetch takes all rounds that were put in and reverses their order. It takes
// them all at once, so there is no ABA problem.
func (o *Outcomes) fetch() {
	for r := o.top.Swap(nil); r != nil; {
		before := r.next
		r.next, o.rest = o.rest, r
		r = before
	}
}

// put adds a decided round. It never waits: the caller may hold the group's
// mutex, or read a socket.
func (o *Outcomes) put(r *round) {
	for {
		top := o.top.Load()
		r.next = top // the round is in no free list, since the inbox holds it
		if o.top.CompareAndSwap(top, r) {
			break
		}
	}
	o.signal()
}

func (o *Outcomes) signal() {
	select {
	case o.ready <- struct{}{}:
	default: // the signal was sent already
	}
}

// posted returns the outcome of a posted round and drops the round.
func (r *round) posted() Outcome {
	w := r.word.Load()
	o := Outcome{Tag: r.posting.Tag, Err: r.outcome(w), Granted: grantedOf(w)}
	if o.Err != nil {
		o.Answers = r.answers(w)
	}
	r.drop()
	return o
}

// answers lists each node's answer when the round was decided.
func (r *round) answers(w uint64) []Answer {
	all := make([]Answer, 0, r.group.size)
	for i, n := range r.group.nodes {
		a := Answer{Node: i, Addr: n.addr}
		switch {
		case grantedOf(w).Has(i):
			a.Vote = Granted
		case refusedOf(w).Has(i):
			a.Vote = Refused
			if why := r.causes[i].Load(); why != nil {
				a.Err = why.err
			}
		case failedOf(w).Has(i):
			a.Vote, a.Err = Failed, ErrTimeout
			if why := r.causes[i].Load(); why != nil {
				a.Err = why.err
			}
		}
		all = append(all, a)
	}
	return all
}

// texts are what nodes said when they refused a claim, for Claim.Told. A round
// that needs them keeps them, empty, for its next use.
//
// The goroutine that reads a node writes its text before it votes. The caller
// reads it after the decision, and only for a vote that counted. So no mutex is
// needed: later replies are other nodes'.
type texts [MaxNodes][]byte

// longestText bounds what is kept of a text (R26): a value, behind the number
// of what is in the way.
const longestText = pure.LongestShown + 16

// keep copies a node's text, or the texts in an array, up to the bound.
func (t *texts) keep(node int, v resp.Value) {
	if v.Type() == resp.Array {
		for e := range v.Elements() {
			t.keep(node, e)
		}
		return
	}
	if text := v.Bytes(); v.Type() == resp.BulkString && len(text) <= longestText {
		t[node] = append(t[node][:0], text...)
	}
}

// empty forgets all texts.
func (t *texts) empty() {
	if t == nil {
		return
	}
	for i := range t {
		t[i] = t[i][:0]
	}
}

// tell passes on the texts of the nodes that refused, by the deciding word.
func (r *round) tell(word uint64, told func(node int, text []byte)) {
	for i := range r.texts {
		if refusedOf(word).Has(i) && len(r.texts[i]) > 0 {
			told(i, r.texts[i])
		}
	}
}

// MaxNodes is the largest number of nodes of a group (R1): the votes of a round
// fit in one machine word, sixteen bits for each kind of answer.
const MaxNodes = 16

// Quorum returns ⌊n/2⌋+1 for n configured nodes, whether or not they are up
// (R1).
func Quorum(n int) int { return n/2 + 1 }

// A Set is a set of nodes: bit i stands for node i. Has(i) and Len ask it;
// Add(i) and Without(set) return another one.
type Set = pure.Set

// All returns the set of all nodes of a group of n.
func All(n int) Set { return pure.All(n) }

func setOf(i int) Set { return pure.SetOf(i) }

// A Vote is what one node's reply means to the round that asked.
type Vote uint8

const (
	// Alien is a reply whose type cannot answer the command. It ends the
	// connection (R16).
	Alien Vote = iota
	// Granted means that the lock was set, extended or released on this node.
	Granted
	// Refused means that another client's key is there, or ours is not.
	Refused
	// Failed is neither: an error, a dead connection, or a timeout (R17).
	Failed
	// Restored means that our key was gone and was set again (R10, healing). It
	// is a grant, except from a quarantined node, where it is a refusal: the
	// node may have forgotten the lock of another client (R23).
	Restored
	// Floorless means that the key was set, but the node has no floor for
	// fencing numbers. It does not count (docs/fencing.md).
	Floorless
	// Beyond means a refusal for a reason that cannot be true. That is a
	// failure of the node, not an answer (R33).
	Beyond
)

// A Mode says when a round is decided.
type Mode uint8

const (
	// Claiming decides as soon as a quorum granted, or no quorum can grant any
	// more (R5). Which nodes refused does not matter then.
	Claiming Mode = iota
	// Confirming is for a command about a key that was ours. Without hope
	// of a quorum, it still waits for refusals that may prove that the key
	// is not ours. "Not yours" and "unknown" call for different actions
	// (R9, R12).
	Confirming
	// Placing is Claiming for a command that wants refusals, which say more
	// than no, from a quorum: they do not decide it before a quorum of
	// nodes has answered. With an odd number of nodes that makes no
	// difference.
	Placing
)

// A Verdict is the outcome of a round.
type Verdict uint8

const (
	// Open means that the round still waits for votes.
	Open Verdict = iota
	// Won means that a quorum granted.
	Won
	// Lost means refusals: a quorum is out of reach, and not for failures
	// alone.
	Lost
	// Undecided means that too few nodes answered to know (R12).
	Undecided
)

// A Tally counts the votes of one round.
type Tally struct {
	Nodes                    int // of the group, whether or not they have voted
	Granted, Refused, Failed int // votes so far
}

// Hinges reports whether the outcome depends on the missing votes. Without any
// of them, it stays unknown (R6).
func (t Tally) Hinges(quorum int, mode Mode) bool {
	t.Failed = t.Nodes - t.Granted - t.Refused
	return t.Verdict(quorum, mode) == Undecided
}

// Verdict returns the outcome of the votes counted so far, for a round that
// needs the given quorum. Once it is not Open, no further vote makes it Open or
// brings a quorum within reach, so the first goroutine to reach a verdict may
// wake the caller (R5). Failures after a refusal could still turn Lost into
// Undecided; the round's word keeps the verdict of the moment of decision
// (R12).
func (t Tally) Verdict(quorum int, mode Mode) Verdict {
	if t.Granted >= quorum {
		return Won
	}
	pending := t.Nodes - t.Granted - t.Refused - t.Failed
	// So many refusals or failures rule out any quorum.
	blocking := t.Nodes - quorum + 1
	if mode == Confirming && t.Refused >= blocking {
		return Lost
	}
	if t.Granted+pending >= quorum {
		return Open
	}
	if mode == Confirming {
		if t.Refused+pending >= blocking {
			return Open
		}
		return Undecided
	}
	if t.Failed >= blocking {
		return Undecided
	}
	if mode == Placing && t.Nodes-pending < quorum {
		return Open
	}
	return Lost
}
