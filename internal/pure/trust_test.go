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

func follow(t *testing.T, state Trust, steps []trustStep) {
	t.Helper()
	for i, step := range steps {
		state = step.event(state, step.at)
		assert.Equal(t, []any{step.trusted, step.left, step.why}, []any{state.Trusted, state.Left(step.at), state.Why}, "step %d", i)
	}
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
	return func(t Trust, now time.Duration) Trust { return t.Require(need, 0, now) }
}

// debuted is the opening of a set whose nodes all started then, by their own
// account, and have no seal.
func debuted(started time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust {
		t.Account = Account{Believed: true, Uptime: now - started + 2*time.Second, Asked: now}
		return t.Opens(t.Began(true), now)
	}
}

func opened(since time.Duration) func(Trust, time.Duration) Trust {
	return func(t Trust, now time.Duration) Trust { return t.Opens(since, now) }
}

func joined(t Trust, now time.Duration) Trust { return t.Joins(now) }

func passed(t Trust, now time.Duration) Trust { return t.At(now) }

// R23 as a table; the need is two seconds throughout.
func TestTrust_R23(t *testing.T) {
	const s, need = time.Second, 2 * time.Second
	a, short, b := Seal{Seat{}, "", "a", s, need, Failover{}, 0}, Seal{Seat{}, "", "a", s, need - ms, Failover{}, 0}, Seal{Seat{}, "", "b", s, 9 * s, Failover{}, 0}
	half := Seal{Seat{}, "", "a", s, s, Failover{}, 0}
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
			{0, saw(SealSeen, Seal{Seat{}, "", "a", s, 0, Failover{}, 0}), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{Seat{}, "", "a", s, 0, Failover{}, 0}), false, s, WhyFirst},
			{s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
		},
		"… of a process without a name": {
			{0, metRun(""), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{Seat{}, "", NoRun, s, 0, Failover{}, 0}), false, s, WhyFirst},
			{2 * s, saw(SealSeen, Seal{Seat{}, "", NoRun, s, 0, Failover{}, 0}), true, 0, WhyFirst},
			{3 * s, saw(SealStrange, Seal{}), false, need, WhyVanished},
		},
		"a debut: watched since the start (R29)": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{9 * s, debuted(8 * s), false, s, WhyYoung},
			{10*s - 1, passed, false, 1, WhyYoung},
			{10 * s, passed, true, 0, WhyYoung},
		},
		"… of a process that has run for long enough": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{9 * s, debuted(7 * s), true, 0, WhyFirst},
		},
		"… that was seen to be flushed": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{9 * s, saw(SealSeen, a), true, 0, WhyFirst},
			{10 * s, saw(SealAbsent, Seal{}), false, need, WhyVanished},
			{11 * s, debuted(s), false, s, WhyVanished},
		},
		"… whose start is later than the watch, by the margin": {
			{9 * s, metRun("a"), false, need, WhyFirst},
			{10 * s, debuted(11 * s), false, s, WhyYoung},
		},
		"… together with a node that started later (R29)": {
			{0, metRun("a"), false, need, WhyFirst},
			{5 * s, passed, true, 0, WhyFirst},
			{5 * s, opened(4 * s), false, s, WhyYoung},
			{5 * s, metRun("a"), false, s, WhyYoung},
			{6 * s, passed, true, 0, WhyYoung},
		},
		"… and what an older seal said, or a look that comes late": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, a), true, 0, WhyFirst},
			{5 * s, opened(5 * s), false, need, WhyYoung},
			{6 * s, saw(SealAbsent, Seal{}), false, s, WhyYoung},
		},
		"a set that another client has opened": {
			{0, metRun("a"), false, need, WhyFirst},
			{5 * s, passed, true, 0, WhyFirst},
			{5 * s, joined, false, need, WhyJoined},
			{5 * s, saw(SealSeen, half), false, s, WhyJoined},
			{6 * s, passed, true, 0, WhyJoined},
		},
		"… a while ago": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, a), true, 0, WhyFirst},
			{0, joined, false, need, WhyJoined},
			{0, saw(SealSeen, a), true, 0, WhyJoined},
		},
		"… whose node is waited for anyway": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, joined, false, need, WhyFirst},
			{2 * s, passed, false, s, WhyFirst},
			{3 * s, passed, true, 0, WhyFirst},
		},
		"a server that was a replica and is promoted, in the same process": {
			{0, metRun("a:h"), false, need, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
			{3 * s, metRun("a:j:h:7"), false, need, WhyDemoted},
			{4 * s, saw(SealSeen, Seal{Seat{}, "", "a:h", s, 9 * s, Failover{}, 0}), false, s, WhyDemoted}, // it came by replication
			{5 * s, passed, true, 0, WhyDemoted},
			{6 * s, metRun("a:j:h:7"), true, 0, WhyDemoted},
		},
		"… and opens the set with others: its uptime is no proof": {
			{9 * s, metRun("a:h"), false, need, WhyFirst},
			{10 * s, metRun("a:j"), false, need, WhyHistory},
			{11 * s, debuted(s), false, s, WhyYoung},
		},
		"a history that began anew, without a promotion": {
			{0, metRun("a:h"), false, need, WhyFirst},
			{3 * s, metRun("a:j"), false, need, WhyHistory},
			{5 * s, passed, true, 0, WhyHistory},
		},
		"a history that is not told any more": {
			{0, metRun("a:h"), false, need, WhyFirst},
			{3 * s, metRun("a"), false, need, WhyHistory},
		},
		"a restart is one, whatever the history": {
			{0, metRun("a:h"), false, need, WhyFirst},
			{3 * s, metRun("b:j"), false, need, WhyRestart},
		},
		"a seal from before the promotion, to a client that starts": {
			{9 * s, metRun("a:j:h:7"), false, need, WhyFirst},
			{9 * s, saw(SealSeen, Seal{Seat{}, "", "a:h", s, 9 * s, Failover{}, 0}), false, need, WhyDemoted},
			{11 * s, passed, true, 0, WhyDemoted},
		},
		"a seal of another process is no proof": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, saw(SealSeen, b), false, s, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
		},
		"nor is a seal without a name for a process without a name": {
			{0, metRun(""), false, need, WhyFirst},
			{s, saw(SealSeen, Seal{Seat{}, "", "", s, 9 * s, Failover{}, 0}), false, s, WhyFirst},
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
			{3 * s, needed(5 * s), false, 2 * s, whyLonger},
			{5 * s, passed, true, 0, whyLonger},
			{6 * s, needed(6 * s), true, 0, whyLonger},
			{6 * s, saw(SealSeen, Seal{Seat{}, "", "a", s, 7 * s, Failover{}, 0}), true, 0, whyLonger},
			{6 * s, needed(8 * s), false, s, whyLonger},
			{6 * s, saw(SealSeen, Seal{Seat{}, "", "a", s, 8 * s, Failover{}, 0}), true, 0, whyLonger},
		},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, Trust{Need: need}, steps)
		})
	}
}

