package multiplex

import (
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// oweLocked records a release that this node has not confirmed, to be sent at
// the given time. A node that owes too much is shed until it has paid (R8).
func (n *node) oweLocked(r *round, due time.Duration) {
	g := n.group
	n.ledger.Longest = g.longest
	if !g.live.Has(n.index) {
		n.ledger.OweAbsent(n.releaseOf(r), due)
		return
	}
	n.ledger.Owe(n.releaseOf(r), due, g.now())
	g.wakeWatchAtLocked(due)
	if n.ledger.Full() {
		n.shedLocked(ErrIndebted)
	}
}

// releaseOf returns a round's release as the ledger takes it.
func (n *node) releaseOf(r *round) pure.Release {
	return pure.Release{Command: r.command, TTL: r.ttl, Unfenced: n.previous.unfenced.Has(r.receipt.Pos)}
}

// doubt records an answered release of a SET on a connection that could not be
// killed. The server may still execute that SET (R8).
func (n *node) doubt(r *round) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if due, ok := n.ledger.Doubt(n.releaseOf(r), n.previous.unfenced.Since, g.now()); ok {
		g.wakeWatchAtLocked(due)
	}
}

// debtsAtOnce is how many debts are handled before the mutex is released for a
// moment. They take some hundred microseconds.
const debtsAtOnce = 512

// eachDebt calls f for every debt under the mutex, and releases the mutex now
// and then: with very many debts other goroutines would wait for milliseconds.
// The node must not be up, so that no debt ends meanwhile. New ones are added
// behind the others and are reached as well.
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

// pay sends what the node owes before it joins, so that every debt is executed
// before the first new command (R8). What the server refuses stays owed and is
// tried again: here while the ledger is full, otherwise in the lane, once the
// node is up.
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
		if len(batch) == pure.PaymentsAtOnce {
			continue
		}
		// The node is inspected once, and after it has paid: otherwise, if it
		// were refused here, it would still owe its debts.
		if !inspected {
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
	return n.ledger.Take(nil, g.now(), pure.PaymentsAtOnce)
}

// payBatch sends some debts and settles them all at once by their replies:
// under load, each time the mutex is taken means a wait.
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
		if due, owed := n.ledger.Settle(d, answers[i], g.now()); owed {
			g.wakeWatchAtLocked(due)
		}
	}
	if forgot && err == nil {
		return errForgot
	}
	return err
}

// errForgot ends a connection whose scripts were flushed before it joined. The
// next handshake loads them again (R24).
var errForgot = errors.New("multiplex: node forgot the scripts")

// isPayment reports whether a reply ends a debt. An integer does (R8), and so
// does an error about a key gone from this node. Any other reply cannot answer
// it, and isPayment returns an error.
func isPayment(v resp.Value) (bool, error) {
	if _, ok := v.Int64(); ok {
		return true, nil
	}
	if !v.IsError() {
		return false, fmt.Errorf("%w: type %q to a release", ErrUnexpected, v.Type())
	}
	return hasMoved(v), nil
}

// paidBy settles a debt that was sent in the lane. A node that lost the script
// gets the script and the same debt again at once, but only once (R24, R26).
// This is no refusal: the pause after one may have grown to a second.
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
		n.loadScriptsLocked()
		g.promptLocked()
		if !e.cured && n.lane.add(laneEntry{purpose: payment, debt: d, cured: true}, []byte(d.Command)) {
			n.counters.cured++
			return nil // its answer is still to come
		}
	}
	if due, owed := n.ledger.Settle(d, ok, g.now()); owed {
		g.wakeWatchAtLocked(due)
	}
	return nil
}

// pause waits a moment while the node owes too much to join. It returns false
// if the group was closed.
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

// payBesideLocked sends the due debts of an up node, in its lane.
func (n *node) payBesideLocked(now time.Duration) {
	n.ledger.Expire(now)
	for _, d := range n.ledger.Take(nil, now, pure.PaymentsAtOnce) {
		if !n.lane.add(laneEntry{purpose: payment, debt: d}, []byte(d.Command)) {
			n.ledger.Postpone(d, now)
			continue
		}
		n.group.promptLocked()
	}
}
