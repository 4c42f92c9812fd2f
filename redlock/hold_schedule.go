package redlock

import (
	"container/heap"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A schedule is a min-heap of holds by the time at which the keeper must look
// at each.
type schedule []*Hold

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at < s[j].at }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// Push is for package heap.
func (s *schedule) Push(h any) {
	hold := h.(*Hold)
	hold.place = len(*s)
	*s = append(*s, hold)
}

// Pop is for package heap.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	h := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	h.place = unplaced
	return h
}

// unplaced is the place of a hold that is in no schedule.
const unplaced = -1

// put sets the time of a hold, which may be in the schedule already.
func (s *schedule) put(h *Hold, at time.Duration) {
	h.at = at
	if h.place == unplaced {
		heap.Push(s, h)
		return
	}
	heap.Fix(s, h.place)
}

func (s *schedule) remove(h *Hold) {
	if h.place != unplaced {
		heap.Remove(s, h.place)
	}
}

// first returns the earliest time, or pure.Never if the schedule is empty.
func (s schedule) first() time.Duration {
	if len(s) == 0 {
		return pure.Never
	}
	return s[0].at
}

// take removes the holds that are due by the given time, the earliest first, as
// long as dst has room.
func (s *schedule) take(dst []*Hold, until time.Duration) []*Hold {
	for len(dst) < cap(dst) && s.first() <= until {
		dst = append(dst, heap.Pop(s).(*Hold))
	}
	return dst
}

// takeAll removes all holds, in no order.
func (s *schedule) takeAll(dst []*Hold) []*Hold {
	for _, h := range *s {
		h.place = unplaced
		dst = append(dst, h)
	}
	clear(*s)
	*s = (*s)[:0]
	return dst
}
