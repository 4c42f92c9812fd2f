package pure

import (
	"cmp"
	"math"
	"time"
)

// Trust is what this client knows of one node's past. It decides whether the
// node may have forgotten a lock that is still valid, so that its grants must
// not count (R23, the delayed restart). Each method is an event and returns the
// state after it.
//
// There are two proofs that no valid lock was forgotten. One is to have watched
// the same process, known by its run id, for longer than any lock lives; a
// reconnect that shows the same run id does not interrupt that. The other is a
// seal, which says for how long another client has. The uptime that a server
// reports is a proof only at a debut (Began), when no node of the set has a
// seal.
//
// A node that forgot nothing may still not know a valid lock: one of another
// deployment, which a node of the set belonged to before. So what was watched
// before the set was opened proves nothing (Opens, Joins).
type Trust struct {
	Need time.Duration // how long a process must have been watched; if 0, every process is trusted
	// Durable is set for a node that forgets nothing when it restarts: any
	// process of it will do.
	Durable bool
	Met     bool          // a handshake has succeeded
	Run     string        // the run id of the process that is watched; "" if the user may not ask for it
	Account Account       // what the process says of its past
	since   time.Duration // when the watch of the process began, or when the keys were found flushed
	opened  time.Duration // the set was open by then, as far as this client knows
	Sealed  time.Duration // the time watched that a seal of this process states
	Marked  bool          // a seal is known to be there
	Trusted bool
	Why     string // the reason for the current or the last quarantine
}

// An Account is what a process says of its past, in the reply to INFO. It is
// believed of a node that never was a replica, and whose clock agrees with this
// client's (R29).
type Account struct {
	Believed      bool
	Uptime        time.Duration
	Asked, Dialed time.Duration // when the reply was there, and when the connection to ask was dialed
}

// Started returns when the process had started at the latest.
func (a Account) Started() time.Duration { return a.Asked - UptimeProves(a.Uptime) }

// Least and Most return the uptime that the process shows now, at least and at
// most.
func (a Account) Least(now time.Duration) time.Duration { return a.Uptime + now - a.Asked }

func (a Account) Most(now time.Duration) time.Duration { return a.Uptime + now - a.Dialed }

// Why a node is quarantined.
const (
	WhyFirst    = "first seen"
	WhyRestart  = "restarted"
	WhyUnknown  = "reconnected, and its run id may not be asked"
	WhyVanished = "seal vanished"
	whyLonger   = "a seal says a longer MaxTTL"
	WhyYoung    = "a node of the set started a short while ago"
	WhyJoined   = "its deployment was opened a short while ago"
)

// trustMargin is added to the time that a process must be watched. A server's
// clock has whole milliseconds, and a key may live to the end of its last one;
// a seal has whole milliseconds, too. The rest allows for the moments between
// the clock readings of a lock's caller and of the server.
const trustMargin = 5 * time.Millisecond

