package sim

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
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
				if found := run(t, d).violations; len(found) > 0 {
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

var (
	releaseDigest, releaseManyDigest = redistest.SHA1(lua.Release), redistest.SHA1(lua.ReleaseMany)
	healDigest, sealDigest           = redistest.SHA1(lua.Heal), redistest.SHA1(lua.Seal)
)

// teach registers the scripts, and breaks what is to be broken on purpose.
func teach(n *redistest.Node, b broken) {
	switch {
	case b.keeps:
		breakRelease(n, func(keys, args []string, db *redistest.DB) any {
			value, ok := db.Get(keys[0])
			return digit(ok && value == args[0])
		})
	case b.deletesAny:
		breakRelease(n, func(keys, _ []string, db *redistest.DB) any { return digit(db.Delete(keys[0])) })
	}
	if b.anyNumber {
		n.Script(lua.AcquireFenced, grantAnyNumber)
	}
	if b.shortens {
		n.Script(lua.Extend, extendAnyway)
		n.Script(lua.ExtendMany, each(3, extendAnyway))
		n.Script(lua.Heal, func(keys, args []string, db *redistest.DB) any {
			if _, there := db.Get(keys[0]); !there {
				db.Set(keys[0], args[0], milliseconds(args[1]))
				return 2
			}
			return extendAnyway(keys, args, db)
		})
	}
}

func breakRelease(n *redistest.Node, release redistest.Script) {
	n.Script(lua.Release, release)
	n.Script(lua.ReleaseMany, each(1, release))
}

// each does the same for several keys, with so many arguments for each.
func each(args int, one redistest.Script) redistest.Script {
	return func(keys, all []string, db *redistest.DB) any {
		results := make([]any, len(keys))
		for i := range keys {
			results[i] = one(keys[i:i+1], all[args*i:args*(i+1)], db)
		}
		return results
	}
}

// extendAnyway also shortens: what extend.lua must not do (R10).
func extendAnyway(keys, args []string, db *redistest.DB) any {
	value, ok := db.Get(keys[0])
	return digit(ok && value == args[0] && db.Expire(keys[0], milliseconds(args[1])))
}

func digit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func milliseconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * ms
}

// sealTwice makes a master keep a seal for each of the two sets.
func sealTwice(m *master) {
	n := m.node
	n.Handle(func(conn int, args []string) ([]byte, bool) {
		var place int
		_, _ = fmt.Sscanf(m.nameOf(conn), "p%d.", &place)
		own := func(key string) string { return strconv.Itoa(place%2) + ":" + key }
		switch {
		case args[0] == "GET" && strings.Contains(args[1], "redlock:"):
			if value, there := n.Get(own(args[1])); there {
				return resp.AppendBulkString(nil, value), true
			}
			return []byte("_\r\n"), true
		case args[0] == "EVALSHA" && args[1] == sealDigest:
			return n.Eval(lua.Seal, []string{own(args[3])}, args[4:]...), true
		}
		return nil, false
	})
}

// arrange breaks the rest of what is to be broken on purpose.
func (b broken) arrange(m *master) {
	n := m.node
	if b.sealsTwice {
		sealTwice(m)
	}
	n.Handle(func(_ int, args []string) ([]byte, bool) {
		switch {
		case args[0] == "CLIENT" && args[1] == "KILL" && b.deafToKill:
			return []byte(":1\r\n"), true
		case args[0] != "SET":
			return nil, false
		case m.index < b.liars:
			return []byte("+OK\r\n"), true
		case !b.withoutNX && !b.forgetsTTL && !b.grantsShort:
			return nil, false
		}
		if _, there := n.Get(args[1]); there && !b.withoutNX {
			return []byte("_\r\n"), true
		}
		ttl := milliseconds(args[len(args)-1])
		switch {
		case b.forgetsTTL:
			ttl = 0
		case b.grantsShort:
			ttl -= ttl / 10
		}
		n.DB().Set(args[1], args[2], ttl)
		return []byte("+OK\r\n"), true
	})
}
