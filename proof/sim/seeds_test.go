package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

var (
	seeds = flag.Int("sim.seeds", map[bool]int{false: 60, true: 40}[redistest.Raceful], "how many seeds TestSeeds runs; under the race detector fewer do")
	seed  = flag.Uint64("sim.seed", 0, "the one seed that TestSeeds runs; if 0, -sim.seeds of them")
	first = flag.Uint64("sim.first", 1, "the seed that TestSeeds begins with")
)

// Whatever masters, network and clients do, the properties hold: see the
// package comment. A seed that hangs is named when the tests' time is over.
func TestSeeds(t *testing.T) {
	begin, many := *first, *seeds
	if *seed > 0 {
		begin, many = *seed, 1
	}
	start := time.Now()
	reports := make([]*report, many)
	t.Run("all", func(t *testing.T) {
		for i := range reports {
			d := newDraw(begin + uint64(i))
			t.Run(fmt.Sprintf("-sim.seed=%d", d.seed), func(t *testing.T) {
				t.Parallel()
				if many == 1 {
					t.Log(d)
				}
				reports[i] = run(t, d)
				if len(reports[i].violations) > 0 {
					t.Errorf("%v\n%v", d, reports[i])
				}
			})
		}
	})
	total := newReport()
	for _, r := range reports {
		if r != nil { // it did finish
			total.add(r)
		}
	}
	total.took = time.Since(start)
	fmt.Printf("running code, seeds from %d: %v", begin, total)
	if many >= 10 {
		total.assertEnough(t)
	}
}

// A report is the result of one seed or many.
type report struct {
	seeds           int
	simulated, took time.Duration  // on the simulated clock, all seeds added up, and on the real one
	counts          map[string]int // how often things happened: "grants", "extensions", "refusals", "releases", …
	faults          map[string]int // by kind
	violations      []violation
}

// A violation is a property that did not hold.
type violation struct {
	seed uint64 // reproduces it
	rule string // such as "R13"; "exclusion" for the one that matters
	what string
}

func (v violation) String() string { return fmt.Sprintf("seed %d: %s: %s", v.seed, v.rule, v.what) }

func newReport() *report { return &report{counts: make(map[string]int), faults: make(map[string]int)} }

// add adds the results of another seed.
func (r *report) add(other *report) {
	r.seeds++
	r.simulated += other.simulated
	for name, n := range other.counts {
		r.counts[name] += n
	}
	for kind, n := range other.faults {
		r.faults[kind] += n
	}
	r.violations = append(r.violations, other.violations...)
}

// assertEnough fails if too little happened to prove anything.
func (r *report) assertEnough(t *testing.T) {
	t.Helper()
	for name, least := range map[string]int{
		"grants": 40, "refusals": 40, "releases": 20, "extensions": 2, "renewed holds": 1, "handed over": 1, "numbers": 2, "sets": 1,
	} {
		if got := r.counts[name]; got < least*r.seeds {
			t.Errorf("only %d %s in %d seeds: too little to prove anything", got, name, r.seeds)
		}
	}
	if len(r.faults) < 20 {
		t.Errorf("only %d kinds of faults struck", len(r.faults))
	}
}

// violationsShown is how many violations String prints.
const violationsShown = 20

// String returns the report as `make sim` prints it.
func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %.2f simulated hours in %v\n", r.seeds, r.simulated.Hours(), r.took.Round(100*time.Millisecond))
	fmt.Fprintf(&b, "  happened: %s\n", listed(r.counts))
	fmt.Fprintf(&b, "  faults:   %s\n", listed(r.faults))
	fmt.Fprintf(&b, "  violations: %d\n", len(r.violations))
	for _, v := range r.violations[:min(len(r.violations), violationsShown)] {
		fmt.Fprintf(&b, "    %v\n", v)
	}
	return b.String()
}

func listed(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
