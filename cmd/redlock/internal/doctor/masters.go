package doctor

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// checkSize wants three masters or more, and an odd number of them.
func (d *Deployment) checkSize() []Finding {
	n := len(d.Nodes)
	switch {
	case n == 1:
		return []Finding{{Level: Warning, Found: "there is one master",
			Why:    "while it is down no client gets a lock, and if it loses its memory all locks are lost",
			Change: "run 3 or 5 masters on machines that fail independently"}}
	case n == 2:
		return []Finding{{Level: Warning, Found: "there are 2 masters",
			Why:    "a quorum needs both, so locks depend on two machines instead of one",
			Change: "add a third master"}}
	case n%2 == 0:
		return []Finding{{Level: Warning, Found: fmt.Sprintf("there are %d masters, an even number", n),
			Why: fmt.Sprintf("a quorum is %d, so %d may fail, the same as with %d masters: the last one adds cost but no safety",
				d.quorum(), n-d.quorum(), n-1),
			Change: fmt.Sprintf("use %d or %d", n-1, n+1)}}
	}
	return nil
}

// checkReachable wants an answer from each node.
func (d *Deployment) checkReachable() []Finding {
	var silent []Sight
	for i := range d.Nodes {
		if err := d.Nodes[i].Err; err != nil {
			silent = append(silent, Sight{d.Nodes[i].Addr, err.Error()})
		}
	}
	f := Finding{Level: d.byQuorum(), Seen: silent,
		Found:  fmt.Sprintf("%d of %d masters did not answer, or refused us", len(silent), len(d.Nodes)),
		Why:    fmt.Sprintf("a lock needs %d masters; the others still serve, but fewer of them may fail now", d.quorum()),
		Change: "start what is down, or fix the network, the address or the credentials that the error names"}
	if f.Level == Unsafe {
		f.Why = fmt.Sprintf("a lock needs %d masters, and fewer answer: no client gets a lock", d.quorum())
	}
	return finding(f)
}

// checkSameServer wants each server to have one vote (R22).
func (d *Deployment) checkSameServer() []Finding {
	first := make(map[string]string)
	seen := d.seen(func(n *Node) string {
		run := n.RunID()
		if run == "" {
			return ""
		}
		if other, ok := first[run]; ok {
			return "the same server as " + other
		}
		first[run] = n.Addr
		return ""
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "one server is named by several addresses",
		Why:    "one server would have several votes, so a quorum of votes would not be a quorum of servers; clients refuse that",
		Change: "name each server once, and one server for each vote"})
}

// checkOneServer wants each address to lead to one server (R22).
func (d *Deployment) checkOneServer() []Finding {
	seen := d.seen(func(n *Node) string {
		if len(n.Others) == 0 {
			return ""
		}
		return fmt.Sprintf("leads to %d servers, by their run ids", len(n.Others)+1)
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "an address leads to several servers in turn",
		Why:    "clients that reach different servers by it take them for one master, so two of them can hold one lock",
		Change: "give each master a name and an address of its own, without a balancer before it"})
}

// checkAddresses wants addresses that mean the same servers everywhere. If all
// are on this machine, so are the clients.
func (d *Deployment) checkAddresses() []Finding {
	var local []Sight
	for i := range d.Nodes {
		if d.Nodes[i].Local {
			local = append(local, Sight{d.Nodes[i].Addr, "leads to this machine, whichever it is"})
		}
	}
	if len(local) == len(d.Nodes) {
		return nil
	}
	return finding(Finding{Level: Warning, Seen: local, Found: "the address of a master means another server on another machine",
		Why:    "clients of other machines that are configured alike take their own server for that master, so two of them can hold one lock",
		Change: "name every master by an address that means the same server on all machines"})
}

