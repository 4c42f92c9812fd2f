package pure

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Deployment is what one client knows of the deployment of its nodes. It
// decides what the client does to make all of them belong to the same
// deployment (R30). Each node carries the identity of its deployment in its
// seal. The client counts votes only while a quorum of its nodes shows the same
// identity, no node shows another, and the identity has as many nodes as the
// client.
//
// Without any identity in a set, the client opens it in three steps. Every node
// confirms each. The client proposes a new identity to all nodes; a proposal
// expires by itself. Once all have accepted it, the client locks all of them
// for it. Once all have confirmed that, it writes the seals. A node accepts
// only one identity at a time. So a seal with an identity exists only after
// each node of the set was locked for it at one time. Of two overlapping sets
// only one can be opened. To a node that later loses its keys, any client that
// knows it as a member writes the identity again.
//
// NewDeployment makes a Deployment. Born, Join, Part, Sight, Answer, Drop and
// Quit are events. Next returns what to do, and Wait when to call Next again.
// The other methods return what is known. Only one goroutine at a time may call
// a method.
type Deployment struct {
	// Founds is set by a client that only opens the set (Init): it does not
	// adopt nodes.
	Founds bool
	// Replaces lists deployments of the past. Their seals and openings
	// count as absent.
	Replaces []string

	// MaxTTL is that of this client. A node whose seal says another is not
	// adopted. Zero accepts any.
	MaxTTL time.Duration

	// Need is how long this client must have watched a node, and Drift how much
	// clocks may differ; see NeedFor.
	Need  time.Duration
	Drift float64

	// Opened is the id of the last deployment opened by this client.
	Opened string

	members string // of this client's set
	// bound is the id last shown by a quorum of the nodes, or locked by
	// this client on all of them since.
	bound   string
	earlier string // the ids that were bound before, concatenated
	rebound bool   // another client opened it, see Rebound
	nodes   []nodeView
	opening attempt
}

// A nodeView is what is known of one node.
type nodeView struct {
	name   string // see MemberOf
	up     bool   // it is connected
	looked bool   // seen is from this connection
	// seen is the last look that could read the node, perhaps over an
	// earlier connection. asked is the time of that request.
	seen        Sighting
	asked       time.Duration
	firstLook   time.Duration // when this connection's first look was answered
	changed     time.Duration // when its opening last changed
	outdated    bool          // it must be looked at again
	failed      bool          // an order failed: no other before the next look
	pending     bool          // an order outside of the opening is under way
	other       Other         // what another of its databases belongs to
	lastID      string        // of the deployment that it was last seen in
	lastMembers string        // of that deployment
	born        time.Duration // its process had started by then
}

// An Other is the deployment that another database of a node belongs to, by the
// same keys. The zero Other is none.
type Other struct {
	DB       int
	Identity Identity
}

// An attempt is this client's attempt to open its set.
type attempt struct {
	stage Verb // Propose, Lock or Confirm; Nothing if there is no attempt
	who   Identity
	begun time.Duration
	asked Set           // nodes that the stage's order was sent to
	yes   Set           // those of them that confirmed it
	no    bool          // a node refused it
	lost  bool          // a node will not answer
	debut bool          // no node had a seal of any form
	pause time.Duration // the earliest time for another attempt
	delay time.Duration // the length of the last pause
}

// has reports whether an order is one of the attempt's present stage.
func (a *attempt) has(o Order) bool { return o.Identity == a.who && o.Verb == a.stage }

// known reports whether the node is up, and was looked at since.
func (n *nodeView) known() bool { return n.up && n.looked }

// ready reports whether the node can be sent an order outside of an opening.
func (n *nodeView) ready() bool { return n.known() && !n.pending && !n.failed }

// NewDeployment returns the Deployment of nodes with these addresses, of which
// nothing is known.
func NewDeployment(addrs []string) Deployment {
	d := Deployment{members: MembersOf(addrs), nodes: make([]nodeView, len(addrs))}
	for i, addr := range addrs {
		d.nodes[i].name = MemberOf(addr)
	}
	return d
}

// Born records the latest time at which a node's process can have started.
func (d *Deployment) Born(node int, at time.Duration) { d.nodes[node].born = at }

// Since returns since when all nodes count as watched in a set opened by this
// client: the start of the last of them, see Trust.Began. That node may be the
// empty successor of a member of another set, with locks unknown to the other
// nodes (R29). A client that founds a new set asserts that no lock is held. One
// that replaces deployments does not: their locks may have been set just now.
func (d *Deployment) Since(of func(node int) Trust, now time.Duration) time.Duration {
	debut := d.Debut()
	switch {
	case len(d.Replaces) > 0:
		return now
	case debut && d.Founds:
		return now - d.Need
	}
	at := of(0).Began(debut)
	for i := range d.nodes {
		at = max(at, of(i).Began(debut))
	}
	return at
}

