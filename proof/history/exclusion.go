package history

import "time"

// An Exclusion checks whether a resource had two holders at the same time, or
// more than may share it.
// Events are added in order of time, as Merge yields them. Memory is bounded by
// the number of locks held at the same time and the number of clients, not by
// the length of the history.
//
// A hold lasts from its grant to the earliest of its release, its loss and its
// `until`, which an extension moves. Both ends are the client's own view and
// lie within the time in which it could rely on the lock, so two holds that
// overlap violate exclusion, however late their events were recorded. Exclusion
// also finds events that should never occur, and fencing numbers that are out
// of order: see Fault. A lock on several resources is a hold of each.
//
// Readers share a resource, and a writer excludes all but the reader that it
// was. Of permits, no more are held than the most that any of their holders
// asked for. If a downgrade succeeds, no other was granted the lock since it
// began. A fair lock goes to no caller that began after another knew its place
// in the queue, and while that place is certain: the client says until when it
// is, in the event Queued. It is no longer than the nodes keep the place without
// another question, less what clocks may differ, and ends when the client may
// leave the queue.
//
// The zero value is ready for use.
type Exclusion struct {
	// What was seen so far; may be read at any time.
	Events, Grants, Extensions int
	// Empty counts grants that were over when the client learned of them, as
	// after a stop of the client: it held nothing.
	Empty int
	// Numbers counts grants with a fencing number.
	Numbers int
	// Overdue counts locks whose validity was over when they were released, or
	// that were never released.
	Overdue int
	// Forms counts the grants of each form, Upgrades and Downgrades those of
	// writers that were readers and of readers that were writers, and Queued the
	// answers with a place in a queue. Forms is nil before the first event.
	Forms                        map[Form]int
	Upgrades, Downgrades, Queued int

	now       int64
	holds     map[attempt]*hold  // from the grant to the release, or until overdueFor has passed
	holders   map[string][]*hold // by resource, those that may be valid; usually one
	released  recent
	tokens    tokens
	order     order
	exchanges exchanges
	line      line
	sweepAt   int // size of holds at which the expired ones are dropped
	found     []accusation
	uncounted int
}

// attempt identifies an attempt over all merged histories, for one of its
// resources.
type attempt struct {
	source, client int
	number         uint64
	resource       string
}

func attemptOf(e Event) attempt { return attempt{e.Source, e.Client, e.Attempt, e.Resource} }

// hold is a granted lock.
type hold struct {
	grant Event
	end   int64 // the end of its validity, or the time of its release
	over  bool  // lost: later events change nothing
	after *hold // the hold that was granted after its validity, or nil
}

func (h *hold) validAt(t int64) bool { return t < h.end }

// overdueFor is how long a hold is kept after the end of its validity: a client
// that was stopped may still release it.
const overdueFor = int64(10 * time.Minute)

// Add adds the next event.
func (x *Exclusion) Add(e Event) {
	if x.holds == nil {
		x.holds, x.holders, x.released = make(map[attempt]*hold), make(map[string][]*hold), make(recent)
		x.Forms = make(map[Form]int)
		x.now = e.T
	}
	x.Events++
	if e.T < x.now {
		// After this nothing else that the check finds is reliable.
		x.accuse(Disorder, nil, &hold{grant: e}, e)
		return
	}
	x.now = e.T
	switch e.Ev {
	case Start:
		x.order.begin(e)
		x.exchanges.begin(e)
		x.line.begin(e)
	case Queued:
		x.Queued++
		x.accuseOvertakers(x.line.ask(e))
	case Held, NoQuorum, Expired, Cancel, Error:
		x.order.end(e)
		x.exchanges.end(e)
		x.accuseOvertakers(x.line.leave(e))
	case Grant:
		x.number(e)
		x.accuseOvertakers(x.line.serve(e))
		x.grant(e)
	case Extend:
		x.extend(e)
	case Release, Lost:
		x.end(e)
	case Released:
		x.known(e)
	}
	x.sweep()
}

// number checks the fencing number of a grant.
func (x *Exclusion) number(e Event) {
	if e.Fence != 0 {
		x.Numbers++
	}
	if f, by := x.order.grant(e); f != "" {
		x.accuse(f, &hold{grant: by}, &hold{grant: e}, e)
	}
}

func (x *Exclusion) grant(e Event) {
	x.Grants++
	id := attemptOf(e)
	if h := x.holds[id]; h != nil {
		x.accuse(GrantedTwice, h, &hold{grant: e}, e)
		return
	}
	if x.released.has(id) {
		x.accuse(GrantedTwice, nil, &hold{grant: e}, e)
		return
	}
	x.count(e)
	h := &hold{grant: e, end: e.Until}
	x.holds[id] = h
	if by := x.exchanges.end(e); by != nil && by.grant.T < e.Until {
		x.accuse(LetAWriterIn, by, h, e)
	}
	if e.Until <= e.T {
		x.Empty++
		h.end = e.T
	} else {
		x.join(h, e)
	}
	if first, reused := x.tokens.add(e); reused {
		x.accuse(TokenReused, &hold{grant: first}, h, e)
	}
}

