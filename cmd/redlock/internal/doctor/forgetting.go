package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// checkEviction wants nodes that delete no key before it expires (R22).
func (d *Deployment) checkEviction() []Finding {
	limited := false
	seen := d.seen(func(n *Node) string {
		policy := n.Policy()
		if policy == "" || policy == "noeviction" {
			return ""
		}
		if max, known := n.Info.Number("maxmemory"); known && max == 0 {
			return "maxmemory-policy " + policy + ", no maxmemory yet"
		}
		limited = true
		return "maxmemory-policy " + policy
	})
	f := Finding{Level: Warning, Seen: seen, Found: "a master would evict keys if a memory limit were set",
		Why:    "an evicted lock is granted again while its holder works on",
		Change: "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file"}
	if limited {
		f.Level, f.Found = Unsafe, "a master evicts keys when its memory is full"
	}
	evicted := d.seen(func(n *Node) string {
		if keys, _ := n.Info.Number("evicted_keys"); keys > 0 && len(seen) == 0 {
			return plural(keys, "key") + " evicted since it started"
		}
		return ""
	})
	return append(finding(f), finding(Finding{Level: Note, Seen: evicted, Found: "a master has evicted keys before",
		Why: "locks may have been among them", Change: "nothing, if it was before the policy became noeviction"})...)
}

// durable reports whether a crash loses nothing that was answered. known is
// false if the node may not be asked. While a child saves,
// no-appendfsync-on-rewrite suspends appendfsync always too.
func durable(n *Node) (yes, known bool) {
	aof, fsync := n.Info["aof_enabled"], n.Config["appendfsync"]
	switch {
	case aof == "0" || fsync != "" && fsync != "always" || n.Config["no-appendfsync-on-rewrite"] == "yes":
		return false, true
	case aof == "1" && fsync == "always":
		return true, true
	default:
		return false, false
	}
}

// checkPersistence wants masters that forget no lock in a crash, or clients
// that wait until it cannot matter (R23). A seal does not prove the latter: it
// outlives the clients that wrote it, and one forgetful client is enough for two
// holders.
func (d *Deployment) checkPersistence() []Finding {
	if d.MaxTTL > 0 {
		return nil
	}
	seen := d.seen(func(n *Node) string {
		yes, known := durable(n)
		switch {
		case yes || !known:
			return ""
		case n.Info["aof_enabled"] == "0":
			return "appendonly no"
		case n.Config["appendfsync"] == "always":
			return "no-appendfsync-on-rewrite yes"
		default:
			return "appendfsync " + n.Config["appendfsync"]
		}
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "a master that restarts forgets locks, and counts again at once",
		Why: "a lock that a bare quorum granted is granted again when one of these masters crashes and comes back; appendfsync " +
			"everysec loses the locks of the last second, and no-appendfsync-on-rewrite yes those granted during a background save",
		Change: "take --forgetful (redlock.Config.Forgetful) out of all clients, so that they keep restarted masters out, or set " +
			"appendonly yes, appendfsync always and no-appendfsync-on-rewrite no on every master"})
}

// checkDeclared compares what clients are told to be durable with what the node
// says.
func (d *Deployment) checkDeclared() []Finding {
	seen := d.seen(func(n *Node) string {
		if yes, known := durable(n); n.Declared && known && !yes {
			return "declared durable, but appendonly is off, appendfsync is not always, or no-appendfsync-on-rewrite is yes"
		}
		return ""
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "a master is declared durable and is not",
		Why: "clients trust it at once after a restart, when it has forgotten locks",
		Change: "take it out of --durable (redlock.Node.Durable), or set appendonly yes, appendfsync always and " +
			"no-appendfsync-on-rewrite no there"})
}

