package load

import (
	"runtime"
	"time"
)

// cost is what this process has used so far, or within a phase.
type cost struct {
	at     time.Duration
	cpu    time.Duration
	allocs uint64
	bytes  uint64
}

// readCost stops the world for a moment, so it is called only before the
// callers start and after they have ended.
func readCost(c clock) cost {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{at: c.now(), cpu: cpuTime(), allocs: m.Mallocs, bytes: m.TotalAlloc}
}

// since returns what was used between two readings.
func (c cost) since(before cost) cost {
	return cost{c.at - before.at, c.cpu - before.cpu, c.allocs - before.allocs, c.bytes - before.bytes}
}
