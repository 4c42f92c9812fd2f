package main

import (
	"sync"
	"time"
)

// recent is what happened since the last sample, for those who watch while it goes
// on. The callers' own histograms are nobody else's to read before the end, and
// to empty those of a thousand callers each second would take part of the machine
// that is measured; so callers share a few shards, at the cost of a mutex that is
// nearly always free.
type recent struct{ shards []shard }

const maxShards = 8

type shard struct {
	mu       sync.Mutex // guards the following
	acquired latency
	outcomes tally
	_        [64]byte // the next shard is on another cache line
}

func newRecent(callers int) *recent {
	r := &recent{shards: make([]shard, min(callers, maxShards))}
	for i := range r.shards {
		r.shards[i].acquired = newLatency()
	}
	return r
}

// of is the shard of a caller.
func (r *recent) of(caller int) *shard { return &r.shards[caller%len(r.shards)] }

// add counts an attempt; only grants have a latency.
func (s *shard) add(o outcome, d time.Duration) {
	s.mu.Lock()
	s.outcomes[o]++
	if o == granted {
		s.acquired.record(d)
	}
	s.mu.Unlock()
}

// take empties the shards into an emptied histogram and returns the outcomes.
func (r *recent) take(into latency) (sum tally) {
	into.Reset()
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		into.Merge(s.acquired.Histogram)
		s.acquired.Reset()
		for o, n := range s.outcomes {
			sum[o] += n
		}
		s.outcomes = tally{}
		s.mu.Unlock()
	}
	return sum
}
