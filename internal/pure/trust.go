package pure

import (
	"math"
	"time"
)

// Trust is what this client knows of one node's past. It decides whether the
// node may have forgotten a lock that is still valid, so that its grants must
// not count (R23, the delayed restart). Meet records a handshake; At advances
// the clock; Sight, Seal and Aged apply a seal; Premiere applies a debut; and
// Require raises Need. Each returns the state after it.
//
// There are two proofs that no valid lock was forgotten. One is to have watched
// the same process, known by its run id, for longer than any lock lives; a
// reconnect that shows the same run id does not interrupt that. The other is a
// seal, which says how long another client has watched it. The uptime that a
// server reports is a proof only at a debut (Premiere), when no node of the set
// has a seal.
type Trust struct {
	// Need is how long a process must have been watched. If zero, every process
	// is trusted.
	Need time.Duration
	Met  bool // a handshake has succeeded
	// Run is the run id of the process that is watched, or "" if the user may
	// not ask for it.
	Run     string
	since   time.Duration // when the watch began, or the keys were found flushed
	Sealed  time.Duration // the time watched that a seal of this process states
	Marked  bool          // a seal is known to exist
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

// Meet records a handshake: a process with this run id answered. now must be
// read after the answer: a later time is safer.
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

// At advances the clock.
func (t Trust) At(now time.Duration) Trust {
	t.Trusted = t.Trusted || t.Need == 0 || t.Met && now >= t.since+t.Need
	return t
}

// Sight applies a look at the seal, over a connection to the process that is
// watched.
//
// No client lowers or removes a seal. If a known seal is gone, belongs to
// another process, or states less, the keys were flushed since the last look.
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

// Seal applies a seal of the process that is watched, which was either seen or
// written and confirmed: the process has been watched for at least that long.
func (t Trust) Seal(watched, now time.Duration) Trust {
	t.Marked = true
	t.Sealed = max(t.Sealed, watched)
	t.since = min(t.since, now-t.Sealed)
	return t.At(now)
}

// Premiere applies the debut of a set in which no node had a seal (R29): the
// process counts as watched since started, which is on this client's clock. It
// has no effect if this client has seen the process forget its keys.
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

// Aged applies the age of a seal of this process. The process has run since the
// seal was written, so the time that has passed since then by the process's own
// uptime counts as watched too. Otherwise client processes that live only for a
// moment would never see the end of a quarantine. uptime is the least time that
// the server's process has run by now.
func (t Trust) Aged(s Seal, uptime, now time.Duration) Trust {
	if passed := UptimeProves(uptime - s.Uptime); s.Uptime > 0 && s.Run == t.Run && passed > 0 {
		t.since = min(t.since, now-s.Watched-passed)
	}
	return t.At(now)
}

// UptimeProves returns the least time that a process has run if it reports this
// uptime. Servers count in whole seconds, from a start that was rounded to a
// whole second, and some update the clock only now and then.
func UptimeProves(uptime time.Duration) time.Duration { return uptime - 2*time.Second }

// Require raises Need. An earlier proof may then no longer suffice.
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

// quarantine restarts the watch, without any proof.
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

// Proved reports whether this client has a proof for the node that a seal can
// pass on to other clients.
func (t Trust) Proved(now time.Duration) bool {
	return t.Trusted && t.Need > 0 && t.Run != "" && t.Watched(now) >= t.Need
}

// Renewal returns the time watched to write into the seal after a look at it.
// ok is false if there is nothing to write: the seal says enough, the node is
// not proved, or the key holds something else, which stays as it is.
func (t Trust) Renewal(s Sighting, maxTTL, now time.Duration) (watched time.Duration, ok bool) {
	suffices := s.What == SealSeen && s.Seal.Run == t.Run && s.Seal.Watched >= t.Need && s.Seal.MaxTTL >= maxTTL
	if suffices || s.What == Unreadable || s.What == SealStrange || !t.Proved(now) {
		return 0, false
	}
	return t.Watched(now), true
}
