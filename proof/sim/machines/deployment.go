package machines

import (
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
)

// settle does what is to be done next so that the nodes belong to one
// deployment (R30), and makes the process's sets follow what is known of that.
// It must be called after each event of pure.Deployment.
func (p *process) settle() {
	if p.maxTTL == 0 || p.closed {
		return
	}
	d := &p.deployment
	if d.Rebound() && !p.world.broken.is(OwnWatchKept) {
		p.join()
	}
	for o := d.Next(p.now(), p.world.random.Uint64); o.Verb != pure.Nothing; o = d.Next(p.now(), p.world.random.Uint64) {
		if o.Verb == pure.Confirm && d.Opening() {
			p.openSet()
		}
		for i, m := range p.members {
			switch {
			case o.Nodes>>i&1 == 0 || !p.live.Has(i):
			case o.Verb == pure.Look:
				m.look()
			default:
				m.order(o)
			}
		}
	}
	p.judgeDeployment()
	due := max(d.Wait(p.now()), p.now()+pure.TickLeast)
	if p.due == due {
		return
	}
	p.due = due
	p.wake(due, func() {
		if p.due == due {
			p.settle()
		}
	})
}

// join forgets what was watched before the nodes belonged to the deployment
// that another process has opened (R29, R30).
func (p *process) join() {
	for i, m := range p.members {
		m.trust = m.trust.Joins(p.now())
		m.believe(p.deployment.Seen(i))
		m.judgeTrust()
	}
	p.world.report.Count("deployments joined", 1)
}

// openSet takes in, before the first seals of a set are written, since when its
// nodes count as watched (R29).
func (p *process) openSet() {
	since := p.deployment.Since(func(i int) pure.Trust { return p.members[i].trust }, p.now())
	for _, m := range p.members {
		own := m.trust.Began(p.deployment.Debut())
		switch {
		case p.world.broken.is(EachStartForItself):
			m.trust = m.trust.Opens(own, p.now())
		case !p.world.broken.is(OwnWatchKept) || !m.trust.At(p.now()).Trusted:
			m.trust = m.trust.Opens(since, p.now())
		}
		m.judgeTrust()
	}
	if p.deployment.Debut() && !p.founds {
		p.world.report.Count("uptimes believed", 1)
	}
}

// judgeDeployment notes which nodes show this process's deployment. A node that
// is not up is what it was, until it joins.
func (p *process) judgeDeployment() {
	strangers := p.strangers
	for i := range p.members {
		switch {
		case p.deployment.Counts(i):
			strangers &^= bit(i)
		case p.live.Has(i):
			strangers |= bit(i)
		}
	}
	_, _, p.rivals = p.deployment.Rivals()
	if p.strangers == strangers {
		return
	}
	p.strangers = strangers
	for _, m := range p.members {
		m.judgeTrust()
	}
	if p.founds && strangers == 0 {
		p.world.after(0, func() { p.world.founded(p) })
	}
}

// A glance is a look at a node's seal and opening, which takes a command for
// each; and at its record of fencing numbers, if the process has such.
type glance struct {
	sighting pure.Sighting
	record   string // of fencing numbers
	asked    time.Duration
}

// glanceAt sends the commands of a look.
func (m *member) glanceAt(purpose purpose) {
	g := &glance{asked: m.process.now()}
	if m.process.fenced {
		m.send(expected{purpose: purpose, cmd: &command{op: lookRecord}, glance: g})
	}
	m.send(expected{purpose: purpose, cmd: &command{op: lookSeal}, glance: g})
	m.send(expected{purpose: purpose, cmd: &command{op: lookOpening}, glance: g})
}

// read takes the reply to one of the commands, and reports whether it was the
// last.
func (g *glance) read(op operation, r reply) (complete bool) {
	switch {
	case op == lookRecord:
		g.record = r.record
	case r.kind != isOK:
		g.sighting.What = pure.Unreadable
	case op == lookOpening:
		g.sighting.Opening = r.mark.Opening
	case r.mark.Seal == (pure.Seal{}):
		g.sighting.What = pure.SealAbsent
	default:
		g.sighting.What, g.sighting.Seal = pure.SealSeen, r.mark.Seal
	}
	return op == lookOpening
}

// inspectAnswer handles the replies to the look before the join.
func (m *member) inspectAnswer(e expected, r reply) {
	if !e.glance.read(e.cmd.op, r) {
		return
	}
	m.date(r.clock)
	m.readClock(r.clock, e.glance.asked)
	m.looks = pure.FirstLooks(m.process.now())
	m.sight(e.glance)
	m.payEnds(false)
}

// date takes in what the server's process says of its start (R29).
func (m *member) date(clock time.Duration) {
	p := m.process
	unpromoted := !m.promoted || p.world.broken.is(UptimeOfPromoted)
	m.trust.Account = pure.Account{
		Believed: pure.Believed(m.run, unpromoted, p.wall.at(p.world.now)-clock),
		Uptime:   m.uptime, Dialed: m.dialedAt, Asked: m.met,
	}
	if p.world.broken.is(UptimeWithoutMargin) {
		m.trust.Account.Asked -= 2 * time.Second
	}
}

