// Package queue has a binary heap, for what the simulator and the histories put
// in order of time.
package queue

// An Item stands before others in a queue. The order must be total, so that a
// run can be repeated.
type Item[T any] interface{ Before(T) bool }

// A Queue has its first item at index 0. The zero value is empty.
type Queue[T Item[T]] []T

// Push adds an item.
func (q *Queue[T]) Push(item T) {
	*q = append(*q, item)
	all, i := *q, len(*q)-1
	for i > 0 && item.Before(all[(i-1)/2]) {
		all[i] = all[(i-1)/2]
		i = (i - 1) / 2
	}
	all[i] = item
}

// Pop removes the first item. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	all := *q
	first, last := all[0], len(all)-1
	item := all[last]
	clear(all[last:])
	all = all[:last]
	*q = all
	if last == 0 {
		return first
	}
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && all[child+1].Before(all[child]) {
			child++
		}
		if !all[child].Before(item) {
			break
		}
		all[i] = all[child]
		i = child
	}
	all[i] = item
	return first
}
