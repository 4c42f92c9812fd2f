package multiplex

import (
	"math"
	"time"
)

// trust is what this client knows of one node's past, and the pure decisions about it: whether the node may have forgotten a
// lock that is still valid, so that a grant of it must not count (R23, the delayed restart). It has no clock, no socket and no
// goroutine: each method is an event and returns the state after it. quarantine.go feeds it, and a table tests it.
//
// There are two proofs that nothing valid was forgotten. One is to have watched the same process, told by its run id, for
// longer than any lock lives; reconnects that show the same run id do not interrupt that. The other is the seal, which says
// that somebody else has. How long a server says that it has been up is none: that is reckoned by its wall clock.
type trust struct {
	need    time.Duration // so long a process must have been watched; 0: it is trusted whatever it does
	met     bool          // some process was met
	run     string        // the run id of the process that is watched; "" where it may not be asked
	since   time.Duration // when it was first heard of, or when its keys were found flushed
	sealed  time.Duration // the time watched that a seal of this process is known to say; 0: none is known
	trusted bool
	why     string // it is, or was last, not trusted
}

// Why a node is quarantined.
const (
	whyFirst    = "first seen"
	whyRestart  = "restarted"
	whyUnknown  = "reconnected, and its run id may not be asked"
	whyVanished = "seal vanished"
	whyLonger   = "a seal says a longer MaxTTL"
)

// trustMargin is added to the time that a process must be watched. A server's clock has whole milliseconds, and a key may
// live through the one in which it ends; so has the seal, which cuts what it says. The rest is for a lock's caller and the
// server that read their clocks at two moments.
const trustMargin = 5 * time.Millisecond

// longestTTL keeps every sum of times far below what a time.Duration holds.
const longestTTL = 100 * 365 * 24 * time.Hour

// needFor is how long a process must have been watched before no lock from before it can be valid, in whole milliseconds,
// as seals have them. Clocks may differ in rate by the drift (R4); ours may be the fast one.
func needFor(maxTTL time.Duration, drift float64) time.Duration {
	if maxTTL <= 0 {
		return 0
	}
	need := time.Duration(math.Ceil(float64(maxTTL)*(1+drift))) + trustMargin
	return (need + time.Millisecond - 1).Truncate(time.Millisecond)
}

// meet is the end of a handshake: a process with this run id answered. now is taken after its answer, since later is
// safer.
func (t trust) meet(run string, now time.Duration) trust {
	if t.met && run != "" && run == t.run {
		return t.at(now)
	}
	why := whyFirst
	switch {
	case t.met && run == "":
		why = whyUnknown // every connection could hide a restart
	case t.met:
		why = whyRestart
	}
	t.met, t.run = true, run
	return t.quarantine(why, now)
}

// at is the passing of time.
func (t trust) at(now time.Duration) trust {
	t.trusted = t.trusted || t.need == 0 || t.met && now >= t.since+t.need
	return t
}

// sight is a look at the seal, over a connection to the process that is watched.
//
// A seal that was there, and is gone, is another's or says less, was not changed by any client of this package, since they
// never lower one: the keys were flushed, at some time since the last look.
func (t trust) sight(s sighting, now time.Duration) trust {
	switch {
	case s.what == unreadable:
		return t.at(now)
	case s.what == sealSeen && t.run != "" && s.seal.run == t.run && s.seal.watched >= t.sealed:
		return t.seal(s.seal.watched, now)
	case t.sealed > 0:
		return t.quarantine(whyVanished, now)
	}
	return t.at(now)
}

// seal is a seal of this very process that is known to stand: seen, or written and confirmed.
func (t trust) seal(watched, now time.Duration) trust {
	t.sealed = max(t.sealed, watched)
	t.trusted = t.trusted || t.sealed >= t.need
	return t.at(now)
}

// require sets how long processes must have been watched. What was proof before may not suffice for more.
func (t trust) require(need, now time.Duration) trust {
	if need <= t.need {
		return t
	}
	t.need = need
	t.trusted = t.sealed >= need
	if t = t.at(now); !t.trusted && t.met {
		t.why = whyLonger
	}
	return t
}

// quarantine begins the watch anew: what was known of the process is no proof any more.
func (t trust) quarantine(why string, now time.Duration) trust {
	t.since, t.sealed, t.trusted, t.why = now, 0, t.need == 0, why
	return t
}

// left is how long the node is still quarantined, if no seal ends it before; 0 when it is not.
func (t trust) left(now time.Duration) time.Duration {
	switch {
	case t.trusted || t.need == 0:
		return 0
	case !t.met:
		return t.need
	}
	return max(0, t.since+t.need-now)
}

// watched is for how long the process has been watched, here or by whoever wrote its seal, cut to whole milliseconds.
func (t trust) watched(now time.Duration) time.Duration {
	return max(t.sealed, now-t.since).Truncate(time.Millisecond)
}

// proved reports that there is a proof for the node, so that a seal can tell others.
func (t trust) proved(now time.Duration) bool {
	return t.trusted && t.need > 0 && t.run != "" && t.watched(now) >= t.need
}

// tell puts into a status what there is to tell.
func (t trust) tell(s *Status, now time.Duration) {
	s.Sealed = t.sealed > 0
	if s.State != Up {
		t = t.at(now) // it will count when it joins; one that is up counts when the watch has looked
	}
	if !t.trusted && t.need > 0 {
		s.Quarantined, s.QuarantineLeft, s.QuarantineWhy = true, t.left(now), t.why
	}
}

// A debut is the first use of a deployment that was declared new (Config.New). Its nodes need no watch, since no lock was ever
// granted. As a lasting flag that would trust every node that restarts empty, so it counts once, and only if nothing speaks
// against it: all nodes are connected at one time, and a look at each of them from then on finds no seal. Its nodes count
// when the seals stand that it lets us write; so whoever comes later finds a seal on at least a quorum less one, even if a
// node restarts at once.
type debut struct {
	open      bool
	verifying bool // all nodes were connected, and are looked at
	clean     Set  // nodes without a seal, looked at since
}

// newDebut is open where there are seals to write: without them, whoever comes later could not tell.
func newDebut(c *Config) debut {
	return debut{open: c.New && c.MaxTTL > 0 && c.Seal.Read != nil && c.Seal.Write != nil}
}

// sight is a look at a node; verified says that it was begun after all nodes were connected.
func (d debut) sight(node int, s sighting, verified bool) debut {
	switch {
	case s.what == sealSeen || s.what == sealStrange:
		return debut{}
	case s.what == sealAbsent && verified && d.verifying:
		d.clean |= setOf(node)
	}
	return d
}

// part is a node that is not connected any more: all must be looked at anew.
func (d debut) part() debut { return debut{open: d.open} }
