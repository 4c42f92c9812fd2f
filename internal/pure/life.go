package pure

import "time"

// A State is where a node stands in its life.
type State uint8

const (
	// Down: no connection; the next attempt waits for its time.
	Down State = iota
	// Dialing: one attempt to connect and shake hands is under way.
	Dialing
	// Fencing: the commands of the previous connection are being made harmless
	// (R8).
	Fencing
	// Paying: the releases that the node has not confirmed are sent first (R8).
	Paying
	// Up: the node gets every command, and its votes count.
	Up
	// Shed: this client broke the connection (R26). The node gets no new
	// commands.
	Shed
	// Stopped: the group was closed.
	Stopped
)

var stateNames = [...]string{"down", "dialing", "fencing", "paying", "up", "shed", "stopped"}

// String returns the name of the state.
func (s State) String() string { return stateNames[s] }

// A LifeEvent is what happened to a node.
type LifeEvent uint8

// The events in the life of a node.
const (
	Started      LifeEvent = iota // the group was made
	Waited                        // the time for the next attempt has come
	Dialed                        // a connection shook hands
	DialFailed                    // no connection, or it died before it carried a lock command
	DialBarred                    // the server refused the credentials
	Fenced                        // no command of the old connection can be executed any more
	Paid                          // every debt that was due has been answered
	Broke                         // this client broke the connection
	Died                          // the connection ended with every command answered
	DiedOwing                     // the connection ended with unanswered commands
	GroupStopped                  // the group was closed
)

// A LifeAction is what the node's goroutine does next.
type LifeAction uint8

// The actions that follow an event.
const (
	Stay    LifeAction = iota // go on
	ToDial                    // connect and shake hands
	ToFence                   // make the commands of the previous connection harmless
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
	steadyAfter = 500 * time.Millisecond // a connection that lived so long starts the delays anew
	// dialBurst dials may follow one another at once, and then one in each
	// dialInterval; one may be overdrawn. That is at most 75 in any minute.
	dialBurst    = 14
	dialInterval = time.Second
)

// Life is the state of one node and the decisions about it: (state, event, now)
// → (state, action).
type Life struct {
	State State // where the node stands
	// owesFence is set when a connection ends with unanswered commands, until
	// the fence.
	owesFence bool
	// Wait is how long to wait before the next dial, for the action ToWait.
	Wait time.Duration

	// Returning is set when a steady connection ends that this client did not
	// break, until an attempt to replace it fails: the node may be up again in
	// a moment, as after an idle timeout.
	Returning bool
	// Ended is when that connection ended.
	Ended time.Duration

	delay, barredDelay time.Duration
	since              time.Duration // when the state was entered
	credit             float64       // dials that the budget allows now
	creditAt           time.Duration
}

// NewLife returns the life of a node that has not been dialed.
func NewLife() Life {
	return Life{delay: redialFirst, barredDelay: barredFirst, credit: dialBurst}
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
		// since stays, to tell how long the connection lived.
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

// buried handles the end of a connection. If it was steady and this client did
// not break it, the first dial begins at once: an idle timeout of a server or a
// proxy ends the connections to all nodes together, and until they are back
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

// Charge takes one more dial off the budget, for an attempt that may have made
// two connections: a server without HELLO is asked again over a fresh one
// (R21).
func (l Life) Charge() Life {
	l.credit--
	return l
}

// Replaced reports whether a node's process is another than before, by their
// run ids; "" if one may not be asked. What the former was sent is gone with
// it, and needs no fence (R8).
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

// backOff waits before the next dial: 50 ms, doubling to 1 s. The time that the
// failed attempt took counts, so after a long one the next dial starts at once:
// a stopped server that resumes answers the handshake in progress, so there
// should always be one (R26: the server counts again within 200 ms of
// resuming).
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

// shorten takes up to a tenth off a delay, so that clients that lost a node
// together do not return together, and no delay exceeds its bound.
func shorten(d time.Duration, jitter float64) time.Duration {
	return d - time.Duration(jitter*float64(d)/10)
}
