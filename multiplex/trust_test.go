package multiplex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A trustStep is an event in the life of a node's trust and what is to be thought of the node after it.
type trustStep struct {
	at      time.Duration
	event   func(t trust, now time.Duration) trust
	trusted bool
	left    time.Duration
	why     string
}

func metRun(run string) func(trust, time.Duration) trust {
	return func(t trust, now time.Duration) trust { return t.meet(run, now) }
}

func saw(what seen, s seal) func(trust, time.Duration) trust {
	return func(t trust, now time.Duration) trust { return t.sight(sighting{what, s}, now) }
}

func wrote(watched time.Duration) func(trust, time.Duration) trust {
	return func(t trust, now time.Duration) trust { return t.seal(watched, now) }
}

func needed(need time.Duration) func(trust, time.Duration) trust {
	return func(t trust, now time.Duration) trust { return t.require(need, now) }
}

func passed(t trust, now time.Duration) trust { return t.at(now) }

// R23 as a table: the need is two seconds throughout.
func TestTrust_R23(t *testing.T) {
	const s, need = time.Second, 2 * time.Second
	a, short, b := seal{"a", s, need}, seal{"a", s, need - ms}, seal{"b", s, 9 * s}
	for name, steps := range map[string][]trustStep{
		"a process is watched for as long as is needed": {
			{0, passed, false, need, ""},
			{5 * s, passed, false, need, ""},
			{6 * s, metRun("a"), false, need, whyFirst},
			{8*s - 1, passed, false, 1, whyFirst},
			{8 * s, passed, true, 0, whyFirst},
			{9 * s, metRun("a"), true, 0, whyFirst},
			{99 * s, metRun("a"), true, 0, whyFirst},
		},
		"reconnects that show the same process do not interrupt the watch": {
			{0, metRun("a"), false, need, whyFirst},
			{s, metRun("a"), false, s, whyFirst},
			{2 * s, metRun("a"), true, 0, whyFirst},
		},
		"another process is watched anew": {
			{0, metRun("a"), false, need, whyFirst},
			{s, metRun("b"), false, need, whyRestart},
			{2 * s, passed, false, s, whyRestart},
			{3 * s, passed, true, 0, whyRestart},
			{4 * s, metRun("a"), false, need, whyRestart}, // another server at the address, and back
		},
		"a process without a name is watched anew with each connection": {
			{0, metRun(""), false, need, whyFirst},
			{s, metRun(""), false, need, whyUnknown},
			{3 * s, passed, true, 0, whyUnknown},
			{4 * s, metRun(""), false, need, whyUnknown},
			{5 * s, metRun("a"), false, need, whyRestart},
			{6 * s, metRun(""), false, need, whyUnknown},
		},
		"a sufficient seal of this process": {
			{0, metRun("a"), false, need, whyFirst},
			{0, saw(sealSeen, a), true, 0, whyFirst},
		},
		"a seal that says too little": {
			{0, metRun("a"), false, need, whyFirst},
			{0, saw(sealSeen, short), false, need, whyFirst},
			{s, saw(sealSeen, a), true, 0, whyFirst},
		},
		"a seal of another process is no proof": {
			{0, metRun("a"), false, need, whyFirst},
			{s, saw(sealSeen, b), false, s, whyFirst},
			{2 * s, passed, true, 0, whyFirst},
		},
		"nor is a seal without a name for a process without a name": {
			{0, metRun(""), false, need, whyFirst},
			{s, saw(sealSeen, seal{"", s, 9 * s}), false, s, whyFirst},
		},
		"what is strange, missing or not to be read is no proof": {
			{0, metRun("a"), false, need, whyFirst},
			{s, saw(sealStrange, seal{}), false, s, whyFirst},
			{s, saw(sealAbsent, seal{}), false, s, whyFirst},
			{s, saw(unreadable, seal{}), false, s, whyFirst},
		},
		"a seal that vanishes from a node that is trusted by it": {
			{0, metRun("a"), false, need, whyFirst},
			{0, saw(sealSeen, a), true, 0, whyFirst},
			{9 * s, saw(unreadable, seal{}), true, 0, whyFirst},
			{9 * s, saw(sealAbsent, seal{}), false, need, whyVanished},
			{10 * s, saw(sealAbsent, seal{}), false, s, whyVanished},
			{11 * s, passed, true, 0, whyVanished},
			{12 * s, saw(sealAbsent, seal{}), true, 0, whyVanished},
		},
		"… that was written here": {
			{0, metRun("a"), false, need, whyFirst},
			{2 * s, wrote(need), true, 0, whyFirst},
			{3 * s, metRun("a"), true, 0, whyFirst},
			{3 * s, saw(sealAbsent, seal{}), false, need, whyVanished},
		},
		"… from a node that is still watched: its keys are gone too": {
			{0, metRun("a"), false, need, whyFirst},
			{0, saw(sealSeen, short), false, need, whyFirst},
			{s, saw(sealAbsent, seal{}), false, need, whyVanished},
		},
		"… is another's, is strange, or says less": {
			{0, metRun("a"), false, need, whyFirst},
			{0, saw(sealSeen, a), true, 0, whyFirst},
			{9 * s, saw(sealSeen, b), false, need, whyVanished},
			{10 * s, saw(sealSeen, a), true, 0, whyVanished},
			{11 * s, saw(sealStrange, seal{}), false, need, whyVanished},
			{12 * s, saw(sealSeen, a), true, 0, whyVanished},
			{13 * s, saw(sealSeen, short), false, need, whyVanished},
		},
		"the seal of a process that is gone does not vanish": {
			{0, metRun("a"), false, need, whyFirst},
			{0, saw(sealSeen, a), true, 0, whyFirst},
			{s, metRun("b"), false, need, whyRestart},
			{2 * s, saw(sealAbsent, seal{}), false, s, whyRestart},
			{2 * s, saw(sealSeen, a), false, s, whyRestart},
		},
		"a seal that never was does not vanish": {
			{0, metRun("a"), false, need, whyFirst},
			{2 * s, saw(sealAbsent, seal{}), true, 0, whyFirst},
			{9 * s, saw(sealAbsent, seal{}), true, 0, whyFirst},
		},
		"more is needed": {
			{0, metRun("a"), false, need, whyFirst},
			{2 * s, passed, true, 0, whyFirst},
			{2 * s, needed(s), true, 0, whyFirst}, // never less
			{3 * s, needed(5 * s), false, 2 * s, whyLonger},
			{5 * s, passed, true, 0, whyLonger},
			{6 * s, needed(6 * s), true, 0, whyLonger},
			{6 * s, saw(sealSeen, seal{"a", s, 7 * s}), true, 0, whyLonger},
			{6 * s, needed(8 * s), false, 2 * s, whyLonger},
			{6 * s, saw(sealSeen, seal{"a", s, 8 * s}), true, 0, whyLonger},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := trust{need: need}
			for i, step := range steps {
				state = step.event(state, step.at)
				assert.Equal(t, step.trusted, state.trusted, "step %d", i)
				assert.Equal(t, step.left, state.left(step.at), "step %d", i)
				assert.Equal(t, step.why, state.why, "step %d", i)
			}
		})
	}
}

