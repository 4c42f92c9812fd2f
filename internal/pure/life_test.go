package pure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLifeTransitions(t *testing.T) {
	in := func(s State) Life { l := NewLife(); l.State = s; return l }
	owing := func(s State) Life { l := in(s); l.owesFence = true; return l }
	table := []struct {
		name  string
		from  Life
		event LifeEvent
		state State
		owes  bool
		act   LifeAction
	}{
		{"a new node dials", in(Down), Started, Dialing, false, ToDial},
		{"the wait is over", in(Down), Waited, Dialing, false, ToDial},
		{"a wait does not forget the fence", owing(Down), Waited, Dialing, true, ToDial},
		{"dialed with nothing to fence", in(Dialing), Dialed, Paying, false, ToPay},
		{"dialed after unanswered commands", owing(Dialing), Dialed, Fencing, true, ToFence},
		{"the dial failed", in(Dialing), DialFailed, Down, false, ToWait},
		{"the dial failed, the fence stays owed", owing(Dialing), DialFailed, Down, true, ToWait},
		{"wrong password", in(Dialing), DialBarred, Down, false, ToWait},
		{"wrong password, the fence stays owed", owing(Dialing), DialBarred, Down, true, ToWait},
		{"fenced", owing(Fencing), Fenced, Paying, false, ToPay},
		{"died while fencing", owing(Fencing), DialFailed, Down, true, ToWait},
		{"paid", in(Paying), Paid, Up, false, ToServe},
		{"died while paying", in(Paying), DialFailed, Down, false, ToWait},
		{"shed", in(Up), Broke, Shed, false, Stay},
		{"shed again", in(Shed), Broke, Shed, false, Stay},
		{"shed while down is nothing", in(Down), Broke, Down, false, Stay},
		{"died with nothing owed", in(Up), Died, Down, false, ToWait},
		{"died owing", in(Up), DiedOwing, Down, true, ToWait},
		{"shed and buried", in(Shed), DiedOwing, Down, true, ToWait},
		{"shed and buried, owing nothing", in(Shed), Died, Down, false, ToWait},
		{"an older fence is not forgotten", owing(Up), Died, Down, true, ToWait},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			l, act := c.from.On(c.event, time.Second, 0)
			assert.Equal(t, c.state, l.State, "state is %v", l.State)
			assert.Equal(t, c.owes, l.owesFence, "owes a fence (R8)")
			assert.Equal(t, c.act, act)
		})
	}
}

func TestLifeStopsFromEveryState(t *testing.T) {
	for s := Down; s <= Stopped; s++ {
		l := NewLife()
		l.State = s
		l, act := l.On(GroupStopped, 0, 0)
		assert.Equal(t, Stopped, l.State)
		assert.Equal(t, ToHalt, act)
		for e := Started; e <= GroupStopped; e++ {
			again, act := l.On(e, time.Hour, 0)
			assert.Equal(t, Stopped, again.State)
			assert.Equal(t, ToHalt, act)
		}
	}
}

// refuse plays a node that refuses connections at once, and returns the waits
// between the dials.
func refuse(l Life, e LifeEvent, times int, jitter float64) []time.Duration {
	var waits []time.Duration
	now := time.Duration(0)
	l, _ = l.On(Started, now, jitter)
	for range times {
		l, _ = l.On(e, now, jitter)
		waits = append(waits, l.Wait)
		now += l.Wait
		l, _ = l.On(Waited, now, jitter)
	}
	return waits
}

func TestRedialDelays(t *testing.T) {
	assert.Equal(t, []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second},
		refuse(NewLife(), DialFailed, 7, 0), "R26: 50 ms doubling to 1 s")
	assert.Equal(t, []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 30 * time.Second, 30 * time.Second},
		refuse(NewLife(), DialBarred, 7, 0), "R26: wrong credentials to 30 s")

	for _, jitter := range []float64{0, 0.3, 0.999999} {
		for i, wait := range refuse(NewLife(), DialFailed, 40, jitter) {
			full := refuse(NewLife(), DialFailed, 40, 0)[i]
			assert.LessOrEqual(t, wait, full, "jitter only shortens")
			assert.GreaterOrEqual(t, wait, full*9/10)
			assert.LessOrEqual(t, wait, time.Second)
		}
	}
}

func TestRedialStartsAnewAfterASteadyConnection(t *testing.T) {
	died := func(lived time.Duration) time.Duration {
		l := NewLife()
		l.State, l.delay = Up, redialMost
		l, _ = l.On(DiedOwing, lived, 0)
		return l.Wait
	}
	assert.Zero(t, died(steadyAfter), "the first dial begins at once")
	assert.Equal(t, redialMost, died(steadyAfter-1))

	// The same if the node was shed in between: since tells how long the
	// connection lived.
	l := NewLife()
	l.State, l.delay = Up, redialMost
	l, _ = l.On(Broke, 2*time.Second, 0)
	l, _ = l.On(DiedOwing, 2*time.Second, 0)
	assert.Equal(t, redialFirst, l.Wait)
}