// checkDisk looks for failing persistence, which makes a server refuse writes.
func (d *Deployment) checkDisk() []Finding {
	seen := d.seen(func(n *Node) string {
		switch {
		case bad(n.Info["aof_last_write_status"]):
			return "its last write to the append-only file failed"
		case bad(n.Info["rdb_last_bgsave_status"]):
			return "its last background save failed"
		}
		return ""
	})
	return finding(Finding{Level: d.byQuorum(), Seen: seen, Found: "a master cannot write to its disk",
		Why:    "by default it refuses every lock with MISCONF until it can write, and a restart loses what was not written",
		Change: "free space on its disk, or fix the permissions of its folder; its log says which"})
}

func bad(status string) bool { return status != "" && status != "ok" }

// checkMaxTTL compares the TTL with what clients allow.
func (d *Deployment) checkMaxTTL() []Finding {
	if d.MaxTTL > 0 && d.TTL > d.MaxTTL {
		return []Finding{{Level: Unsafe, Found: fmt.Sprintf("the TTL %v is above MaxTTL, %v", d.TTL, d.MaxTTL),
			Why:    "clients refuse such a lock, since a restarted master is kept out for MaxTTL only",
			Change: "use a shorter TTL, or roll a longer MaxTTL out to all clients"}}
	}
	return nil
}

// checkSeals wants all seals to hold one MaxTTL, the one that was given (R23).
func (d *Deployment) checkSeals() []Finding {
	times := make(map[time.Duration]bool)
	seals := d.seen(func(n *Node) string {
		if n.Seal.Open == (pure.Identity{}) {
			return ""
		}
		times[n.Seal.MaxTTL] = true
		return fmt.Sprintf("MaxTTL %v", n.Seal.MaxTTL)
	})
	strange := d.seen(func(n *Node) string {
		if n.Seal.State == probe.SealStrange {
			return "not a seal"
		}
		return ""
	})
	found := finding(Finding{Level: Warning, Seen: strange, Found: "the key redlock:seal holds something else",
		Why:    "clients leave it alone, so that master shows no deployment, and does not count",
		Change: "delete the key, if nothing else needs it"})
	f := Finding{Level: Unsafe, Seen: seals,
		Why: "all clients of a deployment must set the same MaxTTL; clients refuse masters whose seal says another",
		Change: "set the same MaxTTL everywhere. To change it, stop all clients and use redlock init --replace ID, or roll out a " +
			"longer one with redlock.Allow.OtherMaxTTL"}
	switch {
	case len(times) > 1:
		f.Found = "the seals are of clients with different MaxTTL"
	case len(times) == 1 && d.MaxTTL > 0 && !times[d.MaxTTL]:
		f.Found = fmt.Sprintf("the seals are of clients with a MaxTTL other than %v", d.MaxTTL)
	case len(times) == 1 && d.MaxTTL == 0:
		f.Level, f.Found = Warning, "some clients are not forgetful, and others are"
		f.Why = "a forgetful client counts restarted masters at once, which makes locks unsafe for those that are not"
		f.Change = "take --forgetful, REDLOCK_FORGETFUL and redlock.Config.Forgetful out of all clients"
	default:
		return found
	}
	return append(found, f)
}

// checkRestarts reports masters that clients keep out right now. That is no
// fault unless too few are left.
func (d *Deployment) checkRestarts() []Finding {
	f := Finding{Level: Note, Seen: d.seen(d.keptOut), Found: "a master has restarted, or was a replica, and is kept out for MaxTTL",
		Why:    "its answers do not count until every lock from before the restart has expired; the other masters serve",
		Change: "nothing, if it was intended; do not restart another master meanwhile"}
	if d.byQuorum() == Unsafe {
		f.Level = Unsafe
		f.Why = "its answers do not count until every lock from before the restart has expired, and without it there is no " +
			"quorum: no client gets a lock meanwhile"
		f.Change = "wait with a client, and fix the other findings; restart masters one at a time, with MaxTTL in between"
	}
	return append(finding(f), finding(Finding{Level: Note, Seen: d.seen(d.promoted),
		Found:  "no client has watched a server that fails over for long enough yet",
		Why:    "after a promotion, and at first, it counts when every lock of a predecessor has expired, and that one has stopped granting",
		Change: "nothing: a client that runs for that long ends it"})...)
}

