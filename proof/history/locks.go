package history

import (
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Locks asks porcupine whether a lock can explain what the clients saw of each
// resource: one with a single holder at a time, one of readers and a writer, a
// semaphore, or a lock with a queue, by the form of its events. It takes the
// same events as Exclusion, in the same order. It knows only one thing about
// validity: a lock may be free after `until`.
//
// The models (models.go) know these operations: acquire, between the call and
// its return; extend, which needs the attempt to hold the lock, between the
// previous event and its return; end, from the earlier of the release's call and
// `until`; and exchange, by which a writer becomes a reader, between the release
// of the one and the grant of the other. Of callers that wait for a fair lock,
// each time in which a place is certain has a begin and an end. Attempts that
// were not granted say nothing else: their votes may have excluded one another,
// or may have been undone later.
//
// An end could also happen later, but that is never necessary: no operation
// needs the lock to be held by another attempt. So it is put at its earliest
// time, where it allows most. For the same reason the holders at a given moment
// are certain, even while calls are pending, and a history can be cut there into
// windows.
//
// The zero value is ready for use.
type Locks struct {
	// Patience is the time limit for each window. If zero, DefaultPatience.
	Patience time.Duration

	verdict   Verdict
	resources map[lockName]*lockWindow
	started   map[attempt]int64 // when each attempt in progress started
	holds     map[attempt]*lockHold
	sweepAt   int
	now       int64
}

// A lockName names what is locked. Permits have keys of their own.
type lockName struct {
	resource string
	permits  bool
}

func nameOf(e Event) lockName { return lockName{e.Resource, e.Form == PermitForm} }

// lockWindow is what was seen of one resource since the last certain moment.
type lockWindow struct {
	form       Form // of its model
	since      int64
	initial    lockState // at its start
	operations []porcupine.Operation
	holders    []*lockHold
	places     map[attempt]*lockPlace
}

// lockHold is a lock that was granted and not yet released.
type lockHold struct {
	id     attempt
	of     lockName
	input  lockInput // of its acquisition
	latest int64     // time of its grant or last extension
	until  int64
	live   bool // among its window's holders
}

// windowSize is how many operations make it worthwhile to check a window, and
// queueWindow the same for a lock with a queue: a place is known to have been
// kept only when its caller is heard of again. maxWindow bounds windows without
// a certain moment, because there were always too many holders.
const (
	windowSize  = 64
	queueWindow = 1024
	maxWindow   = 10_000
)

// Add adds the next event.
func (l *Locks) Add(e Event) {
	if l.resources == nil {
		l.resources, l.started, l.holds = make(map[lockName]*lockWindow), make(map[attempt]int64), make(map[attempt]*lockHold)
	}
	l.now = e.T
	id := attemptOf(e)
	switch e.Ev {
	case Start:
		l.started[id] = e.T
	case Queued:
		l.window(e).queued(id, e)
	case Grant:
		l.grant(id, e)
		delete(l.started, id)
	case Extend:
		l.extend(id, e)
	case Release, Lost:
		l.end(id, e)
	case Held, NoQuorum, Expired, Cancel, Error:
		if w := l.resources[nameOf(e)]; w != nil {
			w.leave(id, e)
		}
		delete(l.started, id)
	}
	l.sweep()
}

func (l *Locks) grant(id attempt, e Event) {
	w := l.window(e)
	start, ok := l.started[id]
	if !ok {
		start = e.T
	}
	input := lockInput{step: acquireStep, id: id, from: noAttempt}
	switch e.Form {
	case PermitForm:
		input.n = int64(e.Permits)
	case FairForm:
		input.n = start
		start = max(start, w.serve(id, e))
	case PlainForm: // it knows no queue
		input.step, input.n = resumeStep, writes
	case WriteForm:
		input.n = writes
	}
	if e.From != 0 {
		input.from = e.exchanged()
	}
	if e.Until <= e.T || l.holds[id] != nil {
		return // it held nothing; or the history is wrong, which Exclusion reports
	}
	h := &lockHold{id: id, of: nameOf(e), input: input, until: e.Until}
	l.holds[id] = h
	if e.Form == ReadForm && e.From != 0 && w.exchange(h, e.T) {
		return
	}
	w.acquire(h, start, e.T)
}

// acquire begins a hold. If it began before the last certain moment, it
// happened after it, since the lock was not held then.
func (w *lockWindow) acquire(h *lockHold, from, to int64) {
	w.add(h.input, max(from, w.since), to)
	w.hold(h, to)
}

func (w *lockWindow) hold(h *lockHold, at int64) {
	h.latest, h.live = at, true
	w.holders = append(w.holders, h)
}

// exchange begins the hold of a reader that was a writer until then. It reports
// whether the end of the writer is in the window.
func (w *lockWindow) exchange(h *lockHold, to int64) bool {
	for i, o := range slices.Backward(w.operations) {
		if in := o.Input.(lockInput); in.step == endStep && in.id == h.input.from {
			in = h.input
			in.step = exchangeStep
			w.operations[i].Input, w.operations[i].Return = in, to
			w.hold(h, to)
			return true
		}
	}
	return false
}

func (l *Locks) extend(id attempt, e Event) {
	h := l.holds[id]
	if h == nil {
		return // released before, or never granted
	}
	w := l.windowOf(h.of, e)
	if h.live {
		w.add(lockInput{step: extendStep, id: id}, max(h.latest, w.since), e.T)
		h.latest, h.until = e.T, max(h.until, e.Until)
	} else if e.Until > e.T {
		// The old validity, and with it the window, had ended when the
		// extension was reported.
		h.until, h.input.step = e.Until, resumeStep
		w.acquire(h, h.latest, e.T)
	}
}

func (l *Locks) end(id attempt, e Event) {
	h := l.holds[id]
	if h == nil {
		return
	}
	delete(l.holds, id)
	if h.live {
		l.resources[h.of].end(h, min(e.T, h.until))
	}
}

func (w *lockWindow) end(h *lockHold, at int64) {
	w.add(lockInput{step: endStep, id: h.id}, at, at)
	h.live = false
	rest := w.holders[:0]
	for _, other := range w.holders {
		if other != h {
			rest = append(rest, other)
		}
	}
	w.holders = rest
}

func (w *lockWindow) add(in lockInput, from, to int64) {
	w.operations = append(w.operations, porcupine.Operation{ClientId: in.id.client, Input: in, Call: from, Return: to})
}

// window returns the window of a resource at the time of an event: expired
// holds have ended, and what is certain has been checked. If the event is an
// extension, no hold ends, because it may be a late report.
func (l *Locks) window(e Event) *lockWindow { return l.windowOf(nameOf(e), e) }

func (l *Locks) windowOf(name lockName, e Event) *lockWindow {
	w := l.resources[name]
	if w == nil {
		w = &lockWindow{since: math.MinInt64, initial: lockState{holder: noAttempt}, places: make(map[attempt]*lockPlace)}
		l.resources[name] = w
	}
	if e.Form != PlainForm {
		w.form = e.Form
	}
	if e.Ev == Grant {
		w.settle(e.T)
	}
	size := windowSize
	if w.form == FairForm {
		size = queueWindow
	}
	if state, certain := w.state(); len(w.operations) >= size && certain || len(w.operations) >= maxWindow {
		l.judge(name, w, e.T, state)
	}
	return w
}

// state returns the state by the holders at this moment, and whether it is
// certain. Of too many holders, it has some.
func (w *lockWindow) state() (s lockState, certain bool) {
	s.holder, certain = noAttempt, true
	most, from := int64(0), noAttempt
	for _, h := range w.holders {
		switch {
		case w.form == PermitForm:
			s, most = s.with(h.id, h.input.n), max(most, h.input.n)
		case w.form == WriteForm && h.input.n != writes, w.form == ReadForm && h.input.n != writes:
			s = s.with(h.id, 0)
		case s.holder != noAttempt:
			certain = false
		default:
			s.holder, from = h.id, h.input.from
		}
	}
	strange := s.holder != noAttempt && slices.ContainsFunc(s.members, func(m member) bool { return m.id != from })
	return s, certain && !strange && (w.form != PermitForm || int64(len(s.members)) <= most)
}

// settle ends expired holds.
func (w *lockWindow) settle(now int64) {
	for i := len(w.holders) - 1; i >= 0; i-- {
		if h := w.holders[i]; h.until <= now {
			w.end(h, h.until)
			h.latest = h.until
		}
	}
}

// judge checks a window, and begins another with a state.
func (l *Locks) judge(name lockName, w *lockWindow, now int64, state lockState) {
	w.cut()
	l.verdict.judge(whatOf(w.form)+Event{Resource: name.resource}.shown(), modelOf(w.form, w.initial), w.operations, l.Patience)
	w.since, w.initial, w.operations = now, state, w.operations[:0]
}

func whatOf(form Form) string {
	switch form {
	case ReadForm, WriteForm:
		return "read/write lock "
	case PermitForm:
		return "semaphore "
	case FairForm:
		return "fair lock "
	}
	return "lock "
}

// sweep drops attempts and holds that were never ended: their clients are gone.
// The window of a resource whose last holder is gone is kept until Finish.
func (l *Locks) sweep() {
	if len(l.holds)+len(l.started) <= l.sweepAt {
		return
	}
	for id, h := range l.holds {
		if !h.live && h.until+overdueFor < l.now {
			delete(l.holds, id)
		}
	}
	for id, at := range l.started {
		if at+overdueFor < l.now {
			delete(l.started, id)
		}
	}
	for _, w := range l.resources {
		w.sweep(l.now)
	}
	l.sweepAt = max(2*(len(l.holds)+len(l.started)), 1024)
}

// Finish checks the rest and returns the verdict on all windows. Locks is then
// empty.
func (l *Locks) Finish() Verdict {
	for name, w := range l.resources {
		for len(w.holders) > 0 {
			w.end(w.holders[0], w.holders[0].until)
		}
		l.judge(name, w, math.MaxInt64, lockState{})
	}
	v := l.verdict
	*l = Locks{Patience: l.Patience}
	return v
}
