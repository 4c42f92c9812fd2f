package faults

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/proof/faults/measure"
)

// latencies count how long granted attempts took, in the buckets of
// measure.Histogram: by the kind of the fault that was at work, and under
// healthy if there was none. An attempt counts for the faults that its process
// could feel when it began and when it ended. Nodes that are still coming back
// from an earlier fault are not told apart. JSON has only the buckets that are
// not empty.
type latencies map[string]map[int]uint64

const healthy = "none"

// add adds those of another process.
func (l latencies) add(other latencies) {
	for kind, buckets := range other {
		if l[kind] == nil {
			l[kind] = make(map[int]uint64)
		}
		for i, n := range buckets {
			l[kind][i] += n
		}
	}
}

// times returns the figures of one kind.
func (l latencies) times(kind string) Times {
	at := func(q float64) (time.Duration, uint64) {
		return measure.Quantile(func(i int) uint64 { return l[kind][i] }, q)
	}
	median, count := at(0.5)
	p99, _ := at(0.99)
	most, _ := at(1)
	return Times{Count: int(count), Median: median, P99: p99, Most: most}
}

// A stopwatch measures the attempts of one process.
type stopwatch struct {
	kinds []string // the last is healthy
	took  []measure.Histogram
	now   atomic.Int64 // index of the kind that is at work, or several
}

// several stands for more than one kind at once. Attempts then count for none.
const several = -1

func newStopwatch(kinds []string) *stopwatch {
	w := &stopwatch{kinds: append(append([]string(nil), kinds...), healthy)}
	w.took = make([]measure.Histogram, len(w.kinds))
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

// record counts an attempt that began under one state and ended under another.
// If it is healthy at one end only, the attempt is the fault's.
func (w *stopwatch) record(began, ended int64, took time.Duration) {
	switch {
	case began == several || ended == several:
		return
	case began == w.healthy():
		began = ended
	case ended != w.healthy() && ended != began:
		return
	}
	w.took[began].Add(took)
}

func (w *stopwatch) latencies() latencies {
	all := make(latencies)
	for i, kind := range w.kinds {
		if counts := maps.Collect(w.took[i].Counts()); len(counts) > 0 {
			all[kind] = counts
		}
	}
	return all
}
