package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Locks asks porcupine whether a lock with one holder at a time can explain
// what the clients saw of each resource. It takes the same events as Exclusion,
// in the same order, and leaves out those of locks that may be shared. It knows
// only one thing about validity: a lock may be free after `until`.
//
// The operations are acquire, between the call and its return; extend, which
// needs the attempt to hold the lock, between the previous event and its
// return; and end, from the earlier of the release's call and `until`. Attempts
// that were not granted say nothing: their votes may have excluded one another,
// or may have been undone later.
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
	holder     attempt // at its start
	operations []porcupine.Operation
	holders    []*lockHold
}

// lockHold is a lock that was granted and not yet released.
type lockHold struct {
	id     attempt
	latest int64 // time of its grant or last extension
	until  int64
	live   bool // among its window's holders
}

var noAttempt = attempt{source: -1}

type lockStep uint8

const (
	acquireStep lockStep = iota
	extendStep
	endStep
)

// A lockInput is an operation of an attempt.
type lockInput struct {
	step lockStep
	id   attempt
}

// lockModel is what one node with a perfect memory would do. Its state is the
// holder.
func lockModel(holder attempt) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holder },
		Step: func(state, input, _ any) (bool, any) {
			switch in := input.(lockInput); in.step {
			case acquireStep:
				return state == noAttempt, in.id
			case extendStep:
				return state == in.id, state
			default:
				return state == in.id, noAttempt
			}
		},
	}
}

// windowSize is how many operations make it worthwhile to check a window.
// maxWindow bounds windows without a certain moment, because there were always
// two holders.
const (
	windowSize = 64
	maxWindow  = 10_000
)

// Add adds the next event.
func (l *Locks) Add(e Event) {
	if l.resources == nil {
		l.resources, l.started, l.holds = make(map[string]*lockWindow), make(map[attempt]int64), make(map[attempt]*lockHold)
	}
	if l.now = e.T; e.Form != PlainForm && e.Form != FairForm {
		return
	}
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
		if h := l.holds[id]; h != nil && h.live {
			l.resources[e.Resource].end(h, min(e.T, h.until))
		}
		delete(l.holds, id)
	case Held, NoQuorum, Expired, Cancel, Error:
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
	if e.Until <= e.T || l.holds[id] != nil {
		return // it held nothing; or the history is wrong, which Exclusion reports
	}
	h := &lockHold{id: id, until: e.Until}
	l.holds[id] = h
	w.acquire(h, start, e.T)
}

// acquire begins a hold. If it began before the last certain moment, it
// happened after it, since the lock was not held then.
func (w *lockWindow) acquire(h *lockHold, from, to int64) {
	w.add(acquireStep, h.id, max(from, w.since), to)
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
		w.add(extendStep, id, max(h.latest, w.since), e.T)
		h.latest, h.until = e.T, max(h.until, e.Until)
	} else if e.Until > e.T {
		// The old validity, and with it the window, had ended when the
		// extension was reported.
		h.until = e.Until
		w.acquire(h, h.latest, e.T)
	}
}

func (w *lockWindow) end(h *lockHold, at int64) {
	w.add(endStep, h.id, at, at)
	h.live = false
	w.holders = slices.DeleteFunc(w.holders, func(other *lockHold) bool { return other == h })
}

func (w *lockWindow) add(step lockStep, id attempt, from, to int64) {
	w.operations = append(w.operations, porcupine.Operation{ClientId: id.client, Input: lockInput{step, id}, Call: from, Return: to})
}

// window returns the window of a resource at the time of an event: expired
// holds have ended, and what is certain has been checked. If the event is an
// extension, no hold ends, because it may be a late report.
func (l *Locks) window(e Event) *lockWindow {
	w := l.resources[e.Resource]
	if w == nil {
		w = &lockWindow{since: math.MinInt64, holder: noAttempt}
		l.resources[e.Resource] = w
	}
	if e.Ev == Grant {
		w.settle(e.T)
	}
	if n := len(w.operations); n >= windowSize && len(w.holders) <= 1 || n >= maxWindow {
		holder := noAttempt
		if len(w.holders) > 0 {
			holder = w.holders[0].id
		}
		l.judge(e.Resource, w, e.T, holder)
	}
	return w
}

// settle ends expired holds.
func (w *lockWindow) settle(now int64) {
	for _, h := range slices.Backward(w.holders) {
		if h.until <= now {
			w.end(h, h.until)
			h.latest = h.until
		}
	}
}

// judge checks a window, and begins another with a holder.
func (l *Locks) judge(resource string, w *lockWindow, now int64, holder attempt) {
	l.verdict.judge("lock "+Event{Resource: resource}.shown(), lockModel(w.holder), w.operations, l.Patience)
	w.since, w.holder, w.operations = now, holder, w.operations[:0]
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
		l.judge(resource, w, math.MaxInt64, noAttempt)
	}
	v := l.verdict
	*l = Locks{Patience: l.Patience}
	return v
}

// A Verdict is the result of porcupine for a history. The question whether
// operations could have happened in some order may take forever, so porcupine
// checks a history in windows, each bounded in size and in time, between
// moments at which the state is certain.
type Verdict struct {
	Operations int // checked in all
	Windows    int
	Violated   int // windows whose operations cannot have happened in any order
	Undecided  int // windows that took too long; a test with one proves nothing
	Skipped    int // windows not checked after too many violated or undecided ones
	// Findings describe the first violated or undecided windows.
	Findings []string
}

// maxFindings bounds Findings.
const maxFindings = 20

// DefaultPatience is how long porcupine may take for one window.
const DefaultPatience = 10 * time.Second

// maxBad is how many windows may be violated or undecided before the others are
// skipped: each may take all of its time, and they would add nothing new.
const maxBad = 10

// judge checks one window with porcupine.
func (v *Verdict) judge(what string, model porcupine.Model, window []porcupine.Operation, patience time.Duration) {
	if len(window) == 0 {
		return
	}
	if v.Violated+v.Undecided >= maxBad {
		v.Skipped++
		return
	}
	v.Operations += len(window)
	v.Windows++
	switch porcupine.CheckOperationsTimeout(model, window, cmp.Or(patience, DefaultPatience)) {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		v.Undecided++
		what += ": not decided in time"
	default:
		v.Violated++
		what += ": could not have happened in any order"
	}
	from, to := window[0].Call, window[0].Return
	for _, o := range window {
		from, to = min(from, o.Call), max(to, o.Return)
	}
	v.find(fmt.Sprintf("%s: %d operations from t=%d to t=%d", what, len(window), from, to))
}

func (v *Verdict) find(what string) {
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, what)
	}
}

// Err returns nil if all windows were decided and none was violated.
func (v *Verdict) Err() error {
	if v.Violated == 0 && v.Undecided == 0 {
		return nil
	}
	return fmt.Errorf("history: of %d windows, %d violated and %d not decided, %d more not looked at: %q",
		v.Windows, v.Violated, v.Undecided, v.Skipped, v.Findings)
}
