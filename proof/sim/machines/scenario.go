package machines

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A scenario is what a seed draws before anything happens: the size of the
// world, the behavior of its workers, and the kinds of faults. Most seeds have
// few kinds of faults, so that all combinations occur, and what only one of
// them shows is not hidden by the others.
type scenario struct {
	nodes, processes, workers, resources int

	ttl        time.Duration // of most locks, and the longest
	quarantine bool          // with MaxTTL
	founded    bool          // by redlock.Init, before the first client
	young      time.Duration // the servers' age at most, at the beginning
	promotes   bool          // the place of an emptied server may be taken by its replica
	// misfits is how many more processes name other servers, from first to
	// last, and not those from 0 to nodes-1 (R30). They start so much later
	// than the others, or earlier. trapped is how many of the links lose touch
	// while a set is being opened.
	misfits, first, last int
	misfitsAfter         time.Duration
	trapped              int  // percent
	durable              bool // some nodes are
	forbidKill           bool // on some nodes
	hideRun              bool // on some nodes
	debtsMost            int
	dialTimeout          time.Duration
	ppm                  int64         // the greatest error of a clock
	latency              time.Duration // half of the longest delay one way
	lateness             time.Duration // how late commands arrive that were in flight on a broken connection
	starved              time.Duration // how late a caller runs
	startSpread          time.Duration

	// fenced is how many percent of the processes have Config.Fenced. corrects
	// says that they correct their clocks by the servers'; lead and period are
	// the script's arguments, and resetLead is how far the operator sets floors
	// ahead.
	fenced                  int
	corrects                bool
	lead, period, resetLead time.Duration
	sets                    int        // percent of the locks that are on several resources
	forms                   []formKind // by resource; nil if all locks are plain
	permits                 int        // of a semaphore
	fewer                   bool       // one process names one less
	// flushes says that servers are flushed, and go on. Then exclusion is not
	// promised, but the order of the numbers is.
	flushes bool

	holds, cancels int // percentages
	greedy         bool
	think          time.Duration

	faults     []fault
	faultEvery time.Duration
	burst      int // this many start at about the same time
	faultLasts time.Duration

	lasts           time.Duration // at least
	calmFrom        time.Duration // when all faults are over
	eventsUntilCalm int           // or after so many events
}

func (s scenario) String() string {
	return fmt.Sprintf("nodes=%d processes=%d workers=%d resources=%d ttl=%v quarantine=%t founded=%t misfits=%d(%d-%d, after %v) trapped=%d durable=%t "+
		"forbidKill=%t hideRun=%t "+
		"debts=%d ppm=%d latency=%v holds=%d cancels=%d greedy=%t starved=%v fenced=%d corrects=%t lead=%v period=%v sets=%d forms=%v permits=%d faults=%v, %d every %v for %v, until %v",
		s.nodes, s.processes, s.workers, s.resources, s.ttl, s.quarantine, s.founded, s.misfits, s.first, s.last, s.misfitsAfter, s.trapped, s.durable,
		s.forbidKill, s.hideRun,
		s.debtsMost, s.ppm, s.latency, s.holds, s.cancels, s.greedy, s.starved, s.fenced, s.corrects, s.lead, s.period, s.sets, s.forms, s.permits, s.faults, s.burst, s.faultEvery, s.faultLasts, s.calmFrom)
}

// drift is Config.DriftFactor of all clients. rateMost is the greatest error of
// a clock, chosen so that any two clocks respect the drift: one that is 4,900
// millionths fast and one that is as slow differ by 0.985 %.
const (
	drift    = 0.01
	rateMost = 4900
)

