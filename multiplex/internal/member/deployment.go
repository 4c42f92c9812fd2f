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
	if !m.tends() {
		return
	}
	d := &m.deployment
	if d.Rebound() {
		m.join(now)
	}
	for o := d.Next(now, rand.Uint64); o.Verb != pure.Nothing; o = d.Next(now, rand.Uint64) {
		if o.Verb == pure.Confirm && d.Opening() {
			m.open(now)
		}
		m.carryOut(o, now)
	}
	m.judgeDeployment(now)
	for i := range m.nodes {
		m.host.Changed(i) // one node may change the causes of others
	}
	m.due = d.Wait(now)
	m.host.Wake(m.due)
}

// tends reports whether there is a deployment to look after.
func (m *Members) tends() bool { return m.config.Sealed() && !m.closing }

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

func (m *Members) carryOut(o pure.Order, now time.Duration) {
	for i := range m.nodes {
		switch {
		case !(Set(o.Nodes) & m.up).Has(i):
		case o.Verb == pure.Look:
			m.look(i)
		default:
			m.order(i, o, now)
		}
	}
}

// TendDeployment is the watch's pass over the deployment. It returns when to
// run again.
func (m *Members) TendDeployment(now time.Duration) time.Duration {
	if !m.tends() {
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
func (m *Members) order(i int, o pure.Order, now time.Duration) {
	n, d := &m.nodes[i], &m.deployment
	args, seal := m.arguments(i, o, now)
	drop := func() { n.looks.Writing = false; d.Drop(i, o) }
	took := func(said said, v resp.Value) error {
		now := m.host.Now()
		switch said {
		case saidDone:
			if seal != nil {
				n.trust = n.trust.Seal(seal.Watched, now)
				m.Judge(i, now)
			}
			d.Answer(i, o, true)
		case saidNo:
			d.Answer(i, o, false)
		case saidText:
			if err := d.Elsewhere(i, o, string(v.Bytes())); err != nil {
				return unexpected(v, "the seal", err)
			}
		default:
			d.Drop(i, o)
		}
		n.looks.Writing = false
		m.settle(now)
		if seal != nil && said == saidDone && m.Floorless.Has(i) {
			m.lookAgain(i) // the seal may be the proof that a floor waits for
		}
		return nil
	}
	if !m.write(i, "the seal", m.config.WriteSeal(args...), took, drop) {
		drop()
	}
}

// arguments returns the arguments of seal.lua for an order, and the seal it
// writes, or nil for none.
func (m *Members) arguments(i int, o pure.Order, now time.Duration) ([]string, *pure.Seal) {
	who := o.Identity.String()
	ids, db := " "+strings.Join(m.config.Replace, " ")+" ", strconv.Itoa(m.config.Nodes[i].DB)
	switch o.Verb {
	case pure.Propose:
		return []string{"propose", who, strconv.FormatInt(pure.ProposalTTL.Milliseconds(), 10), ids, db}, nil
	case pure.Lock:
		return []string{"lock", who}, nil
	case pure.Undo:
		return []string{"undo", who}, nil
	}
	seal := m.nodes[i].trust.Writes(o.Identity, m.maxTTL, m.deployment.Vouches(o.Identity), now)
	seal.Failover = m.nodes[i].failover
	if o.Verb == pure.Adopt {
		return []string{"adopt", who, seal.String(), ids, db}, &seal
	}
	return []string{"seal", who, seal.String()}, &seal
}

// renew writes how long this client has watched the process, over a found seal
// with less.
func (m *Members) renew(i int, s pure.Sighting, now time.Duration) {
	n, who := &m.nodes[i], s.Identity()
	if !m.deployment.Vouches(who) || n.looks.Writing || !n.trust.Renews(s, m.maxTTL, now) {
		return
	}
	n.looks.Writing = true
	m.order(i, pure.Order{Verb: pure.Confirm, Identity: who}, now)
}
