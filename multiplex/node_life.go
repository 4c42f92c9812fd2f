package multiplex

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// openingLimits bounds what a node may send before it joins: the handshake,
// INFO, and the scripts' digests (R32). HELLO names the server's modules, and
// INFO its replicas.
var openingLimits = resp.Limits{Elements: 4096, Depth: 8, Size: 2 << 20}

func newNode(g *Group, index int, config conn.Config) *node {
	n := &node{
		group: g, index: index, addr: config.Endpoint.String(), failsOver: config.Endpoint.Failover.Expected,
		dialer:   dialer{config: config, protocol: config.Endpoint.Protocol},
		standing: standing{life: pure.NewLife(), fault: &fault{err: ErrConnecting}},
	}
	n.dialer.node, n.reader.node, n.reporter.node = n, n, n
	n.dialer.init()
	n.ledger = n.newLedger()
	n.laneNext.Store(noLane)
	n.polled.ended = make(chan error, 1)
	n.dialer.config.Admit = n.admits
	if n.dialer.config.Limits == (resp.Limits{}) {
		n.dialer.config.Limits = openingLimits
	}
	return n
}

// run follows the node's life until the group is closed.
func (n *node) run() {
	act := n.step(pure.Started)
	for {
		switch act {
		case pure.ToDial:
			act = n.dialer.dial()
		case pure.ToFence:
			act = n.fence()
		case pure.ToPay:
			act = n.pay()
		case pure.ToServe:
			act = n.serve()
		case pure.ToWait:
			act = n.rest()
		default:
			n.leave()
			return
		}
	}
}

