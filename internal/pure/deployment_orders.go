package pure

import (
	"fmt"
	"time"
)

// An Order is what to do at a node: to look at its seal, or to write what the
// node Is there, if it still is what it Was; see internal/lua/seal.lua.
type Order struct {
	Verb    Verb
	Node    int
	Was, Is Seat
	Names   Names
}

// A Verb is the kind of an Order.
type Verb uint8

// The verbs.
const (
	Nothing Verb = iota
	Look
	Write
)

// adoptWithin is how long a node whose process is young must be connected
// before it is opened. The empty successor of a member of another deployment is
// adopted by a client of that one before: clients reconnect within 1.2 s (R26).
const adoptWithin = 3 * time.Second

// aloneAfter is less: a member is adopted before it is opened.
const aloneAfter = 2 * time.Second

// settlePass bounds how long Next need not be called without an event.
const settlePass = 2 * time.Second

// Next returns the next order, or Nothing if there is none for the moment. It
// must be called until it returns Nothing. random returns 64 random bits.
//
// A set without a deployment is opened in three steps, and needs all nodes.
// Each node without an id gets one. Then the nodes are listed for the set of
// just these ids, in the order of the ids. Once all are, the first gets its
// seal, and then the others do. A node is listed for one set at a time. So a
// seal exists only after each node of the set was listed for it at one time,
// and of two overlapping sets only one can be opened. Clients of one set do the
// same, in whatever order they come, so one that dies does no harm.
func (d *Deployment) Next(now time.Duration, random func() uint64) Order {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.up && n.outdated {
			n.outdated, n.looked = false, false
			return Order{Verb: Look, Node: i}
		}
	}
	if d.begins {
		return Order{} // the answer says which client opens the set
	}
	for _, rule := range rules {
		if o := rule(d, now, random); o.Verb != Nothing {
			if o.Verb == Write {
				d.nodes[o.Node].pending = true
			}
			return o
		}
	}
	return Order{}
}

var rules = [...]func(d *Deployment, now time.Duration, random func() uint64) Order{
	(*Deployment).complete, (*Deployment).adopt, (*Deployment).rename, (*Deployment).reset, (*Deployment).name, (*Deployment).list,
}

// Wait returns when Next may have an order again without a further event.
func (d *Deployment) Wait(now time.Duration) time.Duration {
	next := now + settlePass
	for _, at := range [...]time.Duration{d.settled(), d.alone()} {
		if now < at {
			next = min(next, at)
		}
	}
	return next
}

// put orders that a node becomes something else.
func (d *Deployment) put(node int, is Seat, names Names) Order {
	return Order{Write, node, d.nodes[node].seen.Seal.Seat, is, names}
}

// renamed orders that a node gets a new id, and leaves what it was listed for.
// The seal of a deployment that is replaced stays.
func (d *Deployment) renamed(node int, random func() uint64) Order {
	is := Seat{Member: fmt.Sprintf("%016x", random()), Open: d.nodes[node].seen.Seal.Open}
	return d.put(node, is, "")
}

// complete seals nodes that are listed for the set of another node's seal. That
// seal proves that all nodes were listed for it.
func (d *Deployment) complete(time.Duration, func() uint64) Order {
	who, _ := d.Identity()
	for i := range d.nodes {
		if n := &d.nodes[i]; who != (Identity{}) && d.agrees() && n.ready() && d.listed(i) == who {
			return d.sealed(i, who)
		}
	}
	return Order{}
}

// adopt gives members that have lost their seal their place again. Another node
// must show the deployment at the moment, or this client must remember it, and
// the nodes have had time to show another. A client that founds a deployment
// has lost nothing: it takes what is left of a replaced one, after a call that
// was interrupted.
func (d *Deployment) adopt(now time.Duration, _ func() uint64) Order {
	who, _ := d.Identity()
	if who == (Identity{}) || !d.agrees() || !d.Present(who) && !(d.remembers(who) && now >= d.alone()) {
		return Order{}
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		if !n.ready() || !d.free(i) || d.Founds && n.seen.Free() {
			continue
		}
		if member := d.memberOf(who, i); member != "" {
			return d.put(i, Seat{Member: member, Open: who}, d.agreed(who).And(d.reached(who)).With(member, n.name))
		}
	}
	return Order{}
}

