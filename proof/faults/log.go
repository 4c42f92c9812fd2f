package faults

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/proof/history"
)

// A faultLog knows which faults are at work, how many there were, and when
// nodes forgot their keys.
type faultLog struct {
	counts *counters // of the run

	mu         sync.Mutex // guards the following
	active     []*fault
	made       map[string]int // by kind
	forgetting []span         // in order of their beginnings, the latest last
	past       []string       // the latest faults that are over, for those who look for the cause of a finding
	mostAtOnce int            // nodes that were faulty at one moment
}

// A fault is one that is at work.
type fault struct {
	kind *Kind
	node int // -1 for a process's
	slot int // of the process; -1 for a node's
	from int64
}

// span is a time on the system's monotonic clock. It is open while to is 0.
type span struct{ from, to int64 }

// spansKept bounds the memory of when nodes forgot; nothing is asked about
// times that are as many restarts ago.
const spansKept = 4096

// begin is called before a fault begins.
func (l *faultLog) begin(f *fault, quorum, nodes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.from = history.Monotonic()
	l.active = append(l.active, f)
	if l.made == nil {
		l.made = make(map[string]int)
	}
	l.made[f.kind.Name]++
	if f.kind.forgets {
		l.forgetting = append(l.forgetting, span{from: f.from})
		if len(l.forgetting) > spansKept {
			l.forgetting = l.forgetting[1:]
		}
	}
	if n := l.faultyNodes(); n > l.mostAtOnce || n > nodes-quorum && f.node >= 0 {
		l.mostAtOnce = max(n, l.mostAtOnce)
		if n == nodes-quorum+1 && f.node >= 0 {
			l.counts.count(Majorities)
		}
	}
}

// end is called when it is over.
func (l *faultLog) end(f *fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = slices.DeleteFunc(l.active, func(a *fault) bool { return a == f })
	t := history.Monotonic()
	l.remember(f, t)
	if f.kind.forgets {
		for i := range l.forgetting {
			if l.forgetting[i].from == f.from {
				l.forgetting[i].to = t
			}
		}
	}
}

// pastKept is some seconds' worth.
const pastKept = 200

// remember notes a fault that is over. The caller holds the mutex.
func (l *faultLog) remember(f *fault, t int64) {
	if len(l.past) == pastKept {
		l.past = slices.Delete(l.past, 0, pastKept/2)
	}
	where := fmt.Sprintf("node %d", f.node)
	if f.slot >= 0 {
		where = fmt.Sprintf("slot %d, node %d", f.slot, f.node)
	}
	l.past = append(l.past, fmt.Sprintf("t=%d for %v: %s of %s", f.from, short(time.Duration(t-f.from)), f.kind.Name, where))
}

// recently tells of the latest faults, the last first.
func (l *faultLog) recently() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.past)
	slices.Reverse(all)
	return all
}

// faultyNodes counts the servers that something is wrong with. The caller holds
// the mutex.
func (l *faultLog) faultyNodes() int {
	nodes := make(map[int]bool)
	for _, f := range l.active {
		if f.kind.Scope == OfNode {
			nodes[f.node] = true
		}
	}
	return len(nodes)
}

// forgot reports whether some node lost its keys at a time that touches the
// given one.
func (l *faultLog) forgot(from, to int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.forgetting, func(s span) bool { return s.from <= to && (s.to == 0 || s.to >= from) })
}
