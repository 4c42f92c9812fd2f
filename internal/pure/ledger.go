package pure

import "time"

// A Debt is an unconfirmed release to a node that may still hold the key (R8).
// It ends with an integer reply, or with the certain expiry of the key: TTL ×
// (1 + drift) after the node can execute no older command. It is never dropped
// earlier.
//
// Only the ledger changes a debt.
type Debt struct {
	Command string        // the release, encoded
	ttl     time.Duration // of the key
	Due     time.Duration // when to send it (again)
	Delay   time.Duration // until the next try after a refusal
	// Until is the time of that expiry. It is 0 and unknown before the
	// fence.
	Until time.Duration
	Sent  bool // an answer is awaited
	// Repeat means that an answer does not end the debt. The SET may still
	// be executed, since CLIENT KILL is forbidden (R8).
	Repeat  bool
	settled bool // it was answered, but is still repeated
	Index   int  // in Ledger.Debts; -1 when it has ended

	turn, ending Place // in the ledger's heaps
}

// The pauses before refused debts are tried again (R8), and before debts of a
// late SET are repeated (docs/internals/design.md, "The SET that comes late").
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
	// expireAtOnce bounds the debts ended by one call of Expire. Many of
	// them do not delay all other work.
	expireAtOnce = 512
)

// A Ledger holds the debts of one node. It is guarded by its owner's mutex.
//
// The debts without an awaited answer are in two orders: by Due, and by a known
// Until.
type Ledger struct {
	Debts []*Debt // all that have not ended, in no order
	turns Heap[*Debt]
	ends  Heap[*Debt]
	// known has the debts by their commands. A lock released several times
	// is owed once.
	known map[string]*Debt
	safe  int     // the number of debts that are settled
	Limit int     // at which the ledger is full
	Drift float64 // of the clocks of nodes and clients, as a fraction
	// Longest is the longest TTL asked for so far. An extension may have
	// succeeded unnoticed, so a key may live longer than the TTL of its
	// debt.
	Longest             time.Duration
	Made, Paid, Expired uint64 // see Counts
}

// A Release is what a ledger must know of a release.
type Release struct {
	Command []byte        // encoded; the ledger copies it
	TTL     time.Duration // of the key
	// Unfenced reports that the SET went to a connection beyond killing,
	// and may still be executed; see Unfenced.Has.
	Unfenced bool
}

// Unfenced is what is known of a connection beyond killing: the server may
// still execute its commands (R8).
type Unfenced struct {
	End   uint64        // only commands before this position were written to it
	Since time.Duration // when the next connection tried to kill it
}

// Has reports whether the command at a position may still be executed.
func (u Unfenced) Has(pos uint64) bool { return pos < u.End }

// Owe records an unconfirmed release of a connected node, and when to send it.
// The key's time runs from now on: the node executes what was written to this
// connection before.
func (l *Ledger) Owe(r Release, due, now time.Duration) {
	d := l.add(r, due)
	d.Until = l.end(d, now)
	l.plan(d)
}

// OweAbsent is Owe for a node without a connection. The key's time begins with
// the next connection, when nothing older can be executed any more.
func (l *Ledger) OweAbsent(r Release, due time.Duration) {
	d := l.add(r, due)
	d.Until = 0
	l.plan(d)
}

// Doubt records an answered release of a SET that may still be executed, from a
// connection beyond killing. The release is repeated up to the certain expiry
// of the key, counted from since (docs/internals/design.md, "The SET that comes
// late"). Doubt returns when the debt is due; ok is false for an expired key.
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

// Full reports whether the node gets no new SETs before it has paid. The ledger
// still takes debts then. They come from locks that were granted or requested
// before, with one release each, so their number is bounded, and none is ever
// dropped.
func (l *Ledger) Full() bool { return len(l.Debts)-l.safe >= l.Limit }

// MayJoin reports whether the node owes little enough for new commands before
// it has paid. A wait for nothing due would keep a node out for as long as
// callers release locks that it may hold.
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

// Recall records the end of the wait for an answer to a debt: the connection
// died.
func (l *Ledger) Recall(d *Debt) {
	d.Sent = false
	l.plan(d)
}

// Postpone puts off a debt taken but not sent for lack of room.
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

// end returns the certain expiry of a debt's key, for a node that executes no
// older command from now on. Of a repeated debt, its own TTL counts.
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
// once, whatever its Due. Counted as a repetition, that would make the pause
// longer than the key's life after a few connections.
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

// Settle applies a node's answer to a debt. answered reports an integer. That
// ends the debt. After any other answer the debt is tried again after 50 ms,
// doubling to 1 s. Settle returns when the debt is due next; owed is false for
// an ended one.
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

// Expire ends debts whose keys must have expired, up to 512 at a time. With
// more of them, Next returns a past time.
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

// Take appends up to most due debts to dst, in the order of Due, and marks them
// as sent.
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
// ok is false with no debt, or only awaited ones.
func (l *Ledger) Next() (at time.Duration, ok bool) {
	_, due := l.turns.First()
	_, end := l.ends.First()
	return min(due, end), due != Never
}

// Misplaced returns a debt with times that differ from those in the heaps, or
// nil. It is for tests: with an outdated end in a heap a debt would be dropped
// too early, and without an entry it would never be paid (R8).
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
