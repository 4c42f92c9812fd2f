package pure

import "time"

// A Deployment is what one client knows of the deployment that its nodes belong
// to, and what it does so that they belong to one (R30). Each node carries the
// identity of its deployment in its seal. The client counts votes only while
// its nodes show one identity, of as many nodes as it has itself, on a quorum
// of them.
//
// A set in which no node has an identity is opened, in three steps that each
// node confirms. The client proposes a new identity to all nodes, which expires
// by itself; once all have accepted it, it locks it on all; and once all have
// confirmed that, it seals it. A node accepts only one at a time. So a seal
// with an identity exists only if at one time each node of the set was locked
// for it, and of two sets that overlap only one can be opened. A node that
// loses its keys later gets the identity again from any client that knows it as
// a member.
//
// NewDeployment makes one. Born, Join, Part, Sight, Answer, Drop and Quit are
// events; Next returns what to do, and Wait when to ask again; the other
// methods tell what is known. They are to be called by one goroutine at a time.
type Deployment struct {
	// Founds is set by a client that only opens the set (Init): it does not
	// adopt nodes.
	Founds bool
	// Replaces has the ids of deployments whose seals and openings are in the
	// way of nothing: their nodes are to be used anew.
	Replaces []string

	// MaxTTL is this client's. Where a seal says another, it adopts no node. If
	// zero, any will do.
	MaxTTL time.Duration

	// Need is how long nodes must have been watched, and Drift how much clocks
	// may differ (NeedFor).
	Need  time.Duration
	Drift float64

	// Opened is the id of the last deployment that this client opened.
	Opened string

	members string // of this client's set
	// bound is the id of the last deployment that a quorum of the nodes showed,
	// or that this client has locked on all of them; earlier has those before
	// it, after each other.
	bound, earlier string
	rebound        bool // it was opened by another client; see Rebound
	nodes          []berth
	opening        attempt
}

// A berth is what is known of one node.
type berth struct {
	name   string        // see MemberOf
	up     bool          // it is connected
	looked bool          // seen is of this connection
	seen   Sighting      // the last look that told anything, perhaps of an earlier connection
	asked  time.Duration // when that look was asked for
	first  time.Duration // when the first look of this connection came back
	since  time.Duration // since when its opening is the same
	stale  bool          // it must be looked at again
	held   bool          // an order failed, and another waits for a look
	busy   bool          // an order outside of the opening is under way
	was    string        // the id of the deployment that it was last seen in
	of     string        // its members
	born   time.Duration // its process had started by then
}

// An attempt is what this client does to open its set.
type attempt struct {
	stage Verb // Propose, Lock, Confirm; or Nothing
	who   Identity
	begun time.Duration
	asked uint16        // nodes that the stage's order was sent to
	yes   uint16        // those of them that confirmed it
	no    bool          // one refused it
	lost  bool          // one will not answer
	debut bool          // no node had a seal of any form
	pause time.Duration // no other attempt begins before
	delay time.Duration // the length of the last pause
}

// NewDeployment returns what is known at first of the nodes with these
// addresses.
func NewDeployment(addrs []string) Deployment {
	d := Deployment{members: MembersOf(addrs), nodes: make([]berth, len(addrs))}
	for i, addr := range addrs {
		d.nodes[i].name = MemberOf(addr)
	}
	return d
}

// Born says when a node's process had started at the latest, as far as is
// known.
func (d *Deployment) Born(node int, at time.Duration) { d.nodes[node].born = at }

// Since returns since when the nodes count as watched if this client opens
// them: since the last of them began to (Trust.Began), because that one may be
// the empty successor of a member of another set, whose locks the others do not
// know (R29). If the client founds a new set, no lock is held.
func (d *Deployment) Since(of func(node int) Trust, now time.Duration) time.Duration {
	debut := d.Debut()
	if debut && d.Founds {
		return now - d.Need
	}
	at := of(0).Began(debut)
	for i := range d.nodes {
		at = max(at, of(i).Began(debut))
	}
	return at
}

// Proof returns what a look at a node means for what is known of its past: the
// seal of another deployment than the one that this client is bound to is none.
func (d *Deployment) Proof(s Sighting) Sighting {
	if who := s.Identity(); s.What == SealSeen && (d.replaces(who) || d.bound != "" && who.ID != d.bound) {
		s.What = SealAbsent
	}
	return s
}

