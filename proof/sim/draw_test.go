package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/redlock"
)

const ms = time.Millisecond

// A draw is all that a seed decides before anything happens.
type draw struct {
	seed  uint64
	nodes int // masters that a client names
	// shared is how many of them the clients of both sets name; 0 if there is
	// one set, and all clients name the same masters. See overlap_test.go.
	shared int
	// contest is how long faults strike and clients compete.
	contest time.Duration

	processes, workers, resources int
	shortest, longest             time.Duration // TTL
	nodeTimeout, minValidity      time.Duration // as in redlock.Config
	driftFactor                   float64       // as in redlock.Config; 0 for its default
	maxTTL                        time.Duration // as in redlock.Config (R23)
	founded                       bool          // by admin.Init, before the first client
	age                           time.Duration // of the masters when the clients start
	misfits                       bool          // now and then a client names some of the masters only (R30)
	prefix                        string
	fenced                        bool // most clients have fencing numbers
	sets                          bool // some locks are on several resources
	lockers                       bool // some locks are of a Locker
	restless                      bool // processes end by themselves, and others start
	native                        bool // masters start with a native release (R25)

	rates   []float64       // of the masters' clocks
	offsets []time.Duration // of the masters' clocks, from the clients'
	durable []bool          // masters that lose nothing when they crash
	latency time.Duration   // at most, one way

	kinds       []kind // of the faults that are on
	misfortunes int    // the most faults at a time
	gap         time.Duration

	broken broken
}

// A broken is a part that is broken on purpose and must be found: see
// weakened_test.go.
type broken struct {
	only        string // the rule by which it must be found; other rules are not checked
	liars       int    // masters that grant every SET and keep nothing
	withoutNX   bool   // SET overwrites
	deletesAny  bool   // a release does not compare
	shortens    bool   // an extension sets the TTL, whatever it was
	fast        bool   // the masters' clocks are faster than the drift allows
	noMaxTTL    bool   // masters forget, and no client takes that into account
	keeps       bool   // a master reports a release that it did not execute
	deafToKill  bool   // CLIENT KILL reports a kill that it did not execute
	staysAway   bool   // a master does not come back
	forgetsTTL  bool   // keys stay forever
	grantsShort bool   // SET gives less than the requested TTL
	leaps       bool   // a master's clock is set right after the start (R29)
	anyNumber   bool   // masters compare no fencing numbers
	sealsTwice  bool   // a master may belong to two deployments, and shows each set of clients its own (R30)
}

// newDraw draws from a seed.
func newDraw(seed uint64) *draw {
	r := rand.New(rand.NewPCG(seed, 1))
	d := &draw{
		seed:        seed,
		nodes:       pick(r, 1, 3, 3, 5, 5, 5, 4),
		contest:     8 * time.Second,
		processes:   2 + r.IntN(3),
		workers:     1 + r.IntN(3),
		resources:   1 + r.IntN(3),
		shortest:    50 * ms,
		longest:     pick(r, 100*ms, 150*ms, 300*ms, 600*ms),
		nodeTimeout: pick(r, 0, 0, 20*ms, 80*ms),
		minValidity: pick(r, 0, 0, 5*ms),
		driftFactor: pick(r, 0, 0, 0.06),
		prefix:      pick(r, "", "lock:"),
		restless:    r.IntN(2) == 0,
		native:      r.IntN(3) == 0,
		latency:     pick(r, ms, 2*ms, 2*ms),
		misfortunes: 1 + r.IntN(3),
		gap:         pick(r, 10*ms, 30*ms, 100*ms),
	}
	if d.longest >= 300*ms && r.IntN(2) == 0 {
		d.latency = 6 * ms // votes must arrive within a tenth of a TTL (R6)
	}
	theme := r.IntN(10)
	misfits := r.IntN(4) == 0
	switch theme {
	case 0, 1:
		d.nodes = pick(r, 1, 1, 3, 5)
	case 3:
		d.nodes = pick(r, 3, 3, 5)
		d.shared = 1 + r.IntN(d.nodes-1)
	case 4:
		d.nodes = pick(r, 1, 1, 3)
	}
	d.drawMasters(r)
	d.drawKinds(r)
	switch theme {
	case 0, 1:
		d.beForgetful(r)
	case 2:
		d.beInDebt()
	case 3:
		d.overlap(r)
	case 4:
		d.beDemoted(r)
	}
	d.drawDemotions()
	d.drawNumbers()
	d.misfits = misfits && d.nodes >= 3 && d.shared == 0 && d.maxTTL > 0 && !d.forgets()
	if d.maxTTL > 0 && !d.founded && d.age < time.Minute {
		d.contest += 3 * time.Second // for which such masters are left to others (R30)
	}
	return d
}

// beForgetful makes masters lose their keys while clients have locks with a
// bare quorum, and others want these locks. Few other draws get that far, and
// the quarantine prevents what would happen then (R23). Locks live nearly as
// long as MaxTTL, so that a quarantine that is too short shows, and masters
// have the time to leave it.
func (d *draw) beForgetful(r *rand.Rand) {
	d.longest = pick(r, 150*ms, 300*ms, 600*ms)
	d.shortest = d.longest * 3 / 4
	d.maxTTL, d.founded, d.age, d.misfits = d.longest, true, 0, false
	for i := range d.durable {
		d.durable[i] = false
	}
	d.processes, d.resources = 3+r.IntN(2), 1
	d.contest = 10 * time.Second
	d.kinds = []kind{kindNamed(pick(r, forgetting, forgetting, blackout))}
	if d.nodes == 1 {
		d.misfortunes, d.gap = 1, d.longest*3/2
		return
	}
	for _, name := range []string{forgetting, "lane refused", "lane held", "master cut off"} {
		d.kinds = append(d.kinds, kindNamed(name))
	}
	d.misfortunes, d.gap = 2+r.IntN(2), pick(r, d.longest/4, d.longest)
}