// Only the first dial after a steady connection starts at once. A server that
// then accepts nothing, or drops at once what it accepted, gets the delays from
// then on (R26).
func TestFirstRedialIsAtOnce_R26(t *testing.T) {
	steady := func(from State) Life {
		l := NewLife()
		l.State = from
		l, _ = l.On(DiedOwing, steadyAfter, 0.5)
		return l
	}
	l := steady(Up)
	assert.True(t, l.Returning)
	assert.Equal(t, steadyAfter, l.Ended)
	now := steadyAfter
	l, _ = l.On(Waited, now, 0)
	assert.True(t, l.Returning, "while the first attempt is under way")
	for _, e := range []LifeEvent{DialFailed, DialBarred} {
		failed, _ := l.On(e, now, 0)
		assert.False(t, failed.Returning, "it has failed")
		assert.GreaterOrEqual(t, failed.Wait, redialFirst)
	}
	l, _ = l.On(Dialed, now, 0)
	l, _ = l.On(Fenced, now, 0)
	l, _ = l.On(Paid, now, 0)
	assert.False(t, l.Returning, "it has returned")
	l, _ = l.On(Died, now, 0)
	assert.Equal(t, redialFirst, l.Wait, "what is dropped at once")
	assert.False(t, l.Returning)

	shed := steady(Shed)
	assert.InDelta(t, redialFirst, shed.Wait, float64(redialFirst)/10, "a silent node")
	assert.False(t, shed.Returning)

	l = NewLife()
	l.State, l.credit = Up, -10
	l, _ = l.On(Died, steadyAfter, 0)
	assert.Greater(t, l.Wait, time.Second, "not even then beyond the budget")
	assert.False(t, l.Returning)
}

// A server that was only stopped answers the handshake in progress, so there
// must always be one (R26).
func TestHungAttemptRedialsAtOnce(t *testing.T) {
	for _, s := range []State{Dialing, Fencing, Paying} {
		t.Run(s.String(), func(t *testing.T) {
			l := NewLife()
			l.State, l.delay = s, redialMost
			hung, act := l.On(DialFailed, 5*time.Second, 0)
			assert.Equal(t, ToWait, act)
			assert.Zero(t, hung.Wait, "it has waited already")

			short, _ := l.On(DialFailed, 300*ms, 0)
			assert.Equal(t, 700*ms, short.Wait, "part of the wait is over")
		})
	}
}

// play drives a life through random events for ten minutes and returns the
// times of its dials.
func play(rng *rand.Rand) (dials []time.Duration, most time.Duration) {
	l, act := NewLife().On(Started, 0, 0)
	now := time.Duration(0)
	// Each run has its own mixture of nodes that refuse, hang or die young.
	fast, hang := rng.Float64(), rng.Float64()
	spend := func() time.Duration {
		if rng.Float64() < fast {
			return 0
		}
		return time.Duration(rng.Float64() * hang * float64(3*time.Second))
	}
	for now < 10*time.Minute {
		var e LifeEvent
		switch act {
		case ToDial:
			dials = append(dials, now)
			now += spend()
			e = []LifeEvent{DialFailed, Dialed, DialBarred, DialFailed, Dialed}[rng.IntN(5)]
			if e == DialBarred && rng.IntN(10) > 0 {
				e = DialFailed
			}
		case ToFence:
			now += spend()
			e = []LifeEvent{Fenced, DialFailed}[rng.IntN(2)]
		case ToPay:
			now += spend()
			e = []LifeEvent{Paid, Paid, DialFailed}[rng.IntN(3)]
		case ToServe:
			now += spend()
			if rng.IntN(2) == 0 {
				l, _ = l.On(Broke, now, rng.Float64())
			}
			e = []LifeEvent{Died, DiedOwing}[rng.IntN(2)]
		case ToWait:
			most = max(most, l.Wait)
			now += l.Wait
			e = Waited
		}
		l, act = l.On(e, now, rng.Float64())
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

// The budget must be used: a node that refuses is dialed about once a second
// forever.
func TestRefusingNodeIsTriedEverySecond(t *testing.T) {
	for _, wait := range refuse(NewLife(), DialFailed, 1000, 0.5) {
		require.LessOrEqual(t, wait, 1100*ms)
	}
}

// The fence stays owed, whatever happens, until it is done (R8).
func TestFenceIsOwedUntilFenced(t *testing.T) {
	rng := seeded(t, 8)
	for range 2000 {
		l, act := NewLife().On(Started, 0, 0)
		owed, now := false, time.Duration(0)
		for range 40 {
			var e LifeEvent
			switch act {
			case ToDial:
				e = []LifeEvent{DialFailed, Dialed, DialBarred}[rng.IntN(3)]
			case ToFence:
				require.True(t, owed)
				e = []LifeEvent{Fenced, DialFailed}[rng.IntN(2)]
			case ToPay:
				require.False(t, owed, "no debt is paid, and no command sent, before the fence")
				e = []LifeEvent{Paid, DialFailed}[rng.IntN(2)]
			case ToServe:
				require.False(t, owed)
				e = []LifeEvent{Died, DiedOwing}[rng.IntN(2)]
			case ToWait:
				now += l.Wait
				e = Waited
			}
			owed = owed && e != Fenced || e == DiedOwing
			l, act = l.On(e, now, rng.Float64())
		}
	}
}

func TestStateNames(t *testing.T) {
	for s := Down; s <= Stopped; s++ {
		assert.NotEmpty(t, s.String())
	}
}