// NeedFor returns how long a process must have been watched until no earlier
// lock can be valid, in whole milliseconds as in seals. Clocks may differ in
// rate by the drift (R4), and this client's may be the fast one.
func NeedFor(maxTTL time.Duration, drift float64) time.Duration {
	if maxTTL <= 0 {
		return 0
	}
	need := time.Duration(math.Ceil(float64(maxTTL)*(1+drift))) + trustMargin
	return (need + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Meet is the end of a handshake: a process with this run id answered. now is
// read after the answer, since later is safer.
func (t Trust) Meet(run string, now time.Duration) Trust {
	if t.Met && run != "" && run == t.Run {
		return t.At(now)
	}
	why := WhyFirst
	switch {
	case !t.Met:
		t.opened = now
	case run == "":
		why = WhyUnknown // each connection may hide a restart
	default:
		why = WhyRestart
	}
	t.Met, t.Run, t.Account = true, run, Account{}
	return t.quarantine(why, now)
}

// At is the passing of time.
func (t Trust) At(now time.Duration) Trust {
	t.Trusted = t.Trusted || t.Need == 0 || t.Met && now >= t.counted()+t.Need
	return t
}

// counted returns since when the node counts as watched.
func (t Trust) counted() time.Duration {
	if t.Durable {
		return t.opened
	}
	return t.since
}

// Sight is a look at the seal, over a connection to the process that is
// watched. A seal that proves nothing, since it is not of this client's
// deployment, is none.
//
// No client lowers or removes a seal. If a known seal is gone, or is another
// process's, or states less, the keys were flushed since the last look.
//
// A seal that has been there since it was written shows that its process has
// been, too: what has passed since then by the process's own account counts as
// watched. Otherwise processes that live for a moment would never see the end of
// a quarantine.
func (t Trust) Sight(s Sighting, now time.Duration) Trust {
	own := t.states(s.Seal)
	switch {
	case s.What == Unreadable:
		return t.At(now)
	case s.What == SealSeen && own && s.Seal.Watched >= t.Sealed:
		t = t.Seal(s.Seal.Watched, now)
	case t.Sealed > 0, t.Marked && s.What != SealSeen:
		return t.quarantine(WhyVanished, now)
	}
	t.Marked = s.What == SealSeen
	if !t.Marked || !own && !t.Durable {
		return t.At(now)
	}
	watched := s.Seal.Watched
	if t.Account.Believed && s.Seal.Uptime > 0 {
		passed := UptimeProves(t.Account.Least(now)) // of a durable node's next process
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

// Seal is a seal of the process that is watched, either seen or written and
// confirmed: the process was watched since that long ago, or longer.
func (t Trust) Seal(watched, now time.Duration) Trust {
	t.Marked = true
	t.Sealed = max(t.Sealed, watched)
	t.since, t.opened = min(t.since, now-t.Sealed), min(t.opened, now-t.Sealed)
	return t.At(now)
}

// Born returns when the process had started at the latest: by its own account,
// if that is believed, or when the watch began.
func (t Trust) Born() time.Duration {
	if t.Account.Believed {
		return min(t.since, t.Account.Started())
	}
	return t.since
}

// Began returns since when the node counts as watched, if its set is opened: at
// a debut, since its process started (R29). If this client has seen the process
// forget its keys, that counts.
func (t Trust) Began(debut bool) time.Duration {
	if debut && t.Why != WhyVanished {
		return t.Born()
	}
	return t.since
}

// Opens is the opening of the node's set by this client: all of its nodes count
// as watched since the same time (Deployment.Since), whatever they were watched
// for before.
func (t Trust) Opens(since, now time.Duration) Trust {
	t.since, t.opened, t.Sealed, t.Marked, t.Trusted = since, since, 0, false, false
	if t = t.At(now); !t.Trusted && t.Why != WhyVanished {
		t.Why = WhyYoung
	}
	return t
}

// Joins is a set that another client has opened: only its seals say for how
// long (Sight, after this).
func (t Trust) Joins(now time.Duration) Trust {
	was := t.At(now).Trusted
	t.since, t.opened, t.Sealed, t.Marked, t.Trusted = now, now, 0, false, false
	if t = t.At(now); was && !t.Trusted {
		t.Why = WhyJoined
	}
	return t
}

// UptimeProves returns for how long a process has run at least that shows an
// uptime. Servers count whole seconds of the time since a whole second, and some
// update the clock only now and then.
func UptimeProves(uptime time.Duration) time.Duration { return uptime - 2*time.Second }

// Require raises how long processes must have been watched. An earlier proof
// may not suffice for that.
func (t Trust) Require(need, now time.Duration) Trust {
	if need <= t.Need {
		return t
	}
	t.Need, t.Trusted = need, false
	if t = t.At(now); !t.Trusted && t.Met {
		t.Why = whyLonger
	}
	return t
}

// quarantine begins the watch anew, without any proof.
func (t Trust) quarantine(why string, now time.Duration) Trust {
	t.since, t.Sealed, t.Marked, t.Trusted, t.Why = now, 0, false, false, why
	return t.At(now)
}

// Left returns how long the node stays quarantined unless a seal ends that
// earlier, or 0 if it is not quarantined.
func (t Trust) Left(now time.Duration) time.Duration {
	switch {
	case t.Trusted || t.Need == 0:
		return 0
	case !t.Met:
		return t.Need
	}
	return max(0, t.counted()+t.Need-now)
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

// named reports whether a seal can state how long the process was watched: for
// one without a run id only if any process of the node will do.
func (t Trust) named() bool { return t.Run != "" || t.Durable }

// states reports whether a seal states that of this process.
func (t Trust) states(s Seal) bool { return t.named() && s.Run == cmp.Or(t.Run, NoRun) }

// Proved reports whether there is a proof for the node, which a seal can pass
// on to other clients.
func (t Trust) Proved(now time.Duration) bool {
	return t.Trusted && t.Need > 0 && t.named() && t.Watched(now) >= t.Need
}

// Renews reports whether the seal is to be written again after a look at it. It
// is not if it says enough, if the node is not proved, or if the key holds
// something else, which is left alone.
func (t Trust) Renews(s Sighting, maxTTL, now time.Duration) bool {
	suffices := s.What == SealSeen && (t.states(s.Seal) || t.Durable) && s.Seal.Watched >= t.Need && s.Seal.MaxTTL >= maxTTL
	return !suffices && s.What != Unreadable && s.What != SealStrange && t.Proved(now)
}

// Writes returns the seal to write. Unless vouched, it states nothing of how
// long the process was watched: see Deployment.Vouches.
func (t Trust) Writes(who Identity, maxTTL time.Duration, vouched bool, now time.Duration) Seal {
	s := Seal{Identity: who, Run: cmp.Or(t.Run, NoRun), MaxTTL: maxTTL}
	if vouched && t.named() {
		s.Watched = t.Watched(now)
	}
	if t.Run != "" && t.Account.Believed {
		s.Uptime = max(time.Millisecond, t.Account.Most(now)) // 0 is not known
	}
	return s
}
