package supervise

import "time"

// limits say when a command is stopped, counted back from the end of its lock's
// validity:
//
//	granted or renewed                      TERM            KILL   validity ends
//	|--- renewals, tried again and again ---|-- killAfter --|-- margin --|
//
// A hold is renewed at a third of its validity. TERM comes only after renewals
// have failed for long.
type limits struct {
	killAfter time.Duration // from TERM to KILL
	margin    time.Duration // for the signal to be sent and to take effect on a busy machine
}

// mostMargin bounds the margin: long TTLs need no more.
const mostMargin = time.Second

// newLimits fits the user's killAfter into a TTL. TERM gets at most a third of
// it, which leaves renewals a third for their retries.
func newLimits(killAfter, ttl time.Duration) limits {
	return limits{killAfter: min(killAfter, ttl/3), margin: min(ttl/20, mostMargin)}
}

// StopsAt returns with how much validity left a command is stopped.
func StopsAt(killAfter, ttl time.Duration) time.Duration {
	l := newLimits(killAfter, ttl)
	return l.killAfter + l.margin
}

// A measure is what to do to a command.
type measure int

const (
	toGoOn measure = iota
	toTerm
	toKill
)

// judge returns what to do to a command with so much validity left. termed is
// how long ago it got TERM, negative if it did not. next is when to judge again
// if nothing happens.
func (l limits) judge(left, termed time.Duration) (do measure, next time.Duration) {
	live := left - l.margin
	if termed >= 0 {
		live = min(live, l.killAfter-termed)
	}
	switch {
	case live <= 0:
		return toKill, 0
	case termed >= 0:
		return toGoOn, live
	case live <= l.killAfter:
		return toTerm, live
	default:
		return toGoOn, live - l.killAfter
	}
}
