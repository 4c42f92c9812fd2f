package multiplex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
		switch act, joined, err := n.join(); {
		case err != nil:
			return n.lost(c, err)
		case joined:
			return act
		}
		// It owes too much to join.
		if len(batch) == 0 && !n.sleep(pure.RefusedFirst) {
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

// fence makes sure that nothing on the previous connection is executed any
// more. It asks the server itself to end that connection, and only the server's
// answer counts. A stopped server that resumes executes the old socket's
// commands even after FIN or RST (R8).
func (n *node) fence() pure.LifeAction {
	c := n.conn
	command, certain := killCommand(&n.previous.server, c.Server())
	if command != nil {
		killed := false
		ctx, cancel := n.patience()
		err := c.Exchange(ctx, command, 1, func(_ int, v resp.Value) error {
			count, ok := v.Int64()
			if !ok && !v.IsError() {
				return fmt.Errorf("%w: type %q to CLIENT KILL", ErrUnexpected, v.Type())
			}
			// With a guessed address, only a hit proves anything.
			killed = ok && (certain || count > 0)
			return nil
		})
		cancel()
		if err != nil {
			return n.lost(c, err)
		}
		certain = killed
	}
	n.fenceDebts(certain)
	return n.step(pure.Fenced)
}

// fenceDebts tells the ledger, debt by debt, that the fence is answered. From
// then on a debt's time runs. It works in batches, and records the result of
// the fence first, since oweLocked reads it in between.
func (n *node) fenceDebts(certain bool) {
	g := n.group
	if !certain {
		g.mu.Lock()
		n.previous.unfenced = pure.Unfenced{End: n.previous.end, Since: g.now()}
		g.mu.Unlock()
	}
	n.eachDebt(func(d *pure.Debt, now time.Duration) { n.ledger.FenceDebt(d, now, certain) })
}

// killCommand returns the command that ends the old connection on the new one's
// server. It is nil with nothing to kill, or no way to name it. Beside a
// command, certain reports whether the reply 0 proves the old connection gone.
// Without one, it reports whether nothing needs to be killed. Ids start again
// at 1 when a server restarts, so an id alone could hit another client;
// together with the address, or on the same run of the server, it cannot.
func killCommand(old, now *conn.Server) (command []byte, certain bool) {
	sameRun := old.RunID != "" && old.RunID == now.RunID
	switch {
	case pure.Replaced(old.RunID, now.RunID):
		// That process is dead, or another server has its address now (see the
		// package comment).
		return nil, true
	case old.ID == 0 || old.ClientAddr == "" && !sameRun:
		return nil, false
	}
	id := strconv.FormatInt(old.ID, 10)
	if old.ClientAddr == "" || !old.AddrKnown && sameRun {
		return resp.AppendCommand(nil, "CLIENT", "KILL", "ID", id, "SKIPME", "yes"), true
	}
	return resp.AppendCommand(nil, "CLIENT", "KILL", "ID", id, "ADDR", old.ClientAddr, "SKIPME", "yes"), old.AddrKnown
}

// patience bounds each exchange before the join. A server that stops after its
// handshake does not hold the node's goroutine (R26).
func (n *node) patience() (context.Context, context.CancelFunc) {
	limit := cmp.Or(n.dialer.config.Endpoint.DialTimeout, conn.DefaultDialTimeout)
	// The error must not match a caller's own deadline.
	return context.WithTimeoutCause(n.group.life.stopped, limit, ErrSilent)
}
