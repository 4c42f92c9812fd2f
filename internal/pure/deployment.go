package pure

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Deployment is what one client knows of the deployment of its nodes. It
// decides what the client does to make all of them belong to the same
// deployment (R30). Each node carries its own id, and the identity of its
// deployment, in its seal. The client counts votes only while a quorum of its
// nodes shows the same identity, no node shows another, and the identity has as
// many nodes as the client.
//
// Without any identity in a set, the client opens it; see Next. To a node that
// later loses its keys, any client that knows it as a member writes the
// identity again.
//
// NewDeployment makes a Deployment. Born, Join, Part, Sight, Answer, Elsewhere
// and Drop are events. Next returns what to do, and Wait when to call Next
// again. The other methods return what is known. Only one goroutine at a time
// may call a method.
type Deployment struct {
	// Founds is set by a client that only opens the set (Init): it does not
	// adopt nodes, but for those of Replaces.
	Founds bool
	// Replaces lists deployments of the past. Their seals count as absent.
	Replaces []string

	// MaxTTL is that of this client. A node whose seal says another is not
	// adopted. Zero accepts any.
	MaxTTL time.Duration

	// Need is how long this client must have watched a node, and Drift how much
	// clocks may differ; see NeedFor.
	Need  time.Duration
	Drift float64

	// Opened is the id of the last deployment that this client wrote the first
	// seal of, as far as it knows.
	Opened string

	// bound is the id last shown by a quorum of the nodes, or of the set that
	// this client has begun to open.
	bound  string
	begins bool // the order for the first seal of that set is under way
	news   struct{ rebound, opens bool }
	nodes  []nodeView
}

// A nodeView is what is known of one node.
type nodeView struct {
	name   string // see NameOf
	up     bool   // it is connected
	looked bool   // seen is from this connection
	// seen is the last look that could read the node, perhaps over an
	// earlier connection. asked is the time of that request.
	seen      Sighting
	asked     time.Duration
	firstLook time.Duration // when this connection's first look was answered, or 0
	changed   time.Duration // when its seat last changed
	outdated  bool          // it must be looked at again
	failed    bool          // an order failed: no other before the next look
	refused   int           // orders that it refused one after the other
	checked   string        // the set for which its other databases were looked at
	pending   bool          // an order is under way
	other     Other         // what another of its databases belongs to
	last      Seal          // that it was last seen to have, of an open deployment
	born      time.Duration // its process had started by then
}

// An Other is the deployment that another database of a node belongs to, by the
// same key. The zero Other is none.
type Other struct {
	DB int
	ID string
}

// known reports whether the node is up, and was looked at since.
func (n *nodeView) known() bool { return n.up && n.looked }

// ready reports whether the node can be sent an order.
func (n *nodeView) ready() bool { return n.known() && !n.pending && !n.failed }

// NewDeployment returns the Deployment of nodes with these names, of which
// nothing is known; see NameOf.
func NewDeployment(names []string) Deployment {
	d := Deployment{nodes: make([]nodeView, len(names))}
	for i, name := range names {
		d.nodes[i].name = name
	}
	return d
}

// Born records the latest time at which a node's process can have started.
func (d *Deployment) Born(node int, at time.Duration) { d.nodes[node].born = at }

// Join records that the node gets commands.
func (d *Deployment) Join(node int) { d.nodes[node].up = true }

// Part records that the node's connection ended. What was seen stays: a node of
// another deployment counts as such until it is looked at again.
func (d *Deployment) Part(node int) {
	n := &d.nodes[node]
	if n.pending {
		d.begun(false)
	}
	n.up, n.looked, n.pending, n.failed, n.outdated, n.firstLook, n.checked = false, false, false, false, false, 0, ""
}

// Sight records the result of a look that was requested at asked.
func (d *Deployment) Sight(node int, s Sighting, asked, now time.Duration) {
	n := &d.nodes[node]
	if n.failed {
		n.refused = 0
	}
	n.outdated, n.failed = false, false
	if s.What == Unreadable {
		return
	}
	if n.firstLook == 0 {
		n.firstLook = max(now, 1)
	}
	n.looked, n.asked = true, asked
	d.see(node, s, now)
}

