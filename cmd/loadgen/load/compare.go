package load

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// condition is what --fail-if forbids: that a figure differs from the earlier
// result by more than a percentage in one direction.
type condition struct {
	metric metric
	above  bool    // the change must not be above the limit; otherwise not below
	limit  float64 // of the change, in percent
}

var conditionForm = regexp.MustCompile(`^\s*([a-z0-9_]+)\s*([<>])\s*([+-]?\d{1,9}(?:\.\d{1,9})?)\s*%\s*$`)

// UnmarshalText reads "p99>+10%" and "pairs_per_s<-5%".
func (c *condition) UnmarshalText(text []byte) error {
	parts := conditionForm.FindStringSubmatch(string(text))
	if parts == nil {
		return errors.New(`want METRIC>+N% or METRIC<-N%, as "p99>+10%" or "pairs_per_s<-5%"`)
	}
	m, ok := findMetric(parts[1])
	if !ok {
		return fmt.Errorf("no metric %q; choose from %s", parts[1], strings.Join(metricNames(), ", "))
	}
	limit, err := strconv.ParseFloat(parts[3], 64)
	*c = condition{metric: m, above: parts[2] == ">", limit: limit}
	return err
}

// String returns the form that UnmarshalText reads.
func (c condition) String() string {
	sign := "<"
	if c.above {
		sign = ">"
	}
	return fmt.Sprintf("%s%s%+g%%", c.metric.name, sign, c.limit)
}

// missed reports whether the condition forbids the change.
func (c condition) missed(change float64) bool {
	if c.above {
		return change > c.limit
	}
	return change < c.limit
}

// change returns by how many percent a figure differs from the earlier one.
// From zero to something is infinite.
func change(earlier, now float64) float64 {
	if earlier == now {
		return 0
	}
	return (now - earlier) / math.Abs(earlier) * 100
}

// maxResult bounds the size of the earlier result.
const maxResult = 64 << 20

// readResult reads the output of -o json.
func readResult(name string) (*result, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxResult+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxResult {
		return nil, fmt.Errorf("%s: larger than any result", name)
	}
	r := &result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is no result of -o json: %w", name, err)
	}
	if r.Schema != schema {
		return nil, fmt.Errorf("%s is a result of schema %d, not %d", name, r.Schema, schema)
	}
	return r, nil
}

// readEarlier reads the earlier result before anything is measured. Each
// measured implementation must be in it, since a condition that cannot be
// checked would seem to be met.
func (f *flags) readEarlier() error {
	if f.Compare == "" {
		if len(f.FailIf) > 0 {
			return errors.New("--fail-if needs --compare")
		}
		return nil
	}
	r, err := readResult(f.Compare)
	if err != nil {
		return fmt.Errorf("--compare: %w", err)
	}
	for _, impl := range f.Impl {
		then := runsOf(r.Runs, impl)
		if len(then) == 0 {
			return fmt.Errorf("--compare: %s has no run of %s", f.Compare, impl)
		}
		if slices.ContainsFunc(then, runResult.fruitless) {
			return fmt.Errorf("--compare: %s has a run of %s in which nothing was granted", f.Compare, impl)
		}
	}
	f.earlier = r
	return nil
}

// comparison is one figure of one implementation, before and now: the medians.
type comparison struct {
	Impl      string  `json:"impl"`
	Metric    string  `json:"metric"`
	Earlier   float64 `json:"earlier"`
	Now       float64 `json:"now"`
	Condition string  `json:"fail_if,omitempty"`
	Missed    bool    `json:"missed,omitempty"`
	Unknown   bool    `json:"unknown,omitempty"` // some run lacks the figure, like the latency of a run without a grant
}

// change returns the change as it is printed.
func (x comparison) change() string {
	if x.Unknown {
		return "no figure"
	}
	return fmt.Sprintf("%+.1f%%", change(x.Earlier, x.Now))
}

// shown are the figures that are compared even if no condition names them.
var shown = []string{"pairs_per_s", "p50", "p99", "cpu_us_per_pair"}

