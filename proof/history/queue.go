package history

import (
	"cmp"
	"iter"

	"github.com/redmux/redmux/proof/queue"
)

// A Queue puts events in order of time. Events of the same time stay in the
// order in which they were pushed. The zero value is empty.
type Queue struct {
	events queue.Queue[pushed]
	pushed uint64
}

type pushed struct {
	Event
	order uint64
}

func (p pushed) Before(other pushed) bool {
	return cmp.Or(cmp.Compare(p.T, other.T), cmp.Compare(p.order, other.order)) < 0
}

// Push adds an event.
func (q *Queue) Push(e Event) {
	q.pushed++
	q.events.Push(pushed{e, q.pushed})
}

// Len returns the number of events.
func (q *Queue) Len() int { return len(q.events) }

// Before removes the events before a time, and yields each.
func (q *Queue) Before(t int64) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for len(q.events) > 0 && q.events[0].T < t {
			if !yield(q.events.Pop().Event) {
				return
			}
		}
	}
}
