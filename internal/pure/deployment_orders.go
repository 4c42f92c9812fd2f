package pure

import (
	"fmt"
	"strings"
	"time"
)

// A Verb is what a client does to a node's seal or opening; see
// internal/lua/seal.lua.
type Verb uint8

// The verbs.
const (
	Nothing Verb = iota
	Look         // read both
	Propose
	Lock
	Confirm // write the seal in place of the lock
	Adopt   // write the seal on a free node
	Undo
)

// An Order is a Verb for some nodes.
type Order struct {
	Verb     Verb
	Nodes    Set
	Identity Identity
}

const (
	// ProposalTTL is how long a proposal stays. A client locks only what all
	// nodes accepted within openWithin, so it locks long before that ends.
	ProposalTTL = 5 * time.Second
	openWithin  = time.Second
	// openingDead is how long a lock must be unchanged before it counts as left
	// by a client that died.
	openingDead = 2 * time.Second
	// adoptAlone is how long a free node waits if no node shows the identity,
	// and only this client remembers it.
	adoptAlone = 2 * time.Second
	// adoptWithin is how long a node whose process is young must be
	// connected before it is opened. The empty successor of a member of
	// another deployment is adopted by a client of that one before: clients
	// reconnect within 1.2 s (R26).
	adoptWithin = 3 * time.Second
	// openPause is the mean of the first pause between attempts, and
	// openPauseMost the mean of the longest.
	openPause     = 20 * time.Millisecond
	openPauseMost = 500 * time.Millisecond
)

// Next returns the next order, or Nothing if there is none for the moment. It
// must be called until it returns Nothing. random returns 64 random bits.
func (d *Deployment) Next(now time.Duration, random func() uint64) Order {
	if o := d.proceed(now, random); o.Verb != Nothing {
		return o
	}
	if o := d.lookAgain(now); o.Verb != Nothing {
		return o
	}
	if d.opening.stage != Nothing {
		return Order{}
	}
	for _, rule := range [...]func(time.Duration) Order{d.complete, d.adopt, d.revive} {
		if o := rule(now); o.Verb != Nothing {
			d.each(o.Nodes, func(n *nodeView) { n.pending = true })
			return o
		}
	}
	return d.open(now, random)
}

// Wait returns when Next may have an order again without a further event.
func (d *Deployment) Wait(now time.Duration) time.Duration {
	next := now + openingDead
	if _, bound := d.Identity(); bound && d.opening.stage == Nothing {
		return next
	}
	if o := &d.opening; o.stage == Propose {
		next = min(next, o.begun+openWithin)
	} else if at := max(o.pause, d.settled()); now < at {
		next = min(next, at)
	}
	return next
}

// open begins an attempt if all nodes are up, were looked at, and are free. It
// asks one node first, the arbiter, the same for all clients of the set. So the
// client that gets the arbiter also gets the other nodes.
func (d *Deployment) open(now time.Duration, random func() uint64) Order {
	if now < max(d.opening.pause, d.settled()) || !d.allFree() {
		return Order{}
	}
	arbiter := 0
	for i := range d.nodes {
		if d.nodes[i].name < d.nodes[arbiter].name {
			arbiter = i
		}
	}
	who := Identity{ID: fmt.Sprintf("%016x%016x", random(), random()), Nodes: len(d.nodes), Members: d.members}
	d.opening = attempt{stage: Propose, who: who, begun: now, asked: SetOf(arbiter), debut: d.Debut(), delay: d.opening.delay}
	return Order{Propose, d.opening.asked, who}
}

// allFree reports whether all nodes are up, were looked at, and are free.
func (d *Deployment) allFree() bool {
	return d.all(func(i int) bool { return d.nodes[i].known() && d.free(i) && d.Former(i) == "" })
}

// Settles returns how long it takes until this client opens the set, for one
// that only waits for time to pass; otherwise 0.
func (d *Deployment) Settles(now time.Duration) time.Duration {
	if d.Opening() || !d.allFree() {
		return 0
	}
	return max(0, d.settled()-now)
}

