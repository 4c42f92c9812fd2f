package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A trustStep is an event in the life of a node's trust, and the expected state
// after it.
type trustStep struct {
	at      time.Duration
	event   func(t Trust, now time.Duration) Trust
	trusted bool
	left    time.Duration
	why     string
}

func metRun(run string) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Meet(run, now) }
}

func saw(what Seen, s Seal) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Sight(Sighting{what, s}, now) }
}

func wrote(watched time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Seal(watched, now) }
}

func needed(need time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Require(need, now) }
}

func passed(t Trust, now time.Duration) Trust { return t.At(now) }

// R23 as a table; the need is two seconds throughout.
func TestTrust_R23(t *testing.T) {
	const s, need = time.Second, 2 * time.Second
	a, short, b := Seal{"a", s, need}, Seal{"a", s, need - ms}, Seal{"b", s, 9 * s}
	for name, steps := range map[string][]trustStep{
		"a process is watched for as long as is needed": {
			{0, passed, false, need, ""},
			{5 * s, passed, false, need, ""},
			{6 * s, metRun("a"), false, need, WhyFirst},
			{8*s - 1, passed, false, 1, WhyFirst},
			{8 * s, passed, true, 0, WhyFirst},
			{9 * s, metRun("a"), true, 0, WhyFirst},
			{99 * s, metRun("a"), true, 0, WhyFirst},
		},
		"reconnects that show the same process do not interrupt the watch": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, metRun("a"), false, s, WhyFirst},
			{2 * s, metRun("a"), true, 0, WhyFirst},
		},
		"another process is watched from the start": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, metRun("b"), false, need, WhyRestart},
			{2 * s, passed, false, s, WhyRestart},
			{3 * s, passed, true, 0, WhyRestart},
			{4 * s, metRun("a"), false, need, WhyRestart}, // another server at the address, and back again
		},
		"a process without a name is watched from the start with each connection": {
			{0, metRun(""), false, need, WhyFirst},
			{s, metRun(""), false, need, WhyUnknown},
			{3 * s, passed, true, 0, WhyUnknown},
			{4 * s, metRun(""), false, need, WhyUnknown},
			{5 * s, metRun("a"), false, need, WhyRestart},
			{6 * s, metRun(""), false, need, WhyUnknown},
		},
		"a sufficient seal of this process": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, a), true, 0, WhyFirst},
		},
		"a seal that says too little": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, short), false, need, WhyFirst},
			{s, saw(SealSeen, a), true, 0, WhyFirst},
		},
		"a seal of another process is no proof": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, saw(SealSeen, b), false, s, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
		},
		"nor is a seal without a name for a process without a name": {
			{0, metRun(""), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{"", s, 9 * s}), false, s, WhyFirst},
		},
		"what is strange, missing or not to be read is no proof": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, saw(SealStrange, Seal{}), false, s, WhyFirst},
			{s, saw(SealAbsent, Seal{}), false, s, WhyFirst},
			{s, saw(Unreadable, Seal{}), false, s, WhyFirst},
		},
		"a seal that vanishes from a node that is trusted by it": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, a), true, 0, WhyFirst},
			{9 * s, saw(Unreadable, Seal{}), true, 0, WhyFirst},
			{9 * s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
			{10 * s, saw(SealAbsent, Seal{}), false, s, WhyVanished},
			{11 * s, passed, true, 0, WhyVanished},
			{12 * s, saw(SealAbsent, Seal{}), true, 0, WhyVanished},
		},
		"… that was written here": {
			{0, metRun("a"), false, need, WhyFirst},
			{2 * s, wrote(need), true, 0, WhyFirst},
			{3 * s, metRun("a"), true, 0, WhyFirst},
			{3 * s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
		},
		"… from a node that is still watched: its keys are gone too": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, short), false, need, WhyFirst},
			{s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
		},
		"… is another's, is strange, or says less": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, a), true, 0, WhyFirst},
			{9 * s, saw(SealSeen, b), false, need, WhyVanished},
			{10 * s, saw(SealSeen, a), true, 0, WhyVanished},
			{11 * s, saw(SealStrange, Seal{}), false, need, WhyVanished},
			{12 * s, saw(SealSeen, a), true, 0, WhyVanished},
			{13 * s, saw(SealSeen, short), false, need, WhyVanished},
		},
		"the seal of a process that is gone does not vanish": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, a), true, 0, WhyFirst},
			{s, metRun("b"), false, need, WhyRestart},
			{2 * s, saw(SealAbsent, Seal{}), false, s, WhyRestart},
			{2 * s, saw(SealSeen, a), false, s, WhyRestart},
		},
		"a seal that never was does not vanish": {
			{0, metRun("a"), false, need, WhyFirst},
			{2 * s, saw(SealAbsent, Seal{}), true, 0, WhyFirst},
			{9 * s, saw(SealAbsent, Seal{}), true, 0, WhyFirst},
		},
		"more is needed": {
			{0, metRun("a"), false, need, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
			{2 * s, needed(s), true, 0, WhyFirst}, // the need never shrinks
			{3 * s, needed(5 * s), false, 2 * s, whyLonger},
			{5 * s, passed, true, 0, whyLonger},
			{6 * s, needed(6 * s), true, 0, whyLonger},
			{6 * s, saw(SealSeen, Seal{"a", s, 7 * s}), true, 0, whyLonger},
			{6 * s, needed(8 * s), false, 2 * s, whyLonger},
			{6 * s, saw(SealSeen, Seal{"a", s, 8 * s}), true, 0, whyLonger},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := Trust{Need: need}
			for i, step := range steps {
				state = step.event(state, step.at)
				assert.Equal(t, step.trusted, state.Trusted, "step %d", i)
				assert.Equal(t, step.left, state.Left(step.at), "step %d", i)
				assert.Equal(t, step.why, state.Why, "step %d", i)
			}
		})
	}
}

