package multiplex

import (
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// paymentsAtOnce is how many debts travel together, so that one exchange stays far below any socket's buffer.
const paymentsAtOnce = 256

// owe notes a release that this node has not confirmed, to be sent at the given time. A node that owes too much is taken
// out until it has paid (R8). The caller holds the mutex.
func (n *node) oweLocked(r *round, due time.Duration) {
	g := n.group
	n.ledger.Longest = g.longest
	d := n.ledger.Add(r.command, r.ttl, due)
	if r.receipt.Pos < n.previous.unfenced {
		d.Repeat, d.Delay = true, pure.RepeatFirst // its SET may still come
	}
	if !g.live.Has(n.index) {
		d.Until = 0 // its time begins with the next connection, when nothing older can be executed any more
		n.ledger.Plan(d)
		return
	}
	d.Until = n.ledger.End(d, g.now())
	n.ledger.Plan(d)
	g.wakeWatchAtLocked(due)
	if n.ledger.Full() {
		n.shedLocked(ErrIndebted)
	}
}

// doubt notes a release that was answered, but whose SET was written to a connection that could not be killed and may
// still execute it: the release is repeated until the key must be gone (R8; docs/design.md, "The SET that comes late").
func (n *node) doubt(r *round) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	until := n.previous.since + n.ledger.Life(r.ttl)
	now := g.now()
	if now >= until {
		return
	}
	d := n.ledger.Add(r.command, r.ttl, now+pure.RepeatFirst)
	d.Repeat, d.Delay, d.Until = true, pure.RepeatFirst*pure.RepeatTimes, max(d.Until, until)
	n.ledger.Plan(d)
	g.wakeWatchAtLocked(d.Due)
}

// debtsAtOnce is how many debts are gone through before others get the mutex: some hundred microseconds.
const debtsAtOnce = 512

// eachDebt calls f for every debt, with the mutex, letting others have it now and then: with very many debts they would
// wait for milliseconds. The node is not up, so that no debt ends meanwhile; those that come stand behind the others, and
// are met as well.
func (n *node) eachDebt(f func(d *pure.Debt, now time.Duration)) {
	g := n.group
	for from := 0; ; from += debtsAtOnce {
		g.mu.Lock()
		now, all := g.now(), n.ledger.Debts
		for _, d := range all[min(from, len(all)):min(from+debtsAtOnce, len(all))] {
			f(d, now)
		}
		g.mu.Unlock()
		if from+debtsAtOnce >= len(all) {
			return
		}
	}
}

// pay sends what is owed before the node joins, so that every debt is executed before the first new command (R8). What
// the server refuses stays owed and is tried again, here while the ledger is full, else beside the log.
func (n *node) pay() pure.LifeAction {
	c := n.conn
	n.eachDebt(n.ledger.StartDebt)
	inspected := false
	for {
		batch := n.dueDebts()
		if len(batch) > 0 {
			if err := n.payBatch(c, batch); err != nil {
				return n.lost(c, err)
			}
		}
		if len(batch) == paymentsAtOnce {
			continue
		}
		if !inspected { // once, and after the debts: what a node owes it owes also if it is refused then
			if err := n.inspect(c); err != nil {
				return n.lost(c, err)
			}
			inspected = true
		}
		if act, joined := n.join(); joined {
			return act
		}
		if len(batch) == 0 && !n.pause() {
			return n.step(pure.GroupStopped)
		}
	}
}

func (n *node) dueDebts() []*pure.Debt {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	n.ledger.Expire(g.now())
	return n.ledger.Take(nil, g.now(), paymentsAtOnce)
}

// payBatch sends some debts and settles each by its reply, all at once: under load the mutex is waited for each time.
func (n *node) payBatch(c *conn.Conn, batch []*pure.Debt) error {
	var commands []byte
	for _, d := range batch {
		commands = append(commands, d.Command...)
	}
	ctx, cancel := n.patience()
	defer cancel()
	answers := make([]bool, 0, len(batch))
	forgot := false
	err := c.Exchange(ctx, commands, len(batch), func(_ int, v resp.Value) error {
		forgot = forgot || conn.ClassOf(v) == conn.ClassNoScript
		answered, err := isPayment(v)
		if v.IsError() {
			n.counters.countError(conn.ClassOf(v))
		}
		if err == nil {
			answers = append(answers, answered)
		}
		return err
	})
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, d := range batch {
		if i >= len(answers) {
			n.ledger.Recall(d) // the connection died
			continue
		}
		n.ledger.Settle(d, answers[i], g.now())
		if d.Index >= 0 {
			g.wakeWatchAtLocked(d.Due)
		}
	}
	if forgot && err == nil {
		return errForgot
	}
	return err
}

// errForgot ends a connection whose scripts were flushed before it joined: the next handshake loads them again (R24).
var errForgot = errors.New("multiplex: node forgot the scripts")

// isPayment judges a node's reply to a debt: an integer ends it (R8), an error does not, and nothing else answers one.
func isPayment(v resp.Value) (bool, error) {
	_, ok := v.Int64()
	if !ok && !v.IsError() {
		return false, fmt.Errorf("%w: type %q to a release", ErrUnexpected, v.Type())
	}
	return ok, nil
}

// paidBy settles a debt that was sent in the lane. A node that has lost the script gets it and, behind it, the same debt again,
// once: the pause after a refusal may have grown to a second by then, and this was none (R24, R26).
func (n *node) paidBy(e laneEntry, v resp.Value) error {
	d := e.debt
	ok, err := isPayment(v)
	if err != nil {
		return err
	}
	if !ok {
		n.counters.countError(conn.ClassOf(v))
	}
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if conn.ClassOf(v) == conn.ClassNoScript && n.life.State == Up {
		if !n.lane.loading() {
			for _, script := range g.config.Cure {
				n.lane.add(laneEntry{purpose: load}, script)
			}
		}
		g.promptLocked()
		if !e.cured && n.lane.add(laneEntry{purpose: payment, debt: d, cured: true}, []byte(d.Command)) {
			n.counters.cured++
			return nil // an answer to it is awaited still
		}
	}
	n.ledger.Settle(d, ok, g.now())
	if d.Index >= 0 {
		g.wakeWatchAtLocked(d.Due)
	}
	return nil
}

// pause waits a moment while the node owes too much to join; false when the group was closed.
func (n *node) pause() bool {
	timer := time.NewTimer(pure.RefusedFirst)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.group.life.stopped.Done():
		return false
	}
}

// payBeside sends the debts that are due on a node that is up, in its lane. The caller holds the mutex.
func (n *node) payBesideLocked(now time.Duration) {
	n.ledger.Expire(now)
	for _, d := range n.ledger.Take(nil, now, paymentsAtOnce) {
		if !n.lane.add(laneEntry{purpose: payment, debt: d}, []byte(d.Command)) {
			d.Due = now + pure.RefusedFirst
			n.ledger.Recall(d)
			continue
		}
		n.group.promptLocked()
	}
}
