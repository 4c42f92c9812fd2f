package redlock

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts times by magnitude. Bucket 0 has those below 1,024 ns, and
// each further bucket reaches twice as far as the one before, so that a
// quantile is known within a factor of two. The last bucket has all times from
// 68.7 s on.
type Histogram struct {
	// Counts has the number of times in each bucket.
	Counts [28]uint64 `json:"counts"`
	// Sum is the sum of all times; divided by Total, it is their mean.
	Sum time.Duration `json:"sum_ns"`
}

// firstBits is the power of two, in nanoseconds, at which the first bucket
// ends; lastBucket is open.
const (
	firstBits  = 10
	lastBucket = len(Histogram{}.Counts) - 1
)

// Bound returns where a bucket ends. A time equal to the bound is in the next
// bucket. The bound of the last bucket is the longest time.Duration.
func (Histogram) Bound(bucket int) time.Duration {
	if bucket >= lastBucket {
		return math.MaxInt64
	}
	return 1 << (firstBits + bucket)
}

// Total returns how many times there are.
func (h Histogram) Total() uint64 {
	var total uint64
	for _, n := range h.Counts {
		total += n
	}
	return total
}

// Quantile estimates the time that a fraction q of all times, from 0 to 1, does
// not exceed. It assumes that the times of a bucket are evenly spread. For the
// last bucket, which has no end, it returns the start. It returns zero if there
// are no times, or if q is NaN.
func (h Histogram) Quantile(q float64) time.Duration {
	total := h.Total()
	if total == 0 || math.IsNaN(q) {
		return 0
	}
	// The rank of the time, from 1 to total.
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(total)))
	rank = min(max(rank, 1), total)
	var before uint64
	for bucket, n := range h.Counts {
		if before+n < rank {
			before += n
			continue
		}
		var from time.Duration
		if bucket > 0 {
			from = h.Bound(bucket - 1)
		}
		if bucket == lastBucket {
			return from
		}
		return from + time.Duration(float64(h.Bound(bucket)-from)*float64(rank-before)/float64(n))
	}
	return 0 // not reached: the counts add up to the total
}

// A histogram is a Histogram that times are added to.
type histogram struct {
	counts [lastBucket + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

// bucketOf returns the bucket of a time. Times below zero are in the first.
func bucketOf(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 0))>>firstBits), lastBucket)
}

func (h *histogram) snapshot() Histogram {
	all := Histogram{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		all.Counts[i] = h.counts[i].Load()
	}
	return all
}
