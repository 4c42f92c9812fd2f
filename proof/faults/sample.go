package faults

import (
	"fmt"
	"os"
	"runtime"
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
