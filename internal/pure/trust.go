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
// seal, which says that another client has. The uptime that a server reports is
// no proof: it depends on the server's wall clock.
type Trust struct {
	Need    time.Duration // how long a process must have been watched; if 0, every process is trusted
	Met     bool          // a handshake has succeeded
	Run     string        // the run id of the process that is watched; "" if the user may not ask for it
	since   time.Duration // when the watch began, or when the keys were found flushed
	Sealed  time.Duration // the time watched that a seal of this process states; 0 if no seal is known
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
	case t.Sealed > 0:
		return t.quarantine(WhyVanished, now)
	}
	return t.At(now)
}

// Seal is a seal of the process that is watched, either seen or written and
// confirmed.
func (t Trust) Seal(watched, now time.Duration) Trust {
	t.Sealed = max(t.Sealed, watched)
	t.Trusted = t.Trusted || t.Sealed >= t.Need
	return t.At(now)
}

// Require raises how long processes must have been watched. An earlier proof
// may not suffice for that.
func (t Trust) Require(need, now time.Duration) Trust {
	if need <= t.Need {
		return t
	}
	t.Need = need
	t.Trusted = t.Sealed >= need
	if t = t.At(now); !t.Trusted && t.Met {
		t.Why = whyLonger
	}
	return t
}

// quarantine begins the watch anew, without any proof.
func (t Trust) quarantine(why string, now time.Duration) Trust {
	t.since, t.Sealed, t.Trusted, t.Why = now, 0, t.Need == 0, why
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

// A Debut is the first use of a deployment that was declared new (Config.New).
// Its nodes need no watch, since no lock was ever granted. A lasting flag would
// trust every node that restarts empty, so it counts once, and only on two
// conditions: all nodes are connected at one time, and a look at each of them
// after that finds no seal. The nodes count once their seals are written, so
// that every later client finds a seal on at least a quorum less one, even if a
// node restarts at once.
type Debut struct {
	Open      bool
	Verifying bool   // all nodes were connected, and their seals are being read
	Clean     uint16 // the nodes found without a seal since then: bit i stands for node i
}

// Sight is a look at a node's seal. verified reports whether it began after all
// nodes were connected.
func (d Debut) Sight(node int, s Sighting, verified bool) Debut {
	switch {
	case s.What == SealSeen || s.What == SealStrange:
		return Debut{}
	case s.What == SealAbsent && verified && d.Verifying:
		d.Clean |= 1 << uint(node)
	}
	return d
}

// Meet is the end of a node's handshake, with what was known of the node before
// and after it. A deployment of which a process was replaced is not new.
func (d Debut) Meet(before, after Trust) Debut {
	if before.Met && before.Run != after.Run {
		return Debut{}
	}
	return d
}

// Part is the end of a node's connection: all nodes must be looked at anew.
func (d Debut) Part() Debut { return Debut{Open: d.Open} }

// A DebutAction is what to do for a debut.
type DebutAction uint8

// The actions that follow Advance.
const (
	DebutWaits DebutAction = iota // nothing
	DebutLooks                    // read the seal of each node that is not durable
	DebutSeals                    // write it: the deployment is new
)

// Advance goes on with a debut, by the nodes that are connected, all nodes, and
// those that were declared durable, which carry no seal.
func (d Debut) Advance(connected, all, durable uint16) (Debut, DebutAction) {
	if !d.Open || connected != all {
		return d, DebutWaits
	}
	act := DebutWaits
	if !d.Verifying {
		d.Verifying, d.Clean, act = true, durable&all, DebutLooks
	}
	if d.Clean == all {
		return Debut{}, DebutSeals
	}
	return d, act
}