// settled returns from when on no node may still be the empty successor of
// another deployment's member. A process that has run for long is none. A
// client that founds the set knows no other deployment but the replaced ones.
func (d *Deployment) settled() (at time.Duration) {
	if d.Founds {
		return d.lapsed()
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		at = max(at, min(n.firstLook+adoptWithin, n.born+max(d.Need, adoptWithin)))
	}
	return at
}

// lapsed returns from when on the locks of replaced deployments last no longer
// than clients of the new one wait. For a replaced one with a longer MaxTTL,
// that is the difference.
func (d *Deployment) lapsed() (at time.Duration) {
	for i := range d.nodes {
		if n := &d.nodes[i]; d.replaces(n.seen.Identity()) {
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
	n := &d.nodes[node]
	switch was := n.lastID; {
	case was == d.bound, strings.Contains(d.earlier, was), n.lastMembers == d.members, d.replaces(Identity{ID: was}):
		return ""
	default:
		return was
	}
}

// free reports whether a node belongs to no deployment and is in no opening,
// other than replaced ones.
func (d *Deployment) free(node int) bool {
	s := d.nodes[node].seen
	return s.What != SealStrange && d.void(s.Identity()) && d.void(s.Opening.Identity)
}

// proceed continues this client's attempt.
func (d *Deployment) proceed(now time.Duration, random func() uint64) Order {
	o := &d.opening
	all := All(len(d.nodes))
	failed := o.no || o.lost
	switch o.stage {
	case Propose:
		switch {
		case failed || now-o.begun > openWithin:
			return d.abandon(now, random, true)
		case o.yes != o.asked:
		case o.asked != all: // the arbiter accepted it
			rest := all.Without(o.asked)
			o.asked = all
			return Order{Propose, rest, o.who}
		default:
			return d.advance(Lock)
		}
	case Lock:
		switch {
		case o.no: // no node will ever be sealed for it
			return d.abandon(now, random, true)
		case o.lost: // every node may be locked; looks will show that
			return d.abandon(now, random, false)
		case o.yes == all:
			return d.advance(Confirm)
		}
	case Confirm:
		if o.yes == all || failed {
			return d.abandon(now, random, false)
		}
	}
	return Order{}
}

// advance begins the next stage of this client's attempt. It does not seal a
// node whose connection ended after it was locked.
func (d *Deployment) advance(stage Verb) Order {
	o := &d.opening
	o.stage, o.yes = stage, 0
	if stage == Confirm {
		d.Opened = o.who.ID
		d.belong(o.who.ID)
	}
	order := Order{stage, o.asked, o.who}
	for i := range d.nodes {
		if !d.nodes[i].up {
			order.Nodes = order.Nodes.Without(SetOf(i))
			o.lost = true
		}
	}
	return order
}

// abandon ends this client's attempt. If undo, its order removes the proposals
// and locks of the attempt.
func (d *Deployment) abandon(now time.Duration, random func() uint64, undo bool) Order {
	o := d.opening
	delay := min(max(2*o.delay, openPause), openPauseMost)
	pause := now + delay/2 + time.Duration(random()%uint64(delay))
	d.opening = attempt{pause: pause, delay: delay}
	d.each(o.asked, func(n *nodeView) { n.outdated = o.stage != Confirm || n.outdated })
	if !undo {
		return Order{}
	}
	return Order{Undo, o.asked, o.who}
}

// Quit ends this client's attempt for good. Its order removes proposals. Locks
// stay for other clients to complete, since every node may be locked.
func (d *Deployment) Quit() Order {
	o := d.opening
	d.opening = attempt{}
	if o.stage != Propose {
		return Order{}
	}
	return Order{Undo, o.asked, o.who}
}

// lookAgain orders looks at the nodes on which something unknown was found.
func (d *Deployment) lookAgain(now time.Duration) Order {
	o := Order{Verb: Look}
	if d.opening.stage != Nothing || now < d.opening.pause {
		return Order{}
	}
	for i := range d.nodes {
		if n := &d.nodes[i]; n.up && n.outdated {
			n.outdated, n.looked = false, false
			o.Nodes = o.Nodes.Add(i)
		}
	}
	return o.orNothing()
}

// orNothing returns the order, or Nothing if it is for no node.
func (o Order) orNothing() Order {
	if o.Nodes == 0 {
		return Order{}
	}
	return o
}

// complete seals nodes locked for an identity of another node's seal. That seal
// proves that all nodes were locked for it.
func (d *Deployment) complete(time.Duration) Order {
	who, _ := d.Identity()
	if who == (Identity{}) {
		return Order{}
	}
	return Order{Confirm, d.locked(Opening{Locked, who}), who}.orNothing()
}

// locked returns the nodes with an opening that can be sent an order.
func (d *Deployment) locked(is Opening) (nodes Set) {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.ready() && n.seen.Opening == is {
			nodes = nodes.Add(i)
		}
	}
	return nodes
}

// adopt gives the identity to members that have lost it. If no node shows it at
// the moment, all may have lost it and been opened anew without this client's
// knowledge. adopt then waits a while for another node to show the present
// identity.
func (d *Deployment) adopt(now time.Duration) Order {
	who, _ := d.Identity()
	if who == (Identity{}) || d.Founds || !d.all(d.agrees) {
		return Order{}
	}
	shown := !d.all(func(i int) bool { return !d.shows(i, who) })
	o := Order{Adopt, 0, who}
	for i := range d.nodes {
		switch n := &d.nodes[i]; {
		case !n.ready(), !n.seen.Free(), !d.knows(who, n):
		case shown, now-n.firstLook >= adoptAlone:
			o.Nodes = o.Nodes.Add(i)
		}
	}
	return o.orNothing()
}

// agrees reports whether a node's seal, if any, has this client's MaxTTL.
func (d *Deployment) agrees(node int) bool {
	switch s := d.nodes[node].seen.Seal; {
	case d.MaxTTL == 0, s.MaxTTL == 0, s.Identity == (Identity{}):
		return true
	default:
		return s.MaxTTL == d.MaxTTL
	}
}

// revive ends an opening left by a client at its death. If every node is locked
// or sealed for the identity, all locks were confirmed, and no client will
// remove them: revive seals them. If a member of the set carries neither the
// proposal nor the lock, no client will ever seal the identity, since locks are
// sent only once all proposals were accepted: revive removes them.
func (d *Deployment) revive(now time.Duration) Order {
	for i := range d.nodes {
		n, left := &d.nodes[i], d.nodes[i].seen.Opening
		if left.Stage != Locked || !n.ready() || now-n.changed < openingDead {
			continue
		}
		locked := d.locked(left)
		switch {
		case left.Identity.Nodes == len(d.nodes) && d.all(func(j int) bool { return d.identity(j) == left.Identity || locked.Has(j) }):
			return Order{Confirm, locked, left.Identity}
		case d.dead(left.Identity, n.changed):
			return Order{Undo, locked, left.Identity}
		}
	}
	return Order{}
}

// dead reports whether no client will ever seal a node for an identity in
// locks. Such a lock is dead if a member, looked at after it, has neither the
// identity's proposal nor its lock nor its seal. No other node may have the
// seal: the member may have lost its own.
func (d *Deployment) dead(who Identity, locked time.Duration) bool {
	lacking := false
	for i := range d.nodes {
		n := &d.nodes[i]
		switch shows := d.identity(i); {
		case shows == who:
			return false
		case !n.ready(), n.asked <= locked, n.seen.Opening.Identity == who:
		case who.Members == d.members, shows != (Identity{}) && who.Lists(n.name):
			lacking = true
		}
	}
	return lacking
}

// all reports whether a condition holds for every node.
func (d *Deployment) all(is func(node int) bool) bool {
	for i := range d.nodes {
		if !is(i) {
			return false
		}
	}
	return true
}

// each calls a function for some nodes.
func (d *Deployment) each(nodes Set, do func(*nodeView)) {
	for i := range d.nodes {
		if nodes.Has(i) {
			do(&d.nodes[i])
		}
	}
}
