package redlock

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/multiplex"
)

// queues are the callers of Acquire that wait for locks: one queue for each
// resource, first come first served. Only the caller at the head of a queue
// asks the nodes for that resource; the others wait for their turn, so that a
// hundred waiters cost the nodes as much as one.
type queues struct {
	// waiting counts the waiters of all queues. It changes under the mutex and
	// is read without it, so that a release costs nothing more if there are
	// none.
	waiting atomic.Int64

	mu sync.Mutex // guards the following, and the queues
	of map[string]*queue
}

// A queue is the waiters for one resource, at least one.
type queue struct {
	waiters list.List // of *waiter; the front is the head
	last    error     // of the last attempt
	// due reports that the lock may be free, because of something that no
	// attempt has followed yet.
	due   bool
	later *time.Timer // calls the head some time after a hand-over

	yielding

	// The following are owned by the head, and pass to the next head with the
	// turn.
	lookout  *multiplex.Lookout // nil until it is needed
	fails    int                // attempts that failed since the last real news
	contests contests
	// local is the TTL of a lock that was granted in this queue, if as far as
	// this client knows only its holder has used it since; otherwise 0.
	local time.Duration
	spent time.Duration // what the last attempt took
}

// A waiter is one caller of Acquire in its queue.
type waiter struct {
	request
	queue *queue
	place *list.Element
	// call holds one call: the waiter's turn has come, or as the head it must
	// check due and given.
	call chan struct{}
	// soon is the longest time from the beginning of one attempt to that of the
	// next, unless the attempt itself takes longer; or 0. by is when the next one
	// begins at the latest because of it; zero if soon is.
	soon time.Duration
	by   time.Time

	served bool // by a lock that was handed over; owned by the waiter

	// The mutex of the queues guards the following.
	trying bool   // it makes an attempt, or takes what was given
	given  *baton // a lock that was handed over and not taken yet
}

// A request is the lock that a caller waits for.
type request struct {
	resource string
	form     *form         // as in Lock
	ttl      time.Duration // in whole milliseconds
	// confirmed means that the caller does not renew the lock. If a lock is
	// handed over with little validity, it is then extended first.
	confirmed bool
	minHold   time.Duration // see HoldOptions.MinHold
}

// has reports whether a caller waits for a resource.
func (qs *queues) has(resource string) bool {
	if qs.waiting.Load() == 0 {
		return false
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.of[resource] != nil
}

// join appends a caller to its resource's queue. last is the error of its
// attempt, or nil if it made none, and spent is how long that took.
func (qs *queues) join(r request, last error, spent time.Duration) *waiter {
	w, resource := &waiter{request: r, call: make(chan struct{}, 1)}, r.resource
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of[resource]
	if q == nil {
		q = &queue{last: last, due: last == nil, fails: 1, spent: spent}
		if qs.of == nil {
			qs.of = make(map[string]*queue)
		}
		qs.of[resource] = q
		w.call <- struct{}{}
	}
	w.queue, w.place = q, q.waiters.PushBack(w)
	qs.waiting.Add(1)
	return w
}

// leave removes a caller from its queue. If it was the head, the next caller
// becomes the head. A lock that was handed to it and not taken is passed on.
func (c *Client) leave(w *waiter) {
	if b := c.queues.remove(w); b != nil {
		c.passOn(b)
	}
}

// remove removes a caller from its queue. It returns the lock that was handed
// to it and not taken, if there is one.
func (qs *queues) remove(w *waiter) *baton {
	q := w.queue
	qs.mu.Lock()
	first := q.waiters.Front() == w.place
	q.waiters.Remove(w.place)
	qs.waiting.Add(-1)
	empty := q.waiters.Len() == 0
	switch {
	case empty:
		delete(qs.of, w.resource)
	case first && w.served && !q.due:
		qs.callLaterLocked(w.resource, q)
	case first:
		q.callHeadLocked()
	}
	given := w.given
	qs.mu.Unlock()
	if empty && q.lookout != nil {
		q.lookout.Stop()
	}
	return given
}

// headRest is how long the head of a queue may sleep after the caller before it
// got a lock that was handed over. Usually its own turn comes sooner, and
// waking a goroutine that only sleeps again would double the cost of a
// hand-over.
const headRest = 5 * time.Millisecond

// callLaterLocked calls the head of a queue after a while: the holder may keep
// the lock, and never release it.
func (qs *queues) callLaterLocked(resource string, q *queue) {
	if q.later != nil {
		return
	}
	q.later = time.AfterFunc(headRest, func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		if qs.of[resource] == q {
			q.callHeadLocked()
		}
	})
}

// released tells the head of a resource's queue that the lock was released
// here: its next SET stands behind the release on every connection.
func (qs *queues) released(resource string, from *tenure) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.of[resource]; q != nil {
		q.due = true
		q.left(from, time.Now())
		q.callHeadLocked()
	}
}

// handover returns the function that a release of this client calls once it is
// queued.
func (c *Client) handover(l Lock) func() {
	return func() { c.released(&l) }
}

// callHeadLocked calls the head for its turn, or because an attempt is due. The
// caller must hold the mutex of the queues.
func (q *queue) callHeadLocked() {
	if q.later != nil {
		q.later.Stop()
		q.later = nil
	}
	q.head().summon()
}

func (q *queue) head() *waiter { return q.waiters.Front().Value.(*waiter) }

// summon calls a waiter. A call that is pending already is enough.
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

// isDue reports whether the head has something to do: to make an attempt, or to
// take a lock that was given to it. It consumes the call.
func (qs *queues) isDue(head *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	head.heed()
	return head.queue.due || head.given != nil
}

// yields reports whether the head must give way to other clients before its
// attempt. If so, it consumes the call for that.
func (qs *queues) yields(head *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := head.queue
	if head.given != nil || !q.over {
		return false
	}
	head.heed()
	q.over, q.gave = false, time.Now()
	return true
}

// gaveToRival records that the head gives way to a client that is known.
func (qs *queues) gaveToRival(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.rival = true
}

// begin returns the lock that was handed to the head, if there is one, and the
// head must take it. Otherwise the head must make an attempt, which covers all
// that is due by now. Until its outcome the head is handed no lock.
func (qs *queues) begin(head *waiter) *baton {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	head.heed()
	head.trying = true
	b := head.given
	if head.given = nil; b == nil {
		head.queue.due, head.queue.over = false, false
	}
	return b
}

// giveBackDue passes a pending attempt to the next head.
func (qs *queues) giveBackDue(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due = true
}

// granted records that the head has got the lock. Nothing is due after that. It
// returns what came of the streak before.
func (qs *queues) granted(q *queue, ttl time.Duration) (before yielding) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due, q.last, q.fails, q.local = false, ErrHeld, 0, ttl
	before, q.yielding = q.yielding, yielding{}
	q.contests.win()
	return before
}

// failed records the error of the head's attempt.
func (qs *queues) failed(q *queue, err error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.last, q.local = err, 0
	q.fails++
	q.contests.lose(err)
	q.yielding.failed(err)
	q.head().trying = false
}

// lastOf returns the error of the last attempt in a queue.
func (qs *queues) lastOf(q *queue) error {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return q.last
}
