package pure

import (
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
// reports is a proof only at a debut (Premiere), when no node of the set has a
// seal.
type Trust struct {
	Need    time.Duration // how long a process must have been watched; if 0, every process is trusted
	Met     bool          // a handshake has succeeded
	Run     string        // the run id of the process that is watched; "" if the user may not ask for it
	since   time.Duration // when the watch began, or when the keys were found flushed
	Sealed  time.Duration // the time watched that a seal of this process states
	Marked  bool          // a seal is known to be there
	Trusted bool
	Why     string // the reason for the current or the last quarantine
}

// Why a node is quarantined.
const (
	WhyFirst    = "first seen"
	WhyRestart  = "restarted"
	WhyUnknown  = "reconnected, and its run id may not be asked"
	WhyVanished = "seal vanished"
	whyLonger   = "a seal says a longer MaxTTL"
	WhyYoung    = "started a short while ago"
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
	case t.Met && run == "":
		why = WhyUnknown // each connection may hide a restart
	case t.Met:
		why = WhyRestart
	}
	t.Met, t.Run = true, run
	return t.quarantine(why, now)
}

// At is the passing of time.
func (t Trust) At(now time.Duration) Trust {
	t.Trusted = t.Trusted || t.Need == 0 || t.Met && now >= t.since+t.Need
	return t
}

// Sight is a look at the seal, over a connection to the process that is
// watched.
//
// No client lowers or removes a seal. If a known seal is gone, or is another
// process's, or states less, the keys were flushed since the last look.
func (t Trust) Sight(s Sighting, now time.Duration) Trust {
	switch {
	case s.What == Unreadable:
		return t.At(now)
	case s.What == SealSeen && t.Run != "" && s.Seal.Run == t.Run && s.Seal.Watched >= t.Sealed:
		return t.Seal(s.Seal.Watched, now)
	case t.Sealed > 0, t.Marked && s.What != SealSeen:
		return t.quarantine(WhyVanished, now)
	}
	t.Marked = s.What == SealSeen
	return t.At(now)
}

// Seal is a seal of the process that is watched, either seen or written and
// confirmed: the process was watched since that long ago, or longer.
func (t Trust) Seal(watched, now time.Duration) Trust {
	t.Marked = true
	t.Sealed = max(t.Sealed, watched)
	t.since = min(t.since, now-t.Sealed)
	return t.At(now)
}

// Premiere is the debut of a set in which no node had a seal (R29): the process
// counts as watched since it started, which it did by its own account. started
// is on this client's clock. If this client has seen the process forget its
// keys, that counts.
func (t Trust) Premiere(started, now time.Duration) Trust {
	if t.Why == WhyVanished {
		return t.At(now)
	}
	t.since = min(t.since, started)
	if t = t.At(now); !t.Trusted {
		t.Why = WhyYoung
	}
	return t
}

// Aged is a look at a seal of the process, which has been there since it was
// written, and so has the process: what has passed since then by the process's
// own account counts as watched too. Otherwise processes that live for a moment
// would never see the end of a quarantine. uptime is the least that the process
// has run by now.
func (t Trust) Aged(s Seal, uptime, now time.Duration) Trust {
	if passed := UptimeProves(uptime - s.Uptime); s.Uptime > 0 && s.Run == t.Run && passed > 0 {
		t.since = min(t.since, now-s.Watched-passed)
	}
	return t.At(now)
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
	t.since, t.Sealed, t.Marked, t.Trusted, t.Why = now, 0, false, t.Need == 0, why
	return t
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
	return max(0, t.since+t.Need-now)
}

// Watched returns how long the process has been watched, by this client or by
// the one that wrote its seal, in whole milliseconds.
func (t Trust) Watched(now time.Duration) time.Duration {
	return max(t.Sealed, now-t.since).Truncate(time.Millisecond)
}

// Proved reports whether there is a proof for the node, which a seal can pass
// on to other clients.
func (t Trust) Proved(now time.Duration) bool {
	return t.Trusted && t.Need > 0 && t.Run != "" && t.Watched(now) >= t.Need
}

// Renewal returns what a seal must say after a look at it; ok is false if there
// is nothing to write: the seal says enough, the node is not proved, or the key
// holds something else, which is left alone.
func (t Trust) Renewal(s Sighting, maxTTL, now time.Duration) (watched time.Duration, ok bool) {
	suffices := s.What == SealSeen && s.Seal.Run == t.Run && s.Seal.Watched >= t.Need && s.Seal.MaxTTL >= maxTTL
	if suffices || s.What == Unreadable || s.What == SealStrange || !t.Proved(now) {
		return 0, false
	}
	return t.Watched(now), true
}
