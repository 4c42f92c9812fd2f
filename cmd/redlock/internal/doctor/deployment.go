package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// lookOut returns what a client that starts now would think of the nodes' past,
// and of their deployment (R23, R30).
func (d *Deployment) lookOut() *outlook.Outlook {
	var durable []bool
	var found []outlook.Node
	for i := range d.Nodes {
		durable, found = append(durable, d.Nodes[i].Declared), append(found, d.Nodes[i].Node)
	}
	o := outlook.New(d.addrs(), durable, d.MaxTTL)
	o.Look(found, 0)
	return o
}

// masters returns where each node stands.
func (d *Deployment) masters() []Master {
	all := []Master{}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		m := Master{Addr: n.Addr}
		if n.Err == nil {
			who := d.outlook.Deployment().Shown(i)
			m.Deployment, m.Size = who.ID, who.Nodes
			m.Quarantine, m.Why = d.outlook.Standing(i, 0)
			m.Uptime, m.Started = n.Uptime()
			m.Quarantined = m.Why != ""
		}
		if m.Started {
			m.UptimeS = seconds(m.Uptime)
		}
		if m.Quarantine > 0 {
			m.QuarantineS = seconds(m.Quarantine)
		}
		all = append(all, m)
	}
	return all
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

func (d *Deployment) addrs() (all []string) {
	for i := range d.Nodes {
		all = append(all, d.Nodes[i].Addr)
	}
	return all
}

// belongs reports whether a node carries the identity of the deployment, as
// far as is known. Before there is one, any node does.
func (d *Deployment) belongs(n *Node) bool {
	p := d.outlook.Deployment()
	_, _, rivals := p.Rivals()
	who, _ := p.Identity()
	return d.MaxTTL == 0 || n.Seal.State == probe.SealUnknown ||
		!rivals && (who == pure.Identity{} || n.Seal.Identity == who)
}

func describe(who pure.Identity) string {
	return fmt.Sprintf("deployment %s of %s", who.ID, plural(int64(who.Nodes), "master"))
}

// checkForgetful wants the protection to be on.
func (d *Deployment) checkForgetful() []Finding {
	if d.MaxTTL > 0 {
		return nil
	}
	return []Finding{{Level: Warning, Found: "clients are forgetful",
		Why: "they count a master that restarts at once, though it may have forgotten locks, and do not notice if they name " +
			"different masters",
		Change: "take --forgetful, REDLOCK_FORGETFUL and redlock.Config.Forgetful out of all clients"}}
}

// checkDeployment wants all masters to belong to one deployment, of just these
// masters.
func (d *Deployment) checkDeployment() []Finding {
	if d.MaxTTL == 0 {
		return nil
	}
	p := d.outlook.Deployment()
	if node, other, rivals := p.Rivals(); rivals {
		f := Finding{Level: Unsafe, Seen: d.seen(shown), Found: "the masters belong to different deployments",
			Why: "clients that name different masters can hold one lock; so those that name these masters get none",
			Change: "name the same masters for all clients (--nodes, redlock.Config.Nodes). To use masters of a deployment that is " +
				"over, stop its clients first: redlock init --replace ID. If a master should not have what stands there, delete its key " +
				"redlock:seal, or redlock:opening where it is locked, behind the prefix"}
		if node == other && !d.several() {
			f.Found = fmt.Sprintf("the deployment has %d masters, and %d are named here", p.Shown(node).Nodes, len(d.Nodes))
		}
		return finding(f)
	}
	who, _ := p.Identity()
	outside := d.seen(func(n *Node) string {
		if who != (pure.Identity{}) && n.Sighting().Free() && !who.Lists(pure.MemberOf(n.Addr)) {
			return "not a member of " + describe(who)
		}
		return ""
	})
	alias := d.seen(func(n *Node) string {
		if who != (pure.Identity{}) && n.Seal.Identity == who && !who.Lists(pure.MemberOf(n.Addr)) {
			return "a member by another address"
		}
		return ""
	})
	return append(
		finding(Finding{Level: d.byQuorum(), Seen: outside, Found: "a master is not a member of the deployment",
			Why:    "clients do not count it: another master may have its place",
			Change: "name the masters as when the deployment was opened; if the set has changed, stop all clients: redlock init --replace " + who.ID}),
		finding(Finding{Level: Warning, Seen: alias, Found: "a master is named by another address than when the deployment was opened",
			Why:    "if it loses its keys, clients that start afterwards do not know it as a member, and do not count it",
			Change: "name the masters by the same addresses everywhere"})...)
}

