package pure

import "time"

const (
	// shedLeast is the least age of an unanswered command at which a node is
	// given up (R26), and shedAlone that of a command that was sent to this
	// node alone.
	shedLeast = 100 * time.Millisecond
	shedAlone = time.Second
	// lenience multiplies that age for a node that is no later than all others,
	// or that still answers.
	lenience = 5
	// lagLeast is the least lag behind another node, in commands, at which a
	// node is given up because the log is nearly full.
	lagLeast = 16
	// LagCostly is the lag at which an overdue node is given up although the
	// log is not nearly full: each command costs half a KiB until then, and
	// each release among them another half from then on (R26).
	LagCostly = 8192
	// OverdueLeast is the least age of an unanswered command that makes a node
	// overdue.
	OverdueLeast = shedLeast / 4
)

// A Silence decides how long a node may leave a command unanswered before its
// connection is shed (R26). It is guarded by its owner's mutex.
type Silence struct {
	// excused is until when the node's silence is this client's own fault: the
	// node had sent bytes that were not read yet.
	excused time.Duration
	// usual is its reply time when it was last not far behind the others.
	usual time.Duration
	// level is when it was last seen no further behind than every other.
	level time.Duration
	// away is the sum of the delays of the looks since awaySince. awaySince is
	// when the oldest unanswered command began to wait.
	away, awaySince time.Duration
}

// An Unanswered describes what a node has not answered.
type Unanswered struct {
	Since time.Duration // when the oldest unanswered command was queued
	// Voting reports that this command is a round's, on which other nodes vote
	// too.
	Voting      bool
	VoteTimeout time.Duration // of the node's vote on it
	Heard       time.Duration // when bytes last came from the node
	ReplyTime   time.Duration // of the node, smoothed
	Lag         int           // in rounds, behind the node that is furthest
	Waiting     int           // rounds that wait for answers of any node
	MaxPending  int           // as configured
	ShedAfter   time.Duration // as configured; 0 if it is not
	// Patience is how long the command's vote may take if no caller waits for
	// it; otherwise 0.
	Patience time.Duration
}

// patience returns how long the command may wait.
func (u *Unanswered) patience() time.Duration {
	if u.Voting {
		return ShedAge(u.ShedAfter, u.VoteTimeout)
	}
	return max(shedAlone, u.ShedAfter)
}

// ShedAge returns the age of an unanswered command at which a node is given up:
// 100 ms, or four times the vote timeout if that is larger. A configured age is
// used as it is.
func ShedAge(configured, voteTimeout time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	return max(shedLeast, 4*voteTimeout)
}

// Excuse records that bytes of the node wait to be read.
func (s *Silence) Excuse(now time.Duration) { s.excused = now }

// Ends returns when the node is shed if nothing comes from it. That is now if
// it holds up the others. late is how late this look is.
func (s *Silence) Ends(u Unanswered, late, now time.Duration) time.Duration {
	if u.Voting && u.Lag == 0 {
		s.level = now
	}
	limit := s.limit(&u, late)
	if s.holdsUp(&u, now) {
		return min(limit, now)
	}
	return limit
}

// limit returns when the node is shed if nothing comes from it.
//
// The age of the oldest unanswered command counts only while the node's socket
// is drained, so that a starved client sheds no node (R26). It does not count
// while there are bytes to read, nor while the looks were late, up to as long
// again. A node that still answers, if only late, or that is no further behind
// than every other, is more likely starved than dead. Shedding it would cost a
// vote and gain nothing, so it has five times as long. A renewal may wait
// until the old validity ends (R6): while no node has answered it, none is
// shed in the first half of that. If the connections are at fault, enough is
// left for others. MaxPending bounds the memory meanwhile.
func (s *Silence) limit(u *Unanswered, late time.Duration) time.Duration {
	since, patience := max(u.Since, s.excused), u.patience()
	away := s.awayFor(since, late)
	if u.ShedAfter > 0 {
		// A configured limit is used as it is.
		return since + patience + min(patience, away)
	}
	most := since + max(lenience*patience, u.Patience/2) + away
	if u.Voting && u.Lag == 0 {
		return most
	}
	return min(max(since, u.Heard, s.level)+patience+min(patience, away), most)
}

// awayFor adds the delay of this look to that of the looks since the oldest
// unanswered command began to wait, and returns the sum.
func (s *Silence) awayFor(since, late time.Duration) time.Duration {
	if s.awaySince != since {
		s.awaySince, s.away = since, 0
	}
	s.away += late
	return s.away
}

// holdsUp reports whether this node's lag is about to fill the log, or is
// costly and overdue, with its socket drained. Such a node is shed before
// commands are refused (R26). If all nodes are equally far behind, shedding one
// would gain nothing.
func (s *Silence) holdsUp(u *Unanswered, now time.Duration) bool {
	if u.Lag < LagCostly/2 {
		s.usual = u.ReplyTime
	}
	full := u.Waiting >= u.MaxPending/4*3 && u.Lag >= max(u.MaxPending/2, lagLeast)
	return (full || u.Lag >= LagCostly && s.overdue(u, now)) && s.excused < now
}

// overdue reports whether the oldest command has waited much longer than this
// node's answers took before it fell behind. A node that is only far away is
// not overdue, however many commands are on the way to it. A node whose answers
// come one by one is overdue, although each answer makes its reply time longer.
func (s *Silence) overdue(u *Unanswered, now time.Duration) bool {
	return now-u.Since >= max(OverdueLeast, 2*s.usual)
}