// Proof returns a look as Trust.Sight takes it: a seal of another deployment
// than the one that this client is bound to counts as absent.
func (d *Deployment) Proof(s Sighting) Sighting {
	if who := s.Identity(); s.What == SealSeen && (d.replaces(who) || d.bound != "" && who.ID != d.bound) {
		s.What = SealAbsent
	}
	return s
}

// Vouches reports whether the seals of a deployment may say how long this
// client has watched the nodes: only once it is bound to it, since what it
// watched before proves nothing there.
func (d *Deployment) Vouches(who Identity) bool { return d.bound != "" && who.ID == d.bound }

// Rebound reports, once, that the nodes turned out to belong to another
// client's deployment. What this client watched before proves nothing there:
// call Trust.Joins for each node.
func (d *Deployment) Rebound() bool {
	was := d.rebound
	d.rebound = false
	return was
}

// Seen returns the last look that could read the node, perhaps over an earlier
// connection.
func (d *Deployment) Seen(node int) Sighting { return d.nodes[node].seen }

// Join records that the node gets commands.
func (d *Deployment) Join(node int) { d.nodes[node].up = true }

// Part records that the node's connection ended. What was seen stays: a node of
// another deployment counts as such until it is looked at again.
func (d *Deployment) Part(node int) {
	n := &d.nodes[node]
	n.up, n.looked, n.pending, n.failed, n.outdated = false, false, false, false, false
	// A node that accepted the proposal must still be locked.
	if o := &d.opening; o.asked.Has(node) && (o.stage == Propose || !o.yes.Has(node)) {
		o.lost = true
	}
}

// Sight records the result of a look that was requested at asked.
func (d *Deployment) Sight(node int, s Sighting, asked, now time.Duration) {
	n := &d.nodes[node]
	n.outdated, n.failed = false, false
	if s.What == Unreadable {
		return
	}
	if s.Opening != n.seen.Opening {
		n.changed = now
	}
	if !n.looked {
		n.firstLook = now
	}
	n.seen, n.looked, n.asked = s, true, asked
	if who := s.Identity(); who != (Identity{}) {
		n.lastID, n.lastMembers = who.ID, who.Members
	}
	d.bind()
}

// Answer records a node's answer to an order. A node that did not holds
// something this client has not seen.
func (d *Deployment) Answer(node int, o Order, done bool) {
	n := &d.nodes[node]
	n.outdated = n.outdated || !done
	switch mine := &d.opening; {
	case !mine.has(o):
		n.pending = false
	case done:
		mine.yes = mine.yes.Add(node)
	default:
		mine.no = true
	}
	if done {
		n.other = Other{}
	}
	switch {
	case !done:
	case o.Verb == Undo && o.Identity == n.seen.Opening.Identity:
		n.seen.Opening = Opening{}
	case o.Verb == Confirm || o.Verb == Adopt:
		// What the seal says besides, the next look will tell.
		n.seen = Sighting{What: SealSeen, Seal: Seal{Identity: o.Identity}}
		n.lastID, n.lastMembers = o.Identity.ID, o.Identity.Members
	}
	d.bind()
}

// mostEarlier bounds what is kept of earlier deployments: 64 ids.
const mostEarlier = 64 * 32

// bind records which deployment a quorum of the nodes shows.
func (d *Deployment) bind() {
	if who, bound := d.Identity(); bound && who.ID != d.bound {
		d.belong(who.ID)
		d.rebound = true
	}
}

// belong records that this client is bound to a deployment.
func (d *Deployment) belong(id string) {
	d.earlier = (d.bound + d.earlier)[:min(len(d.bound+d.earlier), mostEarlier)]
	d.bound = id
}

// Elsewhere records that a node did not carry out an order: by its text,
// another of its databases belongs to a deployment. A master belongs to a
// deployment with one database. The order is tried again later.
func (d *Deployment) Elsewhere(node int, o Order, text string) error {
	number, rest, _ := strings.Cut(text, " ")
	db, err := strconv.ParseUint(number, 10, 31)
	who, rest, err2 := parseIdentity(rest, "")
	if err != nil || err2 != nil || rest != "" {
		return errSeal
	}
	d.nodes[node].other = Other{int(db), who}
	if o.Verb == Propose {
		d.Answer(node, o, false)
	} else {
		d.Drop(node, o)
	}
	return nil
}

// Other returns a node with another database in a deployment, and that one.
func (d *Deployment) Other() (node int, other Other, ok bool) {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.other != (Other{}) && n.seen.Free() {
			return i, n.other, true
		}
	}
	return 0, Other{}, false
}

// Drop records that a node could not carry out an order for a temporary reason.
func (d *Deployment) Drop(node int, o Order) {
	d.nodes[node].pending, d.nodes[node].failed = false, true
	if mine := &d.opening; mine.has(o) {
		mine.lost = true
	}
}

// Identity returns the deployment shown by the nodes, and whether a quorum
// shows it. It is zero for none, and for several (Rivals).
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

