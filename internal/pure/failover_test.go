package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBoundOfAFormerPrimary_R23(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		bound, grace, alone time.Duration
	}{
		{0, 3 * s, 0},
		{100 * ms, s, 1116 * ms}, // a client that pauses for longer does not wait
		{s, s, 2*s + 25*ms},
		{7 * s, 3 * s, 10*s + 105*ms},
		{time.Minute, 3 * s, 63*s + 635*ms},
	} {
		f := Failover{Expected: true, Bound: c.bound}
		assert.Equal(t, []time.Duration{c.grace, c.alone}, []time.Duration{f.Grace(), f.Alone(0.01)}, c.bound)
	}
	for _, c := range []struct {
		present, needed int
		maxLag, bound   time.Duration
	}{
		{1, 1, 10 * s, 12 * s},
		{2, 2, 2 * s, 4 * s},
		{2, 3, 2 * s, 4 * s},
		{0, 1, 2 * s, 4 * s}, // none at the moment: nothing is accepted
		{2, 1, 2 * s, 0},     // the other replica may stay with the former primary
		{0, 0, 2 * s, 0},
		{1, 1, 0, 0}, // the server does not look at lags
	} {
		assert.Equal(t, c.bound, BoundByReplicas(c.present, c.needed, c.maxLag), c)
	}
}

// A vote must last until the former primary grants no more.
func TestRenewable_R10(t *testing.T) {
	assert.True(t, Renewable(30*ms, 10*ms, 20*ms))
	assert.False(t, Renewable(30*ms-1, 10*ms, 20*ms))
}

// A node that fails over counts when its server was promoted long enough ago,
// which its own seal may say, and this client has watched it for long enough.
// Neither an uptime nor the opening of the set is a proof.
func TestTrustOfANodeThatFailsOver_R23_R29(t *testing.T) {
	const s, need, own = time.Second, 2 * time.Second, time.Second
	seal := func(run string, watched time.Duration) func(Trust, time.Duration) Trust {
		return saw(SealSeen, Seal{Seat{}, "", run, s, watched, Failover{Expected: true}, 9 * s})
	}
	for name, steps := range map[string][]trustStep{
		"its own watch": {
			{s, metRun("a"), false, need, WhyFirst},
			{3*s - 1, passed, false, 1, WhyFirst},
			{3 * s, passed, true, 0, WhyFirst},
			{4 * s, metRun("b"), false, need, WhyPromoted},
			{5 * s, metRun("a"), false, need, WhyPromoted},
		},
		"its seal": {
			{s, metRun("a"), false, need, WhyFirst},
			{s, seal("a", 9*s), false, own, WhyFirst},
			{2*s - 1, passed, false, 1, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
		},
		"a seal that says less": {
			{s, metRun("a"), false, need, WhyFirst},
			{s, seal("a", s/2), false, need - s/2, WhyFirst},
			{3 * s / 2, seal("a", need), false, s / 2, WhyFirst},
		},
		"a former primary's seal": {{s, metRun("b"), false, need, WhyFirst}, {s, seal("a", 9*s), false, need, WhyFirst}},
		"its seal, from before it was a replica": {
			{s, metRun("a:i:h:1"), false, need, WhyFirst}, {s, seal("a:h", 9*s), false, need, WhyDemoted},
		},
		"an opening": {{s, metRun("a"), false, need, WhyFirst}, {s, opened(-9 * s), false, need, WhyYoung}},
		"a silence": {
			{s, metRun("a"), false, need, WhyFirst},
			{9 * s, passed, true, 0, WhyFirst},
			{9 * s, silent, false, own, WhySilent},
			{9 * s, metRun("a"), false, own, WhySilent},
			{9 * s, seal("a", 9*s), false, own, WhySilent},
			{10 * s, passed, true, 0, WhySilent},
		},
		"a silence, and another server": {
			{s, metRun("a"), false, need, WhyFirst}, {9 * s, silent, false, own, WhySilent}, {9 * s, metRun("b"), false, need, WhyPromoted},
		},
		"no bound is known any more": {
			{s, metRun("a"), false, need, WhyFirst},
			{s, seal("a", 9*s), false, own, WhyFirst},
			{2 * s, passed, true, 0, WhyFirst},
			{2 * s, func(t Trust, now time.Duration) Trust { return t.Require(need, need, now) }, false, s, whyLonger},
			{2 * s, func(t Trust, now time.Duration) Trust { return t.Require(need, own, now) }, true, 0, whyLonger},
		},
		"a history of its own": {{s, metRun("a:h"), false, need, WhyFirst}, {2 * s, metRun("a:i:h:1"), false, need, WhyDemoted}},
	} {
		t.Run(name, func(t *testing.T) { follow(t, Trust{Need: need, Own: own}, steps) })
	}
	// What it tells others is since when it knows the server.
	state := Trust{Need: need, Own: own}.Meet("a", 5*s).Opens(0, 6*s)
	assert.Equal(t, s, state.Watched(6*s))
	assert.Equal(t, 4*s, Trust{Need: need, Own: own}.Meet("a", 5*s).Silent(8*s).Watched(9*s))
}

func silent(t Trust, now time.Duration) Trust { return t.Silent(now) }

func TestRelatedHistories_R22(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"x", "x", true},
		{"x", "y", false},
		{"x", "y:x:100", true},
		{"y:x:100", "x", true},
		{"y:x:100", "z:x:100", false}, // two promotions of one group: none is known to follow the other
		{"y:x:100", "z:y:200", true},
		{"", "", false},
		{"", "x", false},
	} {
		assert.Equal(t, c.want, Related(c.a, c.b), c)
	}
}