// alone returns from when on the nodes that are up would have shown a
// deployment.
func (d *Deployment) alone() (at time.Duration) {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.known() {
			at = max(at, n.firstLook+aloneAfter)
		}
	}
	return at
}

// agrees reports whether this client has the MaxTTL that the seals say. If not,
// it must write no seal of the deployment.
func (d *Deployment) agrees() bool {
	return d.all(func(i int) bool {
		is := d.nodes[i].seen.Seal.MaxTTL
		return d.MaxTTL == 0 || is == 0 || is == d.MaxTTL || d.void(d.nodes[i].seen.Seal.Open)
	})
}

// reached returns the names by which this client reaches the members. What one
// node says of names stays its own word (R33).
func (d *Deployment) reached(who Identity) (all Names) {
	for i := range d.nodes {
		if n := &d.nodes[i]; d.shows(i, who) && who.Has(n.seen.Seal.Member) {
			all = all.With(n.seen.Seal.Member, n.name)
		}
	}
	return all
}

// rename adds the names by which this client reaches the members. Later a
// client that knows no others may find a node without its seal.
func (d *Deployment) rename(time.Duration, func() uint64) Order {
	who, bound := d.Identity()
	if !bound || d.Founds {
		return Order{}
	}
	for i := range d.nodes {
		if n := &d.nodes[i]; n.ready() && d.lacks(i, who) {
			return d.put(i, n.seen.Seal.Seat, n.seen.Seal.Names.And(d.reached(who)))
		}
	}
	return Order{}
}

// lacks reports whether a node's seal lacks a name by which this client reaches
// a member.
func (d *Deployment) lacks(node int, who Identity) bool {
	names := d.nodes[node].seen.Seal.Names
	return d.shows(node, who) && !d.all(func(i int) bool {
		n := &d.nodes[i]
		return !d.shows(i, who) || !who.Has(n.seen.Seal.Member) || !names.Lacks(n.seen.Seal.Member, n.name)
	})
}

// reset frees nodes that are listed for this client's nodes in vain: the set
// can never be opened, since one of them has another id than the set's, or is
// in another set. What is known of the others must be newer than the listing.
// The node gets a new id, lest the set be complete once more.
func (d *Deployment) reset(_ time.Duration, random func() uint64) Order {
	for i := range d.nodes {
		n := &d.nodes[i]
		if !n.ready() || d.listed(i) == (Identity{}) || d.open(i) != (Identity{}) || !d.lists(n.seen.Seal) || !d.vain(i) {
			continue // with a deployment, it is being replaced
		}
		for j := range d.nodes {
			if other := &d.nodes[j]; j != i && other.known() && other.asked <= n.changed {
				other.looked = false
				return Order{Verb: Look, Node: j}
			}
		}
		return d.renamed(i, random)
	}
	return Order{}
}

// vain reports whether another node shows that the set for which one is listed
// can never be opened. It can if a node is sealed for it.
func (d *Deployment) vain(node int) bool {
	set, names := d.listed(node), d.nodes[node].seen.Seal.Names
	vain := false
	for i := range d.nodes {
		n := &d.nodes[i]
		is := n.seen.Seal.Seat
		switch {
		case d.open(i) == set:
			return false
		case i == node, !n.known(), n.seen.What == SealStrange, is.Listed == set:
		case d.listed(i) == Identity{} && !d.open(i).Has(is.Member) && is.Member == names.Member(n.name):
			// In a deployment, it has been given a new id by who replaces that.
		default:
			vain = true
		}
	}
	return vain
}

// free reports whether a node is in no set but replaced ones.
func (d *Deployment) free(node int) bool {
	return d.nodes[node].seen.What != SealStrange && d.open(node) == Identity{} && d.listed(node) == Identity{}
}

// opens reports whether this client may go on to open the set.
func (d *Deployment) opens(now time.Duration) bool {
	return now >= d.settled() && d.all(func(i int) bool {
		n := &d.nodes[i]
		return n.known() && n.seen.What != SealStrange && d.open(i) == Identity{} && d.Opening(i) == "" && d.Former(i) == ""
	})
}