// checkPlacement looks for masters that share a machine. Those on this machine
// are usually a trial, so they are only mentioned. Unix sockets have no host.
func (d *Deployment) checkPlacement() []Finding {
	hosts := make(map[string][]string)
	var here []Sight
	for i := range d.Nodes {
		host, port, err := net.SplitHostPort(d.Nodes[i].Addr)
		switch {
		case err != nil, strings.HasPrefix(d.Nodes[i].Addr, "unix:"):
		case d.Nodes[i].Local: // by whatever name
			here = append(here, Sight{d.Nodes[i].Addr, "is on this machine"})
		default:
			hosts[host] = append(hosts[host], port)
		}
	}
	var shared []Sight
	for host, ports := range hosts {
		if len(ports) > 1 {
			shared = append(shared, Sight{host, "has the masters at " + strings.Join(ports, ", ")})
		}
	}
	slices.SortFunc(shared, func(a, b Sight) int { return strings.Compare(a.Addr, b.Addr) })
	if len(here) < 2 {
		here = nil
	}
	const why, change = "if the machine fails, all of them fail together, as if they were one",
		"give each master a machine, a disk and a power supply of its own, in different racks or zones"
	return append(
		finding(Finding{Level: Warning, Seen: shared, Found: "masters share a machine", Why: why, Change: change}),
		finding(Finding{Level: Note, Seen: here, Found: "masters share this machine", Why: why, Change: change + "; for a trial it is fine"})...)
}

// isMaster reports whether nothing says otherwise.
func isMaster(n *Node) bool {
	r := n.Role()
	return (r == "" || r == "master" || r == "primary") && n.Server.Mode != "sentinel"
}

// checkRole wants masters.
func (d *Deployment) checkRole() []Finding {
	seen := d.seen(func(n *Node) string {
		switch {
		case n.Server.Mode == "sentinel":
			return "a sentinel"
		case !isMaster(n):
			return "its role is " + n.Role()
		}
		return ""
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "a node is not a master",
		Why:    "a replica holds what another server granted, and a sentinel holds no keys; clients refuse both",
		Change: "name masters, or the sentinels in a URL with redis+sentinel:; REPLICAOF NO ONE turns a replica into a master"})
}

// checkCluster wants no cluster nodes.
func (d *Deployment) checkCluster() []Finding {
	seen := d.seen(func(n *Node) string {
		if n.Clustered() {
			return "cluster mode is on"
		}
		return ""
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "a node belongs to a cluster",
		Why:    "its keys may move to another node, and a failover there forgets locks; clients refuse it",
		Change: "run the masters on their own, with cluster-enabled no, or name the cluster in a URL with redis+cluster:"})
}

// checkReplicas wants masters without replicas.
func (d *Deployment) checkReplicas() []Finding {
	seen := d.seen(lone(func(n *Node) string {
		if replicas, _ := n.Info.Number("connected_slaves"); replicas > 0 {
			return plural(replicas, "replica")
		}
		return ""
	}))
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master has replicas",
		Why: "a replica gets each key a moment later. If it is promoted, by hand, by a sentinel or by the platform, it lacks the " +
			"newest locks, and they are granted again",
		Change: "detach the replicas (REPLICAOF NO ONE there), and make sure that nothing fails the master over, or say in its URL that it does " +
			"(redis+sentinel:, or failover=)"})
}

// checkSentinels wants masters that no sentinel fails over. Sentinels find each
// other by a channel of the master.
func (d *Deployment) checkSentinels() []Finding {
	seen := d.seen(lone(func(n *Node) string {
		if n.Watchers > 0 {
			return plural(n.Watchers, "sentinel") + " watching"
		}
		return ""
	}))
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "sentinels watch a master",
		Why:    "if the master is down for long they promote a replica, which lacks the newest locks",
		Change: "name the sentinels in a URL with redis+sentinel:, or run SENTINEL REMOVE for these masters, and have a supervisor restart them instead"})
}

