package machines

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/proof/sim"
)

// Options configure the simulation of one seed or many.
type Options struct {
	// Broken is the rule that is broken on purpose. If empty, none is.
	Broken Broken
	// Only is the one rule that is checked, such as "exclusion". If empty, all
	// are.
	Only string
	// Trace gets one line for each event. If nil, nothing is printed.
	Trace io.Writer
}

// Run simulates one seed. The hash covers all events: two runs of one seed have
// the same hash, on every machine.
func Run(seed uint64, o Options) (report *sim.Report, hash uint64) {
	defer sim.Watchdog(seed, sim.Patience).Stop()
	w := newWorld(seed, o)
	w.run()
	return &w.report, w.hash
}

// RunMany simulates seeds from first on, each single-threaded, on all
// processors, and adds up their reports. It stops early after so many
// violations that more would tell nothing.
func RunMany(first uint64, seeds int, o Options) *sim.Report {
	begun := time.Now()
	o.Trace = nil // several at once would garble it
	var next atomic.Uint64
	var mu sync.Mutex // guards the following
	total := new(sim.Report)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= uint64(seeds) {
					return
				}
				report, _ := Run(first+i, o)
				mu.Lock()
				total.Add(report)
				enough := len(total.Violations) >= violationsMost
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	wg.Wait()
	total.Took = time.Since(begun)
	return total
}

const violationsMost = 20