func TestTrustWithoutNeed(t *testing.T) {
	for _, event := range []func(Trust, time.Duration) Trust{
		passed, metRun("a"), metRun(""), metRun("b"), saw(SealAbsent, Seal{}), saw(SealSeen, Seal{"b", ms, ms}),
	} {
		state := event(Trust{}, time.Second)
		assert.True(t, state.Trusted, "R23 is off, or the node is durable")
		assert.Zero(t, state.Left(time.Second))
		assert.False(t, state.Proved(time.Hour), "there is nothing to tell others")
	}
}

// A seal may state what was proved: the time watched, in whole milliseconds and
// never more, and only for a named process.
func TestWhatASealMaySay(t *testing.T) {
	state := Trust{Need: 2 * time.Second}.Meet("a", time.Second)
	assert.False(t, state.Proved(3*time.Second-1))
	state = state.At(3*time.Second + 2*ms - 1)
	assert.True(t, state.Proved(3*time.Second+2*ms-1))
	assert.Equal(t, 2*time.Second+ms, state.Watched(3*time.Second+2*ms-1))
	state = state.Sight(Sighting{SealSeen, Seal{"a", ms, time.Hour}}, 4*time.Second)
	assert.Equal(t, time.Hour, state.Watched(4*time.Second), "what another has watched is as true")
	assert.False(t, Trust{Need: time.Second}.Meet("", 0).At(time.Hour).Proved(time.Hour))
	assert.False(t, state.Sight(Sighting{What: SealAbsent}, 5*time.Second).Proved(5*time.Second))
}

// The need covers the drift of the clocks and the granularity of servers, and
// is a multiple of a millisecond (R4, R23).
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
		{LongestTTL, 0.99, LongestTTL/100*199 + 5*ms},
	} {
		need := NeedFor(c.maxTTL, c.drift)
		assert.InDelta(t, c.need, need, max(0, float64(c.maxTTL)/1e9), "%v, %v", c.maxTTL, c.drift)
		assert.Zero(t, need%ms)
		if c.maxTTL > 0 {
			assert.GreaterOrEqual(t, float64(need), float64(c.maxTTL)*(1+c.drift)+float64(2*ms), "no lock may outlive it")
		}
	}
}

