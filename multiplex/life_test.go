package multiplex

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func TestLifeTransitions(t *testing.T) {
	in := func(s State) life { l := newLife(); l.state = s; return l }
	owing := func(s State) life { l := in(s); l.owesFence = true; return l }
	table := []struct {
		name  string
		from  life
		event event
		state State
		owes  bool
		act   action
	}{
		{"a new node dials", in(Down), started, Dialing, false, toDial},
		{"the wait is over", in(Down), waited, Dialing, false, toDial},
		{"a wait does not forget the fence", owing(Down), waited, Dialing, true, toDial},
		{"dialed with nothing to fence", in(Dialing), dialed, Paying, false, toPay},
		{"dialed after unanswered commands", owing(Dialing), dialed, Fencing, true, toFence},
		{"the dial failed", in(Dialing), dialFailed, Down, false, toWait},
		{"the dial failed, the fence stays owed", owing(Dialing), dialFailed, Down, true, toWait},
		{"wrong password", in(Dialing), dialBarred, Down, false, toWait},
		{"wrong password, the fence stays owed", owing(Dialing), dialBarred, Down, true, toWait},
		{"fenced", owing(Fencing), fenced, Paying, false, toPay},
		{"died while fencing", owing(Fencing), dialFailed, Down, true, toWait},
		{"paid", in(Paying), paid, Up, false, toServe},
		{"died while paying", in(Paying), dialFailed, Down, false, toWait},
		{"shed", in(Up), shed, Shed, false, carryOn},
		{"shed again", in(Shed), shed, Shed, false, carryOn},
		{"shed while down is nothing", in(Down), shed, Down, false, carryOn},
		{"died with nothing owed", in(Up), died, Down, false, toWait},
		{"died owing", in(Up), diedOwing, Down, true, toWait},
		{"shed and buried", in(Shed), diedOwing, Down, true, toWait},
		{"shed and buried, owing nothing", in(Shed), died, Down, false, toWait},
		{"an older fence is not forgotten", owing(Up), died, Down, true, toWait},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			l, act := c.from.on(c.event, time.Second, 0)
			assert.Equal(t, c.state, l.state, "state is %v", l.state)
			assert.Equal(t, c.owes, l.owesFence, "owes a fence (R8)")
			assert.Equal(t, c.act, act)
		})
	}
}

func TestLifeStopsFromEveryState(t *testing.T) {
	for s := Down; s <= Stopped; s++ {
		l := newLife()
		l.state = s
		l, act := l.on(groupStopped, 0, 0)
		assert.Equal(t, Stopped, l.state)
		assert.Equal(t, toHalt, act)
		for e := started; e <= groupStopped; e++ {
			again, act := l.on(e, time.Hour, 0)
			assert.Equal(t, Stopped, again.state)
			assert.Equal(t, toHalt, act)
		}
	}
}

// refuse plays a node that refuses connections at once, and returns the waits between two dials.
func refuse(l life, e event, times int, jitter float64) []time.Duration {
	var waits []time.Duration
	now := time.Duration(0)
	l, _ = l.on(started, now, jitter)
	for range times {
		l, _ = l.on(e, now, jitter)
		waits = append(waits, l.wait)
		now += l.wait
		l, _ = l.on(waited, now, jitter)
	}
	return waits
}

func TestRedialDelays(t *testing.T) {
	assert.Equal(t, []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second},
		refuse(newLife(), dialFailed, 7, 0), "R26: 50 ms doubling to 1 s")
	assert.Equal(t, []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 30 * time.Second, 30 * time.Second},
		refuse(newLife(), dialBarred, 7, 0), "R26: wrong credentials to 30 s")

	for _, jitter := range []float64{0, 0.3, 0.999999} {
		for i, wait := range refuse(newLife(), dialFailed, 40, jitter) {
			full := refuse(newLife(), dialFailed, 40, 0)[i]
			assert.LessOrEqual(t, wait, full, "jitter only shortens")
			assert.GreaterOrEqual(t, wait, full*9/10)
			assert.LessOrEqual(t, wait, time.Second)
		}
	}
}

