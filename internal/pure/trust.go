package pure

import (
	"math"
	"time"
)

// Trust is what this client knows of one node's past, and the pure decisions about it: whether the node may have forgotten a
// lock that is still valid, so that a grant of it must not count (R23, the delayed restart). It has no clock, no socket and no
// goroutine: each method is an event and returns the state after it. A node of multiplex feeds it, and a table tests it.
//
// There are two proofs that nothing valid was forgotten. One is to have watched the same process, told by its run id, for
// longer than any lock lives; reconnects that show the same run id do not interrupt that. The other is the seal, which says
// that somebody else has. How long a server says that it has been up is none: that is reckoned by its wall clock.
type Trust struct {
	Need    time.Duration // so long a process must have been watched; 0: it is trusted whatever it does
	Met     bool          // some process was met
	Run     string        // the run id of the process that is watched; "" where it may not be asked
	since   time.Duration // when it was first heard of, or when its keys were found flushed
	Sealed  time.Duration // the time watched that a seal of this process is known to say; 0: none is known
	Trusted bool
	Why     string // it is, or was last, not trusted
}

// Why a node is quarantined.
const (
	WhyFirst    = "first seen"
	WhyRestart  = "restarted"
	WhyUnknown  = "reconnected, and its run id may not be asked"
	WhyVanished = "seal vanished"
	whyLonger   = "a seal says a longer MaxTTL"
)

// trustMargin is added to the time that a process must be watched. A server's clock has whole milliseconds, and a key may
// live through the one in which it ends; so has the seal, which cuts what it says. The rest is for a lock's caller and the
// server that read their clocks at two moments.
const trustMargin = 5 * time.Millisecond

// NeedFor is how long a process must have been watched before no lock from before it can be valid, in whole milliseconds,
// as seals have them. Clocks may differ in rate by the drift (R4); ours may be the fast one.
func NeedFor(maxTTL time.Duration, drift float64) time.Duration {
	if maxTTL <= 0 {
		return 0
	}
	need := time.Duration(math.Ceil(float64(maxTTL)*(1+drift))) + trustMargin
	return (need + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Meet is the end of a handshake: a process with this run id answered. now is taken after its answer, since later is
// safer.
func (t Trust) Meet(run string, now time.Duration) Trust {
	if t.Met && run != "" && run == t.Run {
		return t.At(now)
	}
	why := WhyFirst
	switch {
	case t.Met && run == "":
		why = WhyUnknown // every connection could hide a restart
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

// Sight is a look at the seal, over a connection to the process that is watched.
//
// A seal that was there, and is gone, is another's or says less, was not changed by any client of this package, since they
// never lower one: the keys were flushed, at some time since the last look.
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

// Seal is a seal of this very process that is known to stand: seen, or written and confirmed.
func (t Trust) Seal(watched, now time.Duration) Trust {
	t.Sealed = max(t.Sealed, watched)
	t.Trusted = t.Trusted || t.Sealed >= t.Need
	return t.At(now)
}

// Require sets how long processes must have been watched. What was proof before may not suffice for more.
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

// quarantine begins the watch anew: what was known of the process is no proof any more.
func (t Trust) quarantine(why string, now time.Duration) Trust {
	t.since, t.Sealed, t.Trusted, t.Why = now, 0, t.Need == 0, why
	return t
}

// Left is how long the node is still quarantined, if no seal ends it before; 0 when it is not.
func (t Trust) Left(now time.Duration) time.Duration {
	switch {
	case t.Trusted || t.Need == 0:
		return 0
	case !t.Met:
		return t.Need
	}
	return max(0, t.since+t.Need-now)
}

// Watched is for how long the process has been watched, here or by whoever wrote its seal, cut to whole milliseconds.
func (t Trust) Watched(now time.Duration) time.Duration {
	return max(t.Sealed, now-t.since).Truncate(time.Millisecond)
}

// Proved reports that there is a proof for the node, so that a seal can tell others.
func (t Trust) Proved(now time.Duration) bool {
	return t.Trusted && t.Need > 0 && t.Run != "" && t.Watched(now) >= t.Need
}

// A Debut is the first use of a deployment that was declared new (Config.New). Its nodes need no watch, since no lock was ever
// granted. As a lasting flag that would trust every node that restarts empty, so it counts once, and only if nothing speaks
// against it: all nodes are connected at one time, and a look at each of them from then on finds no seal. Its nodes count
// when the seals stand that it lets us write; so whoever comes later finds a seal on at least a quorum less one, even if a
// node restarts at once.
type Debut struct {
	Open      bool
	Verifying bool   // all nodes were connected, and are looked at
	Clean     uint16 // nodes without a seal, looked at since: bit i stands for node i
}

// Sight is a look at a node; verified says that it was begun after all nodes were connected.
func (d Debut) Sight(node int, s Sighting, verified bool) Debut {
	switch {
	case s.What == SealSeen || s.What == SealStrange:
		return Debut{}
	case s.What == SealAbsent && verified && d.Verifying:
		d.Clean |= 1 << uint(node)
	}
	return d
}

// Part is a node that is not connected any more: all must be looked at anew.
func (d Debut) Part() Debut { return Debut{Open: d.Open} }