// join adds a hold to its resource's holders, and reports a violation if there
// are others.
func (x *Exclusion) join(h *hold, by Event) {
	valid := x.holders[h.grant.Resource][:0]
	for _, other := range x.holders[h.grant.Resource] {
		alone := !share(other.grant, h.grant)
		switch {
		case other.validAt(x.now):
			valid = append(valid, other)
			if alone {
				x.accuseAll(TwoHolders, []*hold{other, h}, by)
			}
		case alone:
			other.after = h
		}
	}
	valid = append(valid, h)
	x.holders[h.grant.Resource] = valid
	if h.grant.Form == PermitForm {
		if permits := permitsAmong(valid); len(permits) > mostOf(permits) {
			x.accuseAll(TooManyPermits, permits, by)
		}
	}
	x.exchanges.granted(h)
}

// count counts a grant by its form.
func (x *Exclusion) count(e Event) {
	x.Forms[e.Form]++
	switch {
	case e.From == 0:
	case e.Form == WriteForm:
		x.Upgrades++
	case e.Form == ReadForm:
		x.Downgrades++
	}
}

func (x *Exclusion) accuseOvertakers(waiter Event, overtakers []Event) {
	for _, e := range overtakers {
		x.accuse(Overtook, &hold{grant: waiter}, &hold{grant: e}, e)
	}
}

func (x *Exclusion) extend(e Event) {
	x.Extensions++
	h := x.known(e)
	switch {
	case h == nil:
	case h.over:
		x.accuse(ExtendedAfterLoss, h, &hold{grant: e}, e)
	case e.Until < h.end:
		x.accuse(Shortened, h, &hold{grant: e}, e)
	case h.validAt(e.T):
		h.end = e.Until
	case e.Until > e.T:
		// A quorum may have extended it in time and the client learned of it
		// late. The client can rely on the lock again only now, but the lock
		// was held without a gap, so no other client can have been granted it.
		if h.after != nil {
			x.accuse(ExtendedOver, h.after, &hold{grant: e}, e)
		}
		h.end = e.Until
		x.leave(h)
		x.join(h, e)
	}
}

// end records a release or a loss. After a release there are no further events
// of the hold; after a loss it may still be released.
func (x *Exclusion) end(e Event) {
	h := x.known(e)
	if h == nil {
		return
	}
	if !h.validAt(e.T) && !h.over {
		x.Overdue++
	}
	h.end, h.over = min(h.end, e.T), true
	x.leave(h)
	if e.Ev == Release {
		delete(x.holds, attemptOf(e))
		x.released.add(attemptOf(e))
	}
}

// known returns the hold that an event is about. It returns nil if the hold was
// released before, which is harmless (R9), or never granted.
func (x *Exclusion) known(e Event) *hold {
	id := attemptOf(e)
	h := x.holds[id]
	switch {
	case h != nil && e.Token != "" && e.Token != h.grant.Token:
		x.accuse(OtherLock, h, &hold{grant: e}, e)
	case h == nil && !x.released.has(id):
		x.accuse(NoGrant, nil, &hold{grant: e}, e)
	}
	return h
}

// leave removes a hold from its resource's holders.
func (x *Exclusion) leave(h *hold) {
	rest := x.holders[h.grant.Resource][:0]
	for _, other := range x.holders[h.grant.Resource] {
		if other != h {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(x.holders, h.grant.Resource)
		return
	}
	x.holders[h.grant.Resource] = rest
}

// sweep drops holds, and callers in queues, that ended long ago and were never
// released: their clients are gone. It runs each time that the number of holds
// has doubled.
func (x *Exclusion) sweep() {
	if len(x.holds) <= x.sweepAt {
		return
	}
	for id, h := range x.holds {
		if h.end+overdueFor < x.now {
			if !h.over {
				x.Overdue++
			}
			x.leave(h)
			delete(x.holds, id)
		}
	}
	x.exchanges.sweep(x.now)
	x.line.sweep(x.now)
	x.sweepAt = max(2*len(x.holds), 1024)
}

// recent is the last released attempt of each client, so that an event which
// comes after a release is not taken for one of a lock that was never granted.
// One attempt is enough, however long a client is stopped between its release
// and the answer: a client makes its attempts one after another, with growing
// numbers, and the events after a release belong to the same call. The number
// and the resource in the keys are zero.
type recent map[attempt]uint64

func (r recent) has(a attempt) bool {
	last, ok := r[attempt{source: a.source, client: a.client}]
	return ok && last == a.number
}

func (r recent) add(a attempt) { r[attempt{source: a.source, client: a.client}] = a.number }

// tokens are the latest grants, of which no two may have the same token (R3).
type tokens struct {
	grants map[string]Event
	ring   []string
	next   int
}

const rememberedTokens = 1 << 16

// add adds a grant. It reports whether its token was granted before, and
// returns that grant.
func (t *tokens) add(e Event) (first Event, reused bool) {
	if e.Token == "" {
		return Event{}, false
	}
	if t.grants == nil {
		t.grants, t.ring = make(map[string]Event), make([]string, rememberedTokens)
	}
	if first, reused = t.grants[e.Token]; reused {
		id := attemptOf(e)
		id.resource = first.Resource
		return first, id != attemptOf(first) || e.Resource == first.Resource // else another resource of the same lock
	}
	delete(t.grants, t.ring[t.next])
	t.grants[e.Token], t.ring[t.next] = e, e.Token
	t.next = (t.next + 1) % rememberedTokens
	return Event{}, false
}
