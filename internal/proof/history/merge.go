package history

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"time"
)

// DefaultDisorder is how far the lines of one file may be out of order. A
// client takes the time before it writes, and it or its process may be stopped
// between the two.
const DefaultDisorder = 10 * time.Second

// ErrDisorder is yielded by Merge if a line is so late that later ones have
// already been yielded.
var ErrDisorder = errors.New("history: a line is further out of order than was allowed")

// Merge puts the events of several processes of one machine into one order of
// time. Each stream may be out of order by up to disorder; events of one client
// at the same time stay in order. Source tells which stream an event is from.
// Memory is bounded by the events that all streams contain within the time of
// disorder.
//
// A stream that yields an error has ended. The error is passed on without an
// event, and the others continue if the consumer does.
func Merge(disorder time.Duration, streams ...iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		m := merger{disorder: int64(disorder)}
		defer m.stop()
		for i, s := range streams {
			next, stop := iter.Pull2(s)
			m.streams = append(m.streams, &stream{source: i, next: next, stop: stop})
		}
		m.run(yield)
	}
}

// merger is one merge. It reads from the stream that is furthest behind, so
// that no stream is read further than necessary.
type merger struct {
	disorder int64
	streams  []*stream
	waiting  eventHeap
	arrivals uint64
	given    int64 // the time of the last yielded event
}

// stream is one input.
type stream struct {
	source int
	next   func() (Event, error, bool)
	stop   func()
	latest int64 // the greatest time read
	begun  bool
	ended  bool
}

func (m *merger) run(yield func(Event, error) bool) {
	m.given = -1 << 63
	for {
		s := m.behind()
		if s == nil {
			break
		}
		e, err, ok := s.next()
		switch {
		case !ok:
			s.ended = true
		case err != nil:
			s.ended = true
			if !yield(Event{}, fmt.Errorf("stream %d: %w", s.source, err)) {
				return
			}
		case e.T < m.given:
			if !yield(Event{}, fmt.Errorf("stream %d: %w", s.source, ErrDisorder)) {
				return
			}
		default:
			e.Source = s.source
			m.arrivals++
			heap.Push(&m.waiting, arrived{e, m.arrivals})
			if s.latest = max(s.latest, e.T); !s.begun {
				s.latest, s.begun = e.T, true
			}
		}
		if !m.give(yield, m.certain()) {
			return
		}
	}
	m.give(yield, 1<<63-1)
}

// behind returns the stream to read from next, or nil if all have ended.
func (m *merger) behind() (least *stream) {
	for _, s := range m.streams {
		switch {
		case s.ended:
		case !s.begun:
			return s
		case least == nil || s.latest < least.latest:
			least = s
		}
	}
	return least
}

// certain returns the time before which no stream has any more events.
func (m *merger) certain() int64 {
	s := m.behind()
	switch {
	case s == nil:
		return 1<<63 - 1
	case !s.begun:
		return -1 << 63
	default:
		return s.latest - m.disorder
	}
}

// give yields the events that are certain to be the earliest.
func (m *merger) give(yield func(Event, error) bool, before int64) bool {
	for len(m.waiting) > 0 && m.waiting[0].T < before {
		e := heap.Pop(&m.waiting).(arrived).Event
		m.given = e.T
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

func (m *merger) stop() {
	for _, s := range m.streams {
		s.stop()
	}
}

// arrived is an event and its place in the order of reading, which decides
// between equal times.
type arrived struct {
	Event
	order uint64
}

type eventHeap []arrived

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].T, h[j].T), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(arrived)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = arrived{}
	*h = old[:len(old)-1]
	return last
}