// see records what a node shows.
func (d *Deployment) see(node int, s Sighting, now time.Duration) {
	n := &d.nodes[node]
	is, was := s.Seal.Seat, n.seen.Seal.Seat
	if is != was {
		n.changed = now
	}
	if was.Member != "" && is.Member != "" && is.Member != was.Member && is.Open == (Identity{}) {
		// Older looks at the others may be of the time before. (Found by
		// testdata/model, lists-stale.)
		for i := range d.nodes {
			d.nodes[i].outdated = d.nodes[i].outdated || i != node && d.open(i) == Identity{}
		}
	}
	if d.valid(s.Seal.Open) != (Identity{}) {
		n.other = Other{} // who wrote that has looked at the databases
	}
	n.seen = s
	if s.Seal.Open != (Identity{}) {
		n.last = s.Seal
	}
	d.bind()
}

// belong records that this client is bound to a deployment. Its earlier one is
// no other set's; see Former.
func (d *Deployment) belong(id string) {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.last.Open.ID == d.bound {
			n.last = Seal{}
		}
	}
	d.bound = id
}

// mostRefused is how many orders of one opening other clients of the set may
// make vain at a node: to name, to list and to seal it.
const mostRefused = 3

// Answer records a node's answer to an order. A node that did not carry it out
// holds something this client has not seen, and is looked at at once. After
// some refusals that waits until it is due (R33). Only a node that becomes a
// member begins anew: a liar may take one order and refuse the next.
func (d *Deployment) Answer(node int, o Order, done bool, now time.Duration) {
	n := &d.nodes[node]
	n.pending = false
	if o.Was != o.Is {
		if d.begins && !done {
			d.Opened = ""
		}
		d.begun(done)
	}
	if done {
		n.other, n.checked = Other{}, o.Is.Set().ID
		if o.Was != o.Is && d.valid(o.Is.Open) != (Identity{}) {
			n.refused = 0
		}
	}
	switch {
	case done && o.Was == o.Is:
		n.seen.Seal.Names = n.seen.Seal.Names.And(o.Names)
	case done:
		// What the seal says besides, the next look will tell.
		d.see(node, Sighting{What: SealSeen, Seal: Seal{Seat: o.Is, Names: o.Names}}, now)
	default:
		n.refused++
		n.failed, n.outdated = n.refused > mostRefused, n.refused <= mostRefused
	}
}

var errElsewhere = errors.New("no database and deployment")

// Elsewhere records that a node did not carry out an order: by its text,
// another of its databases belongs to a deployment. A master belongs to a
// deployment with one database. The order is tried again later.
func (d *Deployment) Elsewhere(node int, text string) error {
	number, id, _ := strings.Cut(text, " ")
	db, err := strconv.ParseUint(number, 10, 31)
	if err != nil || !hasDigits(id, idDigits, hexDigits) {
		return errElsewhere
	}
	d.nodes[node].other = Other{int(db), id}
	d.Drop(node)
	return nil
}

// Drop records that a node could not carry out an order for a temporary reason.
func (d *Deployment) Drop(node int) {
	d.begun(false)
	d.nodes[node].pending, d.nodes[node].failed = false, true
}

// begun records whether the first seal of a set was written. If not, another
// client may open the set. Then what this one has watched proves nothing (R29).
func (d *Deployment) begun(done bool) {
	if !d.begins {
		return
	}
	d.begins = false
	if !done {
		d.bound = ""
	}
	d.bind()
}

// bind records what a quorum shows.
func (d *Deployment) bind() {
	if who, bound := d.Identity(); bound && who.ID != d.bound {
		d.belong(who.ID)
		d.news.rebound = true
	}
}

// Rebound reports, once, that the nodes turned out to belong to another
// client's deployment. What this client watched before proves nothing there:
// call Trust.Joins for each node.
func (d *Deployment) Rebound() bool {
	was := d.news.rebound
	d.news.rebound = false
	return was
}

// Opens reports, once, that this client is about to write the first seals of
// the set: call Trust.Opens for each node.
func (d *Deployment) Opens() bool {
	was := d.news.opens
	d.news.opens = false
	return was
}

// Since returns since when all nodes count as watched in a set opened by this
// client: the start of the last of them, see Trust.Began. That node may be the
// empty successor of a member of another set, with locks unknown to the other
// nodes (R29). A client that founds a new set asserts that no lock is held. One
// that replaces deployments does not: their locks may have been set just now.
func (d *Deployment) Since(of func(node int) Trust, now time.Duration) time.Duration {
	debut := d.Debut()
	switch {
	case len(d.Replaces) > 0:
		return now // the locks of those deployments may be young
	case debut && d.Founds:
		return now - d.Need
	}
	at := of(0).Began(debut)
	for i := range d.nodes {
		at = max(at, of(i).Began(debut))
	}
	return at
}

