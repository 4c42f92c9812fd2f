package pure

import "time"

// A Heap is a binary min-heap of items by time:
//
//	entries[(i-1)/2].at ≤ entries[i].at
//
// Each item has a Place. The heap keeps it up to date, so that the item can be
// moved and removed. The zero Heap is empty.
type Heap[T any] struct {
	entries []entry[T]
}

// An entry has the time beside the item, so that a comparison does not load the
// item.
type entry[T any] struct {
	at    time.Duration
	item  T
	place *Place
}

// A Place is an item's place in a heap: its index plus one. It is zero for an
// item that is in no heap.
type Place int

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.entries) }

// Put adds an item, or moves it if it is in the heap already.
func (h *Heap[T]) Put(item T, place *Place, at time.Duration) {
	i := int(*place) - 1
	if i < 0 {
		i = len(h.entries)
		h.entries = append(h.entries, entry[T]{})
	}
	h.entries[i] = entry[T]{at, item, place}
	h.settle(i)
}

// Remove removes the item at a place, if there is one.
func (h *Heap[T]) Remove(place *Place) {
	i, last := int(*place)-1, len(h.entries)-1
	if i < 0 {
		return
	}
	h.entries[i] = h.entries[last]
	h.entries[last] = entry[T]{}
	h.entries = h.entries[:last]
	*place = 0
	if i < last {
		h.settle(i)
	}
}

// First returns the item with the earliest time. If the heap is empty, the time
// is Never.
func (h *Heap[T]) First() (item T, at time.Duration) {
	if len(h.entries) == 0 {
		return item, Never
	}
	return h.entries[0].item, h.entries[0].at
}

// Take removes the items that are due by the given time and appends them to
// dst, the earliest first, as long as dst has room.
func (h *Heap[T]) Take(dst []T, until time.Duration) []T {
	for len(dst) < cap(dst) && len(h.entries) > 0 && h.entries[0].at <= until {
		first := h.entries[0]
		h.Remove(first.place)
		dst = append(dst, first.item)
	}
	return dst
}

// TakeAll removes all items and appends them to dst, in no order.
func (h *Heap[T]) TakeAll(dst []T) []T {
	for _, e := range h.entries {
		*e.place = 0
		dst = append(dst, e.item)
	}
	clear(h.entries)
	h.entries = h.entries[:0]
	return dst
}

// Count returns how many items have a time up to now, but at most most. It does
// not visit the items below one with a later time.
func (h *Heap[T]) Count(now time.Duration, most int) int { return h.countFrom(0, now, most) }

func (h *Heap[T]) countFrom(i int, now time.Duration, most int) int {
	if i >= len(h.entries) || h.entries[i].at > now || most <= 0 {
		return 0
	}
	n := 1 + h.countFrom(2*i+1, now, most-1)
	return n + h.countFrom(2*i+2, now, most-n)
}

// settle moves the entry at i up or down to where it belongs.
func (h *Heap[T]) settle(i int) {
	e := h.entries[i]
	for i > 0 && e.at < h.entries[(i-1)/2].at {
		i = h.move((i-1)/2, i)
	}
	for {
		child := 2*i + 1
		if child+1 < len(h.entries) && h.entries[child+1].at < h.entries[child].at {
			child++
		}
		if child >= len(h.entries) || e.at <= h.entries[child].at {
			break
		}
		i = h.move(child, i)
	}
	h.entries[i] = e
	*e.place = Place(i + 1)
}

// move moves an entry to another index and returns the index that it left.
func (h *Heap[T]) move(from, to int) int {
	h.entries[to] = h.entries[from]
	*h.entries[to].place = Place(to + 1)
	return from
}