// Of a durable node any process will do, but it waits as others do for the
// locks of another set.
func TestTrustOfADurableNode_R23_R30(t *testing.T) {
	const s, need = time.Second, 2 * time.Second
	enough, half := Seal{Run: "b", MaxTTL: s, Watched: need}, Seal{Run: "b", MaxTTL: s, Watched: s}
	for name, steps := range map[string][]trustStep{
		"its set is new": {
			{0, metRun("a"), false, need, WhyFirst},
			{s, metRun("b"), false, s, WhyRestart},
			{2 * s, passed, true, 0, WhyRestart},
			{3 * s, metRun("c"), true, 0, WhyRestart},
			{4 * s, metRun(""), true, 0, WhyUnknown},
		},
		"its set is opened together with a node that started later": {
			{0, metRun("a"), false, need, WhyFirst},
			{5 * s, opened(4 * s), false, s, WhyYoung},
			{6 * s, passed, true, 0, WhyYoung},
		},
		"its set was opened by another client": {
			{0, metRun("a"), false, need, WhyFirst},
			{5 * s, joined, false, need, WhyJoined},
			{7 * s, passed, true, 0, WhyJoined},
		},
		"a seal of any process says that its set is old": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, enough), true, 0, WhyFirst},
			{s, saw(SealAbsent, Seal{}), true, 0, WhyVanished},
		},
		"… or for how long it is open": {
			{0, metRun("a"), false, need, WhyFirst},
			{0, saw(SealSeen, half), false, s, WhyFirst},
		},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, Trust{Need: need, Durable: true}, steps)
		})
	}
	restarted := Trust{Need: need, Durable: true}.Meet("a", 0).Meet("b", 9*s)
	assert.False(t, restarted.Proved(9*s), "a seal tells those that do not know it to be durable")
	assert.Zero(t, restarted.Watched(9*s))
	assert.True(t, restarted.Proved(11*s))
	assert.False(t, restarted.Renews(Sighting{What: SealSeen, Seal: Seal{Run: "a", Watched: need}}, 0, 11*s), "it says enough")
	nameless := Trust{Need: need, Durable: true}.Meet("", 0).Meet("", s)
	assert.Equal(t, Seal{Run: NoRun, MaxTTL: s, Watched: need}, nameless.Writes(Seat{}, s, true, need))
	assert.Equal(t, Seal{Run: NoRun, MaxTTL: s}, Trust{Need: need}.Meet("", 0).Writes(Seat{}, s, true, need))
}