func TestRedialStartsAnewAfterASteadyConnection(t *testing.T) {
	died := func(lived time.Duration) time.Duration {
		l := newLife()
		l.state, l.delay = Up, redialMost
		l, _ = l.on(diedOwing, lived, 0)
		return l.wait
	}
	assert.Equal(t, redialFirst, died(steadyAfter))
	assert.Equal(t, redialMost, died(steadyAfter-1))

	// The same when it was shed in between: since says how long the connection lived.
	l := newLife()
	l.state, l.delay = Up, redialMost
	l, _ = l.on(shed, 2*time.Second, 0)
	l, _ = l.on(diedOwing, 2*time.Second, 0)
	assert.Equal(t, redialFirst, l.wait)
}

// A server that was only stopped answers the handshake that is under way; so there must always be one (R26).
func TestHungAttemptRedialsAtOnce(t *testing.T) {
	for _, s := range []State{Dialing, Fencing, Paying} {
		t.Run(s.String(), func(t *testing.T) {
			l := newLife()
			l.state, l.delay = s, redialMost
			hung, act := l.on(dialFailed, 5*time.Second, 0)
			assert.Equal(t, toWait, act)
			assert.Zero(t, hung.wait, "it has waited already")

			short, _ := l.on(dialFailed, 300*ms, 0)
			assert.Equal(t, 700*ms, short.wait, "part of the wait is over")
		})
	}
}

// play drives a life through random events for ten minutes and returns when it dialed.
func play(rng *rand.Rand) (dials []time.Duration, most time.Duration) {
	l, act := newLife().on(started, 0, 0)
	now := time.Duration(0)
	// Each run has its own taste: nodes that refuse, that hang, that die young, and mixtures.
	fast, hang := rng.Float64(), rng.Float64()
	spend := func() time.Duration {
		if rng.Float64() < fast {
			return 0
		}
		return time.Duration(rng.Float64() * hang * float64(3*time.Second))
	}
	for now < 10*time.Minute {
		var e event
		switch act {
		case toDial:
			dials = append(dials, now)
			now += spend()
			e = []event{dialFailed, dialed, dialBarred, dialFailed, dialed}[rng.IntN(5)]
			if e == dialBarred && rng.IntN(10) > 0 {
				e = dialFailed
			}
		case toFence:
			now += spend()
			e = []event{fenced, dialFailed}[rng.IntN(2)]
		case toPay:
			now += spend()
			e = []event{paid, paid, dialFailed}[rng.IntN(3)]
		case toServe:
			now += spend()
			if rng.IntN(2) == 0 {
				l, _ = l.on(shed, now, rng.Float64())
			}
			e = []event{died, diedOwing}[rng.IntN(2)]
		case toWait:
			most = max(most, l.wait)
			now += l.wait
			e = waited
		}
		l, act = l.on(e, now, rng.Float64())
	}
	return dials, most
}

func TestDialsPerMinuteAreBounded(t *testing.T) {
	rng := seeded(t, 26)
	for range 40 {
		dials, most := play(rng)
		require.LessOrEqual(t, most, barredMost)
		first := 0
		for i, at := range dials {
			for at-dials[first] >= time.Minute {
				first++
			}
			require.LessOrEqual(t, i-first+1, 75, "R26: dials in the minute before %v", at)
		}
	}
}

// The budget is there to be used: a node that refuses is tried about once a second for ever.
func TestRefusingNodeIsTriedEverySecond(t *testing.T) {
	for _, wait := range refuse(newLife(), dialFailed, 1000, 0.5) {
		require.LessOrEqual(t, wait, 1100*ms)
	}
}

// The fence stays owed through whatever happens until it is done (R8).
func TestFenceIsOwedUntilFenced(t *testing.T) {
	rng := seeded(t, 8)
	for range 2000 {
		l, act := newLife().on(started, 0, 0)
		owed, now := false, time.Duration(0)
		for range 40 {
			var e event
			switch act {
			case toDial:
				e = []event{dialFailed, dialed, dialBarred}[rng.IntN(3)]
			case toFence:
				require.True(t, owed)
				e = []event{fenced, dialFailed}[rng.IntN(2)]
			case toPay:
				require.False(t, owed, "no debt is paid, and no command sent, before the fence")
				e = []event{paid, dialFailed}[rng.IntN(2)]
			case toServe:
				require.False(t, owed)
				e = []event{died, diedOwing}[rng.IntN(2)]
			case toWait:
				now += l.wait
				e = waited
			}
			owed = owed && e != fenced || e == diedOwing
			l, act = l.on(e, now, rng.Float64())
		}
	}
}

func TestStateNames(t *testing.T) {
	for s := Down; s <= Stopped; s++ {
		assert.NotEmpty(t, s.String())
	}
}
