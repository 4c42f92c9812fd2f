package history

// A lockPlace is a caller's place in the queue of a fair lock. It is certain
// from the event by which the caller knows it until that event's Until, as far
// as the caller is heard of again: it may have left without saying so yet.
type lockPlace struct {
	first int64 // when it was first known
	since int64 // from when on it is certain without a gap
	asked int64 // the latest event
	until int64
}

// queued notes that a caller knows its place.
func (w *lockWindow) queued(id attempt, e Event) {
	w.form = FairForm // the event may not say so, and no other form has a queue
	p := w.places[id]
	switch {
	case p == nil:
		p = &lockPlace{first: e.T, since: e.T}
		w.places[id] = p
	case p.until < e.T:
		w.keep(id, p, p.until)
		p.since = e.T
	}
	p.asked, p.until = e.T, max(p.until, e.Until)
}

// serve notes that a caller got the lock, and returns when it still had not.
func (w *lockWindow) serve(id attempt, e Event) (asked int64) {
	p := w.places[id]
	if p == nil {
		return w.since // nothing more is known
	}
	w.keep(id, p, min(p.until, e.T))
	delete(w.places, id)
	return p.asked
}

// leave notes that a caller waits no longer. If its place was certain, it left
// some time before.
func (w *lockWindow) leave(id attempt, e Event) {
	p := w.places[id]
	if p == nil {
		return
	}
	if e.T < p.until {
		w.keep(id, p, p.asked)
	} else {
		w.keep(id, p, p.until)
	}
	delete(w.places, id)
}

// keep notes that a place was certain up to a time.
func (w *lockWindow) keep(id attempt, p *lockPlace, to int64) {
	if p.since < to {
		w.add(lockInput{step: queueStep, id: id, n: p.first}, p.since, p.since)
		w.add(lockInput{step: leaveStep, id: id}, to, to)
	}
}

// cut notes the part of each place that is known to have been certain, when a
// window ends. What follows may turn out to have been certain too.
func (w *lockWindow) cut() {
	for id, p := range w.places {
		w.keep(id, p, min(p.asked, p.until))
	}
}

// sweep drops places whose callers are gone.
func (w *lockWindow) sweep(now int64) {
	for id, p := range w.places {
		if p.until+overdueFor < now {
			w.leave(id, Event{T: now})
		}
	}
}
