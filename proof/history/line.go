package history

// The order of callers that wait for fair locks: a caller that began after
// another had its place in the queue is not served before it.

// A line is what was seen of the queues. Its memory is bounded by the number of
// attempts for fair locks under way.
type line struct {
	started map[attempt]int64
	places  map[string]map[attempt]*place
}

// A place is that of a caller that waits.
type place struct {
	first      Event // by which it was known
	until      int64 // when it ceases to be certain
	overtakers []Event
}

// mostOvertakers bounds what is kept of one place.
const mostOvertakers = 8

// begin records an attempt's beginning.
func (l *line) begin(e Event) {
	if e.Form != FairForm {
		return
	}
	if l.started == nil {
		l.started, l.places = make(map[attempt]int64), make(map[string]map[attempt]*place)
	}
	l.started[attemptOf(e)] = e.T
}

// ask records that a caller has its place. Like serve and leave, it returns the
// grants that are certain now to have overtaken the caller.
func (l *line) ask(e Event) (waiter Event, overtakers []Event) {
	id := attemptOf(e)
	if _, ok := l.started[id]; !ok {
		return Event{}, nil // the history is cut
	}
	all := l.places[e.Resource]
	if all == nil {
		all = make(map[attempt]*place)
		l.places[e.Resource] = all
	}
	p := all[id]
	if p == nil {
		p = &place{first: e}
		all[id] = p
	}
	p.until = max(p.until, e.Until)
	waiter, overtakers, p.overtakers = p.first, p.overtakers, nil
	return waiter, overtakers
}

// serve records a grant of a fair lock, which may overtake others.
func (l *line) serve(e Event) (waiter Event, overtakers []Event) {
	began, known := l.started[attemptOf(e)]
	waiter, overtakers = l.forget(e)
	if !known {
		return waiter, overtakers
	}
	for _, p := range l.places[e.Resource] {
		if p.first.T < began && e.T < p.until && len(p.overtakers) < mostOvertakers {
			p.overtakers = append(p.overtakers, e)
		}
	}
	return waiter, overtakers
}

// leave records that an attempt ended without the lock. If its caller left while
// its place was certain, it did so some time before this event: nothing is said
// of those that were served meanwhile.
func (l *line) leave(e Event) (waiter Event, overtakers []Event) {
	p := l.places[e.Resource][attemptOf(e)]
	waiter, overtakers = l.forget(e)
	if p != nil && e.T < p.until {
		return Event{}, nil
	}
	return waiter, overtakers
}

func (l *line) forget(e Event) (waiter Event, overtakers []Event) {
	id := attemptOf(e)
	delete(l.started, id)
	p := l.places[e.Resource][id]
	if p == nil {
		return Event{}, nil
	}
	delete(l.places[e.Resource], id)
	if len(l.places[e.Resource]) == 0 {
		delete(l.places, e.Resource)
	}
	return p.first, p.overtakers
}

// sweep drops attempts whose clients are gone.
func (l *line) sweep(now int64) {
	for id, began := range l.started {
		p := l.places[id.resource][id]
		if began+overdueFor < now && (p == nil || p.until+overdueFor < now) {
			l.forget(Event{Source: id.source, Client: id.client, Attempt: id.number, Resource: id.resource})
		}
	}
}