// A seal may state what was proved: the time watched, in whole milliseconds and
// never more, and only for a named process.
func TestWhatASealMaySay(t *testing.T) {
	state := Trust{Need: 2 * time.Second}.Meet("a", time.Second)
	assert.False(t, state.Proved(3*time.Second-1))
	state = state.At(3*time.Second + 2*ms - 1)
	assert.True(t, state.Proved(3*time.Second+2*ms-1))
	assert.Equal(t, 2*time.Second+ms, state.Watched(3*time.Second+2*ms-1))
	state = state.Sight(Sighting{What: SealSeen, Seal: Seal{Seat{}, "", "a", ms, time.Hour, Failover{}, 0}}, 4*time.Second)
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

// Whether a seal is written after a look at it (R23): the process "a" was
// watched for 20 s, of which it needs 10, and MaxTTL is 9 s.
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
		{"it suffices", watched, Sighting{What: SealSeen, Seal: Seal{Seat{}, "", "a", maxTTL, need, Failover{}, 0}}, false},
		{"it says too little", watched, Sighting{What: SealSeen, Seal: Seal{Seat{}, "", "a", maxTTL, need - ms, Failover{}, 0}}, true},
		{"another process's", watched, Sighting{What: SealSeen, Seal: Seal{Seat{}, "", "b", maxTTL, time.Hour, Failover{}, 0}}, true},
		{"a shorter MaxTTL", watched, Sighting{What: SealSeen, Seal: Seal{Seat{}, "", "a", maxTTL - ms, need, Failover{}, 0}}, true},
		{"no proof", Trust{Need: need}.Meet("a", 19*time.Second), Sighting{What: SealAbsent}, false},
		{"a durable node", Trust{}.Meet("a", 0), Sighting{What: SealAbsent}, false},
		{"its run id may not be asked", Trust{Need: need}.Meet("", 0).At(20 * time.Second), Sighting{What: SealAbsent}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.writes, c.trust.Renews(c.seen, maxTTL, 20*time.Second))
		})
	}
}

// A seal states how long its process was watched if the client may vouch for
// that, and for how long it can have run, at the most, if it is known.
func TestWhatASealStates_R23(t *testing.T) {
	const now = time.Hour
	who := Seat{Member: "x"}
	trust := Trust{Need: time.Second}.Meet("a", now-time.Minute)
	assert.Equal(t, Seal{who, "", "a", ms, time.Minute, Failover{}, 0}, trust.Writes(who, ms, true, now))
	trust.Account = Account{Believed: true, Uptime: 3 * time.Second, Dialed: now - 2*time.Minute, Asked: now - time.Minute}
	assert.Equal(t, Seal{who, "", "a", ms, time.Minute, Failover{}, 123 * time.Second}, trust.Writes(who, ms, true, now))
	assert.Equal(t, Seal{who, "", "a", ms, 0, Failover{}, 123 * time.Second}, trust.Writes(who, ms, false, now))
	trust.Account = Account{Believed: true, Dialed: now, Asked: now}
	assert.Equal(t, ms, trust.Writes(who, ms, true, now).Uptime)
}

