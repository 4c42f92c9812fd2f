package pure

import (
	"fmt"
	"strings"
	"time"
)

// A Verb is what a client does to a node's seal or opening; see seal.lua.
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

// An Order is what to do to some nodes: bit i of Nodes stands for node i.
type Order struct {
	Verb     Verb
	Nodes    uint16
	Identity Identity
}

const (
	// ProposalTTL is how long a proposal stays. A client locks what all nodes
	// accepted within openWithin, so its locks come long before the end.
	ProposalTTL = 5 * time.Second
	openWithin  = time.Second
	// openingDead is how long a lock must have stayed the same before it is
	// taken to be left over from a client that has died.
	openingDead = 2 * time.Second
	// adoptAlone is how long a free node waits for the identity that only this
	// client's memory has.
	adoptAlone = 2 * time.Second
	// adoptWithin is how long a node that may hide a lock must have been
	// connected before it is opened. If it is the empty successor of a member of
	// another deployment, a client of that one adopts it first: clients come
	// back within 1.2 s (R26).
	adoptWithin = 3 * time.Second
	// openPause is the mean of the first pause between attempts, and
	// openPauseMost that of the longest.
	openPause     = 20 * time.Millisecond
	openPauseMost = 500 * time.Millisecond
)

// Next returns the next order, until there is none for the moment. random
// returns 64 random bits.
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
			d.each(o.Nodes, func(n *berth) { n.busy = true })
			return o
		}
	}
	return d.open(now, random)
}

// Wait returns when Next may have an order again without another event.
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
// asks one node first, which all clients of the set ask first: so one of them
// gets the others too.
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
	d.opening = attempt{stage: Propose, who: who, begun: now, asked: 1 << arbiter, debut: d.Debut(), delay: d.opening.delay}
	return Order{Propose, d.opening.asked, who}
}

// allFree reports whether all nodes are there, and no other deployment's.
func (d *Deployment) allFree() bool {
	return d.all(func(i int) bool { n := &d.nodes[i]; return n.up && n.looked && d.free(i) && d.Former(i) == "" })
}

// Settles returns how long it takes until the set can be opened, if that is all
// that it waits for; 0 if it can, or waits for more.
func (d *Deployment) Settles(now time.Duration) time.Duration {
	if d.Opening() || !d.allFree() {
		return 0
	}
	return max(0, d.settled()-now)
}

// settled returns when the set may be opened, as far as the nodes' past is
// concerned: when no node can be the empty successor of another deployment's
// any more that a client of that one is about to adopt. A node that has run for
// long is none. If this client founds the set, there is no such deployment.
func (d *Deployment) settled() (at time.Duration) {
	if d.Founds {
		return d.lapsed()
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		at = max(at, min(n.first+adoptWithin, n.born+max(d.Need, adoptWithin)))
	}
	return at
}

// lapsed returns when clients may wait for the locks of the deployments that
// are replaced, as they do for as long as their own MaxTTL demands: if that of a
// replaced one is longer, its locks have become as short by then.
func (d *Deployment) lapsed() (at time.Duration) {
	for i := range d.nodes {
		if n := &d.nodes[i]; d.replaces(n.seen.Identity()) {
			at = max(at, n.first+NeedFor(n.seen.Seal.MaxTTL, d.Drift)-d.Need)
		}
	}
	return at
}

// Former returns the id of a deployment that a node was seen in and that never
// was this client's, neither by what a quorum of its nodes showed nor by its
// members; "" if there is none. If the node comes back empty, it is for the
// clients of that one to adopt it again.
func (d *Deployment) Former(node int) string {
	was := d.nodes[node].was
	if was != d.bound && !strings.Contains(d.earlier, was) && d.nodes[node].of != d.members && !d.replaces(Identity{ID: was}) {
		return was
	}
	return ""
}

// free reports whether a node is free, or used by what is to be replaced.
func (d *Deployment) free(node int) bool {
	s := d.nodes[node].seen
	who, opens := s.Identity(), s.Opening.Identity
	return s.What != SealStrange && (who == Identity{} || d.replaces(who)) && (opens == Identity{} || d.replaces(opens))
}

// proceed goes on with this client's attempt.
func (d *Deployment) proceed(now time.Duration, random func() uint64) Order {
	o := &d.opening
	all := uint16(1)<<len(d.nodes) - 1
	failed := o.no || o.lost
	switch o.stage {
	case Propose:
		switch {
		case failed || now-o.begun > openWithin:
			return d.abandon(now, random, true)
		case o.yes != o.asked:
		case o.asked != all: // the arbiter accepted it
			rest := all &^ o.asked
			o.asked = all
			return Order{Propose, rest, o.who}
		default:
			return d.advance(Lock)
		}
	case Lock:
		switch {
		case o.no: // no node will ever be sealed with it
			return d.abandon(now, random, true)
		case o.lost: // perhaps every node is locked; looks will tell
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

// advance begins the next stage of this client's attempt. A node that parted
// after it was locked is not sealed by this client.
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
			order.Nodes &^= 1 << i
			o.lost = true
		}
	}
	return order
}

