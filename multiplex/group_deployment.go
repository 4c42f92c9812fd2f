package multiplex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// settleLocked carries out the next orders of pure.Deployment, which make the
// nodes belong to one deployment (R30), and updates the group's sets by what
// that knows of the nodes. It must be called after each event of
// pure.Deployment.
func (g *Group) settleLocked(now time.Duration) {
	if !g.config.sealed() || g.life.closing() {
		return
	}
	d := &g.quarantine.deployment
	if d.Rebound() {
		g.joinLocked(now)
	}
	for o := d.Next(now, rand.Uint64); o.Verb != pure.Nothing; o = d.Next(now, rand.Uint64) {
		if o.Verb == pure.Confirm && d.Opening() {
			g.openLocked(now)
		}
		g.carryOutLocked(o, now)
	}
	g.judgeDeploymentLocked(now)
	g.tellAllLocked()
	g.quarantine.due = d.Wait(now)
	g.wakeWatchAtLocked(g.quarantine.due)
}

// joinLocked forgets what was watched before the nodes belonged to the
// deployment that another client opened. Only the seals tell how long ago that
// was, so that no lock of another set can be left (R29, R30).
func (g *Group) joinLocked(now time.Duration) {
	d := &g.quarantine.deployment
	for i, n := range g.nodes {
		n.trust.Trust = n.trust.Joins(now).Sight(d.Proof(d.Seen(i)), now)
		n.judgeTrustLocked(now)
	}
}

// openLocked runs before the first seals of a set are written. It decides since
// when the nodes count as watched (R29).
func (g *Group) openLocked(now time.Duration) {
	since := g.sinceLocked(now)
	for _, n := range g.nodes {
		n.trust.Trust = n.trust.Opens(since, now)
		n.judgeTrustLocked(now)
	}
}

// sinceLocked returns the time since when all nodes count as watched if this
// group opens the set.
func (g *Group) sinceLocked(now time.Duration) time.Duration {
	return g.quarantine.deployment.Since(func(i int) pure.Trust { return g.nodes[i].trust.Trust }, now)
}

func (g *Group) carryOutLocked(o pure.Order, now time.Duration) {
	for i, n := range g.nodes {
		switch {
		case o.Nodes>>i&1 == 0 || !g.live.Has(i):
		case o.Verb == pure.Look:
			n.lookLocked()
		default:
			n.orderLocked(o, now)
		}
	}
}

// tendDeploymentLocked is the watch's pass over the deployment. It returns when
// to run again.
func (g *Group) tendDeploymentLocked(now time.Duration) time.Duration {
	if !g.config.sealed() || g.life.closing() {
		return now + g.config.ProbeAfter
	}
	if now >= g.quarantine.due {
		g.settleLocked(now)
	}
	return g.quarantine.due
}

// judgeDeploymentLocked updates the sets of nodes that do not show this
// client's deployment. A node that is not up stays in its set until it joins.
func (g *Group) judgeDeploymentLocked(now time.Duration) {
	d, q := &g.quarantine.deployment, &g.quarantine
	strangers := q.strangers
	for i := range g.nodes {
		switch {
		case d.Counts(i):
			strangers &^= setOf(i)
		case g.live.Has(i):
			strangers |= setOf(i)
		}
	}
	_, _, rivals := d.Rivals()
	if q.strangers == strangers && q.rivals == rivals {
		return
	}
	q.strangers, q.rivals = strangers, rivals
	for _, n := range g.nodes {
		n.trust.shared = nil
		n.judgeTrustLocked(now)
	}
	g.notifyLocked()
}

// estrangedLocked returns why a node that is up does not show the deployment;
// nil if it does.
func (n *node) estrangedLocked() *fault {
	g := n.group
	d := &g.quarantine.deployment
	if !g.config.sealed() || d.Counts(n.index) || d.Settles(g.now()) > 0 {
		return nil
	}
	switch d.Berth(n.index) {
	case pure.BerthRivals:
		return &fault{err: g.rivalsLocked(), tried: d.RivalsAsked()}
	case pure.BerthStranger:
		who, _ := d.Identity()
		return &fault{err: &PreflightError{"deployment", "the node belongs to no deployment, and the others to " + describe(who) +
			", which does not list its address",
			"name the nodes as when the deployment was opened, or if its nodes have changed, stop all clients and replace the deployment (redlock init)",
			ErrDeployment}, tried: g.now()}
	case pure.BerthElsewhere:
		node, other, _ := d.Other()
		return &fault{err: &PreflightError{"deployment", fmt.Sprintf("database %d, which this client uses, belongs to no deployment, and database %d "+
			"of %s to %s", n.config.Endpoint.DB, other.DB, g.nameLocked(node), describe(other.Identity)),
			"name the same database in all clients, or use another prefix; if that deployment is over, replace it (redlock init)",
			ErrDeployment}, tried: g.now()}
	case pure.BerthOpening:
		o := d.Seen(n.index).Opening
		if o.Stage == pure.Locked {
			return &fault{err: fmt.Errorf("%w: %s is locked there for %s; a client that names all its nodes ends that, and if it is over, "+
				"delete the key", ErrUnopened, openingPlace, describe(o.Identity))}
		}
		return &fault{err: fmt.Errorf("%w: another client is about to open one with the node", ErrUnopened)}
	case pure.BerthUnread:
		return &fault{err: fmt.Errorf("%w: the node's seal cannot be read", ErrUnopened)}
	case pure.BerthStrange:
		found, advice := sealPlace+" or "+openingPlace+" holds something else there", "delete that key on this node, or use another prefix"
		if d.Seen(n.index).Later {
			found, advice = "the node was opened by a newer version: "+sealPlace+" has a form that this one does not know", "update this client"
		}
		return &fault{err: &PreflightError{"deployment", found, advice, ErrDeployment}, tried: g.now()}
	case pure.BerthAdopts:
		if !n.trust.Trusted {
			return nil // its quarantine lasts longer than writing the seal
		}
		return &fault{err: fmt.Errorf("%w: the node's seal is being written", ErrUnopened)}
	}
	if who, _ := d.Identity(); who != (pure.Identity{}) {
		return &fault{err: fmt.Errorf("%w: fewer than a quorum of the nodes belong to %s", ErrUnopened, describe(who))}
	}
	text := "the first use of nodes needs all of them at one time"
	if missing := All(g.size) &^ g.live; missing != 0 {
		text += "; missing: " + g.listLocked(missing)
	}
	for i := range g.nodes {
		if was := d.Former(i); was != "" {
			text += "; " + g.nameLocked(i) + " belonged to deployment " + was + " before it came back empty"
			break
		}
	}
	return &fault{err: fmt.Errorf("%w: %s", ErrUnopened, text)}
}

