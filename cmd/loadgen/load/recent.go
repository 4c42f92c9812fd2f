package load

import (
	"sync"
	"time"
)

// recent collects what happened since the last sample, to be read during the
// phase. The callers' own histograms must not be read before the end, and
// emptying those of a thousand callers each second would use part of the
// machine that is measured. So callers share a few shards, at the cost of a
// mutex that is nearly always free.
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

// of returns the shard of a caller.
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