// identity returns what a node shows. It is zero for a replaced deployment.
func (d *Deployment) identity(node int) Identity {
	who := d.nodes[node].seen.Identity()
	if d.replaces(who) {
		return Identity{}
	}
	return who
}

// shows reports whether this connection's look has found this deployment.
func (d *Deployment) shows(node int, who Identity) bool {
	return d.nodes[node].looked && d.identity(node) == who
}

func (d *Deployment) replaces(who Identity) bool { return slices.Contains(d.Replaces, who.ID) }

// void reports whether an identity is none, or replaced.
func (d *Deployment) void(who Identity) bool { return who == (Identity{}) || d.replaces(who) }

// Rivals returns two nodes that belong to different deployments. For a
// deployment of another size than this client's, it returns the same node
// twice. This client must then not count any vote. A node that is locked for a
// deployment counts as a member of it: others may already have seen its seal.
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
	if first < 0 {
		return 0, 0, false
	}
	for i := range d.nodes {
		switch opening := d.nodes[i].seen.Opening; {
		case opening.Stage != Locked, opening.Identity == d.identity(first), d.replaces(opening.Identity):
		default:
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

// Opener returns the deployment that another client is, or was at its death,
// about to open with a node; zero for none.
func (d *Deployment) Opener(node int) Identity {
	if o := d.nodes[node].seen.Opening; o.Stage != NoOpening && o.Identity != d.opening.who {
		return o.Identity
	}
	return Identity{}
}

// Shown returns the deployment that a node was last seen in.
func (d *Deployment) Shown(node int) Identity { return d.Seen(node).Identity() }

// Opening reports whether this client is opening the set.
func (d *Deployment) Opening() bool { return d.opening.stage != Nothing }

// Debut reports whether no node had a seal of any form at the beginning of this
// client's opening, or has one now, outside of an opening (R29).
func (d *Deployment) Debut() bool {
	if d.Opening() {
		return d.opening.debut
	}
	return d.all(func(i int) bool { return d.nodes[i].seen.What == SealAbsent })
}

// RivalsAsked returns the time of the earlier request of the two looks that
// found the rivals.
func (d *Deployment) RivalsAsked() time.Duration {
	node, other, _ := d.Rivals()
	return min(d.nodes[node].asked, d.nodes[other].asked)
}

// Counts reports whether a node's deployment allows its votes to count.
func (d *Deployment) Counts(node int) bool {
	who, bound := d.Identity()
	return bound && d.shows(node, who)
}

// A Berth says why a node's votes do not count.
type Berth uint8

// What keeps votes from counting. BerthStrange means that the key of the seal
// or of the opening holds something else. BerthUnopened means that the set is
// not open; opening it needs all nodes.
const (
	BerthCounts   Berth = iota // nothing
	BerthRivals                // the nodes belong to several deployments
	BerthStranger              // a free node that the deployment does not list
	BerthOpening               // another client is about to open a set with it
	BerthUnread                // the seal cannot be read
	BerthStrange
	BerthElsewhere // another of its databases belongs to a deployment
	BerthUnopened
	BerthAdopts // the seal is being written
)

// Berth returns why a node that is up does not count.
func (d *Deployment) Berth(node int) Berth {
	n := &d.nodes[node]
	who, bound := d.Identity()
	_, _, rivals := d.Rivals()
	_, _, elsewhere := d.Other()
	switch {
	case rivals:
		return BerthRivals
	case !n.looked:
		return BerthUnread
	case n.seen.What == SealStrange:
		return BerthStrange
	case n.seen.Free() && (n.other != Other{} || who == Identity{} && elsewhere):
		return BerthElsewhere
	case who != Identity{} && n.seen.Free() && !d.knows(who, n):
		return BerthStranger
	case d.Opener(node) != Identity{}:
		return BerthOpening
	case who == Identity{} || !bound && d.identity(node) == who:
		return BerthUnopened
	case d.identity(node) != who:
		return BerthAdopts
	}
	return BerthCounts
}

// Renamed reports whether a node belongs to this client's deployment under
// another address.
func (d *Deployment) Renamed(node int) bool {
	who, _ := d.Identity()
	return d.Counts(node) && !who.Lists(d.nodes[node].name)
}

// Pending reports whether a node's votes will count as soon as a quorum shows
// the same deployment as this node.
func (d *Deployment) Pending(node int) bool {
	who, bound := d.Identity()
	return !bound && who != (Identity{}) && d.shows(node, who)
}

// Open reports whether answers under way, to this client or another, will soon
// decide about a node's votes.
func (d *Deployment) Open(node int, now time.Duration) bool {
	switch d.Berth(node) {
	case BerthAdopts, BerthOpening, BerthUnread:
		return true
	case BerthUnopened:
		return d.all(func(i int) bool { return d.nodes[i].up }) && d.Settles(now) == 0
	}
	return false
}

// knows reports whether a node without a deployment is a member of this one: it
// is listed, or was seen in it.
func (d *Deployment) knows(who Identity, n *nodeView) bool {
	return who.Lists(n.name) || n.lastID == who.ID
}
