package member

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// settle carries out the next orders of pure.Deployment, to make the nodes
// belong to one deployment (R30). Then the sets follow its knowledge of the
// nodes. It must be called after each event of pure.Deployment.
func (m *Members) settle(now time.Duration) {
	if !m.config.Sealed() {
		return
	}
	d := &m.deployment
	if d.Rebound() {
		m.join(now)
	}
	for {
		o := d.Next(now, rand.Uint64)
		if d.Opens() {
			m.open(now)
		}
		if o.Verb == pure.Nothing {
			break
		}
		if o.Verb == pure.Look {
			m.look(o.Node)
		} else {
			m.order(o, now)
		}
	}
	m.judgeDeployment(now)
	for i := range m.nodes {
		m.host.Changed(i) // one node may change the causes of others
	}
	m.due = d.Wait(now)
	m.host.Wake(m.due)
}

// join forgets what was watched before the nodes belonged to another client's
// deployment. Only the seals tell of that time. So no lock of another set can
// be left (R29, R30).
func (m *Members) join(now time.Duration) {
	d := &m.deployment
	for i := range m.nodes {
		t := &m.nodes[i].trust
		*t = t.Joins(now).Sight(d.Proof(d.Seen(i)), now)
		m.Judge(i, now)
	}
}

// open runs before the first seals of a set are written. It decides since when
// the nodes count as watched (R29).
func (m *Members) open(now time.Duration) {
	since := m.since(now)
	for i := range m.nodes {
		t := &m.nodes[i].trust
		*t = t.Opens(since, now)
		m.Judge(i, now)
	}
}

// since returns since when all nodes count as watched, for a set opened by this
// group.
func (m *Members) since(now time.Duration) time.Duration {
	return m.deployment.Since(func(i int) pure.Trust { return m.nodes[i].trust }, now)
}

// TendDeployment is the watch's pass over the deployment. It returns when to
// run again.
func (m *Members) TendDeployment(now time.Duration) time.Duration {
	if !m.config.Sealed() {
		return now + m.config.ProbeAfter
	}
	if now >= m.due {
		m.settle(now)
	}
	return m.due
}

// judgeDeployment updates the sets of nodes outside this client's deployment. A
// node that is not up stays in its set for the time being.
func (m *Members) judgeDeployment(now time.Duration) {
	strangers := m.Strangers
	for i := range m.nodes {
		switch {
		case m.deployment.Counts(i):
			strangers = strangers.Without(pure.SetOf(i))
		case m.up.Has(i):
			strangers = strangers.Add(i)
		}
	}
	_, _, rivals := m.deployment.Rivals()
	if m.Strangers == strangers && m.Rivals == rivals {
		return
	}
	m.Strangers, m.Rivals = strangers, rivals
	for i := range m.nodes {
		m.nodes[i].cause = nil
		m.Judge(i, now)
	}
	m.host.Notify()
}

// order sends an order for a node's deployment: the connection leads to the
// very process of a seal. If the node cannot carry the order out at the moment
// (-OOM, -MISCONF …), it gets the order again after the next look.
func (m *Members) order(o pure.Order, now time.Duration) {
	i := o.Node
	n, d := &m.nodes[i], &m.deployment
	args, watched := m.arguments(o, now)
	drop := func() { n.looks.Writing = false; d.Drop(i) }
	took := func(said said, v resp.Value) error {
		now := m.host.Now()
		switch said {
		case saidDone:
			n.trust = n.trust.Finds(pure.SealSeen, now)
			if watched > 0 {
				n.trust = n.trust.Seal(watched, now)
				m.Judge(i, now)
			}
			d.Answer(i, o, true, now)
		case saidNo:
			d.Answer(i, o, false, now)
		case saidText:
			if err := d.Elsewhere(i, string(v.Bytes())); err != nil {
				return unexpected(v, "the seal", err)
			}
		default:
			d.Drop(i)
		}
		n.looks.Writing = false
		m.settle(now)
		if said == saidDone && m.Floorless.Has(i) {
			m.lookAgain(i) // the seal may be the proof that a floor waits for
		}
		return nil
	}
	if !m.write(i, "the seal", m.config.WriteSeal(args...), took, drop) {
		drop()
	}
}

// arguments returns the arguments of seal.lua for an order, and the time
// watched that it writes.
func (m *Members) arguments(o pure.Order, now time.Duration) (args []string, watched time.Duration) {
	proof := ""
	renewal := o.Was == o.Is && o.Names == ""
	if who := o.Is.Open; who != (pure.Identity{}) && (who != o.Was.Open || renewal) {
		seal := m.nodes[o.Node].trust.Writes(o.Is, m.maxTTL, m.deployment.Vouches(who), now)
		seal.Failover = m.nodes[o.Node].failover
		proof, watched = seal.Proof(), seal.Watched
	}
	args = []string{o.Was.String(), o.Is.String(), string(o.Names), proof}
	if o.Was.Free() || o.Is.Listed != (pure.Identity{}) || o.Was.Open != o.Is.Open || len(m.config.Replace) > 0 {
		args = append(args, " "+strings.Join(m.config.Replace, " ")+" ", strconv.Itoa(m.config.Nodes[o.Node].DB))
	}
	return args, watched
}

// renew writes how long this client has watched the process, over a found seal
// with less.
func (m *Members) renew(i int, s pure.Sighting, now time.Duration) {
	n := &m.nodes[i]
	if !m.deployment.Renews(s.Identity()) || n.looks.Writing || !n.trust.Renews(s, m.maxTTL, now) {
		return
	}
	n.looks.Writing = true
	m.order(pure.Order{Verb: pure.Write, Node: i, Was: s.Seal.Seat, Is: s.Seal.Seat}, now)
}
