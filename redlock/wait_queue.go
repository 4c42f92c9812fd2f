package redlock

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
)

// queues are the waiting callers of this client, first come first served. Each
// lock with waiting callers has a queue, whatever its kind (R34). Only callers
// with a seat ask the nodes: the one at the head of a queue, and of some kinds
// a few others. So a hundred waiters cost the nodes as much as one.
type queues struct {
	// waiting counts the waiters of all queues. It changes under the mutex and
	// is read without it: with no waiters, a release costs nothing more.
	waiting atomic.Int64

	mu sync.Mutex // guards the following, and the queues
	of map[kind.Key]*queue
}

// A queue is the waiters for one lock, at least one.
type queue struct {
	key     kind.Key
	apart   bool      // of one caller that waits on its own, and not in queues.of
	waiters list.List // of *waiter; the front is the head, which has a seat
	last    error     // of the last attempt
	// due means that the lock may be free, and no attempt has followed.
	due   bool
	later *time.Timer // calls the head some time after a hand-over

	seats int     // how many callers may have one now
	taken int     // how many have one
	spare []*seat // of those that have left

	// local is the TTL of a lock granted in this queue, as long as this client
	// knows of no other use since; otherwise 0. The only caller with a seat
	// owns it; with more seats, it does not change.
	local time.Duration

	yielding
}

// A caller with a seat asks the nodes. The seat passes on with the turn.
type seat struct {
	key      string             // that the lookout is for
	lookout  *multiplex.Lookout // nil until it is needed
	fails    int                // attempts that failed since the last real news
	contests contests
	spent    time.Duration // what the last attempt took
}

// stop ends the lookout.
func (s *seat) stop() {
	if s.lookout != nil {
		s.lookout.Stop()
		s.lookout = nil
	}
}

// A waiter is one caller of Acquire in its queue.
type waiter struct {
	request
	client *Client
	queue  *queue
	place  *list.Element
	// call holds one call: the waiter has got a seat or a lock, or with a seat
	// it must check due and given.
	call chan struct{}

	// The caller's goroutine owns the following.
	begun time.Time // when its last attempt began
	next  kind.Kind // of its next attempt; see kind.TooFar
	// retryEvery is the longest time between the beginnings of two attempts,
	// but no attempt is cut short; 0: no bound. retryBy is the latest time for
	// the next one.
	retryEvery time.Duration
	retryBy    time.Time
	served     bool // by a lock that was handed over

	// The mutex of the queues guards the following. The seat changes only
	// before the caller's turn, or after a failure.
	seat   *seat
	fresh  bool   // it got the seat because another lock may be free
	trying bool   // it makes an attempt, or takes what was given
	given  *baton // a lock that was handed over and not taken yet
}

// A request is the lock that a caller wants.
type request struct {
	kind kind.Kind
	name string        // of the resource, or of all
	ttl  time.Duration // in whole milliseconds
	// confirmed is for a caller without renewal. A lock handed over to it with
	// little validity is extended first.
	confirmed bool
	minHold   time.Duration // see HoldOptions.MinHold
	label     string        // see HoldOptions.Label
}

// key returns the key of a request's queue.
func (r *request) key() kind.Key { return r.kind.Key(r.name) }

