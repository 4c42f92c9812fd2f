package pure

import "time"

const (
	// TickMost is the longest time between two looks at the deadlines of votes
	// while anything is unanswered, and so the delay with which a cancelled
	// context is noticed. A timer for each command would cost 7–20 % of the
	// throughput (docs/design.md, "One timer for all").
	TickMost = 5 * time.Millisecond
	// TickLeast is the shortest time between two such looks.
	TickLeast = 500 * time.Microsecond

	// readGrace is how much longer a vote is waited for if the node's bytes
	// have arrived but were not read yet (R6).
	readGrace = 4 * time.Millisecond
	// lateTick is a delay of a look that shows that this process was starved or
	// stopped. Its sockets may hold replies that it has not seen; those get the
	// grace from now on.
	lateTick = 2 * time.Millisecond

	voteLeast = 5 * time.Millisecond
	voteUsual = 50 * time.Millisecond
)

// VoteTimeout returns how long to wait for a node's vote (R6): TTL/200 within
// 5–50 ms, or four times the node's smoothed reply time if that is larger, and
// at most VoteMost. A configured timeout is used as it is.
func VoteTimeout(configured, ttl, replyTime time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	usual := min(max(ttl/200, voteLeast), voteUsual)
	return min(max(usual, 4*replyTime), VoteMost(ttl))
}

// VoteMost returns the longest time to wait for a vote (R6), which is how long
// a renewal is waited for: a tenth of the TTL.
func VoteMost(ttl time.Duration) time.Duration { return ttl / 10 }

// VotePatience returns the least time to wait for the votes of a round (R6).
// asked is what its caller asked for. hinges reports that without a missing
// vote the outcome stays unknown, and starved that this process got no CPU for
// a time since the round was queued. Where it is starved, a node on the same
// machine is too, and more likely late than dead, so such votes are waited for
// as long as is allowed. A node that is dead is shed before that (R26). A
// configured timeout is used as it is.
func VotePatience(configured, ttl, asked time.Duration, hinges, starved bool) time.Duration {
	if configured > 0 || !hinges || !starved {
		return asked
	}
	return max(asked, VoteMost(ttl))
}

// VoteDeadline returns when a vote is given up on a command that was queued at
// the given time. patience is what VotePatience returned.
func VoteDeadline(at, timeout, patience time.Duration) time.Duration {
	return at + max(timeout, patience)
}

// UnreadDeadline returns when a vote is given up if the node's bytes have
// arrived but were not read yet (R6): somewhat later, and not before excused.
// Until then they are looked at every millisecond, and at the end of that time,
// so that it is not exceeded by a millisecond (R26).
func UnreadDeadline(deadline, excused, now time.Duration) time.Duration {
	most := max(deadline+readGrace, excused)
	if now >= deadline && now < most {
		return min(now+time.Millisecond, most)
	}
	return deadline
}

// Excused returns until when unread votes are not given up, after a look that
// was late by the given time.
func Excused(excused, late, now time.Duration) time.Duration {
	if late > lateTick {
		return now + readGrace
	}
	return excused
}

// Starved reports whether a look came late after the given time. excused is
// what Excused returned last.
func Starved(excused, since time.Duration) bool { return excused > since+readGrace }

// Smoothed returns the mean of a time that is measured again and again, as TCP
// smooths its round trips: by an eighth of the difference. old is the mean so
// far; zero if there is none.
func Smoothed(old, sample time.Duration) time.Duration {
	if old == 0 {
		return sample
	}
	return old + (sample-old)/8
}
