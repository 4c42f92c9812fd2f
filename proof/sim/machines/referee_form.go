package machines

import (
	"math"
	"slices"

	"github.com/redmux/redmux/multiplex"
)

// A formReferee is what the referee knows of locks of a form.
type formReferee struct {
	writers []*attempt // by resource: the last that was granted
	turns   [][]*turn  // by resource: those that have not gone
}

func newFormReferee(resources int) formReferee {
	return formReferee{make([]*attempt, resources), make([][]*turn, resources)}
}

// room returns how many may hold a resource together with this one: of permits,
// the most that any of the holders asked for.
func (c *claim) room(holders []*claim) int {
	switch f := c.attempt.form; {
	case f.is(reading):
		return math.MaxInt
	case f.is(permit):
		return slices.MaxFunc(holders, func(a, b *claim) int { return a.permits() - b.permits() }).permits()
	}
	return 1
}

// permits returns how many permits a holder asked for, or 0 without any.
func (c *claim) permits() int {
	if f := c.attempt.form; f != nil {
		return f.permits
	}
	return 0
}

// isOf reports whether a claim came of the other by an upgrade or a downgrade:
// one holder has both.
func (c *claim) isOf(other *claim) bool {
	return c.attempt.form != nil && c.attempt.form.other == other.attempt
}

// crowded returns two of the holders of a resource, if they are too many.
func crowded(holders []*claim) (a, b *claim) {
	if len(holders) < 2 {
		return nil, nil
	}
	for _, a := range holders {
		n := len(holders)
		for _, other := range holders {
			if a.isOf(other) || other.isOf(a) {
				n--
			} else if other != a {
				b = other
			}
		}
		if n > a.room(holders) {
			return a, b
		}
	}
	return nil, nil
}

// strayed reports whether one of the holders is outside of the promise.
func (r *referee) strayed(holders []*claim) bool {
	return slices.ContainsFunc(holders, func(a *claim) bool {
		return slices.ContainsFunc(holders, func(b *claim) bool { return r.strays(a, b) })
	})
}

// ofForm checks a lock that was granted. A writer that became a reader is
// followed by no other writer until then. A caller that waits in a quorum's
// queues, with leases that live, is not overtaken by one whose call began when
// it was there already.
func (r *referee) ofForm(c *claim) {
	w, a := r.world, c.attempt
	resource := a.resources[0]
	switch f := a.form; {
	case f.is(writing):
		r.writers[resource] = a
	case f.was() != nil && r.writers[resource] != f.other && w.plan.misfits == 0:
		w.violate("downgrade", "attempt %d became reader %d, and writer %d was granted meanwhile",
			f.other.index, a.index, r.writers[resource].index)
	case f.is(fair):
		begun := a.started
		if f.turn != nil {
			begun = f.turn.begun
		}
		for _, u := range r.waiting(resource) {
			ahead := 0
			for _, m := range u.process.members {
				if s := m.server; u.since[s.index] < begun && s.queues(resource, u) {
					ahead++
				}
			}
			if ahead >= multiplex.Quorum(u.process.size) && u.process.names() == c.worker.process.names() {
				w.violate("turn", "attempt %d was granted before a caller of process %d, which %d servers had let in before", a.index, u.process.index, ahead)
			}
		}
	}
}

func (r *referee) queues(resource int, u *turn) { r.turns[resource] = append(r.turns[resource], u) }

// waiting returns the callers that wait in a queue.
func (r *referee) waiting(resource int) []*turn {
	r.turns[resource] = slices.DeleteFunc(r.turns[resource], func(u *turn) bool { return u.gone || u.process.dead })
	return r.turns[resource]
}
