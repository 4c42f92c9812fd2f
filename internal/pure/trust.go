package pure

import (
	"cmp"
	"math"
	"time"
)

// Trust is what this client knows of one node's past. It decides whether the
// node may have forgotten a valid lock. Then its grants must not count (R23,
// the delayed restart). Meet records a handshake; At advances the clock; Finds,
// Sight and Seal apply a seal; Opens and Joins begin a deployment; and Require
// raises Need. Each returns the state after it.
//
// There are two proofs that no valid lock was forgotten. One is to have watched
// the same process, by its name (see ProcessName), for longer than any lock
// lives. A reconnect to the same name does not interrupt that. The other is a
// seal: it says how long another client has watched it. A server's reported
// uptime is a proof only at a debut (Began), with no seal on any node of the
// set.
//
// A node that forgot nothing may still not know a valid lock: that of another
// deployment, from a node's time before it came back empty into the set. So the
// time watched counts from when the set was opened (Opens, Joins).
type Trust struct {
	// Need is how long a process must have been watched. Zero trusts every
	// process.
	Need time.Duration
	// Durable is set for a node that forgets nothing in a restart. Then all
	// processes of the node count as one, but for those that were a
	// replica.
	Durable bool
	// Own is for how long this client must have watched the server itself,
	// without a silence. It is set for a node behind which the server may
	// change. A seal proves there how long ago the server was promoted. It
	// does not prove that no other was promoted since, while the server was
	// stopped.
	Own time.Duration
	Met bool // a handshake has succeeded
	// Run is the name of the watched process, or "" without the right to
	// ask for its run id.
	Run     string
	Account Account       // what the process says of its start
	since   time.Duration // when the watch began, or the keys were found flushed
	met     time.Duration // when this client's own watch began
	opened  time.Duration // the set was open by then, as far as is known
	Sealed  time.Duration // the time watched that a seal of this process states
	Marked  bool          // a seal is known to exist
	held    bool          // the seal's key was seen to hold something
	Trusted bool
	Why     string // the reason for the current or the last quarantine
}

// Why a node is quarantined.
const (
	WhyFirst    = "first seen"
	WhyRestart  = "restarted"
	WhyDemoted  = "was demoted to a replica, and promoted again"
	WhyHistory  = "began another replication history: a replica came or left, or it was one itself"
	WhyUnknown  = "reconnected, and its run id may not be asked"
	WhyVanished = "seal vanished"
	WhySilent   = "was silent for too long: another server may have taken its place meanwhile"
	WhyPromoted = "another server took the node's place"
	whyLonger   = "a seal says a longer MaxTTL"
	WhyYoung    = "a node of the set started a short while ago"
	WhyJoined   = "its deployment was opened a short while ago"
)

// trustMargin is added to the time that a process must be watched. A server's
// clock counts whole milliseconds, and a key may live to the end of its last
// one; a seal also has whole milliseconds. The rest allows for the time between
// the clock readings of a lock's caller and of the server.
const trustMargin = 5 * time.Millisecond

