package pure

import "time"

// An agenda is a min-heap of debts by time:
//
//	entries[(i-1)/2].at ≤ entries[i].at
//
// Each debt knows its place in the heap, so that it can be moved and removed.
type agenda[P placing] struct {
	entries []appointment
}

// An appointment is a debt with its time, so that a comparison does not load
// the debt.
type appointment struct {
	at   time.Duration
	debt *Debt
}

// placing returns the field of a debt that holds its place in an agenda: its
// index plus one, or 0 if it is not in it.
type placing interface{ of(d *Debt) *int }

// put adds a debt, or moves it if it is there.
func (a *agenda[P]) put(d *Debt, at time.Duration) {
	var p P
	i := *p.of(d) - 1
	if i < 0 {
		i = len(a.entries)
		a.entries = append(a.entries, appointment{})
	}
	a.entries[i] = appointment{at, d}
	a.settle(i)
}

// drop removes a debt, if it is there.
func (a *agenda[P]) drop(d *Debt) {
	var p P
	i, last := *p.of(d)-1, len(a.entries)-1
	if i < 0 {
		return
	}
	a.entries[i] = a.entries[last]
	a.entries[last] = appointment{}
	a.entries = a.entries[:last]
	*p.of(d) = 0
	if i < last {
		a.settle(i)
	}
}

// first returns the debt with the earliest time, or nil if there is none.
func (a *agenda[P]) first() (d *Debt, at time.Duration) {
	if len(a.entries) == 0 {
		return nil, 0
	}
	return a.entries[0].debt, a.entries[0].at
}

// count returns how many debts have a time up to now, but at most most. It
// visits no debt below one with a later time.
func (a *agenda[P]) count(now time.Duration, most int) int { return a.countFrom(0, now, most) }

func (a *agenda[P]) countFrom(i int, now time.Duration, most int) int {
	if i >= len(a.entries) || a.entries[i].at > now || most <= 0 {
		return 0
	}
	n := 1 + a.countFrom(2*i+1, now, most-1)
	return n + a.countFrom(2*i+2, now, most-n)
}

// settle moves the entry at i up or down to where it belongs.
func (a *agenda[P]) settle(i int) {
	var p P
	e := a.entries[i]
	for i > 0 && e.at < a.entries[(i-1)/2].at {
		i = a.move((i-1)/2, i)
	}
	for {
		child := 2*i + 1
		if child+1 < len(a.entries) && a.entries[child+1].at < a.entries[child].at {
			child++
		}
		if child >= len(a.entries) || e.at <= a.entries[child].at {
			break
		}
		i = a.move(child, i)
	}
	a.entries[i] = e
	*p.of(e.debt) = i + 1
}

// move moves an entry to another place and returns the place that it left.
func (a *agenda[P]) move(from, to int) int {
	var p P
	a.entries[to] = a.entries[from]
	*p.of(a.entries[to].debt) = to + 1
	return from
}
