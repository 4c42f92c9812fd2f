// Package measure has what the runs and the measurements of package faults
// measure with: durations in buckets, and resident memory.
package measure

import (
	"iter"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	bucketBits = 5 // 32 buckets for each doubling
	// Buckets is the number of buckets. The last one ends at 2^36 ns, about a
	// minute, and also has what took longer.
	Buckets = (36 - bucketBits + 1) << bucketBits
)

// A Histogram counts durations in buckets, so that a quantile is exact to 3 %.
// The zero value is empty. Add allocates nothing and is safe for concurrent
// use.
type Histogram [Buckets]atomic.Uint64

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) { h[bucketOf(d)].Add(1) }

// Quantile returns the end of the bucket that has the q-th part of the
// durations, or 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	at, _ := Quantile(func(bucket int) uint64 { return h[bucket].Load() }, q)
	return at
}

// Counts yields the buckets that are not empty.
func (h *Histogram) Counts() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for i := range h {
			if n := h[i].Load(); n > 0 && !yield(i, n) {
				return
			}
		}
	}
}

// bucketOf takes the highest bit and the five that follow it. Durations below
// 32 ns have a bucket each.
func bucketOf(d time.Duration) int {
	ns := uint64(max(d, 0))
	if ns < 1<<bucketBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - bucketBits - 1
	return min(shift<<bucketBits+int(ns>>shift), Buckets-1)
}

// endOf returns the least duration beyond a bucket.
func endOf(bucket int) time.Duration {
	if bucket < 1<<bucketBits {
		return time.Duration(bucket + 1)
	}
	shift := bucket>>bucketBits - 1
	return time.Duration(uint64(bucket-shift<<bucketBits+1) << shift)
}

// Quantile is Histogram.Quantile for counts that are kept elsewhere. It also
// returns the number of durations.
func Quantile(count func(bucket int) uint64, q float64) (at time.Duration, all uint64) {
	for i := range Buckets {
		all += count(i)
	}
	rank, seen := max(1, uint64(q*float64(all))), uint64(0)
	for i := range Buckets {
		if seen += count(i); seen >= rank {
			return endOf(i), all
		}
	}
	return 0, all
}

// Mebibytes formats a number of bytes.
func Mebibytes(n uint64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }

// ResidentMemory returns the bytes that /proc/self/statm tells, or 0 on systems
// without it.
func ResidentMemory() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}
