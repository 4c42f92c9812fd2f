package faults

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// results are what the processes and the rests have told, put together.
type results struct {
	counters // of the run

	mu       sync.Mutex // guards the following
	tallies  map[int]Tally
	ended    Tally             // of the processes that are gone
	failures map[string]int    // injections that failed, by kind
	why      map[string]string // the first of each
	orphans  []string
	settles  []time.Duration
	late     []string // what did not settle
}

func newResults() *results {
	return &results{tallies: make(map[int]Tally), failures: make(map[string]int), why: make(map[string]string)}
}

func (r *results) tally(name int, t Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies[name] = t
}

// fold is called when a process is gone. Of one that was killed, what it did in
// its last half second is not known.
func (r *results) fold(name int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended.add(r.tallies[name])
	delete(r.tallies, name)
}

func (r *results) failedInjection(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures[kind]++; r.failures[kind] == 1 {
		r.why[kind] = err.Error()
	}
}

func (r *results) rested(took time.Duration, looked bool, keys int, orphans []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(Rests)
	if looked {
		r.count(Looked)
	}
	r.counters[Keys].Add(uint64(keys))
	r.settles = append(r.settles, took)
	if len(r.orphans) < mostOddities {
		r.orphans = append(r.orphans, orphans...)
	}
}

func (r *results) unsettled(what []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(Rests)
	r.late = append(r.late, what[:min(len(what), 3)]...)
}

// times sums up durations.
func times(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	all = slices.Sorted(slices.Values(all))
	return Times{
		Count: len(all), Median: all[len(all)/2], P99: all[(len(all)*99+99)/100-1], Most: all[len(all)-1],
	}
}

// Times are the quantiles of some durations.
type Times struct {
	Count             int
	Median, P99, Most time.Duration
}

// String returns the times for a table: their median, tail and count.
func (t Times) String() string {
	if t.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("median %v, p99 %v, most %v (%d)", short(t.Median), short(t.P99), short(t.Most), t.Count)
}

// short has three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
