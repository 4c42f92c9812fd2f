package doctor

import (
	"slices"
	"strings"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// needed are the commands without which no lock can be taken or released.
// Without a wanted one something works less well: lest says what.
var (
	needed = []string{"SET", "GET", "DEL", "PTTL", "PEXPIRE", "SCRIPT LOAD", "EVALSHA"}
	wanted = []struct{ name, lest string }{
		{"PING", "idle connections cannot be probed"},
		{"MGET", "locks held together are checked one by one; locks with a fencing number are refused, and some permits"},
		{"INFO", "a restart, eviction and a replica go unnoticed"},
		{"CLIENT ID", "a lost connection cannot be fenced at once"},
		{"CLIENT KILL", "a lost connection cannot be fenced at once, and its releases are repeated instead"},
		{"CLIENT TRACKING", "clients that wait for a lock are not told when it is free"},
		{"TIME", "masters that were just started are waited for longer; locks with a fencing number, read/write locks and permits are refused"},
		{"CLIENT CACHING", "clients that wait for a lock are not told when it is free"},
	}
)

// lacking lists those of the commands that this user may not run on the node,
// and why.
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

const grant = "grant what is missing: ACL SETUSER <user> resetchannels ~<prefix>* " + pure.Rights +
	"; and take rename-command out of the configuration"

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
		finding(Finding{Level: d.byQuorum(), Seen: without, Found: "the user may not run, or the server does not have, commands that locks need",
			Why:    "a user who may set keys but not run scripts would leave locks behind, so clients do not count such a master",
			Change: grant}),
		finding(Finding{Level: Warning, Seen: worse, Found: "the user may not run some commands that clients use",
			Why: "locks are safe without them, but recover more slowly from faults, and some kinds of lock are refused", Change: grant})...)
}

// checkBroadRights looks for a user who may do more than locks need: one who
// was named, or one that other machines can use.
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
		Why: "an attacker who takes over a client with these credentials can delete every lock and reconfigure the server",
		Change: "nothing, if this is an operator's user and clients have another one; otherwise give clients a user with only the " +
			"rights of docs/deploy.md"})
}

// blocked returns why the node refuses every lock right now, or "" if it does
// not.
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

// checkWrites wants masters that accept a SET. Replicas and cluster nodes have
// findings of their own.
func (d *Deployment) checkWrites() []Finding {
	seen := d.seen(func(n *Node) string {
		if !isMaster(n) || n.Clustered() {
			return ""
		}
		return blocked(n)
	})
	return finding(Finding{Level: d.byQuorum(), Seen: seen, Found: "a master refuses every lock",
		Why:    "each such master is one vote less",
		Change: "fix what the error names: memory, disk, or replicas that are away (for lone masters, min-replicas-to-write 0)"})
}

// checkEncryption wants TLS between machines, and a certificate that is
// verified.
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
			Why: "an eavesdropper reads the password, and the tokens, which can release any lock", Change: change}),
		finding(Finding{Level: Warning, Seen: unverified, Found: "a master's certificate is not verified",
			Why: "an attacker on the way can pretend to be the master, and grant the same lock twice", Change: change})...)
}

// checkPassword wants a password where other machines can connect.
func (d *Deployment) checkPassword() []Finding {
	seen := d.seen(func(n *Node) string {
		if !n.Local && !n.Secret {
			return "it answers without a password"
		}
		return ""
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "a master that is not on this machine asks for no password",
		Why:    "anyone who can reach it can delete locks, and most likely everything else",
		Change: "set up a user with ACL SETUSER, turn the default user off, and keep protected-mode on"})
}
