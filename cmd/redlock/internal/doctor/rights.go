package doctor

import (
	"slices"
	"strings"

	"github.com/redmux/redmux/conn"
)

// needed are the commands without which no lock can be had or given back; wanted are those without which one thing or the
// other goes worse, and what.
var (
	needed = []string{"SET", "GET", "DEL", "PTTL", "PEXPIRE", "SCRIPT LOAD", "EVALSHA"}
	wanted = []struct{ name, lest string }{
		{"PING", "idle connections cannot be probed"},
		{"MGET", "locks that are kept together are looked at one by one"},
		{"INFO", "a restart, eviction and a replica go unnoticed"},
		{"CLIENT ID", "a lost connection cannot be fenced at once"},
		{"CLIENT KILL", "a lost connection cannot be fenced at once, and its releases are repeated instead"},
		{"CLIENT TRACKING", "who waits for a lock is not told when it is free"},
		{"CLIENT CACHING", "who waits for a lock is not told when it is free"},
	}
)

// lacking are those of some commands that the node does not let this user run, as the node puts it.
func lacking(n *Node, names []string) []string {
	var all []string
	for _, r := range n.Rights {
		switch {
		case !slices.Contains(names, r.Name):
		case r.Class == conn.ClassNoPerm, r.Class == conn.ClassNoAuth:
			all = append(all, r.Name+" is forbidden")
		case r.Class == conn.ClassUnknownCommand:
			all = append(all, r.Name+" is unknown")
		case r.Class == conn.ClassNoScript:
			all = append(all, r.Name+" runs no script")
		}
	}
	return all
}

const grant = "grant what is missing: ACL SETUSER <user> resetchannels ~<prefix>* +set +get +mget +del +pexpire +pttl +evalsha " +
	"+script|load +hello +auth +client|setname +client|id +client|kill +client|tracking +client|caching +ping +info +select; " +
	"and take rename-command out of the configuration"

// checkRights wants a user who may do what locks need, on keys with the prefix.
func (d *Deployment) checkRights() []Finding {
	without := d.seen(func(n *Node) string { return strings.Join(lacking(n, needed), ", ") })
	var worse []Sight
	for _, w := range wanted {
		for _, s := range d.seen(func(n *Node) string { return strings.Join(lacking(n, []string{w.name}), ", ") }) {
			worse = append(worse, Sight{s.Addr, s.What + ": " + w.lest})
		}
	}
	return append(
		finding(Finding{Level: d.byQuorum(), Seen: without, Found: "the user may not do, or the server cannot do, what locks need",
			Why:    "a user who may set keys but not run scripts would leave locks behind, so clients give such a master no vote",
			Change: grant}),
		finding(Finding{Level: Warning, Seen: worse, Found: "the user may not do all that clients would like to do",
			Why: "locks are safe without it, and slower to come by after a fault", Change: grant})...)
}

// checkBroadRights looks for a user who may do more than locks need, where somebody has taken the trouble to name one, or where
// others than this machine's users can come by it.
func (d *Deployment) checkBroadRights() []Finding {
	seen := d.seen(func(n *Node) string {
		named := n.User != "" && n.User != "default"
		switch {
		case n.Config == nil || !named && n.Local:
			return ""
		case named:
			return "this user may run CONFIG"
		default:
			return "the default user may run CONFIG"
		}
	})
	return finding(Finding{Level: Note, Seen: seen, Found: "the user may do more than locks need",
		Why: "who takes over a client with these credentials can delete every lock and reconfigure the server",
		Change: "nothing, if it is an operator's user and clients have another one; else give clients a user with the rights of " +
			"docs/servers.md and no others"})
}

// blocked is why the node refuses every lock at this moment, "" if it does not.
func blocked(n *Node) string {
	for _, r := range n.Rights {
		if r.Name != "SET" {
			continue
		}
		switch r.Class {
		case conn.ClassOOM:
			return "OOM: its memory is full"
		case conn.ClassMisconf:
			return "MISCONF: it cannot write to its disk"
		case conn.ClassNoReplicas:
			return "NOREPLICAS: min-replicas-to-write is not met"
		case conn.ClassReadOnly:
			return "READONLY: it is a replica"
		case conn.ClassLoading, conn.ClassBusy, conn.ClassMasterDown, conn.ClassClusterDown, conn.ClassMoved:
			return r.Class.String()
		}
	}
	return ""
}

// checkWrites wants a SET to be accepted. A replica and a cluster node are told of by themselves.
func (d *Deployment) checkWrites() []Finding {
	seen := d.seen(func(n *Node) string {
		if !isMaster(n) || n.Clustered() {
			return ""
		}
		return blocked(n)
	})
	return finding(Finding{Level: d.byQuorum(), Seen: seen, Found: "a master refuses every lock",
		Why:    "each such master is a vote less",
		Change: "see to what the error names: memory, disk, or min-replicas-to-write 0"})
}

// checkEncryption wants TLS where others can listen, and a certificate that is looked at.
func (d *Deployment) checkEncryption() []Finding {
	plain := d.seen(func(n *Node) string {
		if !n.Local && !n.TLS {
			return "no TLS"
		}
		return ""
	})
	unverified := d.seen(func(n *Node) string {
		if n.Unverified {
			return "the certificate is not verified"
		}
		return ""
	})
	const change = "listen with TLS (tls-port, port 0) and use rediss:// URLs, with tls_ca_file where the authority is your own"
	return append(
		finding(Finding{Level: Warning, Seen: plain, Found: "a master that is not on this machine is reached without TLS",
			Why: "who listens on the way reads the password, and the tokens by which any lock can be released", Change: change}),
		finding(Finding{Level: Warning, Seen: unverified, Found: "a master's certificate is not verified",
			Why: "anybody on the way can pretend to be the master, and grant the same lock twice", Change: change})...)
}

// checkPassword wants a server that others can reach to ask who they are.
func (d *Deployment) checkPassword() []Finding {
	seen := d.seen(func(n *Node) string {
		if !n.Local && !n.Secret {
			return "it answers without a password"
		}
		return ""
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master that is not on this machine asks nobody for a password",
		Why:    "whoever reaches it can delete locks, and most likely everything else",
		Change: "set up a user with ACL SETUSER, turn the default user off, and keep protected-mode on"})
}
