package faults

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"
)

// A Sample is what a process has of what it could lose: memory, goroutines and
// descriptors.
type Sample struct {
	T                       int64  // on the system's monotonic clock
	Heap, RSS               uint64 // bytes; the heap after a collection
	Goroutines, Descriptors int    // descriptors and RSS are 0 where the system does not tell
	Resting                 bool   // no attempt was under way
}

// takeSample collects garbage first: what is left is what is kept.
func takeSample(now int64, resting bool) *Sample {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := &Sample{T: now, Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine(), Resting: resting}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.Descriptors = len(fds) - 1 // one is that by which the folder is read
	}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident uint64 // in pages
		_, _ = fmt.Sscan(string(statm), &size, &resident)
		s.RSS = resident * uint64(os.Getpagesize())
	}
	return s
}

// A Trend is how a quantity of a process developed over the second half of its
// life, when caches and buffers have their size.
type Trend struct {
	Process, Quantity string
	Samples           int
	// Level is the median, PerHour the slope: the median of those between all
	// pairs of samples (Theil and Sen), which a few wild samples do not move.
	// Surely is the least slope that can be believed: the lower bound of a
	// confidence interval of three standard deviations.
	Level, PerHour, Surely float64
	// Allowed is by how much it may grow over the time that was looked at;
	// Grows says that it surely grew by more.
	Allowed float64
	Over    time.Duration
	Grows   bool
}

// String returns the trend for a report.
func (t Trend) String() string {
	return fmt.Sprintf("%s of %s: level %.4g, slope %+.3g an hour, surely %+.3g (%d samples over %v, %.3g allowed)",
		t.Quantity, t.Process, t.Level, t.PerHour, t.Surely, t.Samples, t.Over.Round(time.Second), t.Allowed)
}

// A reading is a quantity at a time.
type reading struct {
	at    time.Duration
	value float64
}

const (
	// fewestReadings are needed for a verdict: with fewer, three standard
	// deviations are never reached.
	fewestReadings = 12
	// mostPoints bounds the pairs that are compared. More readings than that
	// are put into groups, of which each counts with its median.
	mostPoints = 400
	// confidence is how many standard deviations a slope must be from none.
	confidence = 3
	// growthAllowed is which part of its level a quantity may grow by, where
	// that is more than the floor of its kind.
	growthAllowed = 0.10
)

// trendOf judges the second half of the readings, which are in order of time.
// It is not growth what stays below a tenth of the level or below the floor,
// over the time that was looked at.
func trendOf(readings []reading, floor float64) (t Trend) {
	if len(readings) == 0 {
		return t
	}
	middle := (readings[0].at + readings[len(readings)-1].at) / 2
	first, _ := slices.BinarySearchFunc(readings, middle, func(r reading, at time.Duration) int { return cmp.Compare(r.at, at) })
	points := thin(readings[first:])
	t.Samples = len(readings) - first
	t.Level = medianOf(points, func(r reading) float64 { return r.value })
	t.Allowed = max(growthAllowed*t.Level, floor)
	if len(points) < fewestReadings {
		return t
	}
	t.Over = points[len(points)-1].at - points[0].at
	t.PerHour, t.Surely = slope(points)
	t.Grows = t.Surely*t.Over.Hours() > t.Allowed
	return t
}

// thin puts neighbours together until there are few enough.
func thin(readings []reading) []reading {
	group := (len(readings) + mostPoints - 1) / mostPoints
	if group <= 1 {
		return readings
	}
	var points []reading
	for part := range slices.Chunk(readings, group) {
		points = append(points, reading{part[len(part)/2].at, medianOf(part, func(r reading) float64 { return r.value })})
	}
	return points
}

func medianOf(readings []reading, of func(reading) float64) float64 {
	values := make([]float64, len(readings))
	for i, r := range readings {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// slope is the median of the slopes of all pairs, for an hour, and the lower
// bound of its confidence interval (Sen 1968): the number of pairs that rise
// less those that fall has, if there is no slope, the standard deviation
// √(n(n−1)(2n+5)/18).
func slope(points []reading) (median, least float64) {
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.at > a.at {
				slopes = append(slopes, (b.value-a.value)/(b.at-a.at).Hours())
			}
		}
	}
	if len(slopes) == 0 {
		return 0, 0
	}
	slices.Sort(slopes)
	n := float64(len(points))
	deviation := math.Sqrt(n * (n - 1) * (2*n + 5) / 18)
	rank := int((float64(len(slopes)) - confidence*deviation) / 2)
	return slopes[len(slopes)/2], slopes[max(rank, 0)]
}

// quantities are what a process could lose, and by how much each may grow at
// least. A client keeps what it once needed, up to 16 MiB for a node that
// stalls (R26), so that its heap may rise in steps for long, as the worst
// moment so far grows worse.
var quantities = []struct {
	name  string
	floor float64
	of    func(Sample) float64
}{
	{"heap", 16 << 20, func(s Sample) float64 { return float64(s.Heap) }},
	{"RSS", 32 << 20, func(s Sample) float64 { return float64(s.RSS) }},
	{"goroutines", 20, func(s Sample) float64 { return float64(s.Goroutines) }},
	{"descriptors", 8, func(s Sample) float64 { return float64(s.Descriptors) }},
}

// trends judges a process by its samples. Those that were taken at rest are
// judged by themselves too, where there are enough: they vary least.
func trends(process string, samples []Sample) (all []Trend) {
	for _, q := range quantities {
		for _, resting := range []bool{false, true} {
			var readings []reading
			for _, s := range samples {
				if s.Resting == resting {
					readings = append(readings, reading{time.Duration(s.T), q.of(s)})
				}
			}
			t := trendOf(readings, q.floor)
			if t.Over == 0 {
				continue // too few to say anything
			}
			t.Process, t.Quantity = process, q.name
			if resting {
				t.Quantity += " at rest"
			}
			all = append(all, t)
		}
	}
	return all
}
