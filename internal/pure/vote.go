package pure

import "time"

const (
	// TickMost is the longest time between two looks at the deadlines of
	// unanswered votes. So it is the longest delay in noticing a cancelled
	// context. The context's deadline has a look of its own. A timer for
	// each command would cost 7–20 % of the throughput
	// (docs/internals/design.md, "One timer for all").
	TickMost = 5 * time.Millisecond
	// TickLeast is the shortest time between two such looks.
	TickLeast = 500 * time.Microsecond

	// readGrace is how much longer a vote has if the node's bytes have arrived
	// but were not read yet (R6).
	readGrace = 4 * time.Millisecond
	// lateTick is how late a look must be to show that this process was starved
	// or stopped. Its sockets may then hold replies that it has not seen; those
	// get the grace from now on.
	lateTick = 2 * time.Millisecond

	voteLeast = 5 * time.Millisecond
	voteUsual = 50 * time.Millisecond
)

// VoteTimeout returns how long to wait for a node's vote (R6): the larger of
// TTL/200 within 5–50 ms and four times the node's smoothed reply time, and at
// most VoteMost. A configured timeout is used as it is.
func VoteTimeout(configured, ttl, replyTime time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	usual := min(max(ttl/200, voteLeast), voteUsual)
	return min(max(usual, 4*replyTime), VoteMost(ttl))
}

// VoteMost returns the longest time for which a caller waits for a vote (R6): a
// tenth of the TTL.
func VoteMost(ttl time.Duration) time.Duration { return ttl / 10 }

// VotePatience returns the least time to wait for the votes of a round (R6).
// asked is what its caller asked for. hinges reports that the outcome stays
// unknown without the missing votes, and starved a time without CPU for this
// process since the round was queued. If this process is starved, a node on the
// same machine is too, and is more likely late than dead, so such votes have
// the longest time allowed. A dead node is shed before that (R26). A configured
// timeout is used as it is.
func VotePatience(configured, ttl, asked time.Duration, hinges, starved bool) time.Duration {
	if configured > 0 || !hinges || !starved {
		return asked
	}
	return max(asked, VoteMost(ttl))
}

// VoteDeadline returns when the vote on a command queued at the given time is
// given up. patience is what VotePatience returned.
func VoteDeadline(at, timeout, patience time.Duration) time.Duration {
	return at + max(timeout, patience)
}

// UnreadDeadline returns the end of a vote for unread bytes from the node (R6):
// somewhat later, and not before excused. Up to then the next look is in a
// millisecond, or sooner at the end. So the end is not exceeded by a
// millisecond (R26).
func UnreadDeadline(deadline, excused, now time.Duration) time.Duration {
	most := max(deadline+readGrace, excused)
	if now >= deadline && now < most {
		return min(now+time.Millisecond, most)
	}
	return deadline
}

// Excused returns the end of the time in which unread votes are not given up.
// late is how late this look is.
func Excused(excused, late, now time.Duration) time.Duration {
	if late > lateTick {
		return now + readGrace
	}
	return excused
}

// Starved reports whether a look after the given time was late. excused is what
// Excused returned last.
func Starved(excused, since time.Duration) bool { return excused > since+readGrace }

// Smoothed returns the new mean of a time that is measured repeatedly. The mean
// moves by an eighth of the difference, as TCP smooths its round trips. old is
// the mean so far, or zero if there is none.
func Smoothed(old, sample time.Duration) time.Duration {
	if old == 0 {
		return sample
	}
	return old + (sample-old)/8
}