// sight takes in what a look found.
func (m *member) sight(g *glance) pure.Sighting {
	p, s := m.process, g.sighting
	m.shows(s.Seal.Identity)
	if s.What == pure.SealSeen && p.world.broken.is(SealOfAnother) {
		s.Seal.Run = m.trust.Run
	}
	p.misread(&s.Seal.Identity)
	m.believe(s)
	p.deployment.Born(m.index, m.trust.Born())
	p.deployment.Sight(m.index, s, g.asked, p.now())
	m.judgeTrust()
	p.settle()
	m.sightFloor(g)
	return s
}

// believe takes in what a look proves of the node's past.
func (m *member) believe(s pure.Sighting) {
	p := m.process
	before, proof := m.trust, p.deployment.Proof(s)
	m.trust = m.trust.Sight(proof, p.now())
	before.Account.Believed = false
	if m.trust.Trusted && !before.Sight(proof, p.now()).Trusted {
		p.world.report.Count("ages of seals believed", 1)
	}
}

// misread breaks the rules of Broken that concern other identities.
func (p *process) misread(who *pure.Identity) {
	switch {
	case *who == pure.Identity{}:
	case p.world.broken.is(RivalsIgnored):
		if p.believed == (pure.Identity{}) {
			p.believed = *who
			p.believed.Nodes = p.size
		}
		*who = p.believed
	case p.world.broken.is(StrangerAdopted):
		who.Members = pure.MembersOf(p.addrs())
	}
}

// looked handles the replies to a look: it may be time to write the seal.
func (m *member) looked(e expected, r reply) {
	if !e.glance.read(e.cmd.op, r) {
		return
	}
	m.looks.Asking = false
	m.readClock(r.clock, e.glance.asked)
	s := m.sight(e.glance)
	p := m.process
	who := s.Identity()
	if m.wire == nil || !p.deployment.Vouches(who) || m.looks.Writing || !m.trust.Renews(s, p.maxTTL, p.now()) {
		return
	}
	m.looks.Writing = true
	m.order(pure.Order{Verb: pure.Confirm, Identity: who})
}

// order sends an order for the node's deployment, over the connection to the
// very process that a seal is about.
func (m *member) order(o pure.Order) {
	p := m.process
	if o.Verb == pure.Lock && p.world.broken.is(NoLockStage) {
		p.deployment.Answer(m.index, o, true)
		return
	}
	change := model.Change{Verb: o.Verb, Identity: o.Identity}
	if o.Verb == pure.Confirm || o.Verb == pure.Adopt {
		if o.Verb == pure.Adopt && p.world.broken.is(UptimeAmongSealed) {
			m.trust = m.trust.Opens(m.trust.Began(true), p.now())
		}
		vouched := p.deployment.Vouches(o.Identity) || p.world.broken.is(VouchesForAll)
		change.Seal = m.trust.Writes(o.Identity, p.maxTTL, vouched, p.now())
	}
	p.world.report.Count(orderNames[o.Verb], 1)
	m.send(expected{purpose: tell, cmd: &command{op: changeSeal, change: change}, order: o})
}

var orderNames = map[pure.Verb]string{
	pure.Propose: "proposals", pure.Lock: "locks of an opening", pure.Confirm: "seals", pure.Adopt: "adoptions", pure.Undo: "openings undone",
}

// told handles the reply to an order.
func (m *member) told(e expected, r reply) {
	p, d := m.process, &m.process.deployment
	m.looks.Writing = false
	switch {
	case r.kind == isInteger && r.n == 1:
		if c := e.cmd.change; c.Seal != (pure.Seal{}) {
			m.shows(c.Identity)
			m.trust = m.trust.Seal(c.Seal.Watched, p.now())
			m.judgeTrust()
		}
		d.Answer(m.index, e.order, true)
	case r.kind == isInteger:
		d.Answer(m.index, e.order, false)
	case r.kind == isNoScript:
		m.cureScripts()
		m.looks.Hasten(p.now())
		m.arm(m.looks.Next)
		d.Drop(m.index, e.order)
	default:
		d.Drop(m.index, e.order)
	}
	p.settle()
	if r.kind == isInteger && r.n == 1 && e.cmd.change.Seal != (pure.Seal{}) && p.floorless.Has(m.index) && !m.looks.Asking {
		m.look() // the seal may be the proof that a floor waits for
	}
}

// shows records, for the referee, which deployment the node was last seen in.
func (m *member) shows(who pure.Identity) { m.shown = who }

// seesRivals reports whether the nodes were last seen in several deployments,
// or in one with another number of nodes.
func (p *process) seesRivals() bool {
	var first pure.Identity
	for _, m := range p.members {
		switch {
		case m.shown == pure.Identity{}:
		case m.shown.Nodes != p.size, first != pure.Identity{} && first != m.shown:
			return true
		default:
			first = m.shown
		}
	}
	return false
}
