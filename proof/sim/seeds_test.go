package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

var (
	seeds = flag.Int("sim.seeds", map[bool]int{false: 60, true: 20}[redistest.Raceful], "how many seeds TestSeeds runs; under the race detector fewer do")
	seed  = flag.Uint64("sim.seed", 0, "the one seed that TestSeeds runs; if 0, -sim.seeds of them")
	first = flag.Uint64("sim.first", 1, "the seed that TestSeeds begins with")
)

// Whatever masters, network and clients do, the properties hold: see the
// package comment.
func TestSeeds(t *testing.T) {
	begin, many := *first, *seeds
	if *seed > 0 {
		begin, many = *seed, 1
	}
	start := time.Now()
	reports := make([]*Report, many)
	t.Run("all", func(t *testing.T) {
		for i := range reports {
			d := newDraw(begin + uint64(i))
			t.Run(fmt.Sprintf("-sim.seed=%d", d.seed), func(t *testing.T) {
				t.Parallel()
				if many == 1 {
					t.Log(d)
				}
				reports[i] = run(t, d)
				if len(reports[i].Violations) > 0 {
					t.Errorf("%v\n%v", d, reports[i])
				}
			})
		}
	})
	total := sum(reports)
	total.Took = time.Since(start)
	fmt.Printf("running code, seeds from %d: %v", begin, total)
	if many >= 10 {
		assertEnough(t, total)
	}
}

// sum adds up the reports of all seeds that finished.
func sum(reports []*Report) *Report {
	total := &Report{}
	slowest := make(map[string]int)
	for _, r := range reports {
		if r == nil {
			continue // it did not finish
		}
		for name, n := range r.Counts {
			if strings.HasPrefix(name, slowestPrefix) {
				slowest[name] = max(slowest[name], n)
			}
		}
		total.Add(r)
	}
	for name, n := range slowest {
		total.Counts[name] = n
	}
	return total
}

// assertEnough fails if too little happened to prove anything.
func assertEnough(t *testing.T, r *Report) {
	t.Helper()
	for name, least := range map[string]int{
		"grants": 40, "refusals": 40, "releases": 20, "extensions": 2, "renewed holds": 1, "handed over": 1, "numbers": 2, "sets": 1,
	} {
		if got := r.Counts[name]; got < least*r.Seeds {
			t.Errorf("only %d %s in %d seeds: too little to prove anything", got, name, r.Seeds)
		}
	}
	if len(r.Faults) < 20 {
		t.Errorf("only %d kinds of faults struck", len(r.Faults))
	}
}
