package faults

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redmux/redmux/proof/history"
)

// A judge puts the events of all processes in order of time and has them judged
// by intervals and by porcupine. It also judges what the processes found by
// themselves. Each process's events come in order, so that an event is certain
// to be the next when every process has told of a time no earlier.
type judge struct {
	log     *faultLog
	counts  *counters       // of the run
	history *history.Writer // nil if none is asked for

	mu        sync.Mutex // guards the following
	exclusion history.Exclusion
	locks     history.Locks
	porcupine history.Verdict // on these, when the run is over
	streams   map[int]int64   // of each process that lives, the latest time of which it told
	waiting   history.Queue
	oddities  []string
	highest   uint64 // fencing number
	floor     uint64 // that of the first reset of the fence, or 0
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

// leave ends the stream of a process.
func (j *judge) leave(name int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.streams, name)
	j.settleLocked()
}

func (j *judge) event(name int, e history.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Source = name
	j.waiting.Push(e)
	j.highest = max(j.highest, e.Fence)
	if j.floor != 0 && e.Fence > j.floor {
		j.counts.count(AfterReset)
	}
	j.streams[name] = max(j.streams[name], e.T)
	j.settleLocked()
}

func (j *judge) beat(name int, t int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.streams[name] = max(j.streams[name], t)
	j.settleLocked()
}

// highestNumber returns the highest fencing number of which a process has told,
// as a resource that locks protect would know it.
func (j *judge) highestNumber() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.highest
}

// reset notes that the fence was reset, and to what floor.
func (j *judge) reset(floor uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.counts.count(Resets); j.floor == 0 {
		j.floor = floor
	}
}

// settleLocked judges the events up to the time of which every stream has told.
func (j *judge) settleLocked() {
	before := int64(1<<63 - 1)
	for _, latest := range j.streams {
		before = min(before, latest+1)
	}
	for e := range j.waiting.Before(before) {
		j.exclusion.Add(e)
		if !j.exclusion.Violated() { // else porcupine would think for long, and add nothing
			j.locks.Add(e)
		}
		if j.history != nil {
			e.Client += e.Source * clientsEach // the file is one history, whose clients have names of their own
			j.history.Add(e)
		}
	}
}

// clientsEach is more than a process has.
const clientsEach = 1000

// odd takes what a process found. A lock that vanished is no finding if a node
// forgot its keys meanwhile.
func (j *judge) odd(o oddity) {
	if o.Excusable && j.log.forgot(o.From, o.To) {
		j.counts.count(Excused)
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

// verdict returns all that was found, and the figures of the history.
func (j *judge) verdict() (violations, oddities []string, of Tally) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.exclusion.Violations() {
		violations = append(violations, v.String())
	}
	if more := j.exclusion.More(); more > 0 {
		violations = append(violations, fmt.Sprintf("and %d more", more))
	}
	if j.porcupine.Err() != nil {
		violations = append(violations, j.porcupine.Findings...)
	}
	x := &j.exclusion
	return violations, slices.Clone(j.oddities), Tally{
		Events: uint64(x.Events), Contended: uint64(x.Grants), Empty: uint64(x.Empty), Overdue: uint64(x.Overdue),
	}
}

// close judges what is left, and ends the history's file.
func (j *judge) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.exclusion.Violated() {
		j.porcupine = j.locks.Finish()
	}
	if j.history == nil {
		return nil
	}
	if err := j.history.Close(); err != nil {
		return errors.Join(errors.New("faults: the history could not be written"), err)
	}
	return nil
}