// has reports whether a caller waits for a lock.
func (qs *queues) has(key kind.Key) bool {
	if qs.waiting.Load() == 0 {
		return false
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.of[key] != nil
}

// join appends a caller to the queue of its lock, or makes one for it alone.
// last is the error of its attempt (nil without one), and spent the attempt's
// length.
func (qs *queues) join(c *Client, r request, last error, spent time.Duration, apart bool) *waiter {
	w := &waiter{request: r, client: c, next: r.kind, call: make(chan struct{}, 1)}
	key := r.key()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of[key]
	if q == nil || apart {
		q = &queue{key: key, apart: apart, last: last, due: last == nil, seats: r.kind.Traits().Seats}
		q.spare = append(q.spare, &seat{fails: 1, spent: spent})
	}
	if !apart {
		if qs.of == nil {
			qs.of = make(map[kind.Key]*queue)
		}
		qs.of[key] = q
	}
	w.queue, w.place = q, q.waiters.PushBack(w)
	qs.waiting.Add(1)
	if q.later == nil {
		q.fillLocked(false)
	}
	return w
}

// fillLocked gives free seats to the first callers without one. The head gets
// one in any case: it is called when an attempt is due. With fresh, they try at
// once.
func (q *queue) fillLocked(fresh bool) {
	head := q.waiters.Front()
	for e := head; e != nil && (e == head || q.taken < q.seats); e = e.Next() {
		if w := e.Value.(*waiter); w.seat == nil {
			q.seatLocked(w)
			w.fresh = fresh || w.kind.Traits().KeepsPlace
			w.summon()
		}
	}
}

// seatLocked gives a free seat to a caller without one.
func (q *queue) seatLocked(w *waiter) {
	if last := len(q.spare) - 1; last >= 0 {
		w.seat, q.spare = q.spare[last], q.spare[:last]
	} else {
		w.seat = &seat{fails: 1}
	}
	q.taken++
}

// unseatLocked takes away a caller's seat.
func (q *queue) unseatLocked(w *waiter) {
	if w.seat != nil {
		q.spare = append(q.spare, w.seat)
		w.seat = nil
		q.taken--
	}
}

// leave removes a caller from its queue. After the head, the next caller
// becomes the head. A lock handed to the caller and not taken is passed on.
func (w *waiter) leave() {
	c := w.client
	b := c.queues.remove(w)
	if b == nil {
		return
	}
	if !c.pass(b, tenureHanded) {
		c.abandon(b.lock) // at the nodes (R7)
	}
	c.group.DelayClose(-1)
}

// remove removes a caller from its queue. It returns the lock handed to it and
// not taken, or nil.
func (qs *queues) remove(w *waiter) *baton {
	q := w.queue
	qs.mu.Lock()
	sat := w.seat != nil
	q.unseatLocked(w)
	q.waiters.Remove(w.place)
	qs.waiting.Add(-1)
	empty := q.waiters.Len() == 0
	switch {
	case empty && !q.apart:
		delete(qs.of, q.key)
	case empty:
	case sat && w.served && !q.due:
		qs.callLaterLocked(q)
	case sat:
		q.fillLocked(q.seats > w.kind.Traits().Seats) // the last one was granted
		q.callHeadLocked()
	}
	given := w.given
	qs.mu.Unlock()
	if empty {
		for _, s := range q.spare {
			s.stop()
		}
	}
	return given
}

// headRest is how long the head of a queue may sleep after a hand-over to the
// caller before it. Usually its own turn comes sooner, and waking it only to
// sleep again would double the cost of a hand-over.
const headRest = 5 * time.Millisecond

// callLaterLocked calls the head of a queue after a while: the holder may keep
// the lock, and never release it.
func (qs *queues) callLaterLocked(q *queue) {
	if q.later != nil {
		return
	}
	q.later = time.AfterFunc(headRest, func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		if q.waiters.Len() > 0 {
			q.callHeadLocked()
		}
	})
}

// released tells the head of a queue of a release by this client: its next
// attempt stands behind the release on every connection.
func (qs *queues) released(key kind.Key, from *tenure) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.of[key]; q != nil {
		q.due = true
		q.left(from, time.Now())
		q.callHeadLocked()
	}
}

// awaited reports whether a caller waits in a queue for the lock, or for one of
// several resources.
func (c *Client) awaited(l *Lock) bool {
	return c.queues.has(l.key()) || slices.ContainsFunc(l.kind.Several(), func(name string) bool {
		return c.queues.has(c.kinds.Plain().Key(name))
	})
}

// released calls the callers in queues for the lock, or for one of several
// resources: its release is queued.
func (c *Client) released(l *Lock) {
	from := l.tenure
	if !l.kind.Traits().HandsOver {
		from = nil // it belonged to no streak
	}
	c.queues.released(l.key(), from)
	for _, name := range l.kind.Several() {
		c.queues.released(c.kinds.Plain().Key(name), nil) // it belonged to no streak
	}
}

