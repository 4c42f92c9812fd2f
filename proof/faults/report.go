package faults

import (
	"maps"
	"slices"
	"time"
)

// A Report is what a run came to.
type Report struct {
	Servers                 []string // product and version of each
	NotCovered              string   // why some kinds of faults could not be made; empty if all could
	Processes, Callers      int
	Seed                    uint64
	Took                    time.Duration
	Kinds                   int            // how many were to be injected
	Faults                  map[string]int // by kind, those that were made; "repair" is what failed injections led to
	Injected                int            // all of them but repairs
	MostAtOnce, Majorities  int            // nodes faulty at one moment; how often no quorum was left
	FailedInjections        map[string]int // by kind, not made or not healed: then the server was started anew
	WhyFailed               map[string]string
	Tally                   Tally
	Events, ContendedGrants int // of the history
	Resets, AfterReset      int // of the fence; grants with a number above the floor of the first
	Empty, Overdue          int // grants that were over when told; locks that outlived their validity
	Violations              []string
	Findings                []string // mix-ups of replies, locks that vanished, holders that were not told
	Excused                 int      // locks that vanished while nodes forgot
	Rests                   int
	Looked                  int // in how many rests orphans were looked for: not where a client had been killed lately, or all keys had ended
	Keys                    int // of living holds, found in the rests
	Orphans                 []string
	Unsettled               []string // what did not come back in time
	Settled                 Times    // in the rests
	Latency                 map[string]Times
	Votes                   map[string]Times // from the end of a fault to a counted vote
	Trends                  []Trend
	Peaks                   Sample // the most of each that any process had
	EventsWaited            int    // most that waited for slow processes
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

// Idle names what a run must have and had not once, so that nothing was shown
// of it. After a loss of power that includes what is needed to go on with
// fenced locks.
func (r *Report) Idle() (all []string) {
	t := &r.Tally
	least := func(n uint64, what string) {
		if n == 0 {
			all = append(all, what)
		}
	}
	least(t[Grants], "locks")
	least(t[Fenced], "fenced locks")
	least(t[Sets], "locks on several resources")
	least(t[FencedSets], "fenced locks on several resources")
	least(t[Reads], "readers")
	least(t[Writes], "writers")
	least(t[Upgrades], "upgrades")
	least(t[Downgrades], "downgrades")
	least(t[Permits], "permits")
	least(t[InOrder], "fair locks")
	least(t[Queued], "places in a queue")
	least(t[Terms], "leaders")
	least(t[StepsDown], "leaders that stepped down")
	least(t[Extensions], "extensions")
	least(t[Renewals], "renewals")
	if r.Faults[powerKind] > 0 {
		least(t[NoFloor], "fenced locks that were refused since the nodes had no floor")
		least(uint64(r.Resets), "resets of the fence")
		least(uint64(r.AfterReset), "fenced locks after a reset")
		least(t[Renumbered], "second rounds with a higher number")
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
	rep := &Report{Processes: o.Processes, Callers: o.Callers, Seed: o.Seed, Took: took, Latency: map[string]Times{}}
	violations, oddities, x := r.judge.verdict()
	rep.Violations, rep.Findings = violations, oddities
	r.judge.mu.Lock()
	rep.Events, rep.ContendedGrants, rep.Empty, rep.Overdue = x.Events, x.Grants, x.Empty, x.Overdue
	rep.Excused, rep.EventsWaited = r.judge.excused, r.judge.mostWait
	rep.Resets, rep.AfterReset = r.judge.resets, r.judge.above
	r.judge.mu.Unlock()
	r.log.mu.Lock()
	rep.Faults, rep.MostAtOnce, rep.Majorities = maps.Clone(r.log.counts), r.log.mostAtOnce, r.log.majorities
	r.log.mu.Unlock()
	r.results.fill(rep)
	rep.Kinds = len(r.kinds)
	for kind, n := range rep.Faults {
		// The log counts what begins; that it failed is known later.
		n = max(n-rep.FailedInjections[kind], 0)
		rep.Faults[kind] = n
		if kind != repairKind.Name {
			rep.Injected += n
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := clocksAvailable(); err != nil {
		rep.NotCovered = "faults of clocks: " + err.Error()
	}
	rep.Servers, rep.Peaks, rep.Trends = r.servers, r.peaks, slices.Clone(r.trends)
	return rep
}

// fill adds what the processes told.
func (r *results) fill(rep *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep.Tally = r.ended
	for _, t := range r.tallies {
		rep.Tally.add(t)
	}
	all := make(latencies)
	all.add(r.endedTimes)
	for _, l := range r.latencies {
		all.add(l)
	}
	for kind := range all {
		rep.Latency[kind] = all.times(kind)
	}
	rep.Votes = map[string]Times{}
	for kind, list := range r.votes {
		rep.Votes[kind] = times(list)
	}
	rep.FailedInjections, rep.WhyFailed = maps.Clone(r.failures), maps.Clone(r.why)
	rep.Rests, rep.Looked, rep.Keys, rep.Settled = r.rests, r.looked, r.keys, times(r.settles)
	rep.Orphans, rep.Unsettled = slices.Clone(r.orphans), slices.Clone(r.late)
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
