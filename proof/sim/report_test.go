package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Report is the result of one seed or many.
type Report struct {
	Seeds     int
	Simulated time.Duration // on the simulated clock, all seeds added up
	Took      time.Duration // on the real one
	// Counts says how often things happened, by name: "grants", "extensions",
	// "refusals", "releases", …
	Counts map[string]int
	// Faults counts the faults by kind.
	Faults     map[string]int
	Violations []Violation
}

// A Violation is a property that did not hold.
type Violation struct {
	Seed uint64 // reproduces it
	Rule string // such as "R13"; "exclusion" for the one that matters
	What string
}

func (v Violation) String() string { return fmt.Sprintf("seed %d: %s: %s", v.Seed, v.Rule, v.What) }

// Count adds to one of the counts.
func (r *Report) Count(name string, n int) {
	if r.Counts == nil {
		r.Counts = make(map[string]int)
	}
	r.Counts[name] += n
}

// Fault counts a fault of a kind.
func (r *Report) Fault(kind string) {
	if r.Faults == nil {
		r.Faults = make(map[string]int)
	}
	r.Faults[kind]++
}

// Violate records that a property did not hold.
func (r *Report) Violate(seed uint64, rule, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{Seed: seed, Rule: rule, What: fmt.Sprintf(format, args...)})
}

// Add adds the results of other seeds to this report. The caller sets Took.
func (r *Report) Add(other *Report) {
	r.Seeds += other.Seeds
	r.Simulated += other.Simulated
	for name, n := range other.Counts {
		r.Count(name, n)
	}
	for kind, n := range other.Faults {
		if r.Faults == nil {
			r.Faults = make(map[string]int)
		}
		r.Faults[kind] += n
	}
	r.Violations = append(r.Violations, other.Violations...)
}

// violationsShown is how many violations String prints.
const violationsShown = 20

// String returns the report as `make sim` prints it.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %.2f simulated hours in %v\n", r.Seeds, r.Simulated.Hours(), r.Took.Round(100*time.Millisecond))
	fmt.Fprintf(&b, "  happened: %s\n", listed(r.Counts))
	fmt.Fprintf(&b, "  faults:   %s\n", listed(r.Faults))
	fmt.Fprintf(&b, "  violations: %d\n", len(r.Violations))
	for _, v := range r.Violations[:min(len(r.Violations), violationsShown)] {
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
