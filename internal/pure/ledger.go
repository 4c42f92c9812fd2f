package pure

import "time"

// A Debt is a release that a node has not confirmed while it may still hold the
// key (R8). It ends with an integer reply, or when the key must have expired:
// TTL × (1 + drift) after the moment from which the node can execute no older
// command. It is never dropped earlier.
//
// Only the ledger changes a debt.
type Debt struct {
	Command string        // the release, encoded
	ttl     time.Duration // of the key
	Due     time.Duration // when to send it (again)
	Delay   time.Duration // until the next try after a refusal
	// Until is when the key must have expired. It is 0 until the fence: that
	// time is not known before.
	Until time.Duration
	Sent  bool // an answer is awaited
	// Repeat means that an answer does not end the debt: the SET may still be
	// executed, because CLIENT KILL is forbidden (R8).
	Repeat  bool
	settled bool // it was answered, but is still repeated
	Index   int  // in Ledger.Debts; -1 when it has ended

	turn, ending Place // in the ledger's heaps
}

// The pauses before refused debts are tried again (R8), and before debts whose
// SET may still be executed are repeated (docs/internals/design.md, "The SET
// that comes late").
const (
	RefusedFirst = 50 * time.Millisecond
	refusedMost  = time.Second
	RepeatFirst  = 250 * time.Millisecond
	RepeatTimes  = 4
)

const (
	// PaymentsAtOnce is how many debts travel together, so that one exchange
	// stays far below a socket's buffer.
	PaymentsAtOnce = 256
	// expireAtOnce bounds the debts that one call of Expire ends, so that many
	// of them do not delay all other work.
	expireAtOnce = 512
)

// A Ledger holds the debts of one node. It is guarded by its owner's mutex.
//
// The debts that await no answer are in two orders: by Due, and by Until if
// that is known.
type Ledger struct {
	Debts []*Debt // all that have not ended, in no order
	turns Heap[*Debt]
	ends  Heap[*Debt]
	// known has the debts by their commands. A lock that is released several
	// times is owed once.
	known map[string]*Debt
	safe  int     // the number of debts that are settled
	Limit int     // at which the ledger is full
	Drift float64 // of the clocks of nodes and clients, as a fraction
	// Longest is the longest TTL that was asked for so far. An extension may
	// have succeeded unnoticed, so a key may live longer than the TTL of its
	// debt.
	Longest             time.Duration
	Made, Paid, Expired uint64 // see Counts
}

// A Release is what a ledger must know of a release.
type Release struct {
	Command []byte        // encoded; the ledger copies it
	TTL     time.Duration // of the key
	// Unfenced reports that the SET was written to a connection that could not
	// be killed, and may still be executed; see Unfenced.Has.
	Unfenced bool
}

// Unfenced is what is known of a connection that could not be killed: the
// server may still execute its commands (R8).
type Unfenced struct {
	End   uint64        // only commands before this position were written to it
	Since time.Duration // when the next connection tried to kill it
}

// Has reports whether the command at a position may still be executed.
func (u Unfenced) Has(pos uint64) bool { return pos < u.End }

// Owe records a release that a connected node has not confirmed, to be sent
// when it is due. The key's time runs from now on: the node executes what was
// written to this connection before.
func (l *Ledger) Owe(r Release, due, now time.Duration) {
	d := l.add(r, due)
	d.Until = l.end(d, now)
	l.plan(d)
}

// OweAbsent is Owe for a node that is not connected. The key's time begins with
// the next connection, when nothing older can be executed any more.
func (l *Ledger) OweAbsent(r Release, due time.Duration) {
	d := l.add(r, due)
	d.Until = 0
	l.plan(d)
}

// Doubt records a release that was answered, but whose SET may still be
// executed, from a connection that could not be killed. The release is repeated
// until the key must have expired, counted from since
// (docs/internals/design.md, "The SET that comes late"). Doubt returns when the
// debt is due; ok is false if the key has expired already.
func (l *Ledger) Doubt(r Release, since, now time.Duration) (due time.Duration, ok bool) {
	until := since + l.life(r.TTL)
	if now >= until {
		return 0, false
	}
	d := l.add(r, now+RepeatFirst)
	d.Repeat, d.Delay, d.Until = true, RepeatFirst*RepeatTimes, max(d.Until, until)
	l.plan(d)
	return d.Due, true
}

// Full reports whether the node gets no new SETs until it has paid. The ledger
// still takes debts then. They come from locks that were granted or requested
// before, with one release each, so their number is bounded, and none is ever
// dropped.
func (l *Ledger) Full() bool { return len(l.Debts)-l.safe >= l.Limit }

// MayJoin reports whether the node owes so little that it may get new commands
// before it has paid. Waiting until nothing is due would keep a node out for as
// long as callers release locks that it may hold.
func (l *Ledger) MayJoin(now time.Duration) bool {
	return !l.Full() && l.Due(now, PaymentsAtOnce+1) <= PaymentsAtOnce
}

// add returns the debt of a release. If the release is owed already, it keeps
// its debt, with the earlier Due and the longer TTL. The caller must call plan.
func (l *Ledger) add(r Release, due time.Duration) *Debt {
	d := l.known[string(r.Command)]
	if d != nil {
		d.Due, d.ttl = min(d.Due, due), max(d.ttl, r.TTL)
	} else {
		d = &Debt{Command: string(r.Command), ttl: r.TTL, Due: due, Delay: RefusedFirst, Index: len(l.Debts)}
		if l.known == nil {
			l.known = make(map[string]*Debt)
		}
		l.known[d.Command] = d
		l.Made++
		l.Debts = append(l.Debts, d)
	}
	if r.Unfenced {
		d.Repeat, d.Delay = true, RepeatFirst
	}
	return d
}

