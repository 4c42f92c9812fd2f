package machines

import (
	"sort"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// An order is the fencing numbers of the locks that were granted on one
// resource, in the order of the grants. What docs/fencing.md promises of them
// depends on no clock and no expiry.
type order struct {
	grants []numbered
	seen   map[int64]*attempt
}

// A numbered grant has the highest number of it and of all grants before it.
type numbered struct {
	at      time.Duration // true time
	highest int64
	owner   *attempt // of that number
}

// order checks a lock that was granted: its number is higher than that of each
// lock that had been granted before its attempt began, and none has the same.
func (r *referee) order(c *claim) {
	a := c.attempt
	if a.number == 0 {
		return
	}
	for _, resource := range a.resources {
		r.orderOn(&r.orders[resource], a)
	}
	r.world.report.Count("numbers", 1)
	if len(a.resources) > 1 {
		r.world.report.Count("numbers of several resources", 1)
	}
}

// orderOn is order for one of the lock's resources.
func (r *referee) orderOn(o *order, a *attempt) {
	before := sort.Search(len(o.grants), func(i int) bool { return o.grants[i].at >= a.started })
	if before > 0 && o.grants[before-1].highest >= a.number {
		r.world.violate("order", "attempt %d was granted number %d, and attempt %d had %d before it began",
			a.index, a.number, o.grants[before-1].owner.index, o.grants[before-1].highest)
	}
	if other := o.seen[a.number]; other != nil {
		r.world.violate("order", "attempts %d and %d were both granted number %d", other.index, a.index, a.number)
	}
	if o.seen == nil {
		o.seen = make(map[int64]*attempt)
	}
	o.seen[a.number] = a
	grant := numbered{r.world.now, a.number, a}
	if n := len(o.grants); n > 0 && o.grants[n-1].highest > a.number {
		grant.highest, grant.owner = o.grants[n-1].highest, o.grants[n-1].owner
	}
	o.grants = append(o.grants, grant)
}

// stuck checks that callers of locks that are not plain do not block each
// other: if nothing goes wrong and one is refused, then some lock was granted,
// prolonged or given back in the life of a lock and some more time for retries.
func (r *referee) stuck(a *attempt) {
	w := r.world
	if w.plan.sets == 0 && w.plan.forms == nil || len(w.plan.faults) > 0 || w.stopping || w.now-r.moved < w.plan.ttl+20*pure.RetryMost {
		return
	}
	w.violate("deadlock", "attempt %d is refused, and for %v no lock was granted, prolonged or given back", a.index, w.now-r.moved)
}
