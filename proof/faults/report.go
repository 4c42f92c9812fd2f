package faults

import (
	"maps"
	"slices"
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

// musts are what every run must have, or every one after a loss of power.
var musts = []struct {
	count Count
	what  string
	power bool
}{
	{Grants, "locks", false},
	{Fenced, "fenced locks", false},
	{Sets, "locks on several resources", false},
	{FencedSets, "fenced locks on several resources", false},
	{Reads, "readers", false},
	{Writes, "writers", false},
	{Upgrades, "upgrades", false},
	{Downgrades, "downgrades", false},
	{Permits, "permits", false},
	{InOrder, "fair locks", false},
	{Queued, "places in a queue", false},
	{Terms, "leaders", false},
	{StepsDown, "leaders that stepped down", false},
	{Extensions, "extensions", false},
	{Renewals, "renewals", false},
	{NoFloor, "fenced locks that were refused since the nodes had no floor", true},
	{Resets, "resets of the fence", true},
	{AfterReset, "fenced locks after a reset", true},
	{Renumbered, "second rounds with a higher number", true},
}

// Idle names what a run must have and had not once, so that nothing was shown
// of it. After a loss of power that includes what is needed to go on with
// fenced locks.
func (r *Report) Idle() (all []string) {
	for _, m := range musts {
		if r.Tally[m.count] == 0 && (!m.power || r.Faults[powerKind] > 0) {
			all = append(all, m.what)
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

// fill adds what the processes and the rests told.
func (r *results) fill(rep *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep.Tally.add(*r.sum())
	rep.Tally.add(r.ended)
	for _, t := range r.tallies {
		rep.Tally.add(t)
	}
	rep.FailedInjections, rep.WhyFailed = maps.Clone(r.failures), maps.Clone(r.why)
	rep.Orphans, rep.Unsettled, rep.Settled = slices.Clone(r.orphans), slices.Clone(r.late), times(r.settles)
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
