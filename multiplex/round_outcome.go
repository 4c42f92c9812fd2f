package multiplex

import "sync/atomic"

// outcome is the error that a decided word stands for.
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

// undecided names the nodes whose votes were missing at the moment of decision, each with its own cause (R12).
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

// Outcomes is an inbox for what came of posted commands. Any number of groups and goroutines may put into it; one goroutine
// at a time takes out.
type Outcomes struct {
	ready chan struct{}
	top   atomic.Pointer[round] // the latest; each is linked to the one before it

	rest *round // taken off already, the earliest first; owned by who takes
}

// NewOutcomes makes an empty inbox.
func NewOutcomes() *Outcomes { return &Outcomes{ready: make(chan struct{}, 1)} }

// Ready receives when there is something to take. It may also when there is nothing.
func (o *Outcomes) Ready() <-chan struct{} { return o.ready }

// An Outcome is what came of a posted command.
type Outcome struct {
	// Tag is what Post was given.
	Tag any
	// Err is nil when a quorum granted; else ErrRefused, an *UndecidedError or ErrClosed, as from Ask.
	Err error
	// Granted are the nodes that had granted when the round was decided.
	Granted Set
	// Answers are what each node had said when the round was decided, in the order of the configuration; nil when a quorum
	// granted.
	Answers []Answer
}

// An Answer is what one node said to a command.
type Answer struct {
	Node int    // index of the node in the configuration
	Addr string // its address, without credentials (R27)
	// Vote is Granted, Refused or Failed; zero if the round was decided before the node's answer came.
	Vote Vote
	// Err is why the vote failed, else nil.
	Err error
}

// Take appends what has come to dst, in the order in which it was decided, up to dst's capacity, and returns it. If something
// is left, Ready receives again. It never waits, and allocates only for outcomes that are not success.
func (o *Outcomes) Take(dst []Outcome) []Outcome {
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

// fetch takes off all that was put in, and turns it round. All are taken at once, so no ABA can happen.
func (o *Outcomes) fetch() {
	for r := o.top.Swap(nil); r != nil; {
		before := r.next
		r.next, o.rest = o.rest, r
		r = before
	}
}

// put hands a decided round over. It never waits: the caller may hold the group's mutex, or read a socket.
func (o *Outcomes) put(r *round) {
	for {
		top := o.top.Load()
		r.next = top // the round is in no free list, since the inbox has a hold on it
		if o.top.CompareAndSwap(top, r) {
			break
		}
	}
	o.signal()
}

func (o *Outcomes) signal() {
	select {
	case o.ready <- struct{}{}:
	default: // it is signalled already
	}
}

// posted reads what came of a posted round, and lets go of it.
func (r *round) posted() Outcome {
	w := r.word.Load()
	o := Outcome{Tag: r.tag, Err: r.outcome(w), Granted: grantedOf(w)}
	if o.Err != nil {
		o.Answers = r.answers(w)
	}
	r.drop()
	return o
}

// answers lists what each node had said when the round was decided.
func (r *round) answers(w uint64) []Answer {
	all := make([]Answer, 0, r.group.size)
	for i, n := range r.group.nodes {
		a := Answer{Node: i, Addr: n.addr}
		switch {
		case grantedOf(w).Has(i):
			a.Vote = Granted
		case refusedOf(w).Has(i):
			a.Vote = Refused
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