// abandon ends this client's attempt, and takes it back if no node was sealed.
func (d *Deployment) abandon(now time.Duration, random func() uint64, undo bool) Order {
	o := d.opening
	delay := min(max(2*o.delay, openPause), openPauseMost)
	pause := now + delay/2 + time.Duration(random()%uint64(delay))
	d.opening = attempt{pause: pause, delay: delay}
	d.each(o.asked, func(n *berth) { n.stale = o.stage != Confirm || n.stale })
	if !undo {
		return Order{}
	}
	return Order{Undo, o.asked, o.who}
}

// Quit ends this client's attempt for good. Its order takes back proposals;
// locks are left to other clients, since every node may be locked.
func (d *Deployment) Quit() Order {
	o := d.opening
	d.opening = attempt{}
	if o.stage != Propose {
		return Order{}
	}
	return Order{Undo, o.asked, o.who}
}

// lookAgain returns the nodes that something unknown was found on.
func (d *Deployment) lookAgain(now time.Duration) Order {
	o := Order{Verb: Look}
	if d.opening.stage != Nothing || now < d.opening.pause {
		return Order{}
	}
	for i := range d.nodes {
		if n := &d.nodes[i]; n.up && n.stale {
			n.stale, n.looked = false, false
			o.Nodes |= 1 << i
		}
	}
	if o.Nodes == 0 {
		return Order{}
	}
	return o
}

// complete seals nodes that are locked for an identity that another shows: one
// that is sealed proves that all were locked.
func (d *Deployment) complete(time.Duration) Order {
	who, _ := d.Identity()
	o := Order{Confirm, 0, who}
	for i := range d.nodes {
		if n := &d.nodes[i]; d.ready(n) && who != (Identity{}) && n.seen.Opening == (Opening{Locked, who}) {
			o.Nodes |= 1 << i
		}
	}
	if o.Nodes == 0 {
		return Order{}
	}
	return o
}

// adopt gives the identity to members that have lost it. If no node shows it at
// present, this client may have missed that all lost it and were opened anew.
// Then it waits for a while for another node to show what is true.
func (d *Deployment) adopt(now time.Duration) Order {
	who, _ := d.Identity()
	if who == (Identity{}) || d.Founds {
		return Order{}
	}
	shown := !d.all(func(i int) bool { return !d.nodes[i].looked || d.identity(i) != who })
	o := Order{Adopt, 0, who}
	if !d.all(d.agrees) {
		return Order{}
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		if d.ready(n) && n.seen.Free() && d.knows(who, n) && (shown || now-n.first >= adoptAlone) {
			o.Nodes |= 1 << i
		}
	}
	if o.Nodes == 0 {
		return Order{}
	}
	return o
}

// agrees reports whether a node's seal has this client's MaxTTL, if it has one.
func (d *Deployment) agrees(node int) bool {
	s := d.nodes[node].seen.Seal
	return d.MaxTTL == 0 || s.Identity == (Identity{}) || s.MaxTTL == 0 || s.MaxTTL == d.MaxTTL
}

// revive ends what a client that died has left. If every node carries its
// identity, all of its locks were confirmed, so that it never takes them back:
// they are sealed. If a member of the set carries neither its proposal nor its
// lock, no client will ever seal it, since locks are only sent once all
// proposals were accepted: they are removed.
func (d *Deployment) revive(now time.Duration) Order {
	for i := range d.nodes {
		left := d.nodes[i].seen.Opening
		if left.Stage != Locked || !d.ready(&d.nodes[i]) || now-d.nodes[i].since < openingDead {
			continue
		}
		var locked uint16
		for j := range d.nodes {
			if d.ready(&d.nodes[j]) && d.nodes[j].seen.Opening == left {
				locked |= 1 << j
			}
		}
		switch {
		case left.Identity.Nodes == len(d.nodes) && d.all(func(j int) bool { return d.identity(j) == left.Identity || locked>>j&1 == 1 }):
			return Order{Confirm, locked, left.Identity}
		case d.dead(left.Identity, d.nodes[i].since):
			return Order{Undo, locked, left.Identity}
		}
	}
	return Order{}
}

// dead reports whether no client will ever seal a node for an identity that
// nodes are locked for. It will not if a member, looked at after the lock, has
// neither its proposal nor its lock nor its seal, and no node has its seal: an
// empty member may have lost that.
func (d *Deployment) dead(who Identity, locked time.Duration) bool {
	lacking := false
	for i := range d.nodes {
		n := &d.nodes[i]
		shows := d.identity(i)
		if shows == who {
			return false
		}
		member := who.Members == d.members || who.Lists(n.name) && shows != (Identity{})
		lacking = lacking || member && d.ready(n) && n.asked > locked && n.seen.Opening.Identity != who
	}
	return lacking
}

// ready reports whether a node can be given an order outside of an opening.
func (d *Deployment) ready(n *berth) bool { return n.up && n.looked && !n.busy && !n.held }

// all reports whether something is true of every node.
func (d *Deployment) all(is func(node int) bool) bool {
	for i := range d.nodes {
		if !is(i) {
			return false
		}
	}
	return true
}

// each calls a function for some nodes.
func (d *Deployment) each(nodes uint16, do func(*berth)) {
	for i := range d.nodes {
		if nodes>>i&1 == 1 {
			do(&d.nodes[i])
		}
	}
}
