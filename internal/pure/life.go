package pure

import "time"

// A State is where a node stands in its life.
type State uint8

const (
	// Down: no connection; the next attempt waits for its time.
	Down State = iota
	// Dialing: one attempt to connect and shake hands is under way.
	Dialing
	// Fencing: the commands of the connection before are being made harmless (R8).
	Fencing
	// Paying: releases that this node still owes are executed first (R8).
	Paying
	// Up: the node gets every command, and its votes count.
	Up
	// Shed: its connection was broken from here (R26); it gets no new commands.
	Shed
	// Stopped: the group was closed.
	Stopped
)

var stateNames = [...]string{"down", "dialing", "fencing", "paying", "up", "shed", "stopped"}

func (s State) String() string { return stateNames[s] }

// A LifeEvent is what happened to a node.
type LifeEvent uint8

const (
	Started      LifeEvent = iota
	Waited                 // the time for the next attempt has come
	Dialed                 // a connection shook hands
	DialFailed             // no connection, or it died before it carried a lock command
	DialBarred             // the server refused our credentials
	Fenced                 // nothing of the old connection can be executed any more
	Paid                   // nothing is owed that could be paid now
	Broke                  // we broke the connection
	Died                   // the connection ended and owed us nothing
	DiedOwing              // the connection ended with unanswered commands
	GroupStopped           // Close
)

// A LifeAction is what the node's goroutine does next.
type LifeAction uint8

const (
	Stay LifeAction = iota // nothing new
	ToDial
	ToFence
	ToPay
	ToServe
	ToWait // for Life.Wait
	ToHalt
)

// Limits of redialling (R26).
const (
	redialFirst  = 50 * time.Millisecond
	redialMost   = time.Second
	barredFirst  = time.Second
	barredMost   = 30 * time.Second
	steadyAfter  = 500 * time.Millisecond // a connection that lived so long starts the delays anew
	dialBurst    = 14                     // with one more a second, and one overdrawn: at most 75 connects in any minute
	dialInterval = time.Second
)

// Life is the state of one node and the pure decisions about it: (state, event, now) → (state, action). It has no clock,
// no socket and no goroutine; a node of multiplex feeds it, a table tests it, and a simulation drives it.
type Life struct {
	State State
	// owesFence: a connection ended with unanswered commands and was not fenced since.
	owesFence bool
	// Wait is how long to wait before the next dial, for the action ToWait.
	Wait time.Duration

	// Returning says that the last connection was a steady one, that it was not ended from here, and that no attempt to
	// replace it has failed yet: the node may be up again in a moment, as after an idle timeout.
	Returning bool
	// Ended is when that connection ended.
	Ended time.Duration

	delay, barredDelay time.Duration
	since              time.Duration // when the state was entered
	credit             float64       // dials that the budget allows now
	creditAt           time.Duration
}

func NewLife() Life {
	return Life{delay: redialFirst, barredDelay: barredFirst, credit: dialBurst}
}

// On returns the life after an event at the given time, and what to do. jitter is uniform in [0, 1).
func (l Life) On(e LifeEvent, now time.Duration, jitter float64) (Life, LifeAction) {
	if l.State == Stopped {
		return l, ToHalt
	}
	switch e {
	case GroupStopped:
		return l.enter(Stopped, now), ToHalt
	case Started, Waited:
		return l.dial(now)
	case Dialed:
		l.barredDelay = barredFirst
		if l.owesFence {
			return l.enter(Fencing, now), ToFence
		}
		return l.enter(Paying, now), ToPay
	case Fenced:
		l.owesFence = false
		return l.enter(Paying, now), ToPay
	case Paid:
		l.Returning = false
		return l.enter(Up, now), ToServe
	case Broke:
		if l.State != Up {
			return l, Stay
		}
		// since stays: it says how long the connection lived.
		l.State = Shed
		return l, Stay
	case DiedOwing, Died:
		l.owesFence = l.owesFence || e == DiedOwing
		return l.buried(now, jitter)
	case DialBarred:
		l.Returning = false
		return l.backOffBarred(now, jitter)
	default: // DialFailed
		l.Returning = false
		return l.backOff(now, jitter)
	}
}

// buried is the end of a connection that was up. After a steady one that was ended elsewhere the first dial begins at once:
// an idle timeout of a server or of a proxy ends the connections to all nodes together, and each moment without them is one
// without a quorum. It is only the first, the budget allows it or not, and a server that drops what it has let in gets the
// delays (R26).
func (l Life) buried(now time.Duration, jitter float64) (Life, LifeAction) {
	if now-l.since < steadyAfter {
		return l.backOff(now, jitter)
	}
	l.delay = redialFirst
	if l.State != Up {
		return l.backOff(now, jitter)
	}
	l, act := l.waitFor(0, now)
	l.Returning, l.Ended = l.Wait == 0, now
	return l, act
}

// Charge takes one more dial off the budget, for an attempt that may have taken two: a server without HELLO is asked again
// over a fresh connection (R21).
func (l Life) Charge() Life {
	l.credit--
	return l
}

func (l Life) enter(s State, now time.Duration) Life {
	l.State, l.since = s, now
	return l
}

func (l Life) dial(now time.Duration) (Life, LifeAction) {
	l = l.refill(now)
	l.credit--
	return l.enter(Dialing, now), ToDial
}

// backOff waits before the next dial: 50 ms, doubling to 1 s. An attempt that hung for longer than that, in the handshake
// or in what follows it, has waited already, and the next one starts at once: a server that was only stopped answers the
// handshake that is under way, so there should always be one (R26: it counts again within 200 ms of going on).
func (l Life) backOff(now time.Duration, jitter float64) (Life, LifeAction) {
	wait := shorten(l.delay, jitter)
	if l.State != Up && l.State != Shed {
		wait = max(0, wait-(now-l.since))
	}
	l.delay = min(2*l.delay, redialMost)
	return l.waitFor(wait, now)
}

func (l Life) backOffBarred(now time.Duration, jitter float64) (Life, LifeAction) {
	wait := shorten(l.barredDelay, jitter)
	l.barredDelay = min(2*l.barredDelay, barredMost)
	return l.waitFor(wait, now)
}

// waitFor waits at least the given time, and until the budget allows a dial.
func (l Life) waitFor(wait time.Duration, now time.Duration) (Life, LifeAction) {
	l = l.refill(now)
	if l.credit < 1 {
		wait = max(wait, time.Duration((1-l.credit)*float64(dialInterval)))
	}
	l.Wait = wait
	return l.enter(Down, now), ToWait
}

func (l Life) refill(now time.Duration) Life {
	l.credit = min(dialBurst, l.credit+float64(now-l.creditAt)/float64(dialInterval))
	l.creditAt = now
	return l
}

// shorten takes up to a tenth off a delay, so that clients that lost a node together do not come back together, and no
// delay exceeds its bound.
func shorten(d time.Duration, jitter float64) time.Duration {
	return d - time.Duration(jitter*float64(d)/10)
}
