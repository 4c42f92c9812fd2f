package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Report is what one seed, or many, came to.
type Report struct {
	Seeds     int
	Simulated time.Duration // on the simulated clock, all seeds together
	Took      time.Duration // on the real one
	// Counts says how much happened, by name: "grants", "extensions", "refusals", "releases" …
	Counts map[string]int
	// Faults says what went wrong on purpose, by kind.
	Faults     map[string]int
	Violations []Violation
}

// A Violation is a property that did not hold.
type Violation struct {
	Seed uint64 // runs it again
	Rule string // of the rules, such as "R13"; "exclusion" for the one that matters
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

// Fault notes a fault of a kind.
func (r *Report) Fault(kind string) {
	if r.Faults == nil {
		r.Faults = make(map[string]int)
	}
	r.Faults[kind]++
}

// Violate notes that a property did not hold.
func (r *Report) Violate(seed uint64, rule, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{Seed: seed, Rule: rule, What: fmt.Sprintf(format, args...)})
}

// Add puts what other seeds came to into this report. Took is left to whoever measures it.
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

// violationsShown bounds what String prints of the violations.
const violationsShown = 20

// String is the report as `make sim` prints it.
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
