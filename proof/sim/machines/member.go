package machines

import (
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A member is one node as a process sees it, like multiplex's node. Its life,
// ledger, silence, trust and looks are the real ones; the order in which they
// are fed is re-stated here.
type member struct {
	process *process
	server  *server
	index   int

	life   pure.Life
	ledger pure.Ledger
	trust  pure.Trust
	looks  pure.Looks

	wire *wire
	run  string // the run id of the server's process; "" if it must not be queried

	// What the server's process told of its past (R29).
	uptime   time.Duration
	promoted bool
	met      time.Duration // on the process's clock
	shown    pure.Identity // what was last seen of its seal, for the referee

	awaited   []expected // reply k answers command k (R16)
	exchanges int        // exchanges before the join; each has a timeout
	inspected bool       // the seal was read, once per connection
	batch     []*pure.Debt
	answers   []bool
	forgot    bool // the node lost the scripts
	loading   bool // and they are being loaded again

	previous  previous
	replyTime time.Duration // smoothed
	guessed   bool          // replyTime is the handshake's
	dialedAt  time.Duration // on the process's clock
	silence   pure.Silence
	heard     time.Duration // when the last reply came
	asked     time.Duration // since when the oldest command of no round waits
	armed     time.Duration // when the watch looks next
	upSince   time.Duration // true time, for the referee
	fencedAt  time.Duration // true time of the last fence, done or not, for the referee
	dials     int
}

// previous is what fencing needs to know about the previous connection (R8).
type previous struct {
	wire     *wire
	run      string
	end      uint64
	unfenced pure.Unfenced
}

// A purpose says what a command on a wire is for, and so what its reply means.
type purpose uint8

const (
	shake     purpose = iota // the handshake
	fence                    // CLIENT KILL
	owed                     // a debt, before the join
	inspect                  // the seal, before the join
	vote                     // of a round
	again                    // of a round, after its script was loaded
	payment                  // a debt of a node that is up
	look                     // the seal
	tell                     // writes the seal
	loadAgain                // the scripts
	floor                    // writes the floor of the node's fencing numbers
)

type expected struct {
	purpose purpose
	cmd     *command
	round   *round
	debt    *pure.Debt
	order   pure.Order // of tell
	glance  *glance    // of inspect and look
	cured   bool       // of payment: it was sent again, after the scripts
}

func newMember(p *process, index int, s *server) *member {
	m := &member{process: p, server: s, index: index, life: pure.NewLife(), armed: pure.Never}
	m.ledger = pure.Ledger{Limit: p.world.plan.debtsMost, Drift: drift}
	need := pure.NeedFor(p.maxTTL, drift)
	switch {
	case p.world.broken.is(NoQuarantine):
		need = 0
	case p.world.broken.is(ShortQuarantine):
		need /= 2
	}
	m.trust.Need, m.trust.Durable = need, s.durable
	return m
}

// step feeds an event to the node's life, and acts on the result.
func (m *member) step(e pure.LifeEvent) {
	p := m.process
	var act pure.LifeAction
	m.life, act = m.life.On(e, p.now(), p.jitter())
	p.world.step("process %d node %d: life event %d, now in state %d", int64(p.index), int64(m.index), int64(e), int64(m.life.State))
	switch act {
	case pure.ToDial:
		m.dial()
	case pure.ToFence:
		m.fence()
	case pure.ToPay:
		m.pay()
	case pure.ToWait:
		p.after(m.life.Wait, func() { m.step(pure.Waited) })
	}
}

// send sends a command and expects its reply.
func (m *member) send(e expected) {
	if e.cmd.sent == (instant{}) {
		e.cmd.sent, e.cmd.at = m.process.clocks(), m.process.world.now
	}
	if !slices.ContainsFunc(m.awaited, func(e expected) bool { return e.purpose != vote }) {
		m.asked = m.process.now()
	}
	m.awaited = append(m.awaited, e)
	if m.process.world.broken.is(ReleaseOvertakes) && e.purpose == vote && e.cmd.op == release {
		m.wire.overtake(e.cmd)
		return
	}
	m.wire.send(e.cmd)
}

func (m *member) dial() {
	p, w := m.process, m.process.world
	m.dials++
	c := &wire{link: p.link(m.server.index), process: p, server: m.server, member: m}
	m.wire, m.awaited = c, nil
	m.dialedAt = p.now()
	m.patience()
	if c.link.refused > 0 || m.server.down > 0 {
		w.after(2*c.link.travel(), func() { p.run(func() { m.died(c) }) })
		return
	}
	m.send(expected{purpose: shake, cmd: &command{op: hello}})
}

// patience limits the time of each exchange before the join.
func (m *member) patience() {
	m.exchanges++
	c, n := m.wire, m.exchanges
	m.process.after(m.process.world.plan.dialTimeout, func() {
		if m.wire == c && m.exchanges == n && m.life.State != pure.Up {
			m.lost()
		}
	})
}

// lost ends a connection that died before the join.
func (m *member) lost() {
	m.wire.breakOff()
	for _, d := range m.batch {
		m.ledger.Recall(d)
	}
	m.wire, m.awaited, m.batch, m.loading = nil, nil, nil, false
	m.exchanges++
	m.step(pure.DialFailed)
}

// died runs when the process learns that a connection has ended.
func (m *member) died(c *wire) {
	switch {
	case m.wire != c:
	case m.life.State == pure.Up:
		m.bury()
	default:
		m.lost()
	}
}

// shook runs when a handshake ends.
func (m *member) shook(r reply) {
	m.run = ""
	if r.run != 0 {
		m.run = strconv.FormatInt(r.run, 10)
	}
	m.uptime, m.promoted, m.met = r.uptime, r.promoted, m.process.now()
	m.trust = m.trust.Meet(r.process, m.met)
	m.process.deployment.Part(m.index) // what was seen may be another process's
	m.process.floors.Part(m.index)
	m.judgeTrust()
	if m.replyTime == 0 {
		m.replyTime, m.guessed = m.process.now()-m.dialedAt, true
	}
	m.step(pure.Dialed)
}

// fence makes sure that no command of the previous connection is executed any
// more (R8).
func (m *member) fence() {
	broken := m.process.world.broken
	switch {
	case pure.Replaced(m.previous.run, m.run), broken.is(NoFence):
		m.fenced(true)
		return
	case broken.is(FenceLate):
		m.fenceLate()
		return
	}
	m.send(expected{purpose: fence, cmd: &command{op: kill, target: m.previous.wire}})
	m.patience()
	m.process.world.report.Count("fences", 1)
}

// fenceLate is a planted bug: it pays debts and joins while older commands may
// still be executed.
func (m *member) fenceLate() {
	c, target := m.wire, m.previous.wire
	m.process.after(100*ms, func() {
		if m.wire == c && m.life.State == pure.Up {
			m.send(expected{purpose: loadAgain, cmd: &command{op: kill, target: target}})
		}
	})
	m.fenced(true)
}

func (m *member) fenced(certain bool) {
	p := m.process
	m.fencedAt = p.world.now
	if c := m.previous.wire; c.fenced == 0 {
		c.fenced = p.world.now
	}
	certain = certain || p.world.broken.is(FenceUnheard)
	if !certain {
		m.previous.unfenced = pure.Unfenced{End: m.previous.end, Since: p.now()}
		p.world.report.Count("fences refused", 1)
	}
	for _, d := range m.ledger.Debts {
		m.ledger.FenceDebt(d, p.now(), certain)
	}
	m.step(pure.Fenced)
}

func (m *member) commandOf(d *pure.Debt) *command {
	return &command{op: release, attempt: m.process.world.decoded(d.Command), ttl: 0}
}

// pay sends what is owed before the node joins.
func (m *member) pay() {
	for _, d := range m.ledger.Debts {
		m.ledger.StartDebt(d, m.process.now())
	}
	m.inspected = false
	m.payMore()
}

func (m *member) payMore() {
	p := m.process
	m.ledger.Expire(p.now())
	m.batch = m.ledger.Take(nil, p.now(), pure.PaymentsAtOnce)
	m.answers, m.forgot = nil, false
	if len(m.batch) == 0 {
		m.payEnds(true)
		return
	}
	for _, d := range m.batch {
		m.send(expected{purpose: owed, debt: d, cmd: m.commandOf(d)})
	}
	m.patience()
}

// owedAnswer handles the reply to one debt of a batch; the batch is settled as
// a whole.
func (m *member) owedAnswer(r reply) {
	m.answers = append(m.answers, m.settles(r))
	m.forgot = m.forgot || r.kind == isNoScript
	if len(m.answers) < len(m.batch) {
		return
	}
	for i, d := range m.batch {
		m.ledger.Settle(d, m.answers[i], m.process.now())
	}
	m.process.world.report.Count("debts paid before the join", len(m.batch))
	m.batch = nil
	if m.forgot {
		m.lost() // the next handshake loads them again (R24)
		return
	}
	m.payEnds(false)
}

// awaitsReleaseOf reports whether a release of an attempt, or its answer, is in
// flight.
func (m *member) awaitsReleaseOf(a *attempt) bool {
	return slices.ContainsFunc(m.awaited, func(e expected) bool { return e.cmd.op == release && e.cmd.attempt == a })
}

// settles reports whether a reply ends a debt: an integer does (R8).
func (m *member) settles(r reply) bool {
	return r.kind == isInteger || m.process.world.broken.is(ErrorsSettle)
}

// payEnds reads the seal, once, and joins; or it waits and pays again.
func (m *member) payEnds(idle bool) {
	p := m.process
	if !m.inspected {
		m.inspected = true
		if p.maxTTL > 0 {
			m.glanceAt(inspect)
			m.patience()
			return
		}
	}
	switch {
	case m.join():
	case idle:
		c := m.wire
		p.after(pure.RefusedFirst, func() {
			if m.wire == c && m.life.State == pure.Paying {
				m.payMore()
			}
		})
	default:
		m.payMore()
	}
}

// join lets the node in at the head of the log, unless it owes too much.
func (m *member) join() bool {
	p := m.process
	if !m.ledger.MayJoin(p.now()) {
		return false
	}
	m.step(pure.Paid)
	m.upSince = p.world.now
	m.judgeTrust()
	m.heard = p.now()
	p.live |= bit(m.index)
	m.arm(p.now() + pure.TickMost)
	m.payBeside()
	p.deployment.Join(m.index)
	p.settle()
	return true
}

// reply handles a reply on a wire. It belongs to the oldest command there.
func (m *member) reply(c *wire, cmd *command, r reply) {
	if m.wire != c {
		return
	}
	e := m.awaited[0]
	if e.cmd != cmd && m.process.world.broken != ReleaseOvertakes {
		panic("machines: a reply in another's place") // a bug in the simulator's own order
	}
	m.awaited = m.awaited[1:]
	m.heard = m.process.now()
	if e.purpose != vote {
		m.asked = m.heard // the commands behind it wait since now
	}
	switch e.purpose {
	case shake:
		m.shook(r)
	case fence:
		m.fenced(r.kind == isInteger)
	case owed:
		m.owedAnswer(r)
	case inspect:
		m.inspectAnswer(e, r)
	case vote:
		m.voteReply(e.round, r)
	case again:
		m.count(e.round, r)
	case payment:
		m.paidBy(e, r)
	case look:
		m.looked(e, r)
	case tell:
		m.told(e, r)
	case loadAgain:
		m.loading = false
	case floor:
		m.floored(r)
	}
}

// voteReply handles the reply to a round's command.
func (m *member) voteReply(r *round, got reply) {
	if got.kind == isNoScript && m.cure(r) {
		return // the reply to the repeated command is the vote
	}
	if m.guessed {
		m.replyTime, m.guessed = 0, false
	}
	m.replyTime = pure.Smoothed(m.replyTime, m.process.now()-r.at)
	m.count(r, got)
}

// cure sends the scripts and then the command again, on the same connection
// (R24).
func (m *member) cure(r *round) bool {
	m.cureScripts()
	if r.cmd.creates() {
		return false // it must not run after the release that was sent after it
	}
	m.send(expected{purpose: again, round: r, cmd: r.cmd})
	m.process.world.report.Count("cures", 1)
	return true
}

func (m *member) cureScripts() {
	if !m.loading {
		m.loading = true
		m.send(expected{purpose: loadAgain, cmd: &command{op: load}})
	}
	m.arm(m.process.now() + pure.TickMost)
}

// count turns a reply into this node's vote. A release that no integer answered
// is owed (R8).
func (m *member) count(r *round, got reply) {
	v := m.process.judgeReply(r, got)
	if v == multiplex.Refused && r.cmd.op == set && m.process.world.broken.is(NullIsOK) {
		v = multiplex.Granted
	}
	if v == multiplex.Floorless {
		m.floorLost()
		v = multiplex.Failed
	}
	if v == multiplex.Failed {
		if r.owedBy(m.index) {
			m.owe(r, m.process.now()+pure.RefusedFirst)
		}
		r.vote(m.index, v)
		return
	}
	if m.previous.unfenced.Has(r.receipt.pos) && r.owedBy(m.index) {
		if due, ok := m.ledger.Doubt(m.releaseOf(r), m.previous.unfenced.Since, m.process.now()); ok {
			m.arm(due)
		}
	}
	if v == multiplex.Restored {
		v = multiplex.Granted
		if !pure.RestoredCounts(m.index, r.discounted, m.process.quarantined) && !m.process.world.broken.is(HealingIsProof) {
			v = multiplex.Refused // it may have forgotten another client's lock (R10, R23)
		}
	}
	if got.kind == isText && r.isOpen() && !r.voted().Has(m.index) {
		if r.texts == nil {
			r.texts = make([]string, m.process.size)
		}
		r.texts[m.index] = got.text
	}
	r.vote(m.index, v)
}

// judgeReply returns the meaning of a reply, as redlock's judges do (R16, R17).
func (p *process) judgeReply(of *round, r reply) multiplex.Vote {
	op := of.cmd.op
	switch {
	case r.kind == isNumbered:
		return p.judgeFenced(of.cmd.attempt, r)
	case op == set && r.kind == isOK, r.kind == isInteger && r.n == 1:
		return multiplex.Granted
	case op == set && r.kind == isNull, r.kind == isInteger && r.n <= 0, r.kind == isText:
		return multiplex.Refused
	case r.kind == isInteger && r.n == 2:
		return multiplex.Restored
	default:
		return multiplex.Failed
	}
}

// owe records a release that this node has not confirmed.
func (m *member) owe(r *round, due time.Duration) {
	p := m.process
	if p.world.broken.is(DebtForgotten) {
		return
	}
	m.ledger.Longest = p.longest
	p.world.report.Count("debts", 1)
	if !p.live.Has(m.index) {
		m.ledger.OweAbsent(m.releaseOf(r), due)
		return
	}
	m.ledger.Owe(m.releaseOf(r), due, p.now())
	m.arm(due)
	if m.ledger.Full() {
		m.shed()
	}
}

// releaseOf returns a round's release as the ledger takes it.
func (m *member) releaseOf(r *round) pure.Release {
	return pure.Release{Command: r.cmd.attempt.encoded(), TTL: r.ttl, Unfenced: m.previous.unfenced.Has(r.receipt.pos)}
}

// payBeside sends the due debts of a node that is up.
func (m *member) payBeside() {
	m.ledger.Expire(m.process.now())
	for _, d := range m.ledger.Take(nil, m.process.now(), pure.PaymentsAtOnce) {
		m.send(expected{purpose: payment, debt: d, cmd: m.commandOf(d)})
	}
}

// paidBy handles the reply to a debt of a node that is up.
func (m *member) paidBy(e expected, r reply) {
	d := e.debt
	if r.kind == isNoScript && m.life.State == pure.Up {
		m.cureScripts()
		if !e.cured {
			m.send(expected{purpose: payment, debt: d, cmd: m.commandOf(d), cured: true})
			return
		}
	}
	if due, owed := m.ledger.Settle(d, m.settles(r), m.process.now()); owed {
		m.arm(due)
		return
	}
	m.process.world.report.Count("debts paid beside", 1)
}

// unlive excludes the node from new rounds.
func (m *member) unlive() {
	if p := m.process; p.live.Has(m.index) {
		p.live &^= bit(m.index)
		p.deployment.Part(m.index)
		p.settle()
	}
}

// shed breaks the connection from here (R26).
func (m *member) shed() {
	if m.life.State != pure.Up {
		return
	}
	m.process.world.report.Count("sheds", 1)
	m.unlive()
	m.step(pure.Broke)
	m.bury()
}

// bury removes a connection from the log: everything in flight fails as
// unknown, each exactly once (R16).
func (m *member) bury() {
	m.unlive()
	m.wire.breakOff()
	c, unanswered := m.wire, m.awaited
	m.wire, m.awaited, m.loading = nil, nil, false
	m.looks.Asking, m.looks.Writing = false, false
	for _, e := range unanswered {
		switch e.purpose {
		case vote, again:
			if e.round.owedBy(m.index) {
				m.owe(e.round, m.process.now())
			}
			e.round.vote(m.index, multiplex.Failed)
		case payment:
			m.ledger.Recall(e.debt)
		case tell:
			p := m.process
			p.deployment.Drop(m.index, e.order)
		case floor:
			m.process.floors.Answered(m.index)
		}
	}
	if len(unanswered) == 0 {
		m.step(pure.Died)
		return
	}
	m.previous.wire, m.previous.run, m.previous.end = c, m.run, m.process.head
	m.step(pure.DiedOwing)
}