// name gives the nodes ids. A member of a set that is replaced gets a new one,
// lest the same id follow from the same members.
func (d *Deployment) name(now time.Duration, random func() uint64) Order {
	if !d.opens(now) {
		return Order{}
	}
	for i := range d.nodes {
		if n := &d.nodes[i]; d.nameless(i) && d.free(i) && n.ready() {
			return d.renamed(i, random)
		}
	}
	return Order{}
}

// nameless reports whether a node has no id, or that of a replaced set.
func (d *Deployment) nameless(node int) bool {
	is := d.nodes[node].seen.Seal.Seat
	return is.Member == "" || d.void(is.Open) && is.Open.Has(is.Member) || d.void(is.Listed) && is.Listed.Has(is.Member)
}

// set returns what this client's nodes would be, by their ids. It is zero if
// some have none.
func (d *Deployment) set() Identity {
	var members []string
	for i := range d.nodes {
		if d.nameless(i) {
			return Identity{}
		}
		members = append(members, d.nodes[i].seen.Seal.Member)
	}
	who := IdentityOf(members)
	if !who.sound() {
		return Identity{} // some are the same
	}
	return who
}

// list lists the node with the smallest id that is not listed yet, by this
// client too: the script looks into its other databases for whom it serves.
// Once all are, it seals the one with the smallest. So one client decides about
// the MaxTTL that the seals say. The others are sealed by complete.
func (d *Deployment) list(now time.Duration, _ func() uint64) Order {
	if !d.opens(now) {
		return Order{}
	}
	who := d.set()
	first, next := 0, -1
	var names Names
	for i := range d.nodes {
		n := &d.nodes[i]
		names = names.With(n.seen.Seal.Member, n.name)
		if n.seen.Seal.Member < d.nodes[first].seen.Seal.Member {
			first = i
		}
		switch {
		case who == Identity{}, n.pending || n.failed || d.listed(i) != (Identity{}) && d.listed(i) != who:
			return Order{}
		case d.listed(i) == who && n.checked == who.ID:
		case next < 0 || n.seen.Seal.Member < d.nodes[next].seen.Seal.Member:
			next = i
		}
	}
	if next >= 0 {
		is := d.nodes[next].seen.Seal.Seat
		is.Listed = who // beside a deployment that is replaced
		return d.put(next, is, names)
	}
	if d.bound != who.ID {
		d.belong(who.ID)
		d.Opened, d.begins, d.news.opens = who.ID, true, true
	}
	return d.sealed(first, who)
}

// sealed orders that a node that is listed for a set belongs to it.
func (d *Deployment) sealed(node int, who Identity) Order {
	is := d.nodes[node].seen.Seal
	return d.put(node, Seat{Member: is.Member, Open: who}, is.Names)
}

// Settles returns how long it takes until this client opens the set, for one
// that only waits for time to pass; otherwise 0.
func (d *Deployment) Settles(now time.Duration) time.Duration {
	at := d.settled()
	if !d.opens(max(now, at)) || !d.all(d.free) {
		return 0
	}
	return max(0, at-now)
}

// settled returns from when on no node may still be the empty successor of
// another deployment's member. A process that has run for long is none. A
// client that founds the set knows no other deployment but the replaced ones.
func (d *Deployment) settled() (at time.Duration) {
	for i := range d.nodes {
		n := &d.nodes[i]
		switch {
		case !d.Founds:
			at = max(at, min(n.firstLook+adoptWithin, n.born+max(d.Need, adoptWithin)))
		case n.seen.Identity() != Identity{}:
			// The locks of a replaced deployment must not last longer than the
			// clients of the new one wait.
			at = max(at, n.firstLook+NeedFor(n.seen.Seal.MaxTTL, d.Drift)-d.Need)
		}
	}
	return at
}

// Former returns the id of a node's last deployment, provided that it never was
// this client's: no quorum of the client's nodes showed it, and its members are
// others. Otherwise it returns "". If such a node comes back empty, the clients
// of its former deployment adopt it again.
func (d *Deployment) Former(node int) string {
	was := d.nodes[node].last
	if d.void(was.Open) || was.Open.ID == d.bound || d.lists(was) {
		return ""
	}
	return was.Open.ID
}
