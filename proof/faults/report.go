package faults

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Report is what a run came to.
type Report struct {
	Servers            []string // product and version of each
	NotCovered         string   // why some kinds of faults could not be made; empty if all could
	Processes, Callers int
	Seed               uint64
	Took               time.Duration
	Kinds              int            // how many were to be injected
	Faults             map[string]int // by kind, those that were made; "repair" is what failed injections led to
	Injected           int            // all of them but repairs
	MostAtOnce         int            // nodes that were faulty at one moment
	FailedInjections   map[string]int // by kind, not made or not healed: then the server was started anew
	WhyFailed          map[string]string
	Tally              Tally // of the processes, the run and the history
	Violations         []string
	Findings           []string // mix-ups of replies, locks that vanished, holders that were not told
	Orphans            []string
	Unsettled          []string // what did not come back in time
	Settled            Times    // in the rests
	Trends             []Trend
	Peaks              Sample // the most of each that any process had
}

// Violated reports whether a rule was violated.
func (r *Report) Violated() bool {
	return len(r.Violations)+len(r.Findings)+len(r.Orphans) > 0
}

// NeverMade are the kinds of which every injection failed.
func (r *Report) NeverMade() (kinds []string) {
	for _, kind := range slices.Sorted(maps.Keys(r.FailedInjections)) {
		if r.Faults[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// A run must have all of musts, and after a loss of power what is needed to go
// on with fenced locks too.
var (
	musts = []Count{Grants, Fenced, Sets, FencedSets, Reads, Writes, Upgrades, Downgrades, Permits, InOrder, Queued, Terms, StepsDown,
		Extensions, Renewals}
	mustsAfterPower = []Count{NoFloor, Resets, AfterReset, Renumbered}
)

// Idle names what a run must have and had not once, so that nothing was shown
// of it.
func (r *Report) Idle() (all []string) {
	all = r.Tally.none(musts)
	if r.Faults[powerKind] > 0 {
		all = append(all, r.Tally.none(mustsAfterPower)...)
	}
	return all
}

func (t Tally) none(of []Count) (all []string) {
	for _, what := range of {
		if t[what] == 0 {
			all = append(all, string(what))
		}
	}
	return all
}

// Grown are the quantities that grew.
func (r *Report) Grown() (all []Trend) {
	for _, t := range r.Trends {
		if t.Grows {
			all = append(all, t)
		}
	}
	return all
}

// listShown bounds what is printed of a list.
const listShown = 10

// Print writes the report as text.
func (r *Report) Print(to io.Writer) error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%d servers (%s), %d processes, %d uncontended callers, seed %d, %v", len(r.Servers), r.products(),
		r.Processes, r.Callers, r.Seed, r.Took.Round(100*time.Millisecond))
	say("faults: %d, of %d of %d kinds, %.1f a second; at most %d nodes at once",
		r.Injected, r.kindsMade(), r.Kinds, float64(r.Injected)/r.Took.Seconds(), r.MostAtOnce)
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		say("  %-18s %d", kind, r.Faults[kind])
	}
	if r.NotCovered != "" {
		say("NOT COVERED: %s", r.NotCovered)
	}
	say("counted: %v; %.0f operations a second", r.Tally, float64(r.Tally[Operations])/r.Took.Seconds())
	say("memory: heap at most %d MiB, RSS %d MiB, %d goroutines, %d descriptors in any process",
		r.Peaks.Heap>>20, r.Peaks.RSS>>20, r.Peaks.Goroutines, r.Peaks.Descriptors)
	say("rests: settled after: %v", r.Settled)
	for _, trend := range r.Trends {
		say("%s %v", map[bool]string{true: "GROWS", false: "trend"}[trend.Grows], trend)
	}
	list(say, "failed injections", r.failed())
	list(say, "not settled", r.Unsettled)
	list(say, "orphans", r.Orphans)
	list(say, "mix-ups and other findings", r.Findings)
	list(say, "violations of exclusion", r.Violations)
	_, err := io.WriteString(to, b.String())
	return err
}

type sayer = func(format string, args ...any)

// products names the servers, each product and version once.
func (r *Report) products() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(r.Servers))), ", ")
}

// kindsMade is of how many kinds there was a fault.
func (r *Report) kindsMade() (n int) {
	for kind, times := range r.Faults {
		if kind != repairKind.Name && times > 0 {
			n++
		}
	}
	return n
}

