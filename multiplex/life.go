package multiplex

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

// An event is what happened to a node.
type event uint8

const (
	started      event = iota
	waited             // the time for the next attempt has come
	dialed             // a connection shook hands
	dialFailed         // no connection, or it died before it carried a lock command
	dialBarred         // the server refused our credentials
	fenced             // nothing of the old connection can be executed any more
	paid               // nothing is owed that could be paid now
	shed               // we broke the connection
	died               // the connection ended and owed us nothing
	diedOwing          // the connection ended with unanswered commands
	groupStopped       // Close
)

// An action is what the node's goroutine does next.
type action uint8

const (
	carryOn action = iota // nothing new
	toDial
	toFence
	toPay
	toServe
	toWait // for life.wait
	toHalt
)

// Limits of redialling (R26).
const (
	redialFirst  = 50 * time.Millisecond
	redialMost   = time.Second
	barredFirst  = time.Second
	barredMost   = 30 * time.Second
	steadyAfter  = time.Second // a connection that lived so long starts the delays anew
	dialBurst    = 14          // with one more a second, and one overdrawn: at most 75 connects in any minute
	dialInterval = time.Second
)

// life is the state of one node and the pure decisions about it: (state, event, now) → (state, action). It has no clock,
// no socket and no goroutine; node.go feeds it, a table tests it, and a simulator can drive it.
type life struct {
	state State
	// owesFence: a connection ended with unanswered commands and was not fenced since.
	owesFence bool
	// wait is how long to wait before the next dial, for the action toWait.
	wait time.Duration

	delay, barredDelay time.Duration
	since              time.Duration // when the state was entered
	credit             float64       // dials that the budget allows now
	creditAt           time.Duration
}

func newLife() life {
	return life{delay: redialFirst, barredDelay: barredFirst, credit: dialBurst}
}

// on returns the life after an event at the given time, and what to do. jitter is uniform in [0, 1).
func (l life) on(e event, now time.Duration, jitter float64) (life, action) {
	if l.state == Stopped {
		return l, toHalt
	}
	switch e {
	case groupStopped:
		return l.enter(Stopped, now), toHalt
	case started, waited:
		return l.dial(now)
	case dialed:
		l.barredDelay = barredFirst
		if l.owesFence {
			return l.enter(Fencing, now), toFence
		}
		return l.enter(Paying, now), toPay
	case fenced:
		l.owesFence = false
		return l.enter(Paying, now), toPay
	case paid:
		return l.enter(Up, now), toServe
	case shed:
		if l.state != Up {
			return l, carryOn
		}
		// since stays: it says how long the connection lived.
		l.state = Shed
		return l, carryOn
	case diedOwing, died:
		l.owesFence = l.owesFence || e == diedOwing
		if now-l.since >= steadyAfter {
			l.delay = redialFirst
		}
		return l.backOff(now, jitter)
	case dialBarred:
		return l.backOffBarred(now, jitter)
	default: // dialFailed
		return l.backOff(now, jitter)
	}
}

// charge takes one more dial off the budget, for an attempt that may have taken two: a server without HELLO is asked again
// over a fresh connection (R21).
func (l life) charge() life {
	l.credit--
	return l
}

func (l life) enter(s State, now time.Duration) life {
	l.state, l.since = s, now
	return l
}

func (l life) dial(now time.Duration) (life, action) {
	l = l.refill(now)
	l.credit--
	return l.enter(Dialing, now), toDial
}

// backOff waits before the next dial: 50 ms, doubling to 1 s. An attempt that hung for longer than that, in the handshake
// or in what follows it, has waited already, and the next one starts at once: a server that was only stopped answers the
// handshake that is under way, so there should always be one (R26: it counts again within 200 ms of going on).
func (l life) backOff(now time.Duration, jitter float64) (life, action) {
	wait := shorten(l.delay, jitter)
	if l.state != Up && l.state != Shed {
		wait = max(0, wait-(now-l.since))
	}
	l.delay = min(2*l.delay, redialMost)
	return l.waitFor(wait, now)
}

func (l life) backOffBarred(now time.Duration, jitter float64) (life, action) {
	wait := shorten(l.barredDelay, jitter)
	l.barredDelay = min(2*l.barredDelay, barredMost)
	return l.waitFor(wait, now)
}

// waitFor waits at least the given time, and until the budget allows a dial.
func (l life) waitFor(wait time.Duration, now time.Duration) (life, action) {
	l = l.refill(now)
	if l.credit < 1 {
		wait = max(wait, time.Duration((1-l.credit)*float64(dialInterval)))
	}
	l.wait = wait
	return l.enter(Down, now), toWait
}

func (l life) refill(now time.Duration) life {
	l.credit = min(dialBurst, l.credit+float64(now-l.creditAt)/float64(dialInterval))
	l.creditAt = now
	return l
}

// shorten takes up to a tenth off a delay, so that clients that lost a node together do not come back together, and no
// delay exceeds its bound.
func shorten(d time.Duration, jitter float64) time.Duration {
	return d - time.Duration(jitter*float64(d)/10)
}
