package machines

import "time"

// A queue contains the future events, the earliest first; of events at the same
// time, the one that was planned first. It is a binary heap.
type queue []event

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

func (q *queue) push(e event) {
	*q = append(*q, e)
	all, i := *q, len(*q)-1
	for i > 0 && e.before(all[(i-1)/2]) {
		all[i] = all[(i-1)/2]
		i = (i - 1) / 2
	}
	all[i] = e
}

func (q *queue) pop() event {
	all := *q
	first, last := all[0], len(all)-1
	e := all[last]
	all[last] = event{}
	all = all[:last]
	*q = all
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && all[child+1].before(all[child]) {
			child++
		}
		if !all[child].before(e) {
			break
		}
		all[i] = all[child]
		i = child
	}
	all[i] = e
	return first
}