// beDemoted makes masters replicas for a moment, in the same world. Commands are
// on their way for long, so that some that were sent before are executed after.
func (d *draw) beDemoted(r *rand.Rand) {
	d.beForgetful(r)
	d.kinds[0] = kindNamed(demotion)
	d.shortest, d.longest, d.maxTTL, d.latency = 300*ms, 400*ms, 400*ms, 6*ms
}

// beInDebt makes masters refuse releases of locks with a long TTL, and little
// else: if much else is wrong, or the key soon expires by itself, a forgotten
// debt does not show (R8).
func (d *draw) beInDebt() {
	d.shortest, d.longest, d.maxTTL, d.founded, d.misfits = 400*ms, 600*ms, 0, false, false
	d.kinds = []kind{kindNamed("releases refused"), kindNamed("master stopped")}
	d.misfortunes, d.gap = 1, 100*ms
}

// drawMasters draws the clocks, and the masters that lose nothing.
func (d *draw) drawMasters(r *rand.Rand) {
	// Nine tenths of what the clients allow for: the drift bounds the relative
	// rate (R4).
	most := 0.9 * d.drift()
	allDurable := r.IntN(3) == 0
	for range d.masters() {
		rate := 1.0
		if r.IntN(4) > 0 {
			rate += most * (2*r.Float64() - 1)
		}
		d.rates = append(d.rates, rate)
		most := pick(r, time.Hour, 400*ms, 400*ms, 400*ms)
		d.offsets = append(d.offsets, time.Duration(r.Int64N(int64(2*most)))-most)
		d.durable = append(d.durable, allDurable || r.IntN(4) == 0)
	}
	if !allDurable && r.IntN(3) > 0 {
		d.maxTTL = d.longest
		d.founded = r.IntN(2) == 0
		d.age = pick(r, 0, 3*time.Second, time.Minute)
		if (d.founded || d.age == time.Minute) && r.IntN(3) == 0 {
			d.maxTTL = redlock.DefaultMaxTTL
		}
	}
}

// drawKinds turns some kinds of faults on: a third of them, or most. Without
// MaxTTL no master may forget.
func (d *draw) drawKinds(r *rand.Rand) {
	often := pick(r, 0.3, 0.8)
	for _, k := range kinds {
		if k.forgets && (d.maxTTL == 0 || !slices.Contains(d.durable, false)) || k.name == outOfReach || k.name == demotion {
			continue
		}
		if r.Float64() < often {
			d.kinds = append(d.kinds, k)
		}
	}
}

// drawDemotions lets masters be replicas for a moment, in a third of the seeds
// in which they may forget. Its random numbers are its own, so that it changes
// nothing else.
func (d *draw) drawDemotions() {
	if d.forgets() && !d.has(demotion) && d.random(301).IntN(3) == 0 {
		d.kinds = append(d.kinds, kindNamed(demotion))
	}
}

// drift returns Config.DriftFactor or its default.
func (d *draw) drift() float64 {
	if d.driftFactor == 0 {
		return 0.01
	}
	return d.driftFactor
}

// slack returns by how much a lock's validity is shorter than its TTL (R4).
func (d *draw) slack(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.drift()) + 2*ms
}

// quarantine returns how long a master may not count after the first contact
// (R23).
func (d *draw) quarantine() time.Duration {
	if d.maxTTL == 0 {
		return 0
	}
	return d.maxTTL + time.Duration(float64(d.maxTTL)*d.drift()) + 6*ms
}

// opening returns how long the masters may take to belong to one deployment
// again: young ones are not opened for 3 s, and clients look at what else may be
// done every 2 s (R30).
func (d *draw) opening() time.Duration {
	if d.maxTTL == 0 {
		return 0
	}
	return 5 * time.Second
}

func (d *draw) quorum() int { return d.nodes/2 + 1 }

// has reports whether a kind of fault is on.
func (d *draw) has(name string) bool {
	return slices.ContainsFunc(d.kinds, func(k kind) bool { return k.name == name })
}

// forgets reports whether masters may lose their keys.
func (d *draw) forgets() bool {
	return slices.ContainsFunc(d.kinds, func(k kind) bool { return k.forgets })
}

// random returns a source of its own for each user, so that they do not depend
// on each other's turns.
func (d *draw) random(who ...uint64) *rand.Rand {
	stream := uint64(2)
	for _, n := range who {
		stream = stream*1_000_003 + n + 1
	}
	return rand.New(rand.NewPCG(d.seed, stream))
}

func (d *draw) String() string {
	var names []string
	for _, k := range d.kinds {
		names = append(names, k.name)
	}
	return fmt.Sprintf("%d masters, %d of them shared by two sets, %d processes of %d, %d resources, TTL to %v, drift %g, MaxTTL %v, founded %t, age %v, misfits %t, fenced %t, sets %t, lockers %t, %d faults at a time: %s",
		d.nodes, d.shared, d.processes, d.workers, d.resources, d.longest, d.drift(), d.maxTTL, d.founded, d.age, d.misfits, d.fenced, d.sets, d.lockers, d.misfortunes, strings.Join(names, ", "))
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// span returns a random time below most.
func span(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(max(most, time.Microsecond))))
}