// compare compares the runs with the earlier ones.
func compare(f *flags, runs []runResult) (all []comparison) {
	for _, impl := range f.Impl {
		then, now := runsOf(f.earlier.Runs, impl), runsOf(runs, impl)
		if len(then) == 0 || len(now) == 0 {
			continue // interrupted before that run
		}
		one := func(m metric) comparison {
			known := !slices.ContainsFunc(slices.Concat(then, now), func(r runResult) bool { return !m.of(r) })
			return comparison{Impl: impl, Metric: m.name, Earlier: medianOf(then, m.figure), Now: medianOf(now, m.figure), Unknown: !known}
		}
		for _, name := range shown {
			if !slices.ContainsFunc(f.FailIf, func(c condition) bool { return c.metric.name == name }) {
				m, _ := findMetric(name)
				all = append(all, one(m))
			}
		}
		for _, c := range f.FailIf {
			x := one(c.metric)
			// A condition that cannot be checked has not been met.
			x.Unknown = x.Unknown || math.IsNaN(change(x.Earlier, x.Now)) // of infinite figures
			x.Condition, x.Missed = c.String(), x.Unknown || c.missed(change(x.Earlier, x.Now))
			all = append(all, x)
		}
	}
	return all
}

func medianOf(runs []runResult, figure func(runResult) float64) float64 {
	return median(figures(runs, figure))
}

// errMissed makes the exit code 99.
var errMissed = errors.New("a --fail-if was missed")

// judgeComparison returns an error that says which conditions were missed.
func judgeComparison(all []comparison) error {
	var errs []error
	for _, x := range all {
		if x.Missed {
			errs = append(errs, fmt.Errorf("%w: %s: %s was %s and is %s (%s), %s", errMissed, x.Impl, x.Metric,
				number(x.Earlier), number(x.Now), x.change(), x.Condition))
		}
	}
	return errors.Join(errs...)
}

// writeComparison prints how the figures changed.
func writeComparison(out io.Writer, f *flags, r result) {
	if f.earlier == nil || len(r.Compared) == 0 {
		return
	}
	fmt.Fprintf(out, "\nagainst %s:\n", f.Compare)
	if text := otherwise(f, r.Runs); text != "" {
		fmt.Fprintf(out, "(%s)\n", text)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "implementation\tmetric\tearlier\tnow\tchange\t\t")
	for _, x := range r.Compared {
		verdict := ""
		switch {
		case x.Missed:
			verdict = "MISSED " + x.Condition
		case x.Condition != "":
			verdict = "not " + x.Condition
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Impl, x.Metric, number(x.Earlier), number(x.Now), x.change(), verdict)
	}
	t.Flush()
}

// otherwise describes how the earlier runs differ from these in settings that
// must be equal for a comparison, or returns "". The length matters only for a
// condition on a counted number, and always differs a little.
func otherwise(f *flags, now []runResult) string {
	then := f.earlier.Runs
	if len(then) == 0 || len(now) == 0 {
		return ""
	}
	a, b := circumstances(then[0]), circumstances(now[0])
	if x, y := then[0].Work, now[0].Work; x != nil && y != nil && x.String() != y.String() {
		a, b = fmt.Sprintf("%s, %v", a, x), fmt.Sprintf("%s, %v", b, y)
	}
	length := func(r runResult) float64 { return r.DurationS }
	counted := slices.ContainsFunc(f.FailIf, func(c condition) bool { return c.metric.counted() })
	if x, y := medianOf(then, length), medianOf(now, length); counted && math.Abs(x-y) > max(x, y)/10 {
		a, b = a+fmt.Sprintf(", %.3gs", x), b+fmt.Sprintf(", %.3gs", y)
	}
	if a == b {
		return ""
	}
	return fmt.Sprintf("the earlier runs were made otherwise: %s; these: %s", a, b)
}

// circumstances describes the settings of one run that must be equal for a
// comparison.
func circumstances(r runResult) string {
	s := fmt.Sprintf("%s, %s, %s loop", count(r.N, r.Backend+" node"), count(r.Clients, "caller"), cmp.Or(r.Loop, "closed"))
	if r.Rate > 0 {
		s += fmt.Sprintf(" at %s/s", plain(r.Rate))
	}
	return s
}
