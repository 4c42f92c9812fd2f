package history

import (
	"cmp"
	"container/heap"
	"iter"
)

// A Queue puts events in order of time. Events of the same time stay in the
// order in which they were pushed. The zero value is empty.
type Queue struct {
	events eventHeap
	pushed uint64
}

// Push adds an event.
func (q *Queue) Push(e Event) {
	q.pushed++
	heap.Push(&q.events, pushed{e, q.pushed})
}

// Len returns the number of events.
func (q *Queue) Len() int { return len(q.events) }

// Before removes the events before a time, and yields each.
func (q *Queue) Before(t int64) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for len(q.events) > 0 && q.events[0].T < t {
			if !yield(heap.Pop(&q.events).(pushed).Event) {
				return
			}
		}
	}
}

type pushed struct {
	Event
	order uint64
}

type eventHeap []pushed

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].T, h[j].T), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(pushed)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = pushed{}
	*h = old[:len(old)-1]
	return last
}