func TestTrustWithoutNeed(t *testing.T) {
	for _, event := range []func(trust, time.Duration) trust{
		passed, metRun("a"), metRun(""), metRun("b"), saw(sealAbsent, seal{}), saw(sealSeen, seal{"b", ms, ms}),
	} {
		state := event(trust{}, time.Second)
		assert.True(t, state.trusted, "R23 is off, or the node is durable")
		assert.Zero(t, state.left(time.Second))
		assert.False(t, state.proved(time.Hour), "there is nothing to tell others")
	}
}

// What is proved can be written: for what was watched, in whole milliseconds and never more, and only with a name.
func TestWhatASealMaySay(t *testing.T) {
	state := trust{need: 2 * time.Second}.meet("a", time.Second)
	assert.False(t, state.proved(3*time.Second-1))
	state = state.at(3*time.Second + 2*ms - 1)
	assert.True(t, state.proved(3*time.Second+2*ms-1))
	assert.Equal(t, 2*time.Second+ms, state.watched(3*time.Second+2*ms-1))
	state = state.sight(sighting{sealSeen, seal{"a", ms, time.Hour}}, 4*time.Second)
	assert.Equal(t, time.Hour, state.watched(4*time.Second), "what another has watched is as true")
	assert.False(t, trust{need: time.Second}.meet("", 0).at(time.Hour).proved(time.Hour))
	assert.False(t, state.sight(sighting{what: sealAbsent}, 5*time.Second).proved(5*time.Second))
}

