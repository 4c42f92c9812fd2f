package history

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// Locks asks porcupine whether a lock with one holder at a time can explain
// what the clients saw of each resource. It takes the same events as Exclusion,
// in the same order. It knows only one thing about validity: a lock may be free
// after `until`.
//
// The model is a lock that is free or held by one attempt, and three
// operations: acquire, between the call and its return; extend, which needs the
// attempt to hold the lock, between the previous event and its return; and end,
// from the earlier of the release's call and `until`. Attempts that were not
// granted say nothing: their votes may have excluded one another, or may have
// been undone later.
//
// An end could also happen later, but that is never necessary: no operation
// needs the lock to be held by another attempt. So it is put at its earliest
// time, where it allows most. For the same reason the holder at a given moment
// is certain, even while calls are pending, and a history can be cut there into
// windows.
//
// The zero value is ready for use.
type Locks struct {
	// Patience is the time limit for each window. If zero, DefaultPatience.
	Patience time.Duration

	verdict   Verdict
	resources map[string]*lockWindow
	started   map[attempt]int64 // when each attempt in progress started
	holds     map[attempt]*lockHold
	sweepAt   int
	now       int64
}

// lockWindow is what was seen of one resource since the last certain moment.
type lockWindow struct {
	since      int64
	initial    attempt // the holder at its start
	operations []porcupine.Operation
	holders    []*lockHold
}

// lockHold is a lock that was granted and not yet released.
type lockHold struct {
	id       attempt
	resource string
	latest   int64 // time of its grant or last extension
	until    int64
	live     bool // among its window's holders
}

// windowSize is how many operations make it worthwhile to check a window.
// maxWindow bounds windows without a certain moment, because there were always
// two holders or more.
const (
	windowSize = 64
	maxWindow  = 10_000
)

type lockStep uint8

const (
	acquireStep lockStep = iota
	extendStep
	endStep
)

// lockInput is an operation of an attempt. The state is the attempt that holds
// the lock, or none.
type lockInput struct {
	step lockStep
	id   attempt
}

var noAttempt = attempt{source: -1}

func lockModel(initial attempt) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			holder, in := state.(attempt), input.(lockInput)
			switch in.step {
			case acquireStep:
				return holder == noAttempt, in.id
			case extendStep:
				return holder == in.id, in.id
			default:
				return holder == in.id, noAttempt
			}
		},
	}
}

// Add adds the next event.
func (l *Locks) Add(e Event) {
	if l.resources == nil {
		l.resources, l.started, l.holds = make(map[string]*lockWindow), make(map[attempt]int64), make(map[attempt]*lockHold)
	}
	l.now = e.T
	id := attemptOf(e)
	switch e.Ev {
	case Start:
		l.started[id] = e.T
	case Grant:
		l.grant(id, e)
		delete(l.started, id)
	case Extend:
		l.extend(id, e)
	case Release, Lost:
		l.end(id, e)
	case Held, NoQuorum, Expired, Cancel, Error:
		delete(l.started, id)
	}
	l.sweep()
}

func (l *Locks) grant(id attempt, e Event) {
	w := l.window(e)
	if e.Until <= e.T || l.holds[id] != nil {
		return // it held nothing; or the history is wrong, which Exclusion reports
	}
	h := &lockHold{id: id, resource: e.Resource, until: e.Until}
	l.holds[id] = h
	start, ok := l.started[id]
	if !ok {
		start = e.T
	}
	w.acquire(h, start, e.T)
}

// acquire begins a hold. If it began before the last certain moment, it
// happened after it, since the lock was not held then.
func (w *lockWindow) acquire(h *lockHold, from, to int64) {
	w.add(acquireStep, h, max(from, w.since), to)
	h.latest, h.live = to, true
	w.holders = append(w.holders, h)
}

func (l *Locks) extend(id attempt, e Event) {
	h := l.holds[id]
	if h == nil {
		return // released before, or never granted
	}
	w := l.window(e)
	if h.live {
		w.add(extendStep, h, max(h.latest, w.since), e.T)
		h.latest, h.until = e.T, max(h.until, e.Until)
	} else if e.Until > e.T {
		// The old validity, and with it the window, had ended when the
		// extension was reported.
		h.until = e.Until
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
		l.resources[h.resource].end(h, min(e.T, h.until))
	}
}

func (w *lockWindow) end(h *lockHold, at int64) {
	w.add(endStep, h, at, at)
	h.live = false
	rest := w.holders[:0]
	for _, other := range w.holders {
		if other != h {
			rest = append(rest, other)
		}
	}
	w.holders = rest
}

func (w *lockWindow) add(step lockStep, h *lockHold, from, to int64) {
	w.operations = append(w.operations, porcupine.Operation{
		ClientId: h.id.client, Input: lockInput{step, h.id}, Call: from, Return: to,
	})
}

// window returns the window of a resource at the time of an event: expired
// holds have ended, and what is certain has been checked. If the event is an
// extension, no hold ends, because it may be a late report.
func (l *Locks) window(e Event) *lockWindow {
	w := l.resources[e.Resource]
	if w == nil {
		w = &lockWindow{since: math.MinInt64, initial: noAttempt}
		l.resources[e.Resource] = w
	}
	if e.Ev == Grant {
		w.settle(e.T)
	}
	if len(w.operations) >= windowSize && len(w.holders) <= 1 || len(w.operations) >= maxWindow {
		l.judge(e.Resource, w, e.T)
	}
	return w
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

// judge checks a window, and begins another with the current holder.
func (l *Locks) judge(resource string, w *lockWindow, now int64) {
	l.verdict.judge("lock "+Event{Resource: resource}.shown(), lockModel(w.initial), w.operations, l.Patience)
	w.since, w.initial, w.operations = now, noAttempt, w.operations[:0]
	if len(w.holders) > 0 {
		w.initial = w.holders[0].id
	}
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
	l.sweepAt = max(2*(len(l.holds)+len(l.started)), 1024)
}

// Finish checks the rest and returns the verdict on all windows. Locks is then
// empty.
func (l *Locks) Finish() Verdict {
	for resource, w := range l.resources {
		for len(w.holders) > 0 {
			w.end(w.holders[0], w.holders[0].until)
		}
		l.judge(resource, w, math.MaxInt64)
	}
	v := l.verdict
	*l = Locks{Patience: l.Patience}
	return v
}
