package pure

import (
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
			assert.Equal(t, c.state.String(), l.State.String())
			assert.Equal(t, c.owes, l.owesFence, "owes a fence (R8)")
			assert.Equal(t, c.act, act)
			stopped, act := l.On(GroupStopped, time.Second, 0)
			assert.Equal(t, ToHalt, act)
			again, act := stopped.On(c.event, time.Hour, 0)
			assert.Equal(t, []any{Stopped, ToHalt}, []any{again.State, act}, "for good")
		})
	}
	assert.True(t, Replaced("a", "b"), "only two run ids that are known and differ show that a process is gone (R8)")
	assert.False(t, Replaced("a", "a") || Replaced("a", "") || Replaced("", "b") || Replaced("", ""))
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

	full := refuse(NewLife(), DialFailed, 1000, 0)
	for _, jitter := range []float64{0.3, 0.5, 0.999999} {
		for i, wait := range refuse(NewLife(), DialFailed, 1000, jitter) {
			require.LessOrEqual(t, wait, full[i]+100*ms, "the budget allows a dial a second for ever")
			if i < 40 {
				require.LessOrEqual(t, wait, full[i], "jitter only shortens")
				require.GreaterOrEqual(t, wait, full[i]*9/10)
			}
		}
	}

	// A server that was only stopped answers the handshake in progress, so there
	// must always be one: the time of a failed attempt counts.
	for _, s := range []State{Dialing, Fencing, Paying} {
		l := NewLife()
		l.State, l.delay = s, redialMost
		hung, act := l.On(DialFailed, 5*time.Second, 0)
		assert.Equal(t, ToWait, act)
		assert.Zero(t, hung.Wait, "%v: it has waited already", s)
		short, _ := l.On(DialFailed, 300*ms, 0)
		assert.Equal(t, 700*ms, short.Wait, "%v: part of the wait is over", s)
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

// The delays between dials alone do not bound the connects: a connection that
// lives for a second resets them, five quick refusals follow, and so on. That
// is 140 connects a minute; the budget limits them to 75 (R26).
func TestBudgetBoundsWhatDelaysDoNot_R26(t *testing.T) {
	now := time.Duration(0)
	l, _ := NewLife().On(Started, now, 0.999)
	dials := []time.Duration{now}
	for turn := 0; now < 5*time.Minute; turn++ {
		if turn%6 == 5 { // this dial succeeds, and the connection dies once it is steady
			for _, e := range []LifeEvent{Dialed, Paid} {
				l, _ = l.On(e, now, 0.999)
			}
			now += steadyAfter
			l, _ = l.On(Died, now, 0.999)
		} else {
			l, _ = l.On(DialFailed, now, 0.999)
		}
		now += l.Wait
		l, _ = l.On(Waited, now, 0.999)
		dials = append(dials, now)
	}
	first := 0
	for i, at := range dials {
		for at-dials[first] >= time.Minute {
			first++
		}
		require.LessOrEqual(t, i-first+1, 75, "dials in the minute before %v", at)
	}
	require.Greater(t, len(dials), 5*55, "and the budget is there to be used")
}