func (r *Report) failed() (all []string) {
	for _, kind := range slices.Sorted(maps.Keys(r.FailedInjections)) {
		all = append(all, fmt.Sprintf("%s: %d; the first: %s", kind, r.FailedInjections[kind], r.WhyFailed[kind]))
	}
	return all
}

func list(say sayer, title string, all []string) {
	say("%s: %d", title, len(all))
	for _, line := range all[:min(len(all), listShown)] {
		say("  %s", line)
	}
}

// report returns what is known at this moment.
func (r *run) report(took time.Duration) *Report {
	o := &r.options
	rep := &Report{Processes: o.Processes, Callers: o.Callers, Seed: o.Seed, Took: took, Kinds: len(r.kinds)}
	rep.Violations, rep.Findings, rep.Tally = r.judge.verdict()
	r.log.mu.Lock()
	rep.Faults, rep.MostAtOnce = maps.Clone(r.log.made), r.log.mostAtOnce
	r.log.mu.Unlock()
	r.results.fill(rep)
	for kind, n := range rep.Faults {
		// The log counts what begins; that it failed is known later.
		n = max(n-rep.FailedInjections[kind], 0)
		rep.Faults[kind] = n
		if kind != repairKind.Name {
			rep.Injected += n
		}
	}
	if err := clocksAvailable(); err != nil {
		rep.NotCovered = "faults of clocks: " + err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rep.Servers, rep.Peaks, rep.Trends = r.servers, r.peaks, slices.Clone(r.trends)
	return rep
}

// results are what the processes and the rests have told, put together.
type results struct {
	counters // of the run

	mu       sync.Mutex // guards the following
	tallies  map[int]Tally
	ended    Tally             // of the processes that are gone
	failures map[string]int    // injections that failed, by kind
	why      map[string]string // the first of each
	orphans  []string
	settles  []time.Duration
	late     []string // what did not settle
}

func newResults() *results {
	return &results{tallies: make(map[int]Tally), ended: make(Tally), failures: make(map[string]int), why: make(map[string]string)}
}

// fill adds what the processes and the rests told.
func (r *results) fill(rep *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep.Tally.add(r.sum())
	rep.Tally.add(r.ended)
	for _, t := range r.tallies {
		rep.Tally.add(t)
	}
	rep.FailedInjections, rep.WhyFailed = maps.Clone(r.failures), maps.Clone(r.why)
	rep.Orphans, rep.Unsettled, rep.Settled = slices.Clone(r.orphans), slices.Clone(r.late), times(r.settles)
}

func (r *results) tally(name int, t Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies[name] = t
}

// fold is called when a process is gone. Of one that was killed, what it did in
// its last half second is not known.
func (r *results) fold(name int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended.add(r.tallies[name])
	delete(r.tallies, name)
}

func (r *results) failedInjection(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures[kind]++; r.failures[kind] == 1 {
		r.why[kind] = err.Error()
	}
}

func (r *results) rested(took time.Duration, looked bool, keys int, orphans []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(Rests)
	if looked {
		r.count(Looked)
	}
	r.countN(Keys, uint64(keys))
	r.settles = append(r.settles, took)
	if len(r.orphans) < mostOddities {
		r.orphans = append(r.orphans, orphans...)
	}
}

func (r *results) unsettled(what []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(Rests)
	r.late = append(r.late, what[:min(len(what), 3)]...)
}

// retire takes the samples of a process that is gone. One that was killed on
// purpose counts for the peaks, but did not live long enough for a slope.
func (r *run) retire(name string, samples []Sample, killed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range samples {
		r.peaks.Heap, r.peaks.RSS = max(r.peaks.Heap, s.Heap), max(r.peaks.RSS, s.RSS)
		r.peaks.Goroutines = max(r.peaks.Goroutines, s.Goroutines)
		r.peaks.Descriptors = max(r.peaks.Descriptors, s.Descriptors)
	}
	if r.options.Soak && !killed {
		r.trends = append(r.trends, trends(name, samples)...)
	}
}

// Times are the quantiles of some durations.
type Times struct {
	Count             int
	Median, P99, Most time.Duration
}

// times sums up durations.
func times(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	all = slices.Sorted(slices.Values(all))
	return Times{
		Count: len(all), Median: all[len(all)/2], P99: all[(len(all)*99+99)/100-1], Most: all[len(all)-1],
	}
}

// String returns the times for a table: their median, tail and count.
func (t Times) String() string {
	if t.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("median %v, p99 %v, most %v (%d)", short(t.Median), short(t.P99), short(t.Most), t.Count)
}

// short has three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
