package redlock

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/multiplex"
)

// queues are the callers of Acquire that wait for locks: a queue for each resource, first come first served. The caller at
// the head of a queue is the only one of this client that asks the nodes for that resource; the others wait for their turn,
// so that a hundred waiters cost the nodes what one does.
type queues struct {
	// waiting counts the waiters of all queues. It changes under the mutex and is read without it, so that a release costs
	// nothing more while nobody waits.
	waiting atomic.Int64

	mu sync.Mutex // guards the following, and the queues
	of map[string]*queue
}

// A queue is the waiters for one resource, at least one.
type queue struct {
	waiters list.List // of *waiter; the front is the head
	last    error     // what the last attempt came to
	// due is set while something has happened since which nobody tried: the lock may be had.
	due bool

	// The following are the head's, and pass to the next head with the turn.
	lookout *multiplex.Lookout // nil until the head looks out for the first time
	fails   int                // attempts that failed since there was a reason to believe in one
	// local is the TTL of a lock that was granted in this very queue and that nobody but its holder has touched, as far as
	// we know; else 0.
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

// has reports whether somebody waits for a resource.
func (qs *queues) has(resource string) bool {
	if qs.waiting.Load() == 0 {
		return false
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.of[resource] != nil
}

// join puts a caller at the end of its resource's queue. last is what its attempt came to, and spent what it took; nil if it
// made none.
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

// leave takes a caller out of its queue. If it was the head, the turn passes to the next at once.
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

// released tells the head of a resource's queue that the lock was released here: its next SET stands behind the release on
// every connection.
func (qs *queues) released(resource string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.of[resource]; q != nil {
		q.due = true
		q.callHead()
	}
}

// handover is what a release of this client does once it is queued.
func (c *Client) handover(resource string) func() {
	return func() { c.queues.released(resource) }
}

// callHead calls the head; one call is enough. The caller holds the mutex.
func (q *queue) callHead() {
	select {
	case q.waiters.Front().Value.(*waiter).call <- struct{}{}:
	default:
	}
}

// takeDue reports whether an attempt is due, and is then for the head to make. It has heard the call for that, too.
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

// giveBackDue leaves an attempt that the head did not make, or did not see the end of, to the next one.
func (qs *queues) giveBackDue(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due = true
}

// granted notes that the head has got the lock: whatever was due before it is over.
func (qs *queues) granted(q *queue, ttl time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.due, q.last, q.fails, q.local = false, ErrHeld, 0, ttl
	q.streak = q.streak.grown(time.Now())
}

// failed notes what an attempt of the head came to.
func (qs *queues) failed(q *queue, err error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.last, q.local, q.streak = err, 0, streak{}
	q.fails++
}

// lastOf is what the last attempt for a queue's resource came to.
func (qs *queues) lastOf(q *queue) error {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return q.last
}

// A streak is how often a lock went from one waiter of this client to the next, and since when. Other clients hear of a
// release only when the next SET of this one is already on its way, and would never have the lock while anybody waits here.
type streak struct {
	count int
	since time.Time
}

const (
	// streakLeast and streakLong are how many grants make a streak that is interrupted, and how long it lasts at least:
	// long beside the pause that others get, and short beside what a caller there would mind.
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