func draw(r *rand.Rand) scenario {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	times := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	chance := func(percent int) bool { return r.IntN(100) < percent }
	s := scenario{
		nodes:       pick(1, 3, 3, 3, 4, 5, 5, 5, 7),
		processes:   pick(1, 2, 2, 3, 4),
		workers:     pick(1, 1, 2, 3),
		resources:   pick(1, 1, 1, 2, 3),
		ttl:         times(50*ms, 100*ms, 200*ms, 300*ms, 500*ms, time.Second, time.Second, 3*time.Second, 10*time.Second),
		quarantine:  chance(60),
		forbidKill:  chance(10),
		hideRun:     chance(7),
		debtsMost:   pick(3, 20, 65536, 65536),
		dialTimeout: times(300*ms, time.Second, 5*time.Second),
		ppm:         int64(pick(0, 50, rateMost, rateMost)),
		latency:     times(50*us, 200*us, 500*us, ms),
		lateness:    times(2*ms, 50*ms, 600*ms),
		starved:     times(50*us, 50*us, 2*ms, 20*ms),
		holds:       pick(0, 30, 50, 100),
		cancels:     pick(0, 0, 10, 50),
		greedy:      chance(25),
		burst:       pick(1, 1, 1, 3),
		faultLasts:  times(20*ms, 100*ms, 400*ms, 2*time.Second),
	}
	s.startSpread = times(0, 10*ms, s.ttl)
	// The mean number of simultaneous faults; each lasts for half of its
	// longest time on average.
	s.faultEvery = s.faultLasts * times(1, 2, 4, 8, 32) / 8
	s.founded = s.quarantine && chance(40)
	s.promotes = chance(50)
	s.young = times(0, 3*time.Second, 3*time.Second, time.Minute)
	if s.quarantine && chance(25) {
		s.misconfigure(r)
	}
	s.drawFaults(r, chance)
	s.durable = s.quarantine && chance(15)
	if s.forbidKill {
		s.ttl = times(500*ms, 3*time.Second, 10*time.Second) // releases are repeated for that long
	}
	s.think = times(s.ttl/100, s.ttl/10, s.ttl)
	s.calmFrom = max(2*time.Second, 4*s.ttl, s.lasts)
	if s.quarantine && !s.founded {
		s.calmFrom += s.ttl
	}
	s.eventsUntilCalm = 6000
	if s.trapped > 0 {
		s.calmFrom += 12 * time.Second
	}
	if s.trapped > 0 || slices.Contains(s.faults, abandon) || slices.Contains(s.faults, blackout) {
		s.eventsUntilCalm = 30_000
	}
	return s
}

// A theme is a set of faults that cause trouble together, and the world in
// which they do.
type theme struct {
	faults []fault
	suits  func(s *scenario, r *rand.Rand)
}

var themes = [...]theme{
	// Connections that end with commands in flight.
	{[]fault{stop, closeAll, closeOne, holdUp, holdWire, loseTouch, resetLink, refuseLink}, (*scenario).loses},
	{[]fault{loseTouch}, (*scenario).loses},
	// Restarts, with memory and without.
	{[]fault{crash, forget, forgetSome, resetLink, freeze, killProcess, cutOff}, (*scenario).restarts},
	{[]fault{forget, forgetSome, forgetSome}, (*scenario).restarts},
	{[]fault{forget, replace}, (*scenario).replaces},
	{[]fault{blackout, blackout, blackout}, (*scenario).loseAll},
	{[]fault{abandon, abandon}, (*scenario).abandons},
	{[]fault{abandon, abandon, killProcess}, (*scenario).abandons},
	// Openings.
	{[]fault{cutOff, freeze, killProcess, resetLink, crash, holdUp}, (*scenario).opens},
	{[]fault{freeze, killProcess, crash}, (*scenario).opens},
	// Silence.
	{[]fault{stop, slowLink, holdUp, holdDown, cutOff, freeze}, nil},
	// Clocks.
	{[]fault{clockBack, clockAhead, clockLeap, freeze, suspend, wallAhead, wallBack, forget}, nil},
	// Refusals.
	{[]fault{refuseSets, refuseScripts, flushScripts, resetLink, closeAll}, (*scenario).refuses},
	{[]fault{refuseScripts, refuseScripts}, (*scenario).refuses},
}

// drawFaults draws the kinds of faults, and drops those that exclude each
// other.
func (s *scenario) drawFaults(r *rand.Rand, chance func(int) bool) {
	if chance(40) {
		density := r.IntN(60) // some seeds have hardly any faults
		for f := range flushAll {
			if chance(density) {
				s.faults = append(s.faults, f)
			}
		}
	} else {
		theme := themes[r.IntN(len(themes))]
		for _, f := range theme.faults {
			if chance(75) {
				s.faults = append(s.faults, f)
			}
		}
		if theme.suits != nil {
			theme.suits(s, r)
		}
	}
	if chance(5) {
		s.faults = nil
	}
	drop := func(f fault) { s.faults = slices.DeleteFunc(s.faults, func(g fault) bool { return f == g }) }
	if !s.quarantine {
		drop(forget) // then nothing is promised
		drop(forgetSome)
		drop(replace)
		drop(blackout)
		drop(abandon)
	}
	if slices.Contains(s.faults, suspend) {
		drop(wallBack) // both clocks would show too little, and a plain lock reads no third
	}
}

