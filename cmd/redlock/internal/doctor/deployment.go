package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// lookOut returns what a client that starts now would think of the nodes' past,
// and of their deployment (R23, R30).
func (d *Deployment) lookOut() *outlook.Outlook {
	var names []string
	var durable []bool
	var found []outlook.Node
	for i := range d.Nodes {
		names = append(names, d.Nodes[i].Name)
		durable, found = append(durable, d.Nodes[i].Declared), append(found, d.Nodes[i].Node)
	}
	o := outlook.New(names, durable, d.MaxTTL)
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
			m.Deployment, m.Size = who.ID, who.Nodes()
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

// belongs reports whether a node is a member of the deployment, and no earlier
// one is the same, as far as is known. Before there is one, any node is.
func (d *Deployment) belongs(n *Node) bool {
	p := d.outlook.Deployment()
	_, _, rivals := p.Rivals()
	who, _ := p.Identity()
	return d.MaxTTL == 0 || n.Seal.State == probe.SealUnknown ||
		!rivals && (who == pure.Identity{} || n.Seal.Open == who && p.Berth(d.index(n)) != pure.BerthTwin)
}

func describe(who pure.Identity) string {
	return fmt.Sprintf("deployment %s of %s", who.ID, plural(int64(who.Nodes()), "master"))
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
				"redlock:seal, behind the prefix"}
		if node == other && !d.several() {
			f.Found = fmt.Sprintf("the deployment has %d masters, and %d are named here", p.Shown(node).Nodes(), len(d.Nodes))
		}
		return finding(f)
	}
	who, _ := p.Identity()
	outside := d.where("not a member of "+describe(who), func(i int) bool { return p.Berth(i) == pure.BerthStranger })
	twins := d.where("the same member as another", func(i int) bool { return p.Berth(i) == pure.BerthTwin })
	nameless := d.where("has four other addresses, or another master has this one", p.Nameless)
	return slices.Concat(
		finding(Finding{Level: d.byQuorum(), Seen: outside, Found: "a master is not a member of the deployment",
			Why:    "clients do not count it: another master may have its place",
			Change: "name the masters as the other clients do; if the set has changed, stop all clients: redlock init --replace " + who.ID}),
		finding(Finding{Level: d.byQuorum(), Seen: twins, Found: "two masters are the same member of the deployment",
			Why:    "one is a copy of the other, or both addresses lead to one master; clients count one of them",
			Change: "name each master once; empty a copy (FLUSHALL), and clients make it a member again"}),
		finding(Finding{Level: Warning, Seen: nameless, Found: "the deployment does not know a master by its address",
			Why:    "if it loses its keys, clients that know only this address do not know it as a member, and do not count it",
			Change: "name the masters by the same addresses everywhere"}))
}

// where lists the nodes that answered, and for which a condition holds.
func (d *Deployment) where(what string, is func(i int) bool) []Sight {
	return d.seen(func(n *Node) string {
		if is(d.index(n)) {
			return what
		}
		return ""
	})
}

// shown returns the sets that a node shows.
func shown(n *Node) string {
	var all []string
	if n.Seal.Open != (pure.Identity{}) {
		all = append(all, describe(n.Seal.Open))
	}
	if n.Seal.Listed != (pure.Identity{}) {
		all = append(all, "listed for "+describe(n.Seal.Listed))
	}
	return strings.Join(all, ", ")
}

// checkDatabase wants no other database of a master to belong to a deployment:
// then clients may name different databases.
func (d *Deployment) checkDatabase() []Finding {
	level := Unsafe
	seen := d.seen(func(n *Node) string {
		if n.Elsewhere == (pure.Other{}) || d.MaxTTL == 0 {
			return ""
		}
		own := "no deployment"
		if n.Seal.Open != (pure.Identity{}) {
			level, own = Warning, describe(n.Seal.Open)
		}
		return fmt.Sprintf("database %d, which is named here, belongs to %s, and database %d to deployment %s", n.DB, own, n.Elsewhere.DB, n.Elsewhere.ID)
	})
	return finding(Finding{Level: level, Seen: seen, Found: "another database of a master belongs to a deployment",
		Why:    "clients that name different databases of the same masters can hold one lock",
		Change: "name the same database in all clients (the path of the URL); for locks of their own, use another prefix"})
}

// several reports whether nodes show different sets.
func (d *Deployment) several() bool {
	ids := make(map[pure.Identity]bool)
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Err == nil {
			ids[n.Seal.Open], ids[n.Seal.Listed] = true, true
		}
	}
	delete(ids, pure.Identity{})
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
		if !n.Sighting().Free() || p.Berth(d.index(n)) == pure.BerthStranger {
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
	p := d.outlook.Deployment()
	foreign := false
	seen := d.seen(func(n *Node) string {
		if n.Seal.Listed == (pure.Identity{}) {
			return ""
		}
		foreign = foreign || p.Opening(d.index(n)) != ""
		return "listed for " + describe(n.Seal.Listed)
	})
	f := Finding{Level: d.byQuorum(), Seen: seen, Found: "a client is opening the deployment, or has died of it",
		Why:    "clients do not count the master meanwhile; the next one goes on with what a dead client has left",
		Change: "nothing, if it is gone soon; otherwise redlock init"}
	if foreign {
		f.Found = "a client is opening another deployment with a master, or has died of it"
		f.Why = "clients do not count the master, and those that name these masters do not remove what it has left"
		f.Change = "name the same masters for all clients; if that deployment is over, stop its clients: redlock init --replace ID"
	}
	return finding(f)
}