// Vouches reports whether this client can state in the seals of a deployment
// how long it has watched the nodes: not before it is bound to it, since what it
// watched before is no proof there.
func (d *Deployment) Vouches(who Identity) bool { return d.bound != "" && who.ID == d.bound }

// Rebound reports, once, that the nodes have turned out to belong to a
// deployment that another client opened. What was watched before proves nothing
// for it (Trust.Joins, and Sight with what was Seen).
func (d *Deployment) Rebound() bool {
	was := d.rebound
	d.rebound = false
	return was
}

// Seen returns the last look at a node that told anything.
func (d *Deployment) Seen(node int) Sighting { return d.nodes[node].seen }

// Join is the end of a node's way up: it gets commands.
func (d *Deployment) Join(node int) { d.nodes[node].up = true }

// Part is the end of a node's connection. What was seen stays: another
// deployment's node is one until it is looked at again.
func (d *Deployment) Part(node int) {
	n := &d.nodes[node]
	n.up, n.looked, n.busy, n.held, n.stale = false, false, false, false, false
	// A node that has accepted the proposal must still get the lock.
	if o := &d.opening; o.asked>>node&1 == 1 && (o.stage == Propose || o.yes>>node&1 == 0) {
		o.lost = true
	}
}

// Sight is a look at a node, which was asked for at the given time.
func (d *Deployment) Sight(node int, s Sighting, asked, now time.Duration) {
	n := &d.nodes[node]
	n.stale, n.held = false, false
	if s.What == Unreadable {
		return
	}
	if s.Opening != n.seen.Opening {
		n.since = now
	}
	if !n.looked {
		n.first = now
	}
	n.seen, n.looked, n.asked = s, true, asked
	if who := s.Identity(); who != (Identity{}) {
		n.was, n.of = who.ID, who.Members
	}
	d.bind()
}

// Answer is a node's answer to an order. If it did not do it, something is
// there that this client has not seen.
func (d *Deployment) Answer(node int, o Order, done bool) {
	n := &d.nodes[node]
	n.stale = n.stale || !done
	if mine := &d.opening; o.Identity == mine.who && o.Verb == mine.stage {
		if done {
			mine.yes |= 1 << node
		} else {
			mine.no = true
		}
	} else {
		n.busy = false
	}
	switch {
	case !done:
	case o.Verb == Undo && o.Identity == n.seen.Opening.Identity:
		n.seen.Opening = Opening{}
	case o.Verb == Confirm || o.Verb == Adopt:
		n.seen = Sighting{What: SealSeen, Seal: Seal{Identity: o.Identity}} // the rest takes a look
		n.was, n.of = o.Identity.ID, o.Identity.Members
	}
	d.bind()
}

// mostEarlier bounds what is kept of earlier deployments: 64 ids.
const mostEarlier = 64 * 32

// bind notes which deployment a quorum of the nodes shows.
func (d *Deployment) bind() {
	if who, bound := d.Identity(); bound && who.ID != d.bound {
		d.belong(who.ID)
		d.rebound = true
	}
}

func (d *Deployment) belong(id string) {
	d.earlier = (d.bound + d.earlier)[:min(len(d.bound+d.earlier), mostEarlier)]
	d.bound = id
}

// Drop is an order that a node could not carry out for a passing reason.
func (d *Deployment) Drop(node int, o Order) {
	d.nodes[node].busy, d.nodes[node].held = false, true
	if mine := &d.opening; o.Identity == mine.who && o.Verb == mine.stage {
		mine.lost = true
	}
}

// Identity returns the deployment that the nodes show, and whether a quorum
// does. It is zero if none does, or if they show several (Rivals).
func (d *Deployment) Identity() (who Identity, bound bool) {
	if _, _, ok := d.Rivals(); ok {
		return Identity{}, false
	}
	shown := 0
	for i := range d.nodes {
		if is := d.identity(i); is != (Identity{}) {
			who = is
			shown++
		}
	}
	return who, shown >= len(d.nodes)/2+1
}

// identity returns what a node shows; zero for a deployment that is to be
// replaced.
func (d *Deployment) identity(node int) Identity {
	who := d.nodes[node].seen.Identity()
	if d.replaces(who) {
		return Identity{}
	}
	return who
}

func (d *Deployment) replaces(who Identity) bool {
	for _, id := range d.Replaces {
		if id == who.ID {
			return true
		}
	}
	return false
}

