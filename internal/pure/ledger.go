package pure

import "time"

// A Debt is a release that a node has not confirmed while it may still hold the
// key (R8). It ends with an integer reply, or when the key must have expired:
// TTL × (1 + drift) after the moment from which the node can execute no older
// command. It is never dropped earlier.
type Debt struct {
	Command string        // the release, encoded
	ttl     time.Duration // of the key
	Due     time.Duration // when to send it (again)
	Delay   time.Duration // until the next try after a refusal
	Until   time.Duration // when the key has expired; 0 before the fence, when that is unknown
	Sent    bool          // an answer is awaited
	Repeat  bool          // an answer does not end it: the SET may still come (R8, where CLIENT KILL is forbidden)
	settled bool          // it was answered, and is repeated all the same
	Index   int           // in Ledger.Debts; -1 when it has ended

	turn, ending int // places in the ledger's agendas
}

// byTurn and byEnd are the orders of the ledger's agendas: by Due and by Until.
type (
	byTurn struct{}
	byEnd  struct{}
)

func (byTurn) of(d *Debt) *int { return &d.turn }
func (byEnd) of(d *Debt) *int  { return &d.ending }

// The pauses before refused debts are tried again (R8), and before debts whose
// SET may still come are repeated (docs/design.md, "The SET that comes late").
const (
	RefusedFirst = 50 * time.Millisecond
	refusedMost  = time.Second
	RepeatFirst  = 250 * time.Millisecond
	RepeatTimes  = 4
)

// expireAtOnce bounds the debts that one call of Expire ends, so that many of
// them do not delay all other work.
const expireAtOnce = 512

// A Ledger holds the debts of one node. It is guarded by its owner's mutex.
//
// The debts that await no answer are in two orders: by Due, and by Until if
// that is known. The caller that changes a debt's Due, Until or Sent must call
// Plan.
type Ledger struct {
	Debts []*Debt
	turns agenda[byTurn]
	ends  agenda[byEnd]
	known map[string]*Debt // by command: a lock that is released several times is owed once
	safe  int              // the number of debts that are settled
	Limit int
	Drift float64
	// Longest is the longest TTL that was asked for so far. An extension may
	// have succeeded unnoticed, so a key may live longer than the TTL of its
	// debt.
	Longest             time.Duration
	Made, Paid, Expired uint64 // see Counts
}

// Full reports whether the node gets no new SETs until it has paid. The ledger
// still takes debts then. They come from locks that were granted or requested
// before, with one release each, so their number is bounded, and none is ever
// dropped.
func (l *Ledger) Full() bool { return len(l.Debts)-l.safe >= l.Limit }

// Add notes a release and returns its debt. A release that is owed already
// keeps its debt, with the earlier Due and the longer TTL.
func (l *Ledger) Add(command []byte, ttl, due time.Duration) *Debt {
	if d := l.known[string(command)]; d != nil {
		d.Due, d.ttl = min(d.Due, due), max(d.ttl, ttl)
		l.Plan(d)
		return d
	}
	d := &Debt{Command: string(command), ttl: ttl, Due: due, Delay: RefusedFirst, Index: len(l.Debts)}
	if l.known == nil {
		l.known = make(map[string]*Debt)
	}
	l.known[d.Command] = d
	l.Made++
	l.Debts = append(l.Debts, d)
	l.Plan(d)
	return d
}

// Plan moves a debt to its place in both orders, after a change of its times.
func (l *Ledger) Plan(d *Debt) {
	if d.Sent || d.Index < 0 {
		l.turns.drop(d)
		l.ends.drop(d)
		return
	}
	l.turns.put(d, d.Due)
	if d.Until == 0 {
		l.ends.drop(d)
		return
	}
	l.ends.put(d, d.Until)
}

// Recall notes that no answer to a debt is awaited any more: the connection
// died.
func (l *Ledger) Recall(d *Debt) {
	d.Sent = false
	l.Plan(d)
}

// Remove ends a debt.
func (l *Ledger) Remove(d *Debt) {
	last := len(l.Debts) - 1
	l.Debts[last].Index = d.Index
	l.Debts[d.Index] = l.Debts[last]
	l.Debts[last] = nil
	l.Debts = l.Debts[:last]
	d.Index = -1
	delete(l.known, d.Command)
	l.Plan(d)
	if d.settled {
		l.safe--
	}
	if last == 0 {
		l.Debts, l.known = nil, nil // frees the memory of a large backlog
		l.turns.entries, l.ends.entries = nil, nil
	}
}

