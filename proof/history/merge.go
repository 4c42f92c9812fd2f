package history

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// DefaultDisorder is how far the lines of one file may be out of order by their
// times. A client, or its process, may be stopped after it took the time and
// before it wrote the line.
const DefaultDisorder = 10 * time.Second

// ErrDisorder is yielded by Merge when a line is so late that later ones were
// already yielded.
var ErrDisorder = errors.New("history: a line is further out of order than was allowed")

// Merge puts the events of several processes of one machine in order of time.
// Each stream may be out of order by up to disorder; what one client wrote at
// one time stays in its order. Source is the index of an event's stream. Memory
// is bounded by what all streams hold of the time of disorder.
//
// A stream ends with its first error, which is yielded without an event. The
// others go on if the consumer does.
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

// merger reads from the stream that is least far ahead, so that none is read
// further than needed.
type merger struct {
	disorder int64
	streams  []*stream
	waiting  Queue
	given    int64 // the time of the latest event that was yielded
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
			m.waiting.Push(e)
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
	for e := range m.waiting.Before(before) {
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