// A seal that is still there proves that its process has run since it was
// written, by the process's own account less the margin (R23, R29). If the node
// is durable, its next process proves that too.
func TestAgedSeal_R23(t *testing.T) {
	const need, now = 30 * time.Second, time.Hour
	seal := Seal{Run: "a", MaxTTL: time.Second, Watched: 4 * time.Second, Uptime: 10 * time.Second}
	with := func(change func(*Seal)) Seal { s := seal; change(&s); return s }
	other := with(func(s *Seal) { s.Run = "b" })
	for name, c := range map[string]struct {
		seal    Seal
		uptime  time.Duration
		durable bool
		left    time.Duration
	}{
		"written just now":                   {seal, 11 * time.Second, false, need - 4*time.Second},
		"within the margin":                  {seal, 12 * time.Second, false, need - 4*time.Second},
		"five seconds ago":                   {seal, 15 * time.Second, false, need - 4*time.Second - 3*time.Second},
		"just long enough ago":               {seal, 38 * time.Second, false, 0},
		"almost":                             {seal, 38*time.Second - 1, false, 1},
		"another process's":                  {other, time.Hour, false, need},
		"without an uptime":                  {with(func(s *Seal) { s.Uptime = 0 }), time.Hour, false, need - 4*time.Second},
		"a shorter uptime":                   {seal, time.Second, false, need - 4*time.Second},
		"durable, five seconds ago":          {seal, 15 * time.Second, true, need - 4*time.Second - 3*time.Second},
		"durable, of the process before":     {other, 15 * time.Second, true, need - 4*time.Second - 13*time.Second},
		"… which has just restarted":         {other, time.Second, true, need - 4*time.Second},
		"durable, the one before is unknown": {with(func(s *Seal) { s.Run, s.Uptime = "b", 0 }), time.Hour, true, need - 4*time.Second},
	} {
		trust := Trust{Need: need, Durable: c.durable}.Meet("a", now)
		unknown := trust.Sight(Sighting{What: SealSeen, Seal: c.seal}, now)
		assert.GreaterOrEqual(t, unknown.Left(now), need-4*time.Second, name)
		trust.Account = Account{Believed: true, Uptime: c.uptime, Asked: now}
		trust = trust.Sight(Sighting{What: SealSeen, Seal: c.seal}, now)
		assert.Equal(t, c.left, trust.Left(now), name)
		assert.Equal(t, c.left == 0, trust.Trusted, name)
	}
}

// A durable node keeps its keys in a restart, and not as a replica.
func TestDurableNodeThatWasAReplica_R23(t *testing.T) {
	const s = time.Second
	seal := func(run string) Sighting {
		return Sighting{What: SealSeen, Seal: Seal{Run: run, MaxTTL: s, Watched: 9 * s}}
	}
	fresh := Trust{Need: 2 * s, Durable: true}
	for name, c := range map[string]struct {
		process, sealed string
		trusted         bool
	}{
		"the same process": {"a:h", "a:h", true},
		"restarted":        {"b:j", "a:h", true},
		"restarted, and the history is not known":  {"b", "a", true},
		"sealed in form 2":                         {"a:h", "a", true},
		"was a replica":                            {"a:j:h:7", "a:h", false},
		"was a replica, and its backlog was freed": {"a:j", "a:h", false},
		"restarted, and was a replica since":       {"b:k:j:7", "a:h", false},
		"was a replica before it was sealed":       {"a:j:h:7", "a:j:h:7", true},
	} {
		assert.Equal(t, c.trusted, fresh.Meet(c.process, 20*s).Sight(seal(c.sealed), 20*s).Trusted, name)
	}
	old := fresh.Meet("a:h", 0).At(3 * s)
	assert.True(t, old.Trusted)
	assert.True(t, old.Meet("b:j", 4*s).Trusted, "restarted")
	assert.Equal(t, 2*s, old.Meet("a:j:h:7", 4*s).Left(4*s), "was a replica")
	assert.Equal(t, 2*s, old.Meet("b:k:j:7", 4*s).Left(4*s), "restarted, and was a replica since")
}

// A floor of fencing numbers that came by replication is none (R23, F3).
func TestFloorThatCameByReplication_R23(t *testing.T) {
	r := Record{Run: "a:h", Floor: 5}
	assert.True(t, r.Floored("a:h", false))
	assert.True(t, r.Floored("a:j", false), "a replica came")
	assert.False(t, r.Floored("a:j:h:7", false))
	assert.False(t, r.Floored("a:j:h:7", true))
	assert.False(t, r.Floored("b:h", false))
	assert.True(t, r.Floored("b:j", true))
	assert.False(t, r.Floored("", false))
	assert.False(t, Record{Run: "a:h", Floor: NoFloor}.Floored("a:h", true))
}

// What is watched is a run of the server with one replication history (R23).
func TestProcessName_R23(t *testing.T) {
	for name, c := range map[string]struct{ run, history, want string }{
		"both":                        {"a", "h", "a:h"},
		"promoted":                    {"a", "j:h:7", "a:j:h:7"},
		"restarted, with its history": {"b", "h", "b:h"},
		"the history is not told":     {"a", "", "a"},
		"a history that is no word":   {"a", "h j", "a"},
		"the run id may not be asked": {"", "h", ""},
	} {
		assert.Equal(t, c.want, ProcessName(c.run, c.history), name)
	}
}

