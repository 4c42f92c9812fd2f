package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// When a silent node is shed (R26): its oldest command was queued at 10 s, its
// vote timeout is 50 ms, and it was last heard of before.
func TestSilenceEnds_R26(t *testing.T) {
	const since = 10 * time.Second
	vote := Unanswered{Since: since, Voting: true, VoteTimeout: 50 * ms, Heard: since - time.Second, Lag: 1, MaxPending: 32768}
	with := func(change func(u *Unanswered)) Unanswered {
		u := vote
		change(&u)
		return u
	}
	for _, c := range []struct {
		name    string
		u       Unanswered
		late    []time.Duration // of each look
		excused time.Duration
		ends    time.Duration
	}{
		{"four times the vote timeout", vote, nil, 0, since + 200*ms},
		{"at least 100 ms", with(func(u *Unanswered) { u.VoteTimeout = ms }), nil, 0, since + 100*ms},
		{"behind no other", with(func(u *Unanswered) { u.Lag = 0 }), nil, 0, since + 1000*ms},
		{"it still answers", with(func(u *Unanswered) { u.Heard = since + 150*ms }), nil, 0, since + 350*ms},
		{"it still answers, but never this one", with(func(u *Unanswered) { u.Heard = since + time.Minute }), nil, 0, since + 1000*ms},
		{"its bytes were unread", vote, nil, since + 100*ms, since + 300*ms},
		{"they were unread before", vote, nil, since - 100*ms, since + 200*ms},
		{"the looks were late", vote, []time.Duration{20 * ms, 30 * ms}, 0, since + 250*ms},
		{"they were very late", vote, []time.Duration{time.Minute}, 0, since + 400*ms},
		{"behind no other, and the looks were late", with(func(u *Unanswered) { u.Lag = 0 }), []time.Duration{time.Minute}, 0, since + 61*time.Second},
		{"a renewal that another node has answered", with(func(u *Unanswered) { u.Patience = 6 * time.Second }), nil, 0, since + 200*ms},
		{"a renewal that no node has answered, for half of what it may wait", with(func(u *Unanswered) { u.Patience, u.Lag = 6*time.Second, 0 }), nil, 0, since + 3*time.Second},
		{"a renewal with little time left", with(func(u *Unanswered) { u.Patience, u.Lag = 100*ms, 0 }), nil, 0, since + 1000*ms},
		{"a renewal's node, configured", with(func(u *Unanswered) { u.ShedAfter, u.Patience = 70*ms, 6*time.Second }), nil, 0, since + 70*ms},
		{"configured", with(func(u *Unanswered) { u.ShedAfter = 70 * ms }), nil, 0, since + 70*ms},
		{"configured, and behind no other", with(func(u *Unanswered) { u.ShedAfter, u.Lag = 70*ms, 0 }), nil, 0, since + 70*ms},
		{"configured, and the looks were late", with(func(u *Unanswered) { u.ShedAfter = 70 * ms }), []time.Duration{time.Minute}, 0, since + 140*ms},
		{"asked alone", with(func(u *Unanswered) { u.Voting, u.Lag = false, 0 }), nil, 0, since + time.Second},
		{"asked alone, with a short age configured", with(func(u *Unanswered) { u.Voting, u.ShedAfter = false, 70*ms }), nil, 0, since + time.Second},
		{"asked alone, with a long one", with(func(u *Unanswered) { u.Voting, u.ShedAfter = false, time.Minute }), nil, 0, since + time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Silence
			if c.excused > 0 {
				s.Excuse(c.excused)
			}
			for _, late := range c.late {
				s.Ends(c.u, late, since)
			}
			assert.Equal(t, c.ends, s.Ends(c.u, 0, since+ms))
		})
	}
}

// A node has its time from when the first one answered, where the way to all of
// them has become long.
func TestSilenceBeginsWithTheFirstAnswer_R26(t *testing.T) {
	var s Silence
	renewal := Unanswered{Since: time.Second, Voting: true, VoteTimeout: 50 * ms, MaxPending: 32768, Patience: 6 * time.Second}
	assert.Equal(t, 4*time.Second, s.Ends(renewal, 0, 2100*ms))
	renewal.Lag = 1
	assert.Equal(t, 2300*ms, s.Ends(renewal, 0, 2105*ms))
	next := renewal
	next.Since = 3 * time.Second
	assert.Equal(t, 3200*ms, s.Ends(next, 0, 3*time.Second))
}

// The delays of looks count for the command that waited meanwhile, and for no
// other.
func TestDelaysOfLooksAreOfOneCommand(t *testing.T) {
	var s Silence
	first := Unanswered{Since: time.Second, Voting: true, VoteTimeout: 50 * ms, Lag: 1, MaxPending: 32768}
	assert.Equal(t, 1200*ms+40*ms, s.Ends(first, 40*ms, time.Second))
	next := first
	next.Since = 2 * time.Second
	assert.Equal(t, 2200*ms, s.Ends(next, 0, 2*time.Second))
}

// A node that lags far is shed at once, before commands are refused (R26).
func TestSilenceOfANodeThatLags_R26(t *testing.T) {
	const now = time.Minute
	for _, c := range []struct {
		name         string
		lag, waiting int
		age          time.Duration
		replyTime    time.Duration // now
		usual        time.Duration // before it lagged
		unread       bool
		shed         bool
	}{
		{name: "the log is nearly full", lag: 16384, waiting: 24576, shed: true},
		{name: "it is nearly full, but of what all must answer", lag: 16383, waiting: 24576, age: ms},
		{name: "half of it waits, but it is not full", lag: 16384, waiting: 24575, age: ms},
		{name: "it is nearly full, with bytes unread", lag: 16384, waiting: 24576, unread: true},
		{name: "costly and overdue", lag: LagCostly, waiting: LagCostly, age: OverdueLeast, shed: true},
		{name: "costly and overdue, with bytes unread", lag: LagCostly, waiting: LagCostly, age: OverdueLeast, unread: true},
		{name: "not that costly", lag: LagCostly - 1, waiting: LagCostly, age: OverdueLeast},
		{name: "costly, and not overdue", lag: LagCostly, waiting: LagCostly, age: OverdueLeast - 1},
		{name: "far away", lag: LagCostly, waiting: LagCostly, age: 100*ms - 1, usual: 50 * ms},
		{name: "far away, and overdue", lag: LagCostly, waiting: LagCostly, age: 100 * ms, usual: 50 * ms, shed: true},
		{name: "its answers drip", lag: LagCostly, waiting: LagCostly, age: OverdueLeast, replyTime: time.Minute, usual: ms, shed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Silence
			u := Unanswered{Since: now - c.age, Voting: true, VoteTimeout: time.Minute, MaxPending: 32768}
			u.ReplyTime = c.usual
			assert.Greater(t, s.Ends(u, 0, now-ms), now, "as long as it did not lag")
			u.ReplyTime, u.Lag, u.Waiting = c.replyTime, c.lag, c.waiting
			if c.unread {
				s.Excuse(now)
			}
			assert.Equal(t, c.shed, now >= s.Ends(u, 0, now))
		})
	}
	// A small log is not nearly full with a lag of a few rounds.
	s, u := Silence{}, Unanswered{Since: now, Voting: true, VoteTimeout: time.Minute, MaxPending: 8, Waiting: 6, Lag: 15}
	assert.Greater(t, s.Ends(u, 0, now), now)
	u.Lag = 16
	assert.Equal(t, now, s.Ends(u, 0, now))
}