// checkVersion looks for versions that get no more fixes, and for untested
// products. Masters of different versions are fine.
func (d *Deployment) checkVersion() []Finding {
	old := d.seen(func(n *Node) string {
		major, _, _ := strings.Cut(n.Server.Version, ".")
		number, err := strconv.Atoi(major)
		if n.Server.Product == "redis" && err == nil && number < 7 {
			return "redis " + n.Server.Version
		}
		return ""
	})
	strange := d.seen(func(n *Node) string {
		if p := n.Server.Product; p != "" && !slices.Contains([]string{"redis", "valkey", "redict"}, p) {
			return p + " " + n.Server.Version
		}
		return ""
	})
	return append(
		finding(Finding{Level: Warning, Seen: old, Found: "a master runs a version before 7.0",
			Why:    "it no longer gets fixes, not even for security holes",
			Change: "upgrade one master at a time; masters of different versions and products work together"}),
		finding(Finding{Level: Note, Seen: strange, Found: "a master is a product that this program is not tested with",
			Why:    "scripts, expiry and replies may differ in ways that matter to locks",
			Change: "prefer Redis, Valkey or Redict, or test what you rely on"})...)
}

// tlsFixed are the first versions of each line of releases without the faults
// CVE-2026-81934 (Redis) and CVE-2026-56684 (Valkey), by their release notes. A
// line between them has no such version.
var tlsFixed = map[string][][3]int{
	"redis":  {{6, 2, 24}, {7, 2, 16}, {7, 4, 11}, {8, 2, 9}, {8, 4, 6}, {8, 6, 6}, {8, 8, 2}, {8, 10, 1}},
	"valkey": {{7, 2, 14}, {8, 0, 10}, {8, 1, 9}, {9, 0, 5}, {9, 1, 1}},
}

// checkTLSKill looks for TLS servers in which a connection that CLIENT KILL ends
// leaves memory behind that is used. The client ends each connection so that
// broke with commands on it (R8).
func (d *Deployment) checkTLSKill() []Finding {
	seen := d.seen(func(n *Node) string {
		if n.TLS && lacksTLSFix(n.Server.Product, n.Server.Version) {
			return n.Server.Product + " " + n.Server.Version
		}
		return ""
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master that speaks TLS may be crashed, or taken over, by a client",
		Why:    "in this version memory is used after its connection was ended, as by CLIENT KILL, which clients of this library send (CVE-2026-81934 in Redis, CVE-2026-56684 in Valkey); a distribution may have mended it without a new number",
		Change: "upgrade to one of Redis 6.2.24, 7.2.16, 7.4.11, 8.2.9, 8.4.6, 8.6.6, 8.8.2, 8.10.1, or Valkey 7.2.14, 8.0.10, 8.1.9, 9.0.5, 9.1.1, or later"})
}

// lacksTLSFix reports whether a version is known to be without the fix.
func lacksTLSFix(product, version string) bool {
	var v [3]int
	for i, part := range strings.SplitN(version, ".", len(v)) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		v[i] = n
	}
	fixed := tlsFixed[product]
	for _, first := range fixed {
		if first[0] == v[0] && first[1] == v[1] {
			return v[2] < first[2]
		}
	}
	return len(fixed) > 0 && slices.Compare(v[:2], fixed[len(fixed)-1][:2]) < 0
}

// checkClient makes sure that nothing is overlooked: a node that the library
// refuses gets a finding, whatever the reason.
func (d *Deployment) checkClient() []Finding {
	seen := d.seen(func(n *Node) string {
		explained := !isMaster(n) || n.Clustered() || len(lacking(n, needed)) > 0 || blocked(n) != ""
		if n.Refused == nil || explained || len(d.checkSameServer()) > 0 {
			return ""
		}
		return n.Refused.Error()
	})
	return finding(Finding{Level: d.byQuorum(), Seen: seen, Found: "clients give a node no vote",
		Why: "it answers, but not as locks require", Change: "see what was seen at the node"})
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
