package redlock

import (
	"math"
	"time"
)

// A renewal is the state of one lock that is held, and the pure decisions about it: (state, event, age) → (state, action). It
// has no clock, no timer and no node; the keeper feeds it, and a table tests it.
//
// All its times are ages: the time since the start of the grant, or of the renewal, from which the validity counts, by the
// clock that says most. A renewal that is granted moves that start, and the ages with it.
type renewal struct {
	phase    phase
	validity time.Duration // the age at which the validity ends
	bound    time.Duration // the age at which MaxHold ends the context; never if none
	next     time.Duration // the age at which the next renewal is due; never if none
	asked    time.Duration // the age at which the renewal in flight began
	flying   bool
	left     int           // extensions that are still allowed; negative: any number
	delay    time.Duration // the next pause after a failure
}

// A phase is how far a hold has come.
type phase uint8

const (
	phaseHeld    phase = iota
	phaseBounded       // its bound is reached, and its keys are still ours
	phaseOver          // lost, released or closed
)

// A renewalEvent is what happened to a hold.
type renewalEvent uint8

const (
	onLook    renewalEvent = iota // somebody looked at the clocks
	onGrant                       // a quorum extended the keys
	onRefusal                     // so many nodes do not hold it for us that no quorum does
	onFailure                     // neither is known
	onEnd                         // it was released, or the client closed
)

// A renewalAction is what is to be done about it.
type renewalAction uint8

const (
	carryOn     renewalAction = iota
	toRenew                   // send a renewal
	toProlong                 // the validity counts from the start of the renewal that was granted
	toLose                    // end the context: the lock is lost
	toStopShort               // end the context: the bound is reached
	toDrop                    // nothing is to be looked after any more
)

const (
	never = time.Duration(math.MaxInt64)
	// renewalsPerValidity says when to renew: at a third of the validity there is time for a second try, and a third (R13).
	renewalsPerValidity = 3
	// pauseMost bounds the pause after a renewal that failed.
	pauseMost = time.Second
	// windowMost is how much before its time a renewal goes along with another that is due.
	windowMost = 5 * time.Millisecond
)

// newRenewal is the state of a lock that was just granted. bound is never where nothing bounds the hold, and extensions is
// negative where nothing bounds their number.
func newRenewal(validity, bound time.Duration, extensions int) renewal {
	r := renewal{validity: validity, bound: bound, left: extensions}
	return r.plan()
}

// plan sets the time of the first try to renew, if a renewal is of any use.
func (r renewal) plan() renewal {
	r.next, r.delay = never, min(max(r.validity/64, time.Millisecond), 100*time.Millisecond)
	if r.left != 0 && r.bound > r.validity-cancelMargin(r.validity) {
		r.next = r.validity / renewalsPerValidity
	}
	return r
}

// cancelMargin is how long before the end of validity the context is cancelled (R13), but no more than half of it.
func cancelMargin(validity time.Duration) time.Duration {
	return min(max(time.Millisecond, validity/1000), validity/2)
}

// renewalWindow is how early a renewal may go along with others: little beside the time that it is valid for.
func renewalWindow(validity time.Duration) time.Duration { return min(windowMost, validity/100) }

// alarm is the age at which to look again: when the context must end, or a renewal is due.
func (r renewal) alarm() time.Duration {
	switch {
	case r.phase == phaseOver:
		return never
	case r.phase == phaseBounded:
		return r.validity
	}
	end := min(r.bound, r.validity-cancelMargin(r.validity))
	if r.flying {
		return end
	}
	return min(end, r.next)
}

// on returns the state after an event at the given age, and what to do. jitter is uniform in [0, 1).
func (r renewal) on(e renewalEvent, age time.Duration, jitter float64) (renewal, renewalAction) {
	if r.phase == phaseOver {
		return r, toDrop
	}
	switch e {
	case onLook:
		return r.look(age)
	case onGrant:
		if age >= r.validity {
			return r.end(toLose) // it came too late, whatever was granted (R10)
		}
		return r.rebase(), toProlong
	case onRefusal:
		return r.end(toLose)
	case onFailure:
		return r.pause(age, jitter), carryOn
	default: // onEnd
		return r.end(toDrop)
	}
}

func (r renewal) look(age time.Duration) (renewal, renewalAction) {
	switch {
	case r.phase == phaseBounded && age >= r.validity:
		return r.end(toDrop)
	case r.phase == phaseBounded:
		return r, carryOn
	case age >= r.validity-cancelMargin(r.validity):
		return r.end(toLose)
	case age >= r.bound:
		r.phase = phaseBounded
		return r, toStopShort
	case !r.flying && r.next != never && age >= r.next-renewalWindow(r.validity):
		r.flying, r.asked = true, age
		return r, toRenew
	}
	return r, carryOn
}

func (r renewal) end(act renewalAction) (renewal, renewalAction) {
	if r.phase == phaseBounded {
		act = toDrop // its context has ended
	}
	r.phase, r.flying = phaseOver, false
	return r, act
}

// rebase makes the ages count from the start of the renewal that was granted. The end of validity moves by as much, never
// back, since no renewal begins before the one before it.
func (r renewal) rebase() renewal {
	if r.bound != never {
		r.bound -= r.asked
	}
	if r.left > 0 {
		r.left--
	}
	r.flying, r.asked = false, 0
	return r.plan()
}

// pause sets the time of the next try after one that failed: between half of a delay and the whole, which doubles.
func (r renewal) pause(age time.Duration, jitter float64) renewal {
	r.flying = false
	r.next = age + r.delay/2 + time.Duration(jitter*float64(r.delay)/2)
	r.delay = min(2*r.delay, max(r.validity/8, time.Millisecond), pauseMost)
	return r
}