// drawKinds draws which locks have fencing numbers, or are on several
// resources, or of a form. Its random numbers are its own, so that it changes nothing else.
func (s *scenario) drawKinds(r *rand.Rand) {
	if s.quarantine && s.misfits == 0 && !s.hideRun && r.IntN(3) == 0 {
		s.numbers(r)
	}
	if s.fenced > 0 && r.IntN(2) == 0 {
		s.rolls(r)
	}
	if s.resources > 1 && r.IntN(3) > 0 || r.IntN(20) == 0 {
		s.resources, s.sets = max(s.resources, 2+r.IntN(3)), 25<<r.IntN(3)
		if r.IntN(5) == 0 && s.trapped == 0 {
			s.faults = nil // then the referee looks for deadlocks
		}
	}
	if s.fenced == 0 && s.sets == 0 && r.IntN(3) == 0 {
		s.drawForms(r)
	}
	s.drawDemotions(r)
}

// drawDemotions lets servers be replicas for a moment, in some of the worlds in
// which they forget.
func (s *scenario) drawDemotions(r *rand.Rand) {
	at := slices.Index(s.faults, forget)
	if at >= 0 && !s.flushes && r.IntN(3) == 0 {
		s.faults[at] = demote
	}
}

func (s *scenario) numbers(r *rand.Rand) {
	s.fenced = 50 + 50*r.IntN(2)
	s.corrects = r.IntN(2) == 0
	s.lead = []time.Duration{shortLead, 10 * time.Minute}[r.IntN(2)]
	s.resetLead = []time.Duration{0, time.Minute}[r.IntN(2)]
	s.period = []time.Duration{time.Second, 5 * time.Second, 24 * time.Hour}[r.IntN(3)]
	if slices.Contains(s.faults, clockLeap) {
		s.period = 24 * time.Hour
	}
}

// shortLead is less than what the servers' clocks may be apart. Then it can be
// that no number suits a quorum.
const shortLead = 100 * ms

// rolls prepares a world in which servers lose their memory one after another,
// each once the last one has learned again what it must know.
func (s *scenario) rolls(r *rand.Rand) {
	s.faults = []fault{forget, forget, forgetSome, crash, killProcess, killProcess}
	if s.flushes = r.IntN(3) == 0; s.flushes {
		s.faults = []fault{forget, flushAll, flushAll, killProcess}
	}
	s.nodes, s.processes, s.workers, s.resources = 3+2*r.IntN(2), max(2, s.processes), 1, 1
	s.founded, s.burst, s.greedy = true, 1, true
	s.ttl = []time.Duration{100 * ms, 300 * ms, time.Second}[r.IntN(3)]
	s.faultEvery, s.faultLasts = time.Second<<r.IntN(2), 50*ms
	s.think = s.ttl / 10
	s.calmFrom, s.eventsUntilCalm = 20*time.Second, 30_000
}

// loses prepares a world for connections that end: a lost connection is
// replaced within a twentieth of a second, if that is not too frequent. Few
// clients compete, since a late SET does nothing while another client holds the
// lock. What is left behind lives long enough to be found.
func (s *scenario) loses(r *rand.Rand) {
	s.faultEvery, s.faultLasts = 50*ms<<r.IntN(4), 100*ms<<r.IntN(5)
	s.forbidKill = s.forbidKill || r.IntN(3) == 0
	s.processes, s.workers, s.resources = min(s.processes, 2), 1, 3
	s.ttl = max(s.ttl, 3*time.Second)
}

// restarts prepares a world for servers that forget: several at about the same
// time, and then none for about the life of a lock and of a watch, with others
// that want the lock all the time.
func (s *scenario) restarts(r *rand.Rand) {
	s.quarantine = true
	s.founded = r.IntN(3) > 0
	s.faultEvery, s.faultLasts = s.ttl/4<<r.IntN(4), 5*ms<<r.IntN(5)
	s.burst = 1 + r.IntN(4)
	s.greedy = r.IntN(3) > 0
	s.resources = 1
	s.hideRun = s.hideRun || r.IntN(5) == 0
	s.startSpread = s.ttl * time.Duration(r.IntN(3))
	s.lasts = 12 * s.ttl
}

// loseAll prepares a world in which all servers come back empty at about the
// same time.
func (s *scenario) loseAll(r *rand.Rand) {
	s.restarts(r)
	s.burst, s.misfits, s.hideRun = 1, 0, false
	s.nodes, s.processes, s.workers = []int{1, 1, 3, 5}[r.IntN(4)], max(3, s.processes), 1
	s.ttl = []time.Duration{900 * ms, 5 * time.Second}[r.IntN(2)]
	s.faultEvery, s.faultLasts = s.ttl<<r.IntN(3), min(s.ttl, time.Second)>>(1+r.IntN(3))
	s.lasts, s.greedy, s.cancels = 20*s.ttl, r.IntN(2) == 0, 0
	s.dialTimeout, s.startSpread = time.Second, s.ttl/4
}