// plan moves a debt to its place in both orders, after a change of its times.
func (l *Ledger) plan(d *Debt) {
	if d.Sent || d.Index < 0 {
		l.turns.Remove(&d.turn)
		l.ends.Remove(&d.ending)
		return
	}
	l.turns.Put(d, &d.turn, d.Due)
	if d.Until == 0 {
		l.ends.Remove(&d.ending)
		return
	}
	l.ends.Put(d, &d.ending, d.Until)
}

// Recall records that no answer to a debt is awaited any more, because the
// connection died.
func (l *Ledger) Recall(d *Debt) {
	d.Sent = false
	l.plan(d)
}

// Postpone puts off a debt that was taken but could not be sent for lack of
// room.
func (l *Ledger) Postpone(d *Debt, now time.Duration) {
	d.Due = now + RefusedFirst
	l.Recall(d)
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
	l.plan(d)
	if d.settled {
		l.safe--
	}
	if last == 0 {
		l.Debts, l.known = nil, nil // frees the memory of a large backlog
		l.turns, l.ends = Heap[*Debt]{}, Heap[*Debt]{}
	}
}

// life returns how long a key with this TTL can live on a node whose clock is
// within the drift.
func (l *Ledger) life(ttl time.Duration) time.Duration {
	return ttl + Drift(ttl, l.Drift)
}

// end returns when a debt's key must have expired, if the node executes no
// older command from now on. If the debt is repeated, its own TTL counts.
func (l *Ledger) end(d *Debt, now time.Duration) time.Duration {
	if d.Repeat {
		return now + l.life(d.ttl)
	}
	return now + l.life(max(d.ttl, l.Longest))
}

// FenceDebt starts a debt's time: from now on the node can execute no older
// command. certain is false if the old connection could not be killed; then the
// release is repeated, since its SET may still be executed.
//
// The repetitions start again with each connection. A join sends the release at
// once, whatever its Due. If that counted as a repetition, after a few
// connections the pause would be longer than the key's life.
func (l *Ledger) FenceDebt(d *Debt, now time.Duration, certain bool) {
	d.Due = now
	if !certain || d.Repeat {
		d.Repeat, d.Delay = true, RepeatFirst
	}
	if d.Until == 0 || !certain {
		d.Until = l.end(d, now)
	}
	l.Recall(d)
}

// StartDebt starts the time of a debt whose key's last command was answered or
// fenced before. Now that the node has a new connection, it can execute no
// older command.
func (l *Ledger) StartDebt(d *Debt, now time.Duration) {
	if d.Until != 0 && !d.Sent {
		return
	}
	if d.Until == 0 {
		d.Until = l.end(d, now)
	}
	l.Recall(d)
}

// Settle applies a node's answer to a debt. answered reports that it was an
// integer, which ends the debt. After any other answer the debt is tried again
// after 50 ms, doubling to 1 s. Settle returns when the debt is due next; owed
// is false if it has ended.
func (l *Ledger) Settle(d *Debt, answered bool, now time.Duration) (due time.Duration, owed bool) {
	if d.Index < 0 {
		return 0, false // it has expired
	}
	d.Sent = false
	switch {
	case answered && !d.Repeat:
		l.Paid++
		l.Remove(d)
		return 0, false
	case answered:
		if !d.settled {
			d.settled = true
			l.safe++
			l.Paid++
		}
		d.Due = now + d.Delay
		d.Delay *= RepeatTimes
	case d.Repeat:
		// A refused release had no effect, so it does not count as a
		// repetition.
		d.Due = now + min(d.Delay, refusedMost)
	default:
		d.Due = now + d.Delay
		d.Delay = min(2*d.Delay, refusedMost)
	}
	if d.Until == 0 {
		d.Until = l.end(d, now)
	}
	l.plan(d)
	return d.Due, true
}

// Expire ends debts whose keys must have expired, up to 512 at a time. While
// there are more, Next returns a time that has passed.
func (l *Ledger) Expire(now time.Duration) {
	for range expireAtOnce {
		d, at := l.ends.First()
		if now < at {
			return
		}
		if !d.settled {
			l.Expired++
		}
		l.Remove(d)
	}
}

// Take appends debts that are due to dst, in the order of Due, until it has
// most of them, and marks them as sent.
func (l *Ledger) Take(dst []*Debt, now time.Duration, most int) []*Debt {
	for len(dst) < most {
		d, at := l.turns.First()
		if now < at {
			break
		}
		d.Sent = true
		l.plan(d)
		dst = append(dst, d)
	}
	return dst
}

// Due returns how many debts are due and not sent, but at most most.
func (l *Ledger) Due(now time.Duration, most int) int { return l.turns.Count(now, most) }

// Next returns the earliest time at which a debt is due or a key has expired.
// ok is false if every debt awaits an answer, or there is none.
func (l *Ledger) Next() (at time.Duration, ok bool) {
	_, due := l.turns.First()
	_, end := l.ends.First()
	return min(due, end), due != Never
}

// Misplaced returns a debt whose times differ from those in the heaps, or nil
// if there is none. It is for tests: with an outdated end in a heap a debt
// would be dropped too early, and without an entry it would never be paid (R8).
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