// A debut needs all nodes, connected at one time and then examined.
func TestDebut(t *testing.T) {
	none, some, odd := Sighting{What: SealAbsent}, Sighting{What: SealSeen}, Sighting{What: SealStrange}
	d := Debut{Open: true}
	assert.Equal(t, d, d.Sight(0, none, false), "before the others were there")
	assert.Equal(t, d, d.Sight(0, none, true), "no verification is pending")
	d.Verifying = true
	assert.Equal(t, d, d.Sight(0, none, false), "asked before")
	assert.Equal(t, d, d.Sight(0, Sighting{What: Unreadable}, true))
	d = d.Sight(1, none, true)
	assert.EqualValues(t, 1<<1, d.Clean)
	for _, verified := range []bool{false, true} {
		assert.Equal(t, Debut{}, d.Sight(0, some, verified))
		assert.Equal(t, Debut{}, d.Sight(0, odd, verified))
	}
	assert.Equal(t, Debut{Open: true}, d.Part())
	assert.Equal(t, Debut{}, Debut{}.Part().Sight(0, none, true), "what is over is over")
}

// What a seal must say after a look at it (R23): the process "a" was watched for
// 20 s, of which it needs 10, and MaxTTL is 9 s.
func TestRenewalOfASeal_R23(t *testing.T) {
	const need, maxTTL = 10 * time.Second, 9 * time.Second
	watched := Trust{Need: need}.Meet("a", 0).At(20 * time.Second)
	for _, c := range []struct {
		name   string
		trust  Trust
		seen   Sighting
		writes bool
	}{
		{"absent", watched, Sighting{What: SealAbsent}, true},
		{"it cannot be read", watched, Sighting{What: Unreadable}, false},
		{"something else", watched, Sighting{What: SealStrange}, false},
		{"it suffices", watched, Sighting{SealSeen, Seal{"a", maxTTL, need}}, false},
		{"it says too little", watched, Sighting{SealSeen, Seal{"a", maxTTL, need - ms}}, true},
		{"another process's", watched, Sighting{SealSeen, Seal{"b", maxTTL, time.Hour}}, true},
		{"a shorter MaxTTL", watched, Sighting{SealSeen, Seal{"a", maxTTL - ms, need}}, true},
		{"no proof", Trust{Need: need}.Meet("a", 19*time.Second), Sighting{What: SealAbsent}, false},
		{"a durable node", Trust{}.Meet("a", 0), Sighting{What: SealAbsent}, false},
		{"its run id may not be asked", Trust{Need: need}.Meet("", 0).At(20 * time.Second), Sighting{What: SealAbsent}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			says, ok := c.trust.Renewal(c.seen, maxTTL, 20*time.Second)
			assert.Equal(t, c.writes, ok)
			if ok {
				assert.Equal(t, 20*time.Second, says)
			}
		})
	}
}

// A debut by what happens: three nodes, of which node 2 is durable (R23).
func TestDebutAdvances_R23(t *testing.T) {
	const all, durable = 0b111, 0b100
	absent := Sighting{What: SealAbsent}
	d, act := Debut{Open: true}.Advance(0b011, all, durable)
	assert.Equal(t, DebutWaits, act, "one is missing")
	assert.False(t, d.Verifying)
	d, act = d.Advance(all, all, durable)
	assert.Equal(t, DebutLooks, act)
	_, act = d.Advance(all, all, durable)
	assert.Equal(t, DebutWaits, act, "the looks are under way")
	d = d.Sight(0, absent, true)
	_, act = d.Part().Advance(0b110, all, durable)
	assert.Equal(t, DebutWaits, act, "a node parted")
	_, act = d.Part().Advance(all, all, durable)
	assert.Equal(t, DebutLooks, act, "it is back, and all are looked at anew")
	_, act = d.Advance(all, all, durable)
	assert.Equal(t, DebutWaits, act, "one look is awaited")
	d, act = d.Sight(1, absent, true).Advance(all, all, durable)
	assert.Equal(t, DebutSeals, act)
	assert.Equal(t, Debut{}, d, "it counts once")
	_, act = d.Advance(all, all, durable)
	assert.Equal(t, DebutWaits, act)
	_, act = Debut{Open: true}.Advance(all, all, all)
	assert.Equal(t, DebutSeals, act, "all are durable: there is nothing to look at, and nothing to write")
}

// A process that was replaced ends a debut, and one that is met first does not.
func TestDebutMeets_R23(t *testing.T) {
	d := Debut{Open: true, Verifying: true, Clean: 0b11}
	first := Trust{}.Meet("a", 0)
	assert.Equal(t, d, d.Meet(Trust{}, first))
	assert.Equal(t, d, d.Meet(first, first.Meet("a", ms)))
	assert.Equal(t, Debut{}, d.Meet(first, first.Meet("b", ms)))
}