// leave closes a connection made during Close.
func (n *node) leave() {
	n.group.mu.Lock()
	c := n.conn
	n.conn = nil
	n.group.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// step feeds an event to the node's life and returns the next action.
func (n *node) step(e pure.LifeEvent) pure.LifeAction {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	return n.stepLocked(e)
}

func (n *node) stepLocked(e pure.LifeEvent) pure.LifeAction {
	if n.group.life.closed() {
		e = pure.GroupStopped
	}
	var act pure.LifeAction
	n.life, act = n.life.On(e, n.group.now(), rand.Float64())
	first := !n.tried
	switch n.life.State {
	case Down, Up:
		n.tried = true
	}
	n.reporter.tellLocked()
	if first && n.life.State == Down {
		n.group.tellAllLocked()
	}
	n.group.notifyLocked()
	return act
}

// rest waits until the next attempt may begin.
func (n *node) rest() pure.LifeAction {
	if !n.dialer.await(n.life.Wait) {
		return n.step(pure.GroupStopped)
	}
	return n.step(pure.Waited)
}

// sleep waits. It returns false if the group was closed.
func (n *node) sleep(d time.Duration) bool {
	timer := time.NewTimer(max(pure.Soon, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.group.life.stopped.Done():
		return false
	}
}

// dial connects and shakes hands; Allow.check decides whether the server may
// take part.
func (n *dialer) dial() pure.LifeAction {
	n.group.mu.Lock()
	n.counters.dials++
	n.group.mu.Unlock()
	n.dialed, n.barred = n.group.now(), false
	c, err := conn.Dial(n.group.life.stopped, n.config)
	if err != nil {
		return n.dialFailed(err)
	}
	if c.Server().Protocol == 2 {
		// The next attempt then needs one connection, not two (R26).
		n.config.Endpoint.Protocol = 2
	}
	n.config.Omit = c.Server().Forbidden
	apart := n.tellApart(c)
	if apart == nil {
		apart = n.kinship(c.Server())
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	if apart != nil {
		_ = c.Close()
		n.counters.dialFailures++
		n.fault = &fault{err: &downError{apart}, tried: n.dialed}
		return n.stepLocked(pure.DialFailed)
	}
	n.idle.learn(n.server.RunID == c.Server().RunID, n.group.config.ProbeAfter, n.group.now())
	n.turnToLocked(c.Server().RunID)
	n.conn, n.server = c, *c.Server()
	c.Follow()
	n.group.members.Met(n.index, &n.server, n.dialed)
	n.reporter.remarks.meet(n.index, n.group.config, &n.server)
	n.credentialedLocked()
	// Without a guess the first votes of a distant node would all be too late
	// (R6).
	if n.replyTime.Load() == 0 {
		n.replyTime.Store(int64(c.RoundTrip()))
		n.reader.guessed = true
	}
	n.counters.connects++
	n.lookBehindOnce()
	return n.stepLocked(pure.Dialed)
}

func (n *dialer) dialFailed(err error) pure.LifeAction {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.counters.dialFailures++
	n.fault = &fault{err: &downError{err}, tried: n.dialed}
	if n.config.Endpoint.Protocol == 0 && conn.ErrorClass(err) != conn.ClassNone || errors.Is(err, conn.ErrUnanswered) {
		n.life = n.life.Charge()
	}
	// The next may be another server.
	n.config.Endpoint.Protocol, n.config.Omit = n.protocol, nil
	if n.barred = bars(err); n.barred {
		return n.stepLocked(pure.DialBarred)
	}
	return n.stepLocked(pure.DialFailed)
}

// bars reports whether an attempt to connect lacked the right credentials. What
// issues them is not asked more often than a server that refuses them.
func bars(err error) bool {
	switch conn.ErrorClass(err) {
	case conn.ClassNoAuth, conn.ClassWrongPass, conn.ClassNoPerm:
		return true
	}
	// Redis 7.0 has another text if a script lacks a permission.
	return isOneOf(err, ErrPermissions, conn.ErrCredentials)
}

// join attaches the node at the head of the log, unless it owes too much. Debts
// that came since the last payment go first, in the lane. The node gets no
// command that was queued before, flushed or not: its votes on those rounds
// have failed. An error refuses the node.
func (n *node) join() (act pure.LifeAction, joined bool, err error) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if n.ledger.Full() {
		// This replaces the cause for which it was down: it is connected now,
		// and only its debts keep it out.
		n.fault = owesTooMuch
	}
	if !n.ledger.MayJoin(g.now()) {
		return pure.Stay, false, nil
	}
	// The twin joined after this node's handshake. The next handshake tells
	// them apart.
	if twin := n.dialer.twinOfLocked(&n.server); twin != nil {
		return pure.Stay, false, sameServer(twin.addr)
	}
	if err := n.dialer.kinLocked(&n.server); err != nil {
		return pure.Stay, false, err
	}
	act = n.stepLocked(pure.Paid)
	if act != pure.ToServe {
		return act, true, nil
	}
	n.reader.pos, n.reader.replies, n.reader.voids = g.log.head, 0, 0
	n.conn.SetLimits(g.config.Replies)
	n.answered.Store(g.log.head)
	n.sent.Store(g.log.head)
	n.inLog.skip = len(g.log.buf)
	n.inLog.attached = true
	n.known.Store(true)
	n.heard.Store(int64(g.now()))
	g.members.Judge(n.index, g.now())
	g.live |= setOf(n.index)
	g.forms.agree(g.nodes, g.live)
	n.polled.adopted = g.poller != nil && g.poller.adoptLocked(n)
	// The watch checks that the poll role is taken, and pays new debts.
	g.wakeWatchAtLocked(g.now() + tickMost)
	g.trimLocked()
	n.payBesideLocked(g.now())
	g.members.Joined(n.index)
	n.reporter.tellLocked()
	return act, true, nil
}

// serve reads replies until the connection dies, and then buries it. It waits
// for the poller instead of reading beside it.
func (n *node) serve() pure.LifeAction {
	c := n.conn
	if n.polled.adopted {
		return n.bury(c, <-n.polled.ended)
	}
	for {
		if err := c.Fill(); err != nil {
			return n.bury(c, err)
		}
		now := n.group.now()
		n.heard.Store(int64(now))
		if err := n.reader.drain(c, now); err != nil {
			c.Break(err)
			return n.bury(c, err)
		}
	}
}

// bury detaches a dead connection from the log in two steps. First the
// connection gets no new rounds, but still pins those that it has. Then each of
// these gets its failed vote, and the connection lets go of them
// (docs/internals/design.md, "A death has two steps"). Everything in flight
// fails as unknown, exactly once (R16).
func (n *node) bury(c *conn.Conn, cause error) pure.LifeAction {
	g := n.group
	why := ended(cause)
	g.mu.Lock()
	n.unliveLocked(cause)
	end := n.inLog.limit
	g.mu.Unlock()

	owing := n.reader.pos < n.sent.Load()
	_ = c.Close()
	g.tracker.lost(n)
	n.reader.failWithheld(why)
	for ; n.reader.pos < end; n.reader.pos++ {
		n.fail(g.log.ring.Load().at(n.reader.pos), why)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	n.noteEndLocked(owing, cause)
	owing = owing || len(n.lane.awaited) > 0
	n.abandonLaneLocked(why)
	n.answered.Store(end)
	n.inLog.attached = false
	n.conn = nil
	g.members.Ended(n.index)
	n.counters.ended++
	n.countDeathLocked(cause)
	if errors.Is(cause, conn.ErrStalled) {
		n.counters.sheds++ // because of its backlog
	}
	if !owing {
		return n.stepLocked(pure.Died)
	}
	n.previous.server, n.previous.end = n.server, end
	return n.stepLocked(pure.DiedOwing)
}

// unliveLocked stops giving the node new rounds: limit is where those that it
// has end.
func (n *node) unliveLocked(cause error) {
	g := n.group
	if !g.live.Has(n.index) {
		return // it was shed before
	}
	g.live &^= setOf(n.index)
	g.forms.agree(g.nodes, g.live)
	g.members.Parted(n.index)
	n.inLog.limit = g.log.head
	n.fault = ended(&downError{cause})
}

// fail fails the node's vote on a round that this connection will not answer.
// If the round is a release, it becomes a debt.
func (n *node) fail(r *round, why *fault) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.failLocked(r, why)
}

// failLocked is fail for a caller that holds the mutex.
func (n *node) failLocked(r *round, why *fault) {
	for _, m := range r.members() {
		if m.owedBy(n.index) {
			n.oweLocked(m, n.group.now())
		}
		if m.vote(n.index, Failed, why) {
			n.counters.died++
		}
	}
}

// shedLocked gives the connection up: it breaks it, and the reader buries it.
func (n *node) shedLocked(cause error) {
	if n.life.State != Up {
		return
	}
	n.unliveLocked(cause)
	n.counters.sheds++
	n.stepLocked(pure.Broke)
	n.conn.Break(cause)
}

// lost ends a connection that died before the node joined, or must not join. It
// closes the connection before it takes the mutex, since Close waits for the
// connection's goroutines.
func (n *node) lost(c *conn.Conn, cause error) pure.LifeAction {
	_ = c.Close()
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.conn = nil
	n.group.members.Ended(n.index)
	n.counters.ended++
	n.countDeathLocked(cause)
	n.fault = &fault{err: &downError{cause}, tried: n.dialer.dialed}
	return n.stepLocked(pure.DialFailed)
}