// Rivals returns two nodes that belong to different deployments, or one twice
// if its deployment has another number of nodes than this client's. Then this
// client must not count any vote. A node that is locked for a deployment may
// belong to it already, as far as others have seen.
func (d *Deployment) Rivals() (node, other int, ok bool) {
	first := -1
	for i := range d.nodes {
		who := d.identity(i)
		switch {
		case who == Identity{}:
		case who.Nodes != len(d.nodes):
			return i, i, true
		case first < 0:
			first = i
		case who != d.identity(first):
			return i, first, true
		}
	}
	for i := range d.nodes {
		opening := d.nodes[i].seen.Opening
		if first >= 0 && opening.Stage == Locked && opening.Identity != d.identity(first) && !d.replaces(opening.Identity) {
			return i, first, true
		}
	}
	return 0, 0, false
}

// Claim returns the deployment that a node was last seen in, or locked for.
func (d *Deployment) Claim(node int) Identity {
	if s := d.nodes[node].seen; s.Identity() == (Identity{}) && s.Opening.Stage == Locked {
		return s.Opening.Identity
	}
	return d.Shown(node)
}

// Shown returns the deployment that a node was last seen in.
func (d *Deployment) Shown(node int) Identity { return d.Seen(node).Identity() }

// Opening reports whether this client is opening the set.
func (d *Deployment) Opening() bool { return d.opening.stage != Nothing }

// Debut reports whether the set is opened, or would be now, with no seal of any
// form on any node (R29).
func (d *Deployment) Debut() bool {
	if d.Opening() {
		return d.opening.debut
	}
	return d.all(func(i int) bool { return d.nodes[i].seen.What == SealAbsent })
}

// RivalsAsked returns when the older of the looks that found the rivals began.
func (d *Deployment) RivalsAsked() time.Duration {
	node, other, _ := d.Rivals()
	return min(d.nodes[node].asked, d.nodes[other].asked)
}

// Counts reports whether a node's votes may count, as far as its deployment is
// concerned.
func (d *Deployment) Counts(node int) bool {
	who, bound := d.Identity()
	return bound && d.nodes[node].looked && d.identity(node) == who
}

// A Berth says why a node's votes do not count.
type Berth uint8

// What keeps votes from counting.
const (
	BerthCounts   Berth = iota
	BerthRivals         // the nodes belong to several deployments
	BerthStranger       // the node is free, and the deployment does not list it
	BerthOpening        // another client is about to open a set with the node
	BerthUnread         // the seal cannot be read
	BerthStrange        // the key of the seal or of the opening holds something else
	BerthUnopened       // the set has not been opened, for which all nodes are needed
	BerthAdopts         // the seal is being written
)

// Berth returns why a node that is up does not count.
func (d *Deployment) Berth(node int) Berth {
	n := &d.nodes[node]
	who, bound := d.Identity()
	_, _, rivals := d.Rivals()
	switch {
	case rivals:
		return BerthRivals
	case !n.looked:
		return BerthUnread
	case n.seen.What == SealStrange:
		return BerthStrange
	case who != Identity{} && n.seen.Free() && !d.knows(who, n):
		return BerthStranger
	case n.seen.Opening.Stage != NoOpening && n.seen.Opening.Identity != d.opening.who:
		return BerthOpening
	case who == Identity{} || !bound && d.identity(node) == who:
		return BerthUnopened
	case d.identity(node) != who:
		return BerthAdopts
	}
	return BerthCounts
}

// Pending reports whether a node's votes will count as soon as a quorum shows
// the same deployment as this node.
func (d *Deployment) Pending(node int) bool {
	who, bound := d.Identity()
	return !bound && who != (Identity{}) && d.nodes[node].looked && d.identity(node) == who
}

// Open reports whether it shows in a moment if a node's votes may count: this
// client or another waits for answers that decide it.
func (d *Deployment) Open(node int, now time.Duration) bool {
	switch d.Berth(node) {
	case BerthAdopts, BerthOpening, BerthUnread:
		return true
	case BerthUnopened:
		return d.all(func(i int) bool { return d.nodes[i].up }) && d.Settles(now) == 0
	}
	return false
}

// knows reports whether a node that shows nothing is a member of a deployment.
func (d *Deployment) knows(who Identity, n *berth) bool { return who.Lists(n.name) || n.was == who.ID }
