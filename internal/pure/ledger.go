package pure

import "time"

// A Debt is a release that a node has not confirmed while it may still hold the key (R8). It ends with an integer reply,
// or when the key must have expired: TTL × (1 + drift) after the moment from which no older command can be executed any
// more. It is never dropped before.
type Debt struct {
	Command string        // the release, encoded
	ttl     time.Duration // of the key
	Due     time.Duration // when to send it (again)
	Delay   time.Duration // until the next try after a refusal
	Until   time.Duration // when the key has expired; 0: not known before the fence
	Sent    bool          // an answer is awaited
	Repeat  bool          // an answer does not settle it: the SET may still come (R8, where CLIENT KILL is forbidden)
	settled bool          // it was answered, and is repeated to be safe
	Index   int           // in the ledger

	turn, ending int // places in the ledger's agendas
}

// byTurn and byEnd are the orders of the ledger's agendas.
type (
	byTurn struct{}
	byEnd  struct{}
)

func (byTurn) of(d *Debt) *int { return &d.turn }
func (byEnd) of(d *Debt) *int  { return &d.ending }

// How refused debts are tried again (R8), and how those are repeated whose SET may still come (docs/design.md,
// "The SET that comes late").
const (
	RefusedFirst = 50 * time.Millisecond
	refusedMost  = time.Second
	RepeatFirst  = 250 * time.Millisecond
	RepeatTimes  = 4
)

// expireAtOnce bounds the debts that end in one look, so that many that end together do not hold up everybody else.
const expireAtOnce = 512

// A Ledger holds the debts of one node. It is pure bookkeeping, guarded by its owner's mutex.
//
// Those of which no answer is awaited stand in two orders: by when they are due, and by when their keys have expired if that
// is known. Whoever changes a debt's Due, Until or Sent calls Plan.
type Ledger struct {
	Debts []*Debt
	turns agenda[byTurn]
	ends  agenda[byEnd]
	known map[string]*Debt // by command: releasing a lock again and again owes it once
	safe  int              // of the debts, those that were answered already
	Limit int
	Drift float64
	// Longest is the longest TTL that was asked for so far: an extension may have succeeded unnoticed, so a key may live
	// longer than its release knows.
	Longest             time.Duration
	Made, Paid, Expired uint64 // see Counts
}

// Full reports that the node gets no new SETs until it has paid. The ledger still takes debts then: they stem from locks
// that were granted or asked for before, and each owes one release, so their number is bounded, and none is ever dropped.
func (l *Ledger) Full() bool { return len(l.Debts)-l.safe >= l.Limit }

// Add notes a release, once, and returns its debt.
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

// Plan puts a debt to where its times say.
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

// Recall says that no answer to a debt is awaited any more: the connection died.
func (l *Ledger) Recall(d *Debt) {
	d.Sent = false
	l.Plan(d)
}

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
		l.Debts, l.known = nil, nil // gives the room of a bad hour back
		l.turns.entries, l.ends.entries = nil, nil
	}
}

// Life is how long a key with this TTL can live on a clock within the drift of ours.
func (l *Ledger) Life(ttl time.Duration) time.Duration {
	return ttl + time.Duration(float64(ttl)*l.Drift) + 2*time.Millisecond
}

// End is when a debt's key must have expired, if no older command is executed from now on. One that is only repeated to
// be safe keeps to its own TTL.
func (l *Ledger) End(d *Debt, now time.Duration) time.Duration {
	if d.Repeat {
		return now + l.Life(d.ttl)
	}
	return now + l.Life(max(d.ttl, l.Longest))
}

// FenceDebt starts a debt's time: from now on nothing older can be executed. certain is false where the old connection could
// not be killed; then the release is repeated, since its SET may still come.
//
// The repetitions begin anew with each connection. A join sends the release at once, whatever its turn was; if that counted as
// one of them, a few connections would make the pause behind it longer than the key lives.
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

// StartDebt starts the time of a debt whose key's last command was answered or fenced before: no older command can be
// executed any more, now that its node is connected anew.
func (l *Ledger) StartDebt(d *Debt, now time.Duration) {
	if d.Until != 0 && !d.Sent {
		return
	}
	if d.Until == 0 {
		d.Until = l.End(d, now)
	}
	l.Recall(d)
}

// Settle takes a node's answer to a debt: an integer ends it, anything else is tried again after 50 ms, doubling to 1 s.
func (l *Ledger) Settle(d *Debt, answered bool, now time.Duration) {
	if d.Index < 0 {
		return // expired meanwhile
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
		d.Due = now + min(d.Delay, refusedMost) // a refused release did nothing, so it does not count as a repetition
	default:
		d.Due = now + d.Delay
		d.Delay = min(2*d.Delay, refusedMost)
	}
	if d.Until == 0 {
		d.Until = l.End(d, now)
	}
	l.Plan(d)
}

// Expire ends debts whose keys must have expired, some of them if there are very many; next then says that there is more.
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

// Take appends up to most debts that are due to dst, the longest due first, and marks them as sent.
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

// Due is how many debts are due and not sent, but at most so many.
func (l *Ledger) Due(now time.Duration, most int) int { return l.turns.count(now, most) }

// Next is when there is something to be done: the earliest debt that waits is due, or a key has expired; ok is false when
// none waits.
func (l *Ledger) Next() (at time.Duration, ok bool) {
	d, at := l.turns.first()
	if end, until := l.ends.first(); end != nil {
		at = min(at, until)
	}
	return at, d != nil
}

// Misplaced is a debt that does not stand in the agendas with the times that it has, nil if there is none. It is for tests: a
// debt that stood with an old end would be dropped with its key there, and one that stood nowhere would never be paid (R8).
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
