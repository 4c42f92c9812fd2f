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
	// due reports that something has happened that no attempt has followed: the
	// lock may be free.
	due bool

	// The following are owned by the head, and pass to the next head with the
	// turn.
	lookout *multiplex.Lookout // nil until the head looks out for the first time
	fails   int                // attempts that failed since the last real news
	// local is the TTL of a lock that was granted in this very queue and
	// touched only by its holder since, as far as this client knows; otherwise
	// 0.
	local  time.Duration
	streak streak
	spent  time.Duration // what the last attempt took
}

// A waiter is one caller of Acquire in its queue.
type waiter struct {
	resource string
	queue    *queue
	place    *list.Element
	call     chan struct{} // holds one call: the turn has come, or the head is to look at due
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
// attempt, nil if it made none, and spent is what that took.
func (qs *queues) join(resource string, last error, spent time.Duration) *waiter {
	w := &waiter{resource: resource, call: make(chan struct{}, 1)}
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

// leave removes a caller from its queue. If it was the head, the turn passes to
// the next at once.
func (qs *queues) leave(w *waiter) {
	q := w.queue
	qs.mu.Lock()
	first := q.waiters.Front() == w.place
	q.waiters.Remove(w.place)
	qs.waiting.Add(-1)
	empty := q.waiters.Len() == 0
	switch {
	case empty:
		delete(qs.of, w.resource)
	case first:
		q.callHead()
	}
	qs.mu.Unlock()
	if empty && q.lookout != nil {
		q.lookout.Stop()
	}
}

// released tells the head of a resource's queue that the lock was released
// here: its next SET stands behind the release on every connection.
func (qs *queues) released(resource string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.of[resource]; q != nil {
		q.due = true
		q.callHead()
	}
}

// handover returns what a release of this client calls once it is queued.
func (c *Client) handover(resource string) func() {
	return func() { c.queues.released(resource) }
}

// callHead calls the head; one call is enough. The caller must hold the mutex
// of the queues.
func (q *queue) callHead() {
	select {
	case q.waiters.Front().Value.(*waiter).call <- struct{}{}:
	default:
	}
}

// takeDue reports whether an attempt is due, which the caller must then make.
// It also consumes the call for it.
func (qs *queues) takeDue(head *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	select {
	case <-head.call:
	default:
	}
	due := head.queue.due
	head.queue.due = false
	return due
}

// giveBackDue passes a pending attempt to the next head.
func (qs *queues) giveBackDue(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due = true
}

// granted records that the head has got the lock: what was due before is over.
func (qs *queues) granted(q *queue, ttl time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due, q.last, q.fails, q.local = false, ErrHeld, 0, ttl
	q.streak = q.streak.grown(time.Now())
}

// failed records the error of the head's attempt.
func (qs *queues) failed(q *queue, err error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.last, q.local, q.streak = err, 0, streak{}
	q.fails++
}

// lastOf returns the error of the last attempt in a queue.
func (qs *queues) lastOf(q *queue) error {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return q.last
}

// A streak is how often a lock went from one waiter of this client to the next,
// and since when. Other clients hear of a release only when the next SET of
// this client is already on its way, and would never get the lock while callers
// wait here.
type streak struct {
	count int
	since time.Time
}

const (
	// streakLeast and streakLong are the number of grants and the least time
	// after which a streak is interrupted: long compared with the pause that
	// other clients get, and short enough for callers there.
	streakLeast = 4
	streakLong  = 50 * time.Millisecond
)

func (s streak) grown(now time.Time) streak {
	if s.count == 0 {
		s.since = now
	}
	s.count++
	return s
}

// over reports that it is another client's turn.
func (s streak) over(now time.Time) bool {
	return s.count >= streakLeast && now.Sub(s.since) >= streakLong
}
