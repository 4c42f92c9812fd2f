package pure

import (
	"math"
	"time"
)

// A Renewal is the state of one lock that is held, and the decisions about it:
// (state, event, age) → (state, action).
//
// All its times are ages: the time since the start of the grant or renewal with
// the present validity, by the clock that shows the longest time. A granted
// renewal moves that start, and the ages with it.
type Renewal struct {
	phase    phase
	Validity time.Duration // the age at which the validity ends
	bound    time.Duration // the age at which MaxHold ends the context, or Never
	next     time.Duration // the age at which a renewal is due, or Never
	asked    time.Duration // the age at which the renewal in flight began
	flying   bool          // a renewal is in flight
	renews   bool
	delay    time.Duration // the next pause after a failure
}

// A phase is the phase of a hold's life.
type phase uint8

const (
	phaseHeld    phase = iota
	phaseBounded       // its bound is reached; its keys are still held
	phaseOver          // lost, released or closed
)

// A RenewalEvent is what happened to a hold.
type RenewalEvent uint8

// The events of a hold.
const (
	OnLook    RenewalEvent = iota // the clocks were read
	OnGrant                       // a quorum extended the keys
	OnRefusal                     // no quorum has the key with this token
	OnFailure                     // the renewal ended with neither
	OnEnd                         // the lock was released, or the client closed
)

// A RenewalAction is what to do after an event.
type RenewalAction uint8

// The actions that follow an event.
const (
	CarryOn     RenewalAction = iota // do nothing
	ToRenew                          // send a renewal
	ToProlong                        // count the validity from the renewal's start
	ToLose                           // end the context: the lock is lost
	ToStopShort                      // end the context: the bound is reached
	ToDrop                           // stop renewing: the hold is over
)

const (
	// Never is an age that is never reached.
	Never = time.Duration(math.MaxInt64)
	// renewalsPerValidity sets when to renew: at a third of the validity,
	// with time left for two more tries (R13).
	renewalsPerValidity = 3
	// pauseMost bounds the pause after a failed renewal.
	pauseMost = time.Second
	// LookMost is the longest time between two readings of the clocks while
	// anything is held (R13): timers stand still during a suspend.
	LookMost = 250 * time.Millisecond
	// WindowMost bounds how early a renewal is sent together with another that
	// is due.
	WindowMost = 5 * time.Millisecond
)

// NewRenewal returns the state of a lock that was just granted. bound is Never
// if nothing bounds the hold. Unless renews, the lock ends as it was granted.
func NewRenewal(validity, bound time.Duration, renews bool) Renewal {
	r := Renewal{Validity: validity, bound: bound, renews: renews}
	return r.plan()
}

// AtOnce makes the first renewal due now, if there will be one. It is for a
// lock that is no longer young.
func (r Renewal) AtOnce() Renewal {
	if r.next != Never {
		r.next = 0
	}
	return r
}

// Held reports whether the hold has neither ended nor reached its bound.
func (r Renewal) Held() bool { return r.phase == phaseHeld }

// plan sets the time of the first renewal, if any is of use, and the first
// pause after a failure, a small part of the validity.
func (r Renewal) plan() Renewal {
	r.next, r.delay = Never, min(max(r.Validity/64, time.Millisecond), 100*time.Millisecond)
	if r.renews && r.bound > r.Validity-cancelMargin(r.Validity) {
		r.next = r.Validity / renewalsPerValidity
	}
	return r
}

// cancelMargin returns how long before the end of validity the context is
// cancelled (R13). It is at most half of the validity.
func cancelMargin(validity time.Duration) time.Duration {
	return min(max(time.Millisecond, validity/1000), validity/2)
}

// renewalWindow returns how early a renewal may be sent together with others: a
// small part of the validity.
func renewalWindow(validity time.Duration) time.Duration { return min(WindowMost, validity/100) }

// Alarm returns the age at which to feed OnLook next: the end of the context,
// or a due renewal.
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

// On returns the state after an event at the given age, and what to do. jitter
// is uniform in [0, 1).
func (r Renewal) On(e RenewalEvent, age time.Duration, jitter float64) (Renewal, RenewalAction) {
	if r.phase == phaseOver {
		return r, ToDrop
	}
	switch e {
	case OnLook:
		return r.look(age)
	case OnGrant:
		if age >= r.Validity {
			return r.end(ToLose) // the grant came too late (R10)
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
		act = ToDrop // its context has already ended
	}
	r.phase, r.flying = phaseOver, false
	return r, act
}

// rebase makes the ages count from the start of the renewal that was granted.
// Each renewal begins after the one before, so this moves the end of validity
// forward.
func (r Renewal) rebase() Renewal {
	if r.bound != Never {
		r.bound -= r.asked
	}
	r.flying, r.asked = false, 0
	return r.plan()
}

// pause sets when to try again after a failure: after a random time between
// half of the delay and all of it. The delay doubles.
func (r Renewal) pause(age time.Duration, jitter float64) Renewal {
	r.flying = false
	r.next = age + r.delay/2 + time.Duration(jitter*float64(r.delay)/2)
	r.delay = min(2*r.delay, max(r.Validity/8, time.Millisecond), pauseMost)
	return r
}
