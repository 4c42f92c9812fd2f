package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestVoteTimeout(t *testing.T) {
	table := []struct {
		name                            string
		configured, ttl, reply, timeout time.Duration
	}{
		{"TTL/200", 0, 4 * time.Second, 0, 20 * ms},
		{"at least 5 ms", 0, 200 * ms, 0, 5 * ms},
		{"at most 50 ms", 0, time.Hour, 0, 50 * ms},
		{"4 × the reply time, if that is larger", 0, 10 * time.Second, 30 * ms, 120 * ms},
		{"not if it is smaller", 0, 10 * time.Second, 12 * ms, 50 * ms},
		{"at most TTL/10", 0, 2 * time.Second, 100 * ms, 200 * ms},
		{"TTL/10 is less than 5 ms", 0, 20 * ms, 0, 2 * ms},
		{"TTL/10 beats a slow node", 0, 20 * ms, time.Second, 2 * ms},
		{"configured", 7 * ms, time.Hour, time.Second, 7 * ms},
		{"configured, above TTL/10", time.Second, 20 * ms, 0, time.Second},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.timeout, VoteTimeout(c.configured, c.ttl, c.reply), "R6")
		})
	}
}

// A vote is given up after its timeout, or the caller's patience.
func TestVoteDeadline(t *testing.T) { // R6
	assert.Equal(t, 120*ms, VoteDeadline(100*ms, 20*ms, 0))
	assert.Equal(t, 150*ms, VoteDeadline(100*ms, 20*ms, 50*ms))
}

// Where the outcome hinges on votes that are missing, a client that was starved
// waits for a tenth of the TTL, unless a timeout is configured.
func TestVotePatience(t *testing.T) { // R6
	for _, c := range []struct {
		name            string
		configured      time.Duration
		hinges, starved bool
		asked, patience time.Duration
	}{
		{"starved, and it hinges on them", 0, true, true, 0, time.Second},
		{"it does not hinge on them", 0, false, true, 20 * ms, 20 * ms},
		{"not starved", 0, true, false, 20 * ms, 20 * ms},
		{"configured", 70 * ms, true, true, 0, 0},
		{"the caller asks for more", 0, true, true, time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.patience, VotePatience(c.configured, 10*time.Second, c.asked, c.hinges, c.starved))
		})
	}
}

// A look that was late excuses what was queued before it.
func TestStarved(t *testing.T) { // R6
	excused := Excused(0, lateTick+1, time.Second)
	assert.True(t, Starved(excused, time.Second-1))
	assert.False(t, Starved(excused, time.Second))
	assert.False(t, Starved(0, time.Second), "never late")
}

// A node whose bytes wait in a socket gets 4 ms more, and longer after the
// process was starved, but not for ever.
func TestUnreadDeadline(t *testing.T) { // R6
	const deadline = time.Second
	for _, c := range []struct {
		name          string
		excused, now  time.Duration
		isGivenUpThen bool
	}{
		{"before the deadline", 0, deadline - 1, false},
		{"at the deadline", 0, deadline, false},
		{"within the grace", 0, deadline + 4*ms - 1, false},
		{"after the grace", 0, deadline + 4*ms, true},
		{"the process was starved", deadline + 10*ms, deadline + 9*ms, false},
		{"it was starved, and had its grace", deadline + 10*ms, deadline + 10*ms, true},
		{"it was starved long ago", ms, deadline + 5*ms, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.isGivenUpThen, c.now >= UnreadDeadline(deadline, c.excused, c.now))
		})
	}
	assert.Equal(t, deadline+3*ms, UnreadDeadline(deadline, 0, deadline+2*ms), "and it is looked at again a millisecond later")
	assert.Equal(t, deadline+4*ms, UnreadDeadline(deadline, 0, deadline+4*ms-1), "but not after its grace (R26)")
}

// Only a look that came late excuses what is unread.
func TestExcused(t *testing.T) { // R6
	assert.Equal(t, 7*ms, Excused(7*ms, lateTick, time.Second))
	assert.Equal(t, time.Second+readGrace, Excused(7*ms, lateTick+1, time.Second))
}

func TestSmoothed(t *testing.T) {
	assert.Equal(t, 80*ms, Smoothed(0, 80*ms), "the first counts in full")
	assert.Equal(t, 90*ms, Smoothed(80*ms, 160*ms))
	assert.Equal(t, 70*ms, Smoothed(80*ms, 0))
}
