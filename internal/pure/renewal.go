package pure

import (
	"math"
	"time"
)

// A Renewal is the state of one lock that is held, and the pure decisions about it: (state, event, age) → (state, action). It
// has no clock, no timer and no node; the keeper of redlock feeds it, and a table tests it.
//
// All its times are ages: the time since the start of the grant, or of the renewal, from which the validity counts, by the
// clock that says most. A renewal that is granted moves that start, and the ages with it.
type Renewal struct {
	phase    phase
	Validity time.Duration // the age at which the validity ends
	bound    time.Duration // the age at which MaxHold ends the context; Never if none
	next     time.Duration // the age at which the next renewal is due; Never if none
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

// A RenewalEvent is what happened to a hold.
type RenewalEvent uint8

const (
	OnLook    RenewalEvent = iota // somebody looked at the clocks
	OnGrant                       // a quorum extended the keys
	OnRefusal                     // so many nodes do not hold it for us that no quorum does
	OnFailure                     // neither is known
	OnEnd                         // it was released, or the client closed
)

// A RenewalAction is what is to be done about it.
type RenewalAction uint8

const (
	CarryOn     RenewalAction = iota
	ToRenew                   // send a renewal
	ToProlong                 // the validity counts from the start of the renewal that was granted
	ToLose                    // end the context: the lock is lost
	ToStopShort               // end the context: the bound is reached
	ToDrop                    // nothing is to be looked after any more
)

const (
	Never = time.Duration(math.MaxInt64)
	// renewalsPerValidity says when to renew: at a third of the validity there is time for a second try, and a third (R13).
	renewalsPerValidity = 3
	// pauseMost bounds the pause after a renewal that failed.
	pauseMost = time.Second
	// WindowMost is how much before its time a renewal goes along with another that is due.
	WindowMost = 5 * time.Millisecond
)

// NewRenewal is the state of a lock that was just granted. bound is Never where nothing bounds the hold, and extensions is
// negative where nothing bounds their number.
func NewRenewal(validity, bound time.Duration, extensions int) Renewal {
	r := Renewal{Validity: validity, bound: bound, left: extensions}
	return r.plan()
}

// plan sets the time of the first try to renew, if a renewal is of any use.
func (r Renewal) plan() Renewal {
	r.next, r.delay = Never, min(max(r.Validity/64, time.Millisecond), 100*time.Millisecond)
	if r.left != 0 && r.bound > r.Validity-cancelMargin(r.Validity) {
		r.next = r.Validity / renewalsPerValidity
	}
	return r
}

// cancelMargin is how long before the end of validity the context is cancelled (R13), but no more than half of it.
func cancelMargin(validity time.Duration) time.Duration {
	return min(max(time.Millisecond, validity/1000), validity/2)
}

// renewalWindow is how early a renewal may go along with others: little beside the time that it is valid for.
func renewalWindow(validity time.Duration) time.Duration { return min(WindowMost, validity/100) }

// Alarm is the age at which to look again: when the context must end, or a renewal is due.
func (r Renewal) Alarm() time.Duration {
	switch {
	case r.phase == phaseOver:
		return Never
	case r.phase == phaseBounded:
		return r.Validity
	}
	end := min(r.bound, r.Validity-cancelMargin(r.Validity))
	if r.flying {
		return end
	}
	return min(end, r.next)
}

// On returns the state after an event at the given age, and what to do. jitter is uniform in [0, 1).
func (r Renewal) On(e RenewalEvent, age time.Duration, jitter float64) (Renewal, RenewalAction) {
	if r.phase == phaseOver {
		return r, ToDrop
	}
	switch e {
	case OnLook:
		return r.look(age)
	case OnGrant:
		if age >= r.Validity {
			return r.end(ToLose) // it came too late, whatever was granted (R10)
		}
		return r.rebase(), ToProlong
	case OnRefusal:
		return r.end(ToLose)
	case OnFailure:
		return r.pause(age, jitter), CarryOn
	default: // OnEnd
		return r.end(ToDrop)
	}
}

func (r Renewal) look(age time.Duration) (Renewal, RenewalAction) {
	switch {
	case r.phase == phaseBounded && age >= r.Validity:
		return r.end(ToDrop)
	case r.phase == phaseBounded:
		return r, CarryOn
	case age >= r.Validity-cancelMargin(r.Validity):
		return r.end(ToLose)
	case age >= r.bound:
		r.phase = phaseBounded
		return r, ToStopShort
	case !r.flying && r.next != Never && age >= r.next-renewalWindow(r.Validity):
		r.flying, r.asked = true, age
		return r, ToRenew
	}
	return r, CarryOn
}

func (r Renewal) end(act RenewalAction) (Renewal, RenewalAction) {
	if r.phase == phaseBounded {
		act = ToDrop // its context has ended
	}
	r.phase, r.flying = phaseOver, false
	return r, act
}

// rebase makes the ages count from the start of the renewal that was granted. The end of validity moves by as much, never
// back, since no renewal begins before the one before it.
func (r Renewal) rebase() Renewal {
	if r.bound != Never {
		r.bound -= r.asked
	}
	if r.left > 0 {
		r.left--
	}
	r.flying, r.asked = false, 0
	return r.plan()
}

// pause sets the time of the next try after one that failed: between half of a delay and the whole, which doubles.
func (r Renewal) pause(age time.Duration, jitter float64) Renewal {
	r.flying = false
	r.next = age + r.delay/2 + time.Duration(jitter*float64(r.delay)/2)
	r.delay = min(2*r.delay, max(r.Validity/8, time.Millisecond), pauseMost)
	return r
}