// abandons prepares a world in which a server of two sets is down for longer
// than a lock lives, comes back empty, and is taken by the set that it did not
// belong to, whose processes have watched the other servers for long. Some of
// them have not seen whose it was.
func (s *scenario) abandons(r *rand.Rand) {
	s.restarts(r)
	s.misconfigure(r)
	s.founded, s.hideRun, s.burst = false, false, 1
	s.processes, s.workers, s.holds, s.cancels = 1+r.IntN(2), 1, 100, 0
	s.ttl, s.greedy = 10*time.Second, false
	s.young = []time.Duration{0, time.Minute}[r.IntN(2)]
	s.faultEvery, s.faultLasts = 3*s.ttl, 4*s.ttl
	s.lasts = 12 * s.ttl
}

// replaces prepares a world in which most of the servers are replaced by others
// that have run for long.
func (s *scenario) replaces(r *rand.Rand) {
	s.restarts(r)
	s.nodes, s.misfits, s.young, s.hideRun = 3+2*r.IntN(2), 0, time.Hour, false
	s.ttl = max(s.ttl, 500*ms)
	s.burst, s.faultEvery, s.faultLasts = s.nodes, s.ttl<<r.IntN(2), 50*ms
}

// opens prepares a world in which sets are opened while little works. Proposals
// expire meanwhile.
func (s *scenario) opens(r *rand.Rand) {
	s.quarantine, s.founded, s.forbidKill = true, false, false
	s.ttl = min(s.ttl, time.Second)
	s.misconfigure(r)
	s.faultEvery, s.faultLasts = 4*time.Second<<r.IntN(3), 10*time.Second
	s.trapped = 20 + 20*r.IntN(3)
	s.burst, s.resources, s.workers, s.greedy, s.young = 1, 1, 1, true, time.Minute
	s.misfitsAfter = []time.Duration{0, 100 * ms, time.Second, -time.Second}[r.IntN(4)]
}

// misconfigure lets some processes name other servers than the rest do.
func (s *scenario) misconfigure(r *rand.Rand) {
	s.misfits = 1 + r.IntN(2)
	s.processes = min(s.processes, 3)
	s.misfitsAfter = []time.Duration{0, 0, 20 * ms, -20 * ms, time.Second, -time.Second}[r.IntN(6)]
	s.nodes, s.first, s.last = 3, 2, 4 // {A,B,C} and {C,D,E}
	switch r.IntN(5) {
	case 0:
		s.first, s.last = 1, 3 // {B,C,D}
	case 1:
		s.first, s.last = 0, 4 // {A,B,C,D,E}
	case 2:
		s.nodes, s.first, s.last = 5, 0, 2 // {A,B,C,D,E} and {A,B,C}
	case 3:
		s.first, s.last = 0, 0 // {A}
	}
}

// servers returns how many there are in all sets.
func (s *scenario) servers() int {
	if s.misfits > 0 {
		return max(s.nodes, s.last+1)
	}
	return s.nodes
}

// setOf returns the servers that a process names.
func (s *scenario) setOf(process int) (set []int) {
	first, last := 0, s.nodes-1
	if process >= s.processes {
		first, last = s.first, s.last
	}
	for i := first; i <= last; i++ {
		set = append(set, i)
	}
	return set
}

// startAfter returns when a process starts at the earliest.
func (s *scenario) startAfter(process int) time.Duration {
	if process >= s.processes {
		return max(0, s.misfitsAfter)
	}
	return max(0, -s.misfitsAfter)
}

// age draws for how long a server has run at the beginning.
func (s *scenario) age(r *rand.Rand) time.Duration {
	if s.young == 0 {
		return time.Duration(r.IntN(1000)) * time.Hour
	}
	return time.Duration(r.Int64N(int64(s.young)))
}

// refuses prepares a world for requests that are not carried out.
func (s *scenario) refuses(r *rand.Rand) {
	s.faultEvery, s.faultLasts = 50*ms<<r.IntN(4), 50*ms<<r.IntN(4)
	s.ttl = max(s.ttl, 3*time.Second)
}

// burstSpread returns the time between the faults of one burst.
func (s *scenario) burstSpread() time.Duration {
	if s.burst == 1 {
		return 0
	}
	return s.faultEvery / 10
}

// rate draws the error of a clock in millionths, often the greatest.
func (s *scenario) rate(r *rand.Rand) int64 {
	switch r.IntN(3) {
	case 0:
		return s.ppm
	case 1:
		return -s.ppm
	default:
		return r.Int64N(2*s.ppm+1) - s.ppm
	}
}

const (
	us = time.Microsecond
	ms = time.Millisecond
)
