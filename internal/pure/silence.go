package pure

import "time"

const (
	// shedLeast is the age of an unanswered command from which a node may
	// be given up (R26), and shedAlone that of a command to this node
	// alone.
	shedLeast = 100 * time.Millisecond
	shedAlone = time.Second
	// lenience multiplies that age for a node no later than all others, or
	// one still answering.
	lenience = 5
	// lagLeast is the least lag behind another node, in commands, for
	// giving a node up over a nearly full log.
	lagLeast = 16
	// LagCostly is the lag for giving up an overdue node without a nearly
	// full log. Each command costs half a KiB before that, and each release
	// among them another half from then on (R26).
	LagCostly = 8192
	// OverdueLeast is the least age of an unanswered command that makes a node
	// overdue.
	OverdueLeast = shedLeast / 4
)

// A Silence decides how long a node may leave a command unanswered before its
// connection is shed (R26). It is guarded by its owner's mutex.
type Silence struct {
	// excused is the end of the time in which silence is this client's own
	// fault: bytes from the node were not read yet.
	excused time.Duration
	// usual is its reply time when it was last not far behind the others.
	usual time.Duration
	// level is the last time it was seen no further behind than every
	// other.
	level time.Duration
	// away is the sum of the delays of the looks since awaySince. awaySince
	// is the beginning of the wait of the oldest unanswered command.
	away, awaySince time.Duration
}

// An Unanswered describes what a node has not answered.
type Unanswered struct {
	Since time.Duration // when the oldest unanswered command was queued
	// Voting reports that this command is a round's. Other nodes vote on it
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
// the larger of 100 ms and four times the vote timeout. A configured age is
// used as it is.
func ShedAge(configured, voteTimeout time.Duration) time.Duration {
	if configured > 0 {
		return configured
	}
	return max(shedLeast, 4*voteTimeout)
}

// Excuse records that bytes of the node wait to be read.
func (s *Silence) Excuse(now time.Duration) { s.excused = now }

// Ends returns when the node is shed if nothing comes from it. That is now for
// one that holds up the others. late is how late this look is.
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
// The age of the oldest unanswered command counts only with the node's socket
// drained. So a starved client sheds no node (R26). It does not count with
// bytes to read, nor during late looks, up to as long again. A node still
// answering, if only late, or no further behind than every other, is more
// likely starved than dead. Shedding it would cost a vote and gain nothing, so
// it has five times as long. A renewal may wait for the end of the old validity
// (R6). Without any answer to it, no node is shed in the first half of that.
// With the connections at fault, enough is left for others. MaxPending bounds
// the memory meanwhile.
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
// commands are refused (R26). With all nodes equally far behind, shedding one
// would gain nothing.
func (s *Silence) holdsUp(u *Unanswered, now time.Duration) bool {
	if u.Lag < LagCostly/2 {
		s.usual = u.ReplyTime
	}
	full := u.Waiting >= u.MaxPending/4*3 && u.Lag >= max(u.MaxPending/2, lagLeast)
	switch {
	case s.excused >= now:
		return false
	case full:
		return true
	}
	return u.Lag >= LagCostly && s.overdue(u, now)
}

// overdue reports whether the oldest command has waited much longer than this
// node's answers took before it fell behind. A node that is only far away is
// not overdue, however many commands are on the way to it. A node with answers
// one by one is overdue, although each makes its reply time longer.
func (s *Silence) overdue(u *Unanswered, now time.Duration) bool {
	return now-u.Since >= max(OverdueLeast, 2*s.usual)
}