// NeedFor returns how long a process must be watched until no earlier lock can
// be valid, in whole milliseconds as in seals. Clocks may differ in rate by the
// drift (R4), and this client's may be the fast one.
func NeedFor(maxTTL time.Duration, drift float64) time.Duration {
	if maxTTL <= 0 {
		return 0
	}
	need := time.Duration(math.Ceil(float64(maxTTL)*(1+drift))) + trustMargin
	return (need + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Meet records a handshake: a process with this name answered. now must be read
// after the answer: a later time is safer.
//
// A server that becomes a replica replaces its keys by those of its master, in
// the same process. Then nothing seen before is a proof, however durable the
// node is.
func (t Trust) Meet(run string, now time.Duration) Trust {
	if t.Met && run != "" && run == t.Run {
		return t.At(now)
	}
	why := WhyFirst
	switch {
	case !t.Met:
	case run == "":
		why = WhyUnknown // each connection may hide a restart
	case runOf(run) != runOf(t.Run):
		if why = WhyRestart; t.Own > 0 {
			why = WhyPromoted
		}
	default:
		why = whyChanged(run)
	}
	if !t.Met || why == WhyDemoted || why == WhyHistory || promoted(run) {
		t.opened = now
	}
	t.Met, t.Run, t.Account, t.held = true, run, Account{}, false
	return t.quarantine(why, now)
}

// At advances the clock.
func (t Trust) At(now time.Duration) Trust {
	switch {
	case t.Need == 0:
		t.Trusted = true
	case t.Met && now >= t.ends():
		t.Trusted = true
	}
	return t
}

// ends returns when the quarantine of a node that was met ends.
func (t Trust) ends() time.Duration { return max(t.counted()+t.Need, t.met+t.Own) }

// counted returns since when the node counts as watched.
func (t Trust) counted() time.Duration {
	if t.Durable {
		return t.opened
	}
	return t.since
}

// MetAt returns when this client's own watch began, if it has.
func (t Trust) MetAt() (at time.Duration, ok bool) { return t.met, t.Met }

// Silent begins this client's own watch anew: the server did not answer for too
// long. It is still known how long ago it was promoted.
func (t Trust) Silent(now time.Duration) Trust {
	t.met, t.Trusted, t.Why = now, false, WhySilent
	return t.At(now)
}

// Sight applies a look at the seal, over a connection to the watched process.
// The look must be what Deployment.Proof makes of it: the seal of another
// deployment proves nothing.
//
// No client lowers or removes a seal. If a known seal is gone, belongs to
// another process, or states less, the keys were flushed since the last look.
//
// The process has run since the seal was written. So the time passed since
// then, by its own uptime, counts as watched too. Otherwise short-lived client
// processes would never see the end of a quarantine.
func (t Trust) Sight(s Sighting, now time.Duration) Trust {
	own := t.states(s.Seal)
	switch {
	case s.What == Unreadable:
		return t.At(now)
	case t.Confirms(s):
		t = t.Seal(s.Seal.Watched, now)
	case t.Sealed > 0, t.Marked && s.What != SealSeen:
		return t.quarantine(WhyVanished, now)
	}
	t.Marked = s.What == SealSeen
	if t.Marked && t.Why == WhyFirst && rewritten(s.Seal.Run, t.Run) {
		t.Why = whyChanged(t.Run)
	}
	if !t.Marked || !t.Believes(s.Seal) {
		return t.At(now)
	}
	watched := s.Seal.Watched
	if t.Account.Believed && s.Seal.Uptime > 0 {
		// On a durable node, a later process may run there.
		passed := UptimeProves(t.Account.Least(now))
		if own {
			passed -= s.Seal.Uptime
		}
		watched += max(0, passed)
	}
	if own {
		t.since = min(t.since, now-watched)
	}
	t.opened = min(t.opened, now-watched)
	return t.At(now)
}

// Finds applies what the seal's key holds, be it of this client's deployment or
// not. If it is gone, the keys were flushed. Call it before Sight.
func (t Trust) Finds(what Seen, now time.Duration) Trust {
	if what == Unreadable {
		return t
	}
	was := t.held
	if t.held = what != SealAbsent; was && !t.held {
		return t.quarantine(WhyVanished, now)
	}
	return t
}

// Confirms reports whether a look found a seal of the watched process that
// states no less than is known. The look must be what Sight takes.
func (t Trust) Confirms(s Sighting) bool {
	return s.What == SealSeen && t.states(s.Seal) && s.Seal.Watched >= t.Sealed
}

// Seal applies a seal of the watched process, either seen or written and
// confirmed. The process has been watched for at least that long.
func (t Trust) Seal(watched, now time.Duration) Trust {
	t.Marked = true
	t.Sealed = max(t.Sealed, watched)
	t.since, t.opened = min(t.since, now-t.Sealed), min(t.opened, now-t.Sealed)
	return t.At(now)
}

// Born returns the latest possible start of the process: by its own believed
// account, or the beginning of the watch.
func (t Trust) Born() time.Duration {
	if t.Account.Believed {
		return min(t.since, t.Account.Started())
	}
	return t.since
}

// Began returns since when the node counts as watched in a set opened now. At a
// debut that is the start of its process (R29), unless this client has seen it
// forget its keys.
func (t Trust) Began(debut bool) time.Duration {
	switch {
	case !debut:
		return t.since
	case t.Why == WhyVanished, t.Why == WhyDemoted, t.Why == WhyHistory:
		return t.since
	}
	return t.Born()
}

// Opens applies that this client opens the node's set: all nodes then count as
// watched since the same time, see Deployment.Since. Earlier proofs are void.
func (t Trust) Opens(since, now time.Duration) Trust {
	if t.Own > 0 {
		since = max(since, t.met)
	}
	t.since, t.opened, t.Sealed, t.Marked, t.Trusted = since, since, 0, false, false
	if t = t.At(now); !t.Trusted && t.Why != WhyVanished {
		t.Why = WhyYoung
	}
	return t
}

// Joins applies that another client has opened the node's set. How long ago
// that was only its seals tell, so earlier proofs are void. Call Sight after
// it.
func (t Trust) Joins(now time.Duration) Trust {
	was := t.At(now).Trusted
	t.since, t.opened, t.Sealed, t.Marked, t.Trusted = now, now, 0, false, false
	if t = t.At(now); was && !t.Trusted {
		t.Why = WhyJoined
	}
	return t
}

// Require raises Need, and sets Own. An earlier proof may then no longer
// suffice.
func (t Trust) Require(need, own, now time.Duration) Trust {
	if need <= t.Need && own == t.Own {
		return t
	}
	was := t.Trusted
	t.Need, t.Own, t.Trusted = max(t.Need, need), own, false
	if t = t.At(now); was && !t.Trusted {
		t.Why = whyLonger
	}
	return t
}

// quarantine restarts the watch, without any proof.
func (t Trust) quarantine(why string, now time.Duration) Trust {
	t.since, t.met, t.Sealed, t.Marked, t.Trusted, t.Why = now, now, 0, false, false, why
	return t.At(now)
}

// Left returns how long the node stays quarantined without a seal that ends it
// earlier; 0 for none.
func (t Trust) Left(now time.Duration) time.Duration {
	switch {
	case t.Trusted || t.Need == 0:
		return 0
	case !t.Met:
		return t.Need
	}
	return max(0, t.ends()-now)
}

// Watched returns how long the process has been watched, by this client or by
// the one that wrote its seal, in whole milliseconds.
func (t Trust) Watched(now time.Duration) time.Duration {
	since := t.since
	if t.Run == "" {
		since = t.counted()
	}
	return max(t.Sealed, now-since).Truncate(time.Millisecond)
}

// named reports whether a seal can name the watched process. It cannot without
// a run id, unless all processes of the node count as one.
func (t Trust) named() bool { return t.Run != "" || t.Durable }

// states reports whether a seal is about the watched process. A seal that came
// by replication is not: the history has another name since then.
func (t Trust) states(s Seal) bool { return t.named() && s.Run == cmp.Or(t.Run, NoRun) }

// Believes reports whether a seal's word holds for the watched process.
func (t Trust) Believes(s Seal) bool { return t.states(s) || t.forgives(s) }

// forgives reports whether a seal of another process proves something, since
// the node is durable. It does not if the node was a replica meanwhile.
func (t Trust) forgives(s Seal) bool {
	return t.Durable && survives(s.Run, t.Run)
}

// Proved reports whether this client has a proof for the node, fit for other
// clients in a seal.
func (t Trust) Proved(now time.Duration) bool {
	return t.Trusted && t.Need > 0 && t.named() && t.Watched(now) >= t.Need
}

// Renews reports whether to write the seal after a look at it. There is nothing
// to write over a seal that says enough, for a node that is not proved, and
// over something else in the key. That stays as it is.
func (t Trust) Renews(s Sighting, maxTTL, now time.Duration) bool {
	switch s.What {
	case Unreadable, SealStrange:
		return false
	case SealSeen:
		if t.Believes(s.Seal) && s.Seal.Watched >= t.Need && s.Seal.MaxTTL >= maxTTL {
			return false
		}
	}
	return t.Proved(now)
}

// Writes returns the seal to write. It says how long the process was watched if
// the client vouches for the deployment, see Deployment.Vouches.
func (t Trust) Writes(seat Seat, maxTTL time.Duration, vouched bool, now time.Duration) Seal {
	s := Seal{Seat: seat, Run: cmp.Or(t.Run, NoRun), MaxTTL: maxTTL}
	if vouched && t.named() {
		s.Watched = t.Watched(now)
	}
	if t.Run != "" && t.Account.Believed {
		// 0 would mean unknown.
		s.Uptime = max(time.Millisecond, t.Account.Most(now))
	}
	return s
}