// key returns the key of the queue for locks like this.
func (l *Lock) key() kind.Key { return l.kind.Key(l.grant.Name) }

// callHeadLocked calls the head for its turn, or for an attempt that is due.
// The caller must hold the mutex of the queues.
func (q *queue) callHeadLocked() {
	if q.later != nil {
		q.later.Stop()
		q.later = nil
	}
	q.fillLocked(false)
	q.head().summon()
}

func (q *queue) head() *waiter { return q.waiters.Front().Value.(*waiter) }

// summon calls a waiter. One pending call is enough.
func (w *waiter) summon() {
	select {
	case w.call <- struct{}{}:
	default:
	}
}

// heed consumes a call.
func (w *waiter) heed() {
	select {
	case <-w.call:
	default:
	}
}

// hasTurn reports whether a caller has a seat, or was handed a lock.
func (qs *queues) hasTurn(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return w.seat != nil || w.given != nil
}

// isDue reports whether a caller in its turn has something to do: to make an
// attempt, or to take a lock given to it. It consumes the call.
func (qs *queues) isDue(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.heed()
	return w.queue.due || w.fresh || w.given != nil
}

// yields reports whether a caller must give way to other clients before its
// attempt. It consumes such a call.
func (qs *queues) yields(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := w.queue
	if w.given != nil || !q.over {
		return false
	}
	w.heed()
	q.over, q.gave = false, time.Now()
	return true
}

// gaveToRival records a caller's pause for a known client.
func (qs *queues) gaveToRival(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.rival = true
}

// begin returns the lock handed to a caller: the caller must take it. After
// nil, it must make an attempt, for all that is due by now. Before its outcome
// the caller is handed no lock.
func (qs *queues) begin(w *waiter) *baton {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.heed()
	w.trying, w.fresh = true, false
	q, b := w.queue, w.given
	switch w.given = nil; {
	case b == nil:
		q.due, q.over = false, false
	case w.seat == nil && q.taken < q.seats:
		q.seatLocked(w)
	}
	return b
}

// notTaken records that a lock that was handed to a caller was too old. The
// caller may be handed another one before its attempt.
func (qs *queues) notTaken(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.trying = false
}

// giveBackDue passes a pending attempt to the next caller.
func (qs *queues) giveBackDue(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due = true
}

// granted records a caller's lock. If there is no other, nothing is due after
// it. If the nodes granted it, others may be free, and more callers than before
// ask for them. It returns the outcome of the streak before.
func (qs *queues) granted(w *waiter) (before yielding) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := w.queue
	q.last = ErrHeld
	if w.kind.Traits().MostSeats == 1 {
		q.due, q.local = false, w.ttl
	}
	if !w.served {
		q.seats = min(2*q.seats, w.kind.Traits().MostSeats)
	}
	before, q.yielding = q.yielding, yielding{}
	if s := w.seat; s != nil {
		s.fails = 0
		s.contests.win()
	}
	return before
}

// failed records the error of a caller's attempt. With more than the usual
// number of seats, this one gives its seat up; the head keeps its own.
func (qs *queues) failed(w *waiter, err error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := w.queue
	q.last = err
	if q.local != 0 {
		q.local = 0
	}
	q.yielding.failed(err)
	w.trying = false
	w.seat.fails++
	w.seat.contests.lose(err)
	q.seats = w.kind.Traits().Seats
	if q.taken > q.seats && q.head() != w {
		q.unseatLocked(w)
		q.fillLocked(false)
	}
}

// lastOf returns the error of the last attempt in a queue.
func (qs *queues) lastOf(q *queue) error {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return q.last
}

// had returns what is known of the last holder, before the grant to the caller.
// elsewhere means a holder in another client. gave means that this client has
// left the lock to others since.
func (qs *queues) had(q *queue) (elsewhere, gave bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return isHeld(q.last) && q.local == 0, !q.gave.IsZero() || q.last == nil
}
