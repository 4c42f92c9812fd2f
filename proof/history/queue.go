package history

import (
	"cmp"
	"container/heap"
	"iter"
)

// A Queue puts events in order of time. Events of the same time stay in the
// order in which they were pushed. The zero value is empty.
type Queue struct {
	events pushed
	order  uint64
}

// pushed is a heap of events, each with its number.
type pushed []struct {
	Event
	order uint64
}

// Push adds an event.
func (q *Queue) Push(e Event) {
	q.order++
	q.events = append(q.events, struct {
		Event
		order uint64
	}{e, q.order})
	heap.Fix(&q.events, len(q.events)-1)
}

// Len returns the number of events.
func (q *Queue) Len() int { return len(q.events) }

// Before removes the events before a time, and yields each.
func (q *Queue) Before(t int64) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for len(q.events) > 0 && q.events[0].T < t {
			first, last := q.events[0].Event, len(q.events)-1
			q.events.Swap(0, last)
			clear(q.events[last:])
			if q.events = q.events[:last]; last > 0 {
				heap.Fix(&q.events, 0)
			}
			if !yield(first) {
				return
			}
		}
	}
}

// The methods of heap.Interface. heap.Fix calls neither Push nor Pop, which would
// box each event.

func (p *pushed) Len() int { return len(*p) }

func (p *pushed) Less(i, j int) bool {
	a, b := &(*p)[i], &(*p)[j]
	return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.order, b.order)) < 0
}

func (p *pushed) Swap(i, j int) { (*p)[i], (*p)[j] = (*p)[j], (*p)[i] }

func (p *pushed) Push(any) {}

func (p *pushed) Pop() any { return nil }