// waitsForOthersLocked reports whether the node would count if the missing
// nodes showed the same deployment. Then the others, and not this node, keep a
// command from a quorum.
func (n *node) waitsForOthersLocked() bool {
	d := &n.group.quarantine.deployment
	return n.group.live.Has(n.index) && n.group.quarantine.strangers.Has(n.index) && n.trust.Trusted && d.Pending(n.index)
}

// rivalsLocked returns the error that names both sides.
func (g *Group) rivalsLocked() error {
	d := &g.quarantine.deployment
	node, other, _ := d.Rivals()
	found := g.claimLocked(node)
	if node == other {
		found += ", and this client has " + strconv.Itoa(g.size)
	} else {
		found += ", and " + g.claimLocked(other)
	}
	return &PreflightError{"deployment", found,
		"all clients of a deployment must name the same nodes; to use nodes of a deployment that is over, replace it (redlock init); if one of " +
			"these nodes should not have its key, delete the key there", ErrDeployment}
}

// The names of the keys that say which deployment a node belongs to. Errors do
// not show the prefix (R27).
const (
	sealPlace    = "the key redlock:seal (behind the prefix)"
	openingPlace = "the key redlock:opening (behind the prefix)"
)

// claimLocked returns the text that says what a node belongs to, and where that
// stands.
func (g *Group) claimLocked(node int) string {
	d := &g.quarantine.deployment
	who := d.Claim(node)
	if who == d.Shown(node) {
		return g.nameLocked(node) + " belongs to " + describe(who) + ", by " + sealPlace
	}
	return g.nameLocked(node) + " is locked for " + describe(who) + ", by " + openingPlace
}

func describe(who pure.Identity) string {
	return "deployment " + who.ID + " of " + strconv.Itoa(who.Nodes) + " nodes"
}

func (g *Group) nameLocked(node int) string {
	return "node " + strconv.Itoa(node) + " (" + g.nodes[node].addr + ")"
}

// listLocked returns the names of some nodes.
func (g *Group) listLocked(nodes Set) string {
	var all []string
	for i := range g.nodes {
		if nodes.Has(i) {
			all = append(all, g.nameLocked(i))
		}
	}
	return strings.Join(all, ", ")
}

// A Membership is what the nodes of a group say of the deployment that they
// belong to (R30).
type Membership struct {
	ID    string // "" if they belong to none, or to several
	Nodes int
	// Complete reports whether every node was found to belong to it.
	Complete bool
	Founded  bool // this group opened it
	// Settles is how long it takes until the group opens the set, if it only
	// waits for that time to pass; otherwise 0.
	Settles time.Duration
	// Err is why the nodes' votes do not count, if the deployment is the
	// reason; otherwise nil.
	Err error
}

// Membership returns what is known at the moment.
func (g *Group) Membership() Membership {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.membershipLocked()
}

func (g *Group) membershipLocked() Membership {
	if !g.config.sealed() {
		return Membership{}
	}
	who, _ := g.quarantine.deployment.Identity()
	d := Membership{ID: who.ID, Nodes: who.Nodes, Complete: g.quarantine.strangers == 0}
	d.Settles = g.quarantine.deployment.Settles(g.now())
	d.Founded = who.ID != "" && who.ID == g.quarantine.deployment.Opened
	for _, n := range g.nodes {
		if f := n.estrangedLocked(); f != nil && d.Err == nil {
			d.Err = n.blame(f)
		}
	}
	return d
}

// WaitOpen blocks until every node was found to belong to one deployment. If
// ctx ends first, the error wraps the context's error and an *UndecidedError.
func (g *Group) WaitOpen(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.config.sealed() && g.quarantine.strangers == 0 })
}