// The need covers the drift of clocks, the granularity of servers, and is in whole milliseconds (R4, R23).
func TestNeed(t *testing.T) {
	for _, c := range []struct {
		maxTTL time.Duration
		drift  float64
		need   time.Duration
	}{
		{0, 0.01, 0},
		{-1, 0.01, 0},
		{2 * time.Second, 0.01, 2025 * ms},
		{2 * time.Second, 0.5, 3005 * ms},
		{2 * time.Second, 0, 2005 * ms},
		{ms, 0.01, 7 * ms}, // 6.01 ms
		{longestTTL, 0.99, longestTTL/100*199 + 5*ms},
	} {
		need := needFor(c.maxTTL, c.drift)
		assert.InDelta(t, c.need, need, max(0, float64(c.maxTTL)/1e9), "%v, %v", c.maxTTL, c.drift)
		assert.Zero(t, need%ms)
		if c.maxTTL > 0 {
			assert.GreaterOrEqual(t, float64(need), float64(c.maxTTL)*(1+c.drift)+float64(2*ms), "no lock may outlive it")
		}
	}
}

// A debut needs all nodes, connected at one time, and then looked at.
func TestDebut(t *testing.T) {
	none, some, odd := sighting{what: sealAbsent}, sighting{what: sealSeen}, sighting{what: sealStrange}
	d := debut{open: true}
	assert.Equal(t, d, d.sight(0, none, false), "before the others were there")
	assert.Equal(t, d, d.sight(0, none, true), "nobody verifies any more")
	d.verifying = true
	assert.Equal(t, d, d.sight(0, none, false), "asked before")
	assert.Equal(t, d, d.sight(0, sighting{what: unreadable}, true))
	d = d.sight(1, none, true)
	assert.Equal(t, setOf(1), d.clean)
	for _, verified := range []bool{false, true} {
		assert.Equal(t, debut{}, d.sight(0, some, verified))
		assert.Equal(t, debut{}, d.sight(0, odd, verified))
	}
	assert.Equal(t, debut{open: true}, d.part())
	assert.Equal(t, debut{}, debut{}.part().sight(0, none, true), "what is over is over")
}

// A status says of a node that is up what counts, and of one that is not what will count when it joins.
func TestTrustInAStatus(t *testing.T) {
	state := trust{need: 2 * time.Second}.meet("a", 0)
	for _, c := range []struct {
		state       State
		at, left    time.Duration
		quarantined bool
	}{
		{Up, time.Second, time.Second, true},
		{Up, 3 * time.Second, 0, true}, // until the watch has looked
		{Down, time.Second, time.Second, true},
		{Down, 3 * time.Second, 0, false},
	} {
		s := Status{State: c.state}
		state.tell(&s, c.at)
		assert.Equal(t, c.quarantined, s.Quarantined)
		assert.Equal(t, c.left, s.QuarantineLeft)
	}
	s := Status{}
	trust{}.tell(&s, 0)
	assert.False(t, s.Quarantined, "R23 is off")
}
