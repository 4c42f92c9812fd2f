package multiplex

import (
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// What a node owes belongs to a process (R8). Behind a node that fails over,
// the next connection may lead to another one: its answers settle nothing that
// the former owes, and it cannot kill the former's connections. A run id does
// not prove there that the process before has ended. So each process has an
// account, which waits for its return.

// An account is what a process behind the node owed when it was left.
type account struct {
	run string
	// The rounds from one position up to another may have been sent there.
	from, to  uint64
	left      time.Duration
	ledger    pure.Ledger
	previous  previous
	owesFence bool
}

// accounts are those of processes other than the node's present one. The
// group's mutex guards them.
type accounts struct {
	former []account
	from   uint64      // of the present one
	past   pure.Ledger // the sum of what earlier ledgers counted
}

// turnToLocked makes the account of a process the node's own. Without run ids
// processes are not told apart.
func (n *node) turnToLocked(run string) {
	g := n.group
	if !n.failsOver || run == "" || n.server.RunID == "" || run == n.server.RunID {
		return
	}
	n.accounts.former = append(n.accounts.former, account{
		n.server.RunID, n.accounts.from, g.log.head, g.now(), n.accounts.count(n.ledger), n.previous, n.life.OwesFence(),
	})
	next := account{from: g.log.head, ledger: n.newLedger()}
	isNext := func(a account) bool { return a.run == run }
	if i := slices.IndexFunc(n.accounts.former, isNext); i >= 0 {
		next = n.accounts.former[i]
		n.accounts.former = slices.Delete(n.accounts.former, i, i+1)
	}
	if len(n.accounts.former) > mostFormer {
		n.writeOffLocked(&n.accounts.former[0])
		n.accounts.former = slices.Delete(n.accounts.former, 0, 1)
	}
	n.accounts.from, n.ledger, n.previous = next.from, next.ledger, next.previous
	n.life = n.life.OweFence(next.owesFence)
}

func (n *node) newLedger() pure.Ledger {
	return pure.Ledger{Limit: n.group.config.MaxDebts, Drift: n.group.config.DriftFactor}
}

// count moves the counts of a ledger to the sum, and returns the ledger.
func (a *accounts) count(l pure.Ledger) pure.Ledger {
	a.past.Made, a.past.Paid, a.past.Expired = a.past.Made+l.Made, a.past.Paid+l.Paid, a.past.Expired+l.Expired
	l.Made, l.Paid, l.Expired = 0, 0, 0
	return l
}

// total returns a ledger with the counts of all, and the present one's own.
func (a *accounts) total(present *pure.Ledger) *pure.Ledger {
	all := a.past
	for i := range a.former {
		l := &a.former[i].ledger
		all.Made, all.Paid, all.Expired = all.Made+l.Made, all.Paid+l.Paid, all.Expired+l.Expired
	}
	all.Made, all.Paid, all.Expired = all.Made+present.Made, all.Paid+present.Paid, all.Expired+present.Expired
	return &all
}

// oweFormerLocked records a release at the former processes that may have got
// its SET.
func (n *node) oweFormerLocked(r *round) {
	for i := range n.accounts.former {
		a := &n.accounts.former[i]
		if pos := r.receipt.Pos; a.from <= pos && pos < a.to && r.owedBy(n.index) {
			a.ledger.Longest = n.group.longest
			a.ledger.OweAbsent(pure.Release{Command: r.command, TTL: r.ttl, Unfenced: a.previous.unfenced.Has(pos)}, n.group.now())
		}
	}
}

// expireFormerLocked ends the debts of processes that did not return before
// every key that they were given has ended.
func (n *node) expireFormerLocked(now time.Duration) {
	for i := range n.accounts.former {
		a := &n.accounts.former[i]
		if len(a.ledger.Debts) > 0 && now >= a.left+pure.NeedFor(n.group.longest, n.group.config.DriftFactor) {
			n.writeOffLocked(a)
		}
	}
}

// writeOffLocked ends the debts of a process that did not return.
func (n *node) writeOffLocked(a *account) {
	a.ledger.Expired += uint64(len(a.ledger.Debts))
	n.accounts.count(a.ledger)
	a.ledger = n.newLedger()
}

// oweFormerLocked is node.oweFormerLocked for all nodes.
func (g *Group) oweFormerLocked(r *round) {
	if !r.verb.releases {
		return
	}
	for _, n := range g.nodes {
		n.oweFormerLocked(r)
	}
}
