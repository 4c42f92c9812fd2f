package doctor

import (
	"fmt"
	"strings"
	"time"
)

// full is the share of a limit above which there is little head-room.
const full = 0.8

// checkMemory wants room for locks.
func (d *Deployment) checkMemory() []Finding {
	tight := d.seen(func(n *Node) string {
		used, _ := n.Info.Number("used_memory")
		limit, _ := n.Info.Number("maxmemory")
		system, _ := n.Info.Number("total_system_memory")
		switch {
		case limit > 0 && share(used, limit) >= full:
			return fmt.Sprintf("uses %.0f %% of maxmemory, %s", 100*share(used, limit), size(limit))
		case limit <= 0 && system > 0 && share(used, system) >= full:
			return fmt.Sprintf("uses %.0f %% of its machine's memory, %s", 100*share(used, system), size(system))
		}
		return ""
	})
	above := d.seen(func(n *Node) string {
		limit, _ := n.Info.Number("maxmemory")
		system, _ := n.Info.Number("total_system_memory")
		if limit > 0 && system > 0 && limit > system {
			return fmt.Sprintf("maxmemory %s, the machine has %s", size(limit), size(system))
		}
		return ""
	})
	return append(
		finding(Finding{Level: Warning, Seen: tight, Found: "a master's memory is nearly full",
			Why:    "at its limit it refuses every lock with OOM; if the machine runs out of memory, the server is killed",
			Change: "raise maxmemory, or find out what fills it; locks are small"}),
		finding(Finding{Level: Warning, Seen: above, Found: "a master may use more memory than its machine has",
			Why:    "the system kills it before it refuses anything, and it restarts without what was not written",
			Change: "set maxmemory to at most three quarters of the machine's memory"})...)
}

func share(part, whole int64) float64 { return float64(part) / float64(whole) }

// size shows a number of bytes in a suitable unit.
func size(bytes int64) string {
	amount, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for amount >= 1024 && len(units) > 1 {
		amount, units = amount/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %s", amount, units[0])
}

// checkMinReplicas wants masters that accept writes without replicas.
func (d *Deployment) checkMinReplicas() []Finding {
	seen := d.seen(lone(func(n *Node) string {
		if replicas, _ := n.Config.Number("min-replicas-to-write"); replicas > 0 {
			return fmt.Sprintf("min-replicas-to-write %d", replicas)
		}
		return ""
	}))
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master accepts writes only while it has replicas",
		Why:    "it refuses locks and releases as soon as a replica is away",
		Change: "CONFIG SET min-replicas-to-write 0, unless the master fails over: then say so in its URL (redis+sentinel:, or failover=)"})
}

// late reports whether no vote of the node can come in time: a vote may take a
// tenth of the TTL at most (R6).
func (d *Deployment) late(n *Node) bool {
	return n.ClockKnown && d.TTL > 0 && n.Clock.RoundTrip >= d.TTL/10
}

// checkRoundTrip wants round trips that are short compared with the TTL.
func (d *Deployment) checkRoundTrip() []Finding {
	var late, slow []Sight
	for i := range d.Nodes {
		n := &d.Nodes[i]
		sight := Sight{n.Addr, n.Clock.RoundTrip.Round(10 * time.Microsecond).String()}
		switch {
		case d.late(n):
			late = append(late, sight)
		case n.ClockKnown && d.TTL > 0 && n.Clock.RoundTrip > d.TTL/40:
			slow = append(slow, sight)
		}
	}
	change := "use a TTL of 50 round trips or more, or bring clients and masters closer together"
	return append(
		finding(Finding{Level: d.byQuorum(), Seen: late,
			Found:  fmt.Sprintf("a master's round trip is too long for the TTL, %v", d.TTL),
			Why:    "clients wait at most a tenth of the TTL for a vote, so the vote of this master always comes too late",
			Change: change}),
		finding(Finding{Level: Warning, Seen: slow,
			Found:  fmt.Sprintf("a master's round trip is long compared with the TTL, %v", d.TTL),
			Why:    "clients wait at most a tenth of the TTL for a vote, here less than four round trips: a short delay loses it",
			Change: change})...)
}

// recently is the greatest age of a slow log entry that is reported.
const recently = time.Hour

// checkSlow looks for what has blocked a master: it runs one command at a time,
// and stops to fork.
func (d *Deployment) checkSlow() []Finding {
	if d.TTL <= 0 {
		return nil
	}
	seen := d.seen(func(n *Node) string {
		var all []string
		for _, s := range n.Slow {
			if s.Took > d.TTL/10 && s.Ago <= recently {
				all = append(all, fmt.Sprintf("%s took %v, %v ago", s.Command, s.Took.Round(time.Millisecond), s.Ago.Round(time.Second)))
			}
		}
		if fork, _ := n.Info.Number("latest_fork_usec"); fork > (d.TTL / 10).Microseconds() {
			all = append(all, fmt.Sprintf("its last fork took %v", time.Duration(fork)*time.Microsecond))
		}
		return strings.Join(all[:min(len(all), 3)], "; ")
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master was blocked for longer than clients wait for a vote",
		Why:    "everything else waits meanwhile: locks depend on the other masters, and renewals may come too late",
		Change: "avoid KEYS, SMEMBERS of large sets and the like on these servers; for slow forks, check transparent huge pages and memory"})
}

// checkClients wants room for connections.
func (d *Deployment) checkClients() []Finding {
	seen := d.seen(func(n *Node) string {
		clients, _ := n.Info.Number("connected_clients")
		limit, _ := n.Info.Number("maxclients")
		if limit > 0 && share(clients, limit) >= full {
			return fmt.Sprintf("%d of at most %d", clients, limit)
		}
		return ""
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master has nearly reached its limit of clients",
		Why:    "at the limit it turns clients away, and is down for them",
		Change: "raise maxclients (and the server's limit of open files), or find the program that does not close connections"})
}

// shortestIdle is twice the time after which clients probe an idle connection,
// in seconds.
const shortestIdle = 10

// checkIdleTimeout wants masters that leave idle connections open.
func (d *Deployment) checkIdleTimeout() []Finding {
	seen := d.seen(func(n *Node) string {
		if seconds, _ := n.Config.Number("timeout"); seconds > 0 && seconds < shortestIdle {
			return fmt.Sprintf("timeout %d", seconds)
		}
		return ""
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master closes connections that are idle for a few seconds",
		Why:    "clients probe idle connections every five seconds; a closed one must be dialed again before the next lock",
		Change: "CONFIG SET timeout 0, or at least 60"})
}