// shown returns the deployment that a node shows.
func shown(n *Node) string {
	switch o := n.Opening.Value; {
	case n.Seal.Identity != (pure.Identity{}):
		return describe(n.Seal.Identity)
	case o.Stage == pure.Locked:
		return "locked for " + describe(o.Identity)
	}
	return ""
}

// checkDatabase wants no other database of a master to belong to a deployment:
// then clients may name different databases.
func (d *Deployment) checkDatabase() []Finding {
	level := Unsafe
	seen := d.seen(func(n *Node) string {
		if n.Elsewhere.Identity == (pure.Identity{}) || d.MaxTTL == 0 {
			return ""
		}
		own := "no deployment"
		if n.Seal.Identity != (pure.Identity{}) {
			level, own = Warning, describe(n.Seal.Identity)
		}
		return fmt.Sprintf("database %d, which is named here, belongs to %s, and database %d to %s", n.DB, own, n.Elsewhere.DB, describe(n.Elsewhere.Identity))
	})
	return finding(Finding{Level: level, Seen: seen, Found: "another database of a master belongs to a deployment",
		Why:    "clients that name different databases of the same masters can hold one lock",
		Change: "name the same database in all clients (the path of the URL); for locks of their own, use another prefix"})
}

// several reports whether nodes show different identities.
func (d *Deployment) several() bool {
	ids := make(map[pure.Identity]bool)
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Err == nil && n.Seal.Identity != (pure.Identity{}) {
			ids[n.Seal.Identity] = true
		}
	}
	return len(ids) > 1
}

// checkInitialised wants each master to carry the deployment's id.
func (d *Deployment) checkInitialised() []Finding {
	p := d.outlook.Deployment()
	if _, _, rivals := p.Rivals(); d.MaxTTL == 0 || rivals {
		return nil
	}
	openings := d.checkOpenings()
	who, bound := p.Identity()
	without := d.seen(func(n *Node) string {
		up, _ := n.Uptime()
		known := who == pure.Identity{} || who.Lists(pure.MemberOf(n.Addr))
		if !n.Sighting().Free() || n.Opening.State == probe.SealUnknown || !known {
			return ""
		}
		return fmt.Sprintf("no seal; started %v ago", up)
	})
	f := Finding{Level: Warning, Seen: without, Found: "only some masters carry the deployment's id",
		Why: "one without was flushed, or restarted empty; the next client writes the id there, and counts the master after " +
			d.MaxTTL.String(),
		Change: "nothing, if it is back soon; otherwise find out why no client writes there"}
	switch {
	case who == pure.Identity{} && len(openings) > 0:
		return openings
	case who == pure.Identity{}:
		f.Found = "the deployment has not been opened"
		f.Why = fmt.Sprintf("the first client does that, with the masters that it names, and counts none before the last to start has run for %v; "+
			"until then nothing shows that clients name different masters", d.MaxTTL)
		f.Change = "run redlock init, once, with the masters that all clients name"
	case !bound:
		f.Level, f.Why = Unsafe, "less than a quorum has it: no client gets a lock"
		f.Change = "start a client, which repairs that if the others are members; otherwise stop all clients: redlock init --replace " + who.ID
	}
	return append(finding(f), openings...)
}

// checkOpenings looks for what an opening leaves if the client dies.
func (d *Deployment) checkOpenings() []Finding {
	foreign := false
	seen := d.seen(func(n *Node) string {
		if n.Opening.State != probe.SealThere {
			return ""
		}
		who := n.Opening.Value.Identity
		foreign = foreign || who.Members != pure.MembersOf(d.addrs())
		return fmt.Sprintf("%s for %s", n.Opening.Value.Stage, describe(who))
	})
	f := Finding{Level: Warning, Seen: seen, Found: "a client is opening the deployment, or has died of it",
		Why:    "clients do not count the master meanwhile; the next one completes or removes what a dead client has left, within seconds",
		Change: "nothing, if it is gone soon; otherwise redlock init"}
	if foreign {
		f.Level, f.Found = d.byQuorum(), "a client is opening another deployment with a master, or has died of it"
		f.Why = "clients do not count the master, and those that name these masters do not remove what it has left"
		f.Change = "name the same masters for all clients; if that deployment is over, stop its clients: redlock init --replace ID"
	}
	return finding(f)
}