// The pauses between looks at the seal of a node that joins at 0: 100 ms,
// doubling to a second, and 5 s once it is trusted (R23).
func TestLooks_R23(t *testing.T) {
	l, now := FirstLooks(0), time.Duration(0)
	pause := func(trusted bool) time.Duration {
		before := now
		now = l.Next
		l.Plan(trusted, now)
		return now - before
	}
	for _, want := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		assert.Equal(t, want, pause(false))
	}
	pause(true)
	assert.Equal(t, 5*time.Second, pause(true))
	assert.Equal(t, 5*time.Second, pause(false))
	assert.Equal(t, time.Second, pause(false), "it is quarantined again")
	l.Hasten(now)
	assert.Equal(t, 100*ms, pause(false))
}

// Which quarantined nodes' grants do not count (R10, R23): nodes 0 and 1 are
// quarantined, and were or were not when the key was set.
func TestVoid_R23(t *testing.T) {
	for _, c := range []struct {
		name    string
		claim   bool
		doubted Set
		void    Set
	}{
		{"a claim", true, 0, 0b0011},
		{"a claim, whatever the receipt says", true, 0b0001, 0b0011},
		{"an extension of a key that is older than the quarantine", false, 0, 0},
		{"an extension of a key that was set in the quarantine of one", false, 0b0001, 0b0001},
		{"an extension of a key that was set in a quarantine that is over", false, 0b0100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.void, Void(c.claim, 0b0011, c.doubted))
		})
	}
}

// A key that was set again counts only from a node that is not quarantined, nor
// was.
func TestRestoredCounts_R10(t *testing.T) {
	assert.True(t, RestoredCounts(2, 0b0011, 0b1000))
	assert.False(t, RestoredCounts(0, 0b0011, 0), "it was when the command got its place")
	assert.False(t, RestoredCounts(3, 0, 0b1000), "it is now")
}

// What a hold doubts after a renewal, and after its outcome (R10, R23).
func TestDoubtsOfAHold_R23(t *testing.T) {
	for _, c := range []struct {
		name                               string
		doubted, sent, quarantined         Set
		heals                              bool
		after, unsure, granted, thereafter Set
	}{
		{name: "nothing to doubt", sent: 0b0111, granted: 0b0111},
		{
			name: "a quarantine is over", doubted: 0b0011, sent: 0b0111, quarantined: 0b0001,
			after: 0b0001, granted: 0b0111, thereafter: 0b0001,
		},
		{
			name: "it is over, and the renewal did not reach the node", doubted: 0b0011, sent: 0b0101, quarantined: 0b0001,
			after: 0b0011, granted: 0b0101, thereafter: 0b0011,
		},
		{
			name: "a healing renewal may set the key in a quarantine", sent: 0b0111, quarantined: 0b0011, heals: true,
			after: 0b0011, unsure: 0b0011, granted: 0b0110, thereafter: 0b0001,
		},
		{
			name: "what was doubted before stays so", doubted: 0b0001, sent: 0b0111, quarantined: 0b0001, heals: true,
			after: 0b0001, granted: 0b0111, thereafter: 0b0001,
		},
		{name: "an extension sets nothing", sent: 0b0111, quarantined: 0b0011, granted: 0b0111},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, unsure := DoubtRenewal(c.doubted, c.sent, c.quarantined, c.heals)
			assert.Equal(t, c.after, after)
			assert.Equal(t, c.unsure, unsure)
			assert.Equal(t, c.thereafter, DoubtGranted(after, unsure, c.granted))
		})
	}
}

// What stood at the seal's key is gone only after a flush, whatever it was.
// What cannot be read tells nothing.
func TestAFlushShowsByAnySeal_R23(t *testing.T) {
	const s = time.Second
	tr := Trust{Need: s}.Meet("a", 9*s).At(10 * s)
	assert.True(t, tr.Trusted)
	tr = tr.Finds(SealAbsent, 10*s)
	assert.True(t, tr.Trusted, "nothing stood there")
	for _, what := range []Seen{SealSeen, SealStrange} {
		tr = tr.Finds(what, 20*s).Finds(Unreadable, 20*s).At(20 * s)
		assert.True(t, tr.Trusted)
		tr = tr.Finds(SealAbsent, 20*s)
		assert.False(t, tr.Trusted)
		assert.Equal(t, WhyVanished, tr.Why)
		tr = tr.Finds(SealAbsent, 25*s).At(25 * s)
		assert.True(t, tr.Trusted, "once")
	}
}