// promoted returns how long clients do not count a node that fails over, beyond
// what each new client waits for.
func (d *Deployment) promoted(n *Node) string {
	left, inevitable := d.outlook.Quarantined(d.index(n), 0)
	if left <= inevitable || !n.Failover.Expected || d.MaxTTL == 0 || d.outlook.Deployment().Debut() {
		return ""
	}
	return fmt.Sprintf("counts in %v", left.Round(time.Second/10))
}

// keptOut returns why clients that start now do not count a node yet, and for
// how long, or "" if they do as far as is known. A restart without persistence
// loses the seal too. If no node has a seal, the set is not opened, see
// checkInitialised. Of nodes that fail over, see promoted.
func (d *Deployment) keptOut(n *Node) string {
	left, _ := d.outlook.Quarantined(d.index(n), 0)
	if left == 0 || n.Failover.Expected || n.RunID() == "" || !isMaster(n) || d.MaxTTL == 0 || d.outlook.Deployment().Debut() {
		return ""
	}
	up, _ := n.Uptime()
	text := fmt.Sprintf("started %v ago, ", up)
	switch {
	case n.Seal.State == probe.SealUnknown, n.Seal.State == probe.SealStrange:
		return "" // see checkSeals
	case n.Seal.Open == pure.Identity{}:
		text += "and belongs to no deployment, unlike others"
	case n.Seal.Run != n.Process():
		if _, why := d.outlook.Standing(d.index(n), 0); why == pure.WhyDemoted || why == pure.WhyHistory {
			text += "and " + why + " since it was sealed"
		} else {
			text += "with the seal of another process"
		}
	default:
		text += fmt.Sprintf("and its seal says that clients had watched it for %v", n.Seal.Watched.Round(time.Second/10))
	}
	return text + fmt.Sprintf("; counts in %v", left.Round(time.Second/10))
}

// index returns which of the nodes it is.
func (d *Deployment) index(n *Node) int {
	i := 0
	for &d.Nodes[i] != n {
		i++
	}
	return i
}

// checkOtherKeys looks for keys that are not locks.
func (d *Deployment) checkOtherKeys() []Finding {
	seen := d.seen(func(n *Node) string {
		keys, expiring, ok := n.Keyspace(n.DB)
		if !ok {
			return ""
		}
		others := keys - expiring
		if n.Seal.State == probe.SealThere || n.Seal.State == probe.SealStrange {
			others-- // the seal has no TTL
		}
		if n.Fence.State == probe.SealThere || n.Fence.State == probe.SealStrange {
			others-- // nor has the record of fencing numbers
		}
		if others <= 0 {
			return ""
		}
		return plural(others, "key") + " without a TTL"
	})
	return finding(Finding{Level: Note, Seen: seen, Found: "a master holds keys that never expire, which are not locks",
		Why: "other data shares memory, slow commands and FLUSHALL with the locks; and a key that has a lock's name and never " +
			"expires keeps every client from that lock",
		Change: "give locks servers of their own, or check whether `redlock status` shows a TTL of \"none\" for a resource"})
}

// checkFlushes looks for calls that delete everything.
func (d *Deployment) checkFlushes() []Finding {
	seen := d.seen(func(n *Node) string {
		if n.Flushes > 0 {
			return plural(n.Flushes, "call") + " of FLUSHALL or FLUSHDB since it started"
		}
		return ""
	})
	return finding(Finding{Level: Note, Seen: seen, Found: "all keys of a master were deleted",
		Why:    "the locks that were held at that moment were deleted too, and could be granted again",
		Change: "find the program that does that, and take FLUSHALL and FLUSHDB from every user by ACL"})
}
