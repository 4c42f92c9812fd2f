package faults

import (
	"math"
	"sync/atomic"
	"time"
)

// How long attempts that were granted took while a fault of one kind was at work, and no other: each is put to the
// faults that its process could feel when it began and when it ended. Nodes that are still coming back from an earlier
// fault are not told apart.

// tails are times by the kind of fault, and under healthy those when there was none. In JSON only the buckets that hold
// something are told.
type tails map[string]map[int]uint64

const healthy = "none"

// add puts the times of another process to these.
func (t tails) add(other tails) {
	for kind, buckets := range other {
		if t[kind] == nil {
			t[kind] = make(map[int]uint64)
		}
		for i, n := range buckets {
			t[kind][i] += n
		}
	}
}

// A bucket holds the times of an eighth of an octave from a microsecond on, so that a quantile is known to 9 %.
const (
	perOctave   = 8
	tailBuckets = 27 * perOctave // up to two minutes
)

func bucketOf(d time.Duration) int {
	us := max(float64(d)/float64(time.Microsecond), 1)
	return min(int(math.Log2(us)*perOctave), tailBuckets-1)
}

// boundOf is where a bucket ends.
func boundOf(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket+1)/perOctave) * float64(time.Microsecond))
}

// quantile is the end of the bucket that holds the q-th part of the times, and how many times there are.
func quantile(buckets map[int]uint64, q float64) (at time.Duration, count uint64) {
	for _, n := range buckets {
		count += n
	}
	rank, seen := uint64(math.Ceil(q*float64(count))), uint64(0)
	for i := range tailBuckets {
		if seen += buckets[i]; count > 0 && seen >= rank {
			return boundOf(i), count
		}
	}
	return 0, count
}

// A stopwatch measures the attempts of one process.
type stopwatch struct {
	kinds  []string // the last is healthy
	counts []atomic.Uint64
	now    atomic.Int64 // index of the kind that is at work, or several
}

// several stands for more than one kind at once: nothing can be said about attempts then.
const several = -1

func newStopwatch(kinds []string) *stopwatch {
	w := &stopwatch{kinds: append(append([]string(nil), kinds...), healthy)}
	w.counts = make([]atomic.Uint64, len(w.kinds)*tailBuckets)
	w.now.Store(w.healthy())
	return w
}

func (w *stopwatch) healthy() int64 { return int64(len(w.kinds) - 1) }

// set takes the kinds that are at work from now on.
func (w *stopwatch) set(kinds []string) {
	state := w.healthy()
	for _, kind := range kinds {
		for i, known := range w.kinds {
			switch {
			case known != kind:
			case state == w.healthy() || state == int64(i):
				state = int64(i)
			default:
				state = several
			}
		}
	}
	w.now.Store(state)
}

// record counts an attempt that began under the one state and ended under the other. One that a fault fell into, or that
// was still waiting when it ended, is the fault's.
func (w *stopwatch) record(began, ended int64, took time.Duration) {
	switch {
	case began == several || ended == several:
		return
	case began == w.healthy():
		began = ended
	case ended != w.healthy() && ended != began:
		return
	}
	w.counts[began*tailBuckets+int64(bucketOf(took))].Add(1)
}

func (w *stopwatch) tails() tails {
	all := make(tails)
	for i, kind := range w.kinds {
		for b := range tailBuckets {
			if n := w.counts[i*tailBuckets+b].Load(); n > 0 {
				if all[kind] == nil {
					all[kind] = make(map[int]uint64)
				}
				all[kind][b] = n
			}
		}
	}
	return all
}