// Debut reports whether no node shows a deployment, as far as was seen (R29).
func (d *Deployment) Debut() bool {
	return d.all(func(i int) bool { return d.nodes[i].seen.What != SealStrange && d.Shown(i) == Identity{} })
}

// Proof returns a look as Trust.Sight takes it: a seal of another deployment
// than the one that this client is bound to counts as absent, and so does one
// without a deployment.
func (d *Deployment) Proof(s Sighting) Sighting {
	who := s.Identity()
	if s.What == SealSeen && (d.void(who) || d.bound != "" && who.ID != d.bound) {
		s.What = SealAbsent
	}
	return s
}

// Vouches reports whether the seals of a deployment may say how long this
// client has watched the nodes: only once it is bound to it, since what it
// watched before proves nothing there.
func (d *Deployment) Vouches(who Identity) bool { return d.bound != "" && who.ID == d.bound }

// Renews reports whether this client may write over a seal of the deployment
// how long it has watched: not before it knows who wrote the first one.
func (d *Deployment) Renews(who Identity) bool { return d.Vouches(who) && !d.begins }

// Seen returns the last look that could read the node, perhaps over an earlier
// connection.
func (d *Deployment) Seen(node int) Sighting { return d.nodes[node].seen }

// Shown returns the deployment that a node was last seen in.
func (d *Deployment) Shown(node int) Identity { return d.Seen(node).Identity() }

// Other returns a node with another database in a deployment, and that one.
func (d *Deployment) Other() (node int, other Other, ok bool) {
	for i := range d.nodes {
		if n := &d.nodes[i]; n.other != (Other{}) && d.open(i) == (Identity{}) {
			return i, n.other, true
		}
	}
	return 0, Other{}, false
}

// Identity returns the deployment shown by the nodes, and whether a quorum
// shows it. It is zero for none, and for several (Rivals). While this client
// begins to open the set, it does not know whose deployment that is.
func (d *Deployment) Identity() (who Identity, bound bool) {
	if _, _, ok := d.Rivals(); ok {
		return Identity{}, false
	}
	shown := 0
	for i := range d.nodes {
		if is := d.open(i); is != (Identity{}) && !d.twin(i) {
			who = is
			shown++
		}
	}
	return who, shown >= len(d.nodes)/2+1 && !d.begins
}

// open returns the deployment that a node shows. It is zero for a replaced one.
func (d *Deployment) open(node int) Identity { return d.valid(d.nodes[node].seen.Seal.Open) }

// listed returns the set that is about to be opened with a node.
func (d *Deployment) listed(node int) Identity { return d.valid(d.nodes[node].seen.Seal.Listed) }

func (d *Deployment) valid(who Identity) Identity {
	if d.void(who) {
		return Identity{}
	}
	return who
}

// void reports whether an identity is none, or replaced.
func (d *Deployment) void(who Identity) bool {
	return who == Identity{} || slices.Contains(d.Replaces, who.ID)
}

// shows reports whether this connection's look has found this deployment.
func (d *Deployment) shows(node int, who Identity) bool {
	return d.nodes[node].looked && d.open(node) == who
}

// Present reports whether any node shows a deployment at the moment.
func (d *Deployment) Present(who Identity) bool {
	return !d.all(func(i int) bool { return !d.shows(i, who) })
}

// remembers reports whether a deployment lives on in this client alone: it is
// bound to it, and a quorum of its nodes are up, and free. Those with seals are
// down, perhaps for ever.
func (d *Deployment) remembers(who Identity) bool {
	up := 0
	for i := range d.nodes {
		// What a node was in since is not forgotten with its seal.
		if n := &d.nodes[i]; n.known() && d.free(i) && (n.last.Open == who || n.last.Open == Identity{}) {
			up++
		}
	}
	return d.bound == who.ID && up > len(d.nodes)/2
}

// twin reports whether an earlier node has the same id: this client names one
// master twice, or one was made a copy of the other. Their votes are one, also
// while the other is down, and no set is opened with both.
func (d *Deployment) twin(node int) bool {
	is := d.nodes[node].seen.Seal.Member
	for i := range node {
		if is != "" && d.nodes[i].seen.Seal.Member == is {
			return true
		}
	}
	return false
}