// Life returns how long a key with this TTL can live on a node whose clock is
// within the drift.
func (l *Ledger) Life(ttl time.Duration) time.Duration {
	return ttl + time.Duration(float64(ttl)*l.Drift) + 2*time.Millisecond
}

// End returns when a debt's key must have expired, if the node executes no
// older command from now on. For a debt that is repeated, its own TTL counts.
func (l *Ledger) End(d *Debt, now time.Duration) time.Duration {
	if d.Repeat {
		return now + l.Life(d.ttl)
	}
	return now + l.Life(max(d.ttl, l.Longest))
}

// FenceDebt starts a debt's time: from now on the node can execute no older
// command. certain is false if the old connection could not be killed; then the
// release is repeated, since its SET may still come.
//
// The repetitions begin anew with each connection. A join sends the release at
// once, whatever its Due. If that counted as a repetition, after a few
// connections the pause would be longer than the key lives.
func (l *Ledger) FenceDebt(d *Debt, now time.Duration, certain bool) {
	d.Due = now
	if !certain || d.Repeat {
		d.Repeat, d.Delay = true, RepeatFirst
	}
	if d.Until == 0 || !certain {
		d.Until = l.End(d, now)
	}
	l.Recall(d)
}

// StartDebt starts the time of a debt whose key's last command was answered or
// fenced before: now that the node is connected anew, it can execute no older
// command.
func (l *Ledger) StartDebt(d *Debt, now time.Duration) {
	if d.Until != 0 && !d.Sent {
		return
	}
	if d.Until == 0 {
		d.Until = l.End(d, now)
	}
	l.Recall(d)
}

// Settle takes a node's answer to a debt. An integer ends the debt; after
// anything else it is tried again after 50 ms, doubling to 1 s.
func (l *Ledger) Settle(d *Debt, answered bool, now time.Duration) {
	if d.Index < 0 {
		return // it has expired
	}
	d.Sent = false
	switch {
	case answered && !d.Repeat:
		l.Paid++
		l.Remove(d)
	case answered:
		if !d.settled {
			d.settled = true
			l.safe++
			l.Paid++
		}
		d.Due = now + d.Delay
		d.Delay *= RepeatTimes
	case d.Repeat:
		d.Due = now + min(d.Delay, refusedMost) // a refused release did nothing and is no repetition
	default:
		d.Due = now + d.Delay
		d.Delay = min(2*d.Delay, refusedMost)
	}
	if d.Until == 0 {
		d.Until = l.End(d, now)
	}
	l.Plan(d)
}

// Expire ends debts whose keys must have expired, up to 512 at a time. Next
// returns a time that has passed while there are more.
func (l *Ledger) Expire(now time.Duration) {
	for range expireAtOnce {
		d, at := l.ends.first()
		if d == nil || now < at {
			return
		}
		if !d.settled {
			l.Expired++
		}
		l.Remove(d)
	}
}

// Take appends debts that are due to dst until it has most of them, the longest
// due first, and marks them as sent.
func (l *Ledger) Take(dst []*Debt, now time.Duration, most int) []*Debt {
	for len(dst) < most {
		d, at := l.turns.first()
		if d == nil || now < at {
			break
		}
		d.Sent = true
		l.Plan(d)
		dst = append(dst, d)
	}
	return dst
}

// Due returns how many debts are due and not sent, but at most most.
func (l *Ledger) Due(now time.Duration, most int) int { return l.turns.count(now, most) }

// Next returns the earliest time at which a debt is due or a key has expired.
// ok is false if every debt awaits an answer, or there is none.
func (l *Ledger) Next() (at time.Duration, ok bool) {
	d, at := l.turns.first()
	if end, until := l.ends.first(); end != nil {
		at = min(at, until)
	}
	return at, d != nil
}

// Misplaced returns a debt whose times differ from those in the agendas, or nil
// if there is none. It is for tests: a debt with an old end there would be
// dropped too early, and one that is missing there would never be paid (R8).
func (l *Ledger) Misplaced() *Debt {
	for _, d := range l.Debts {
		switch {
		case d.Sent == (d.turn > 0), (!d.Sent && d.Until != 0) != (d.ending > 0):
			return d
		case d.turn > 0 && l.turns.entries[d.turn-1].at != d.Due, d.ending > 0 && l.ends.entries[d.ending-1].at != d.Until:
			return d
		}
	}
	return nil
}
