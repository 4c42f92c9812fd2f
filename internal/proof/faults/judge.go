package faults

import (
	"container/heap"
	"errors"
	"fmt"
	"sync"

	"github.com/redmux/redmux/internal/proof/history"
)

// A judge puts the events of all processes in order of time and has exclusion judged; and it judges what the processes
// found by themselves. Each process's events come in order, so that an event is certain to be the next when every
// process has told of a later time.
type judge struct {
	log     *faultLog
	history *history.Writer // nil where nobody wants one

	mu        sync.Mutex // guards the following
	exclusion history.Exclusion
	streams   map[int]int64 // of each process that lives, the latest time of which it told
	waiting   events
	arrivals  uint64
	oddities  []string
	excused   int
	mostWait  int
}

// join begins the stream of a process.
func (j *judge) join(name int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.streams == nil {
		j.streams = make(map[int]int64)
	}
	j.streams[name] = history.Monotonic()
}

// leave ends it: nothing comes any more.
func (j *judge) leave(name int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.streams, name)
	j.settle()
}

func (j *judge) event(name int, e history.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Source = name
	j.arrivals++
	heap.Push(&j.waiting, arrived{e, j.arrivals})
	j.mostWait = max(j.mostWait, len(j.waiting))
	j.streams[name] = max(j.streams[name], e.T)
	j.settle()
}

func (j *judge) beat(name int, t int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.streams[name] = max(j.streams[name], t)
	j.settle()
}

// settle judges what is certain to be next. The caller holds the mutex.
func (j *judge) settle() {
	certain := int64(1<<63 - 1)
	for _, latest := range j.streams {
		certain = min(certain, latest)
	}
	for len(j.waiting) > 0 && j.waiting[0].T <= certain {
		e := heap.Pop(&j.waiting).(arrived).Event
		j.exclusion.Add(e)
		if j.history != nil {
			e.Client += e.Source * clientsEach // the file is one history, whose clients have names of their own
			j.history.Add(e)
		}
	}
}

// clientsEach is more than a process has.
const clientsEach = 1000

// odd takes what a process found. A lock that vanished is no finding where a node forgot its keys meanwhile.
func (j *judge) odd(o oddity) {
	if o.Excusable && j.log.forgot(o.From, o.To) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.excused++
		return
	}
	j.find(o.What)
}

// mostOddities bounds what is kept of a run that is wrong all over.
const mostOddities = 1000

func (j *judge) find(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.oddities) < mostOddities {
		j.oddities = append(j.oddities, what)
	}
}

// verdict is all that was found.
func (j *judge) verdict() (violations, oddities []string, x *history.Exclusion) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.exclusion.Violations() {
		violations = append(violations, v.String())
	}
	if more := j.exclusion.More(); more > 0 {
		violations = append(violations, fmt.Sprintf("and %d more", more))
	}
	return violations, append([]string(nil), j.oddities...), &j.exclusion
}

// close ends the history's file.
func (j *judge) close() error {
	if j.history == nil {
		return nil
	}
	if err := j.history.Close(); err != nil {
		return errors.Join(errors.New("faults: the history could not be written"), err)
	}
	return nil
}

// arrived is an event and its place in the order of reading, which decides between equal times.
type arrived struct {
	history.Event
	order uint64
}

type events []arrived

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	if h[i].T != h[j].T {
		return h[i].T < h[j].T
	}
	return h[i].order < h[j].order
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(arrived)) }
func (h *events) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = arrived{}
	*h = old[:len(old)-1]
	return last
}