// Rivals returns two nodes that belong to different deployments. For a
// deployment of another size than this client's, it returns the same node
// twice. This client must then not count any vote. A node that is listed for
// a set counts as a member of it: others may already have seen its seal.
func (d *Deployment) Rivals() (node, other int, ok bool) {
	first := -1
	for i := range d.nodes {
		who := d.open(i)
		switch {
		case who == Identity{}:
		case who.Nodes() != len(d.nodes):
			return i, i, true
		case first < 0:
			first = i
		case who != d.open(first):
			return i, first, true
		}
	}
	if first < 0 {
		return 0, 0, false
	}
	for i := range d.nodes {
		if who := d.listed(i); who != (Identity{}) && who != d.open(first) {
			return i, first, true
		}
	}
	return 0, 0, false
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
	return bound && d.shows(node, who) && !d.twin(node)
}

// Pending reports whether a node's votes will count as soon as a quorum shows
// the same deployment as this node.
func (d *Deployment) Pending(node int) bool {
	who, bound := d.Identity()
	return !bound && who != (Identity{}) && d.shows(node, who) && !d.twin(node)
}

// Busy reports whether an order is under way.
func (d *Deployment) Busy() bool {
	return slices.ContainsFunc(d.nodes, func(n nodeView) bool { return n.pending })
}

// A Berth says why a node's votes do not count.
type Berth uint8

// What keeps votes from counting. BerthStrange means that the key of the seal
// holds something else. BerthUnopened means that the set is not open; opening
// it needs all nodes.
const (
	BerthCounts   Berth = iota // nothing
	BerthRivals                // the nodes belong to several deployments
	BerthStranger              // a free node that the deployment does not list
	BerthTwin                  // another node is the same member
	BerthOpening               // another client is about to open a set with it
	BerthUnread                // the seal cannot be read
	BerthStrange
	BerthElsewhere // another of its databases belongs to a deployment
	BerthUnopened
	BerthAdopts // the seal is being written
	BerthLeft   // a member without a seal, which this client must not write now
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
	case d.open(node) == Identity{} && (n.other != Other{} || n.seen.Free() && who == Identity{} && elsewhere):
		return BerthElsewhere
	case who != Identity{} && d.free(node) && d.memberOf(who, node) == "":
		return BerthStranger
	case d.twin(node):
		return BerthTwin
	case d.Opening(node) != "":
		return BerthOpening
	case who == Identity{} || !bound && d.open(node) == who:
		return BerthUnopened
	case n.seen.Free() && (d.Founds || !d.agrees() || !d.Present(who) && !d.remembers(who)):
		return BerthLeft
	case d.open(node) != who:
		return BerthAdopts
	}
	return BerthCounts
}

// Nameless reports whether a node counts, but would not be known as a member by
// this client's name for it: that is another member's, too, or one too many.
func (d *Deployment) Nameless(node int) bool {
	s, name := d.nodes[node].seen.Seal, d.nodes[node].name
	return d.Counts(node) && s.Names.Member(name) != s.Member && !s.Names.Lacks(s.Member, name)
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

// memberOf returns as which member a deployment knows a node without one: by
// its name, or because it was seen there. Another node must not be that member.
func (d *Deployment) memberOf(who Identity, node int) string {
	n := &d.nodes[node]
	member := d.agreed(who).Member(n.name)
	if n.last.Open == who {
		member = n.last.Member
	}
	for i := range d.nodes {
		if d.open(i) == who && d.nodes[i].seen.Seal.Member == member {
			return ""
		}
	}
	return member
}

// agreed returns the names that most nodes of a deployment know. What one of
// several says alone may be a lie (R33).
func (d *Deployment) agreed(who Identity) (names Names) {
	nodes, said := 0, make(map[[2]string]int)
	for i := range d.nodes {
		if d.open(i) == who {
			nodes++
			for member, name := range Names("").And(d.nodes[i].seen.Seal.Names).entries {
				said[[2]string{member, name}]++
			}
		}
	}
	for i := range d.nodes {
		for member, name := range d.nodes[i].seen.Seal.Names.entries {
			if 2*said[[2]string{member, name}] > nodes {
				names = names.With(member, name)
			}
		}
	}
	return names
}

// Opening returns the id of another set that is about to be opened with a node,
// or that a client has left so at its death; otherwise "".
func (d *Deployment) Opening(node int) string {
	who := d.listed(node)
	if who == (Identity{}) || who == d.set() || d.lists(d.Seen(node).Seal) {
		return ""
	}
	return who.ID
}

// lists reports whether a seal's set is just this client's nodes, by their
// names.
func (d *Deployment) lists(s Seal) bool {
	seen := make(map[string]bool)
	for i := range d.nodes {
		seen[s.Names.Member(d.nodes[i].name)] = true
	}
	return !seen[""] && len(seen) == len(d.nodes) && s.Set().Nodes() == len(d.nodes)
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
