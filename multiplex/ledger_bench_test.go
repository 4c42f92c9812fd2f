package multiplex

import (
	"fmt"
	"testing"
	"time"
)

// manyDebts is what a node owes when MaxDebts is nearly reached.
const manyDebts = 60_000

// indebted is a ledger of so many debts, each refused once: due in an hour, within a minute of each other.
func indebted(n int) *ledger {
	l := &ledger{limit: 2 * n, drift: 0.01}
	for i := range n {
		d := l.add(fmt.Appendf(nil, "EVALSHA release of the lock number %d", i), 2*time.Hour, 0)
		l.fenceDebt(d, 0, true)
	}
	for _, d := range l.take(nil, 0, n) {
		d.delay = time.Hour + time.Duration(d.index)*time.Millisecond
		l.settle(d, false, 0)
	}
	return l
}

// What a node's ledger costs under the group's mutex, with many debts.
func BenchmarkLedger(b *testing.B) {
	const at = time.Hour + 30*time.Second // half of them are due
	b.Run("look", func(b *testing.B) {
		l := indebted(manyDebts)
		for b.Loop() {
			l.expire(time.Second)
			l.take(nil, time.Second, paymentsAtOnce)
			l.next()
		}
	})
	b.Run("may join", func(b *testing.B) {
		l := indebted(manyDebts)
		for b.Loop() {
			l.due(at, paymentsAtOnce)
		}
	})
	b.Run("256 refused", func(b *testing.B) {
		l := indebted(manyDebts)
		var batch []*debt
		for b.Loop() {
			batch = l.take(batch[:0], at, paymentsAtOnce)
			for _, d := range batch {
				l.settle(d, false, at-time.Minute)
			}
		}
	})
	b.Run("512 fenced", func(b *testing.B) {
		l := indebted(manyDebts)
		from := 0
		for b.Loop() {
			for _, d := range l.debts[from : from+512] {
				l.fenceDebt(d, at, false)
			}
			from = (from + 512) % (manyDebts - 512)
		}
	})
	b.Run("256 paid before the join", func(b *testing.B) {
		l := indebted(manyDebts)
		var batch []*debt
		for b.Loop() {
			l.expire(at)
			batch = l.take(batch[:0], at, paymentsAtOnce)
			for _, d := range batch {
				l.settle(d, true, at)
			}
			l.due(at, paymentsAtOnce)
			for _, d := range batch { // as many as before
				l.add([]byte(d.command), d.ttl, at)
			}
		}
	})
	b.Run("owed", func(b *testing.B) {
		l := indebted(manyDebts)
		for i := 0; b.Loop(); i++ {
			l.remove(l.add(fmt.Appendf(nil, "another release %d", i), time.Hour, at))
		}
	})
}
