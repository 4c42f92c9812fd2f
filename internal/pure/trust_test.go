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
	return func(t Trust, now time.Duration) Trust { return t.Sight(Sighting{What: what, Seal: s}, now) }
}

func wrote(watched time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Seal(watched, now) }
}

func needed(need time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Require(need, now) }
}

func premiered(started time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Premiere(started, now) }
}

func passed(t Trust, now time.Duration) Trust { return t.At(now) }

// R23 as a table; the need is two seconds throughout.
func TestTrust_R23(t *testing.T) {
	const s, need = time.Second, 2 * time.Second
	a, short, b := Seal{Identity{}, "a", s, need, 0}, Seal{Identity{}, "a", s, need - ms, 0}, Seal{Identity{}, "b", s, 9 * s, 0}
	half := Seal{Identity{}, "a", s, s, 0}
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
		"a seal that says too little counts for what it says": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, half), false, s, WhyFirst},
			{s / 2, saw(SealSeen, half), false, s / 2, WhyFirst},
			{s, passed, true, 0, WhyFirst},
		},
		"… and no more than this client has watched itself": {
			{0, metRun("a"), false, need, WhyFirst},
			{s + s/2, saw(SealSeen, half), false, s / 2, WhyFirst},
		},
		"a seal that only marks the node": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, Seal{Identity{}, "a", s, 0, 0}), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{Identity{}, "a", s, 0, 0}), false, s, WhyFirst},
			{s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
		},
		"… of a process without a name": {
			{0, metRun(""), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{Identity{}, NoRun, s, 0, 0}), false, s, WhyFirst},
			{2 * s, saw(SealSeen, Seal{Identity{}, NoRun, s, 0, 0}), true, 0, WhyFirst},
			{3 * s, saw(SealStrange, Seal{}), false, need, WhyVanished},
		},
		"a debut: watched since the start (R29)": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{9 * s, premiered(8 * s), false, s, WhyYoung},
			{10*s - 1, passed, false, 1, WhyYoung},
			{10 * s, passed, true, 0, WhyYoung},
		},
		"… of a process that has run for long enough": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{9 * s, premiered(7 * s), true, 0, WhyFirst},
		},
		"… that was seen to be flushed": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{9 * s, saw(SealSeen, a), true, 0, WhyFirst},
			{10 * s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
			{11 * s, premiered(s), false, s, WhyVanished},
		},
		"… whose start is later than the watch, by the margin": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{10 * s, premiered(11 * s), false, s, WhyYoung},
		},
		"a seal of another process is no proof": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, saw(SealSeen, b), false, s, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
		},
		"nor is a seal without a name for a process without a name": {
			{0, metRun(""), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{Identity{}, "", s, 9 * s, 0}), false, s, WhyFirst},
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
			{0, saw(SealSeen, short), false, ms, WhyFirst},
			{ms / 2, saw(SealAbsent, Seal{}), false, need, WhyVanished},
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
			{6 * s, saw(SealSeen, Seal{Identity{}, "a", s, 7 * s, 0}), true, 0, whyLonger},
			{6 * s, needed(8 * s), false, s, whyLonger},
			{6 * s, saw(SealSeen, Seal{Identity{}, "a", s, 8 * s, 0}), true, 0, whyLonger},
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
		passed, metRun("a"), metRun(""), metRun("b"), saw(SealAbsent, Seal{}), saw(SealSeen, Seal{Identity{}, "b", ms, ms, 0}),
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
	state = state.Sight(Sighting{What: SealSeen, Seal: Seal{Identity{}, "a", ms, time.Hour, 0}}, 4*time.Second)
	assert.Equal(t, time.Hour, state.Watched(4*time.Second), "what another has watched is as true")
	assert.False(t, Trust{Need: time.Second}.Meet("", 0).At(time.Hour).Proved(time.Hour))
	assert.False(t, state.Sight(Sighting{What: SealAbsent}, 5*time.Second).Proved(5*time.Second))
}

// A server that shows an uptime of 12 s has run for more than ten (R29).
func TestUptimeProvesTwoSecondsLess_R29(t *testing.T) {
	assert.Equal(t, 10*time.Second, UptimeProves(12*time.Second))
	assert.Negative(t, UptimeProves(time.Second))
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

// What a seal must say after a look at it (R23): the process "a" was watched
// for 20 s, of which it needs 10, and MaxTTL is 9 s.
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
		{"it suffices", watched, Sighting{What: SealSeen, Seal: Seal{Identity{}, "a", maxTTL, need, 0}}, false},
		{"it says too little", watched, Sighting{What: SealSeen, Seal: Seal{Identity{}, "a", maxTTL, need - ms, 0}}, true},
		{"another process's", watched, Sighting{What: SealSeen, Seal: Seal{Identity{}, "b", maxTTL, time.Hour, 0}}, true},
		{"a shorter MaxTTL", watched, Sighting{What: SealSeen, Seal: Seal{Identity{}, "a", maxTTL - ms, need, 0}}, true},
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

// A seal that is still there proves that its process has run since it was
// written, by the process's own account less the margin (R23, R29).
func TestAgedSeal_R23(t *testing.T) {
	const need, now = 30 * time.Second, time.Hour
	seal := Seal{Run: "a", MaxTTL: time.Second, Watched: 4 * time.Second, Uptime: 10 * time.Second}
	with := func(change func(*Seal)) Seal { s := seal; change(&s); return s }
	for name, c := range map[string]struct {
		seal   Seal
		uptime time.Duration
		left   time.Duration
	}{
		"written just now":     {seal, 11 * time.Second, need},
		"within the margin":    {seal, 12 * time.Second, need},
		"five seconds ago":     {seal, 15 * time.Second, need - 4*time.Second - 3*time.Second},
		"just long enough ago": {seal, 38 * time.Second, 0},
		"almost":               {seal, 38*time.Second - 1, 1},
		"another process's":    {with(func(s *Seal) { s.Run = "b" }), time.Hour, need},
		"without an uptime":    {with(func(s *Seal) { s.Uptime = 0 }), time.Hour, need},
		"a shorter uptime":     {seal, time.Second, need},
	} {
		trust := Trust{Need: need}.Meet("a", now).Aged(c.seal, c.uptime, now)
		assert.Equal(t, c.left, trust.Left(now), name)
		assert.Equal(t, c.left == 0, trust.Trusted, name)
	}
}
