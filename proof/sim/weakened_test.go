package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// weakenedSeeds is within how many seeds each weakness must be found.
const weakenedSeeds = 60

// The checks work: if one part of the algorithm is removed, or masters break
// one promise, the corresponding rule is violated within some tens of seeds.
func TestEachPartIsNeeded(t *testing.T) {
	redistest.Long(t)
	for name, c := range map[string]struct {
		rule   string
		broken broken
		draw   func(d *draw)
	}{
		// A master that grants every SET has the effect of a quorum that is
		// smaller by one.
		"a quorum less one":             {"exclusion", broken{liars: 1}, of(3)},
		"a quorum of five less one":     {"exclusion", broken{liars: 1}, of(5)},
		"NX":                            {"exclusion", broken{withoutNX: true}, of(5)},
		"compare before delete":         {"exclusion", broken{deletesAny: true}, of(3)},
		"clocks that keep to the drift": {"exclusion", broken{fast: true}, of(5)},
		"the quarantine":                {"exclusion", broken{noMaxTTL: true}, forgetful},
		"clocks set before the start":   {"exclusion", broken{leaps: true}, powerless},
		"one deployment for a master":   {"exclusion", broken{sealsTwice: true}, apart},
		"only one of two sets":          {"R30", broken{sealsTwice: true}, apart},
		"clocks set before an opening":  {"exclusion", broken{leaps: true}, takenOver},
		"extensions that only lengthen": {"exclusion", broken{shortens: true}, of(3)},
		"keys for as long as asked":     {"R4", broken{grantsShort: true}, of(3)},
		"releases that are executed":    {"R7", broken{keeps: true}, of(3)},
		"the fence":                     {"R8", broken{deafToKill: true}, lateLanes},
		"masters that come back":        {"R26", broken{staysAway: true}, of(3)},
		"numbers that are compared":     {"order", broken{anyNumber: true}, numbersOf(3)},
		"keys that expire":              {"R8", broken{forgetsTTL: true}, of(3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(weakenedSeeds) {
				d := newDraw(seed + 1)
				c.draw(d)
				d.weaken(c.broken)
				d.broken.only = c.rule
				if found := run(t, d).Violations; len(found) > 0 {
					t.Logf("after %d seeds: %v", seed+1, found[0])
					return
				}
			}
			require.Fail(t, "it was not found out", "in %d seeds", weakenedSeeds)
		})
	}
}

// of sets the number of masters, none of which ever forgets.
func of(nodes int) func(*draw) {
	return func(d *draw) { d.resize(nodes) }
}

// forgetful makes masters restart empty all the time.
func forgetful(d *draw) {
	d.resize(5)
	d.maxTTL, d.founded, d.age, d.misfits = d.longest, true, 0, false
	for i := range d.durable {
		d.durable[i] = false
	}
	d.kinds, d.misfortunes, d.gap = []kind{kindNamed(forgetting)}, 2, 30*ms
}

// numbersOf sets the number of masters, which have floors from the start.
func numbersOf(nodes int) func(*draw) {
	return func(d *draw) {
		d.resize(nodes)
		d.maxTTL, d.founded, d.age, d.misfits = d.longest, true, 0, false
	}
}

// powerless makes all masters lose their keys again and again.
func powerless(d *draw) {
	forgetful(d)
	d.resize(3)
	d.kinds, d.misfortunes, d.gap = []kind{kindNamed(blackout)}, 1, 2*d.longest
	for i := range d.offsets {
		d.offsets[i] = 0
	}
}

// apart makes clients name two sets that share one of three masters.
func apart(d *draw) {
	d.resize(5)
	d.nodes, d.shared = 3, 1
	d.maxTTL, d.founded, d.age = d.longest, false, time.Minute
	d.kinds = nil
}

// takenOver makes the shared master lose its keys, out of reach of one set.
func takenOver(d *draw) {
	apart(d)
	d.beTakenOver()
	for i := range d.offsets {
		d.offsets[i] = 0
	}
}

// lateLanes makes connections break with commands in flight.
func lateLanes(d *draw) {
	d.resize(3)
	d.kinds = []kind{kindNamed("break, delivered late"), kindNamed("master stopped"), kindNamed("order of connections")}
	d.misfortunes = 3
}

func kindNamed(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic(name)
}

// resize changes the number of masters, with many clients for few locks.
func (d *draw) resize(nodes int) {
	for len(d.rates) < nodes {
		d.rates, d.offsets, d.durable = append(d.rates, 1), append(d.offsets, 0), append(d.durable, true)
	}
	d.nodes, d.shared = nodes, 0
	d.rates, d.offsets, d.durable = d.rates[:nodes], d.offsets[:nodes], d.durable[:nodes]
	d.processes, d.workers, d.resources, d.misfits = 4, 2, 1, false
}

// weaken breaks a part.
func (d *draw) weaken(b broken) {
	d.broken = b
	d.fenced, d.sets, d.lockers = b.anyNumber, false, false
	if b.fast {
		for i := range d.rates {
			d.rates[i] = 1.1 + d.drift()
		}
	}
	if b.deletesAny || b.keeps {
		d.native = false
	}
}
