package pure

import "time"

// A State is the stage of a node's life.
type State string

const (
	// Down means that there is no connection. The next attempt comes after
	// a pause.
	Down State = "down"
	// Dialing means that an attempt to connect and shake hands is under way.
	Dialing State = "dialing"
	// Fencing means that the commands of the previous connection are being made
	// harmless (R8).
	Fencing State = "fencing"
	// Paying means that the node's unconfirmed releases are sent, before
	// any other command (R8).
	Paying State = "paying"
	// Up means that the node gets every command, and its votes count.
	Up State = "up"
	// Shed means that this client broke the connection (R26). The node gets no
	// new commands.
	Shed State = "shed"
	// Stopped means that the group was closed.
	Stopped State = "stopped"
)

// String returns the name of the state.
func (s State) String() string { return string(s) }

// A LifeEvent is what happened to a node.
type LifeEvent uint8

// The events in the life of a node. DialFailed is also the event of a
// connection that died before it carried a lock command.
const (
	Started      LifeEvent = iota // the group was made
	Waited                        // the time for the next attempt has come
	Dialed                        // a connection shook hands
	DialFailed                    // an attempt to connect failed
	DialBarred                    // the server refused the credentials
	Fenced                        // the fence is done
	Paid                          // every debt that was due has been answered
	Broke                         // this client broke the connection
	Died                          // the connection ended with all answered
	DiedOwing                     // the connection ended with unanswered commands
	GroupStopped                  // the group was closed
)

// A LifeAction is what the node's goroutine does next.
type LifeAction uint8

// The actions that follow an event.
const (
	Stay    LifeAction = iota // continue
	ToDial                    // connect and shake hands
	ToFence                   // make the previous connection's commands harmless
	ToPay                     // send the debts
	ToServe                   // send commands
	ToWait                    // wait for Life.Wait
	ToHalt                    // end
)

// Limits of redialling (R26).
const (
	redialFirst = 50 * time.Millisecond
	redialMost  = time.Second
	barredFirst = time.Second
	barredMost  = 30 * time.Second
	// After a connection that lived for steadyAfter, the delays start again.
	steadyAfter = 500 * time.Millisecond
	// dialBurst dials may follow one another at once, and then one in each
	// dialInterval; one more may be overdrawn. That is at most 75 in any
	// minute.
	dialBurst    = 14
	dialInterval = time.Second
)

// Life is the state of one node and the decisions about it: (state, event, now)
// → (state, action).
type Life struct {
	State State
	// owesFence is set from the end of a connection with unanswered commands
	// until the fence.
	owesFence bool
	// Wait is how long to wait before the next dial, for the action ToWait.
	Wait time.Duration

	// Returning is set from the end of a steady connection, not by this
	// client, to the first failed attempt to replace it. The node may be up
	// again in a moment, as after an idle timeout.
	Returning bool
	// Ended is the time of that end.
	Ended time.Duration

	delay, barredDelay time.Duration
	since              time.Duration // when the state was entered
	credit             float64       // dials that the budget allows now
	creditAt           time.Duration
}

// NewLife returns the life of a node that has not been dialed.
func NewLife() Life {
	return Life{State: Down, delay: redialFirst, barredDelay: barredFirst, credit: dialBurst}
}

// On returns the life after an event, and what to do. jitter is uniform in [0,
// 1).
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
		// since stays: it shows how long the connection lived.
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

// buried handles the end of a connection. After a steady one that this client
// did not break, the first dial begins at once. An idle timeout of a server or
// a proxy ends the connections to all nodes at the same time, and without them
// there is no quorum. Further dials are delayed, as are those to a server that
// drops connections early, and the budget bounds them all (R26).
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

// OwesFence reports whether a fence must precede the next commands.
func (l Life) OwesFence() bool { return l.owesFence }

// OweFence returns the life of a node whose next connection leads to another
// process, which owes a fence or not.
func (l Life) OweFence(owes bool) Life {
	l.owesFence = owes
	return l
}

// Charge takes one more dial off the budget, for an attempt that may have made
// two connections: a server without HELLO is asked again over a new one (R21).
func (l Life) Charge() Life {
	l.credit--
	return l
}

// MayDial reports whether the budget allows a dial before the wait is over.
func (l Life) MayDial(now time.Duration) bool { return l.refill(now).credit >= 1 }

// Replaced reports whether a node has another process than before. before and
// now are their run ids, or "" if one may not be asked. What was sent to the
// former process is gone with it, and needs no fence (R8).
func Replaced(before, now string) bool { return before != "" && now != "" && before != now }

func (l Life) enter(s State, now time.Duration) Life {
	l.State, l.since = s, now
	return l
}

func (l Life) dial(now time.Duration) (Life, LifeAction) {
	l = l.refill(now)
	l.credit--
	return l.enter(Dialing, now), ToDial
}

// backOff waits before the next dial: 50 ms, doubling to 1 s. The time of the
// failed attempt counts. So after a long one the next dial begins at once: a
// stopped server answers the handshake in progress on resuming, so there should
// always be one (R26: the server counts again within 200 ms of resuming).
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

// waitFor waits for at least the given time, and until the budget allows a
// dial.
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

// shorten takes up to a tenth off a delay. Clients that lost a node together do
// not return together, and no delay exceeds its bound.
func shorten(d time.Duration, jitter float64) time.Duration {
	return d - time.Duration(jitter*float64(d)/10)
}
