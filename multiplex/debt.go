package multiplex

import "time"

// A debt is a release that a node has not confirmed while it may still hold the key (R8). It ends with an integer reply,
// or when the key must have expired: TTL × (1 + drift) after the moment from which no older command can be executed any
// more. It is never dropped before.
type debt struct {
	command string        // the release, encoded
	ttl     time.Duration // of the key
	due     time.Duration // when to send it (again)
	delay   time.Duration // until the next try after a refusal
	until   time.Duration // when the key has expired; 0: not known before the fence
	sent    bool          // an answer is awaited
	repeat  bool          // an answer does not settle it: the SET may still come (R8, where CLIENT KILL is forbidden)
	settled bool          // it was answered, and is repeated to be safe
	index   int           // in the ledger

	turn, ending int // places in the ledger's agendas
}

// byTurn and byEnd are the orders of the ledger's agendas.
type (
	byTurn struct{}
	byEnd  struct{}
)

func (byTurn) of(d *debt) *int { return &d.turn }
func (byEnd) of(d *debt) *int  { return &d.ending }

// How refused debts are tried again (R8), and how those are repeated whose SET may still come (engine.md).
const (
	retryFirst  = 50 * time.Millisecond
	retryMost   = time.Second
	repeatFirst = 250 * time.Millisecond
	repeatTimes = 4
)

// expireAtOnce bounds the debts that end in one look, so that many that end together do not hold up everybody else.
const expireAtOnce = 512

// A ledger holds the debts of one node. It is pure bookkeeping, guarded by its owner's mutex.
//
// Those of which no answer is awaited stand in two orders: by when they are due, and by when their keys have expired if that
// is known. Whoever changes a debt's due, until or sent calls plan.
type ledger struct {
	debts []*debt
	turns agenda[byTurn]
	ends  agenda[byEnd]
	known map[string]*debt // by command: releasing a lock again and again owes it once
	safe  int              // of the debts, those that were answered already
	limit int
	drift float64
	// longest is the longest TTL that was asked for so far: an extension may have succeeded unnoticed, so a key may live
	// longer than its release knows.
	longest             time.Duration
	made, paid, expired uint64 // see Counts
}

// full reports that the node gets no new SETs until it has paid. The ledger still takes debts then: they stem from locks
// that were granted or asked for before, and each owes one release, so their number is bounded, and none is ever dropped.
func (l *ledger) full() bool { return len(l.debts)-l.safe >= l.limit }

// add notes a release, once, and returns its debt.
func (l *ledger) add(command []byte, ttl, due time.Duration) *debt {
	if d := l.known[string(command)]; d != nil {
		d.due, d.ttl = min(d.due, due), max(d.ttl, ttl)
		l.plan(d)
		return d
	}
	d := &debt{command: string(command), ttl: ttl, due: due, delay: retryFirst, index: len(l.debts)}
	if l.known == nil {
		l.known = make(map[string]*debt)
	}
	l.known[d.command] = d
	l.made++
	l.debts = append(l.debts, d)
	l.plan(d)
	return d
}

// plan puts a debt to where its times say.
func (l *ledger) plan(d *debt) {
	if d.sent || d.index < 0 {
		l.turns.drop(d)
		l.ends.drop(d)
		return
	}
	l.turns.put(d, d.due)
	if d.until == 0 {
		l.ends.drop(d)
		return
	}
	l.ends.put(d, d.until)
}

// recall says that no answer to a debt is awaited any more: the connection died.
func (l *ledger) recall(d *debt) {
	d.sent = false
	l.plan(d)
}

func (l *ledger) remove(d *debt) {
	last := len(l.debts) - 1
	l.debts[last].index = d.index
	l.debts[d.index] = l.debts[last]
	l.debts[last] = nil
	l.debts = l.debts[:last]
	d.index = -1
	delete(l.known, d.command)
	l.plan(d)
	if d.settled {
		l.safe--
	}
	if last == 0 {
		l.debts, l.known = nil, nil // gives the room of a bad hour back
		l.turns.entries, l.ends.entries = nil, nil
	}
}

// life is how long a key with this TTL can live on a clock within the drift of ours.
func (l *ledger) life(ttl time.Duration) time.Duration {
	return ttl + time.Duration(float64(ttl)*l.drift) + 2*time.Millisecond
}

// end is when a debt's key must have expired, if no older command is executed from now on. One that is only repeated to
// be safe keeps to its own TTL.
func (l *ledger) end(d *debt, now time.Duration) time.Duration {
	if d.repeat {
		return now + l.life(d.ttl)
	}
	return now + l.life(max(d.ttl, l.longest))
}

// fenceDebt starts a debt's time: from now on nothing older can be executed. certain is false where the old connection could
// not be killed; then the release is repeated, since its SET may still come.
func (l *ledger) fenceDebt(d *debt, now time.Duration, certain bool) {
	d.due = now
	if !certain && !d.repeat {
		d.repeat, d.delay = true, repeatFirst
	}
	if d.until == 0 || !certain {
		d.until = l.end(d, now)
	}
	l.recall(d)
}

// startDebt starts the time of a debt whose key's last command was answered or fenced before: no older command can be
// executed any more, now that its node is connected anew.
func (l *ledger) startDebt(d *debt, now time.Duration) {
	if d.until != 0 && !d.sent {
		return
	}
	if d.until == 0 {
		d.until = l.end(d, now)
	}
	l.recall(d)
}

// settle takes a node's answer to a debt: an integer ends it, anything else is tried again after 50 ms, doubling to 1 s.
func (l *ledger) settle(d *debt, answered bool, now time.Duration) {
	if d.index < 0 {
		return // expired meanwhile
	}
	d.sent = false
	switch {
	case answered && !d.repeat:
		l.paid++
		l.remove(d)
	case answered:
		if !d.settled {
			d.settled = true
			l.safe++
			l.paid++
		}
		d.due = now + d.delay
		d.delay *= repeatTimes
	case d.repeat:
		d.due = now + min(d.delay, retryMost) // a refused release did nothing, so it does not count as a repetition
	default:
		d.due = now + d.delay
		d.delay = min(2*d.delay, retryMost)
	}
	if d.until == 0 {
		d.until = l.end(d, now)
	}
	l.plan(d)
}

// expire ends debts whose keys must have expired, some of them if there are very many; next then says that there is more.
func (l *ledger) expire(now time.Duration) {
	for range expireAtOnce {
		d, at := l.ends.first()
		if d == nil || now < at {
			return
		}
		if !d.settled {
			l.expired++
		}
		l.remove(d)
	}
}

// take appends up to most debts that are due to dst, the longest due first, and marks them as sent.
func (l *ledger) take(dst []*debt, now time.Duration, most int) []*debt {
	for len(dst) < most {
		d, at := l.turns.first()
		if d == nil || now < at {
			break
		}
		d.sent = true
		l.plan(d)
		dst = append(dst, d)
	}
	return dst
}

// due is how many debts are due and not sent, but at most so many.
func (l *ledger) due(now time.Duration, most int) int { return l.turns.count(now, most) }

// next is when there is something to be done: the earliest debt that waits is due, or a key has expired; ok is false when
// none waits.
func (l *ledger) next() (at time.Duration, ok bool) {
	d, at := l.turns.first()
	if end, until := l.ends.first(); end != nil {
		at = min(at, until)
	}
	return at, d != nil
}
