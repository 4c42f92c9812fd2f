package pure

import (
	"fmt"
	"testing"
	"time"
)

// manyDebts is the number of debts of a node close to MaxDebts.
const (
	manyDebts      = 60_000
	paymentsAtOnce = 256 // as in multiplex
)

// indebted returns a ledger of n debts, each refused once: due in an hour,
// within a minute of each other.
func indebted(n int) *Ledger {
	l := &Ledger{Limit: 2 * n, Drift: 0.01}
	for i := range n {
		d := l.Add(fmt.Appendf(nil, "EVALSHA release of the lock number %d", i), 2*time.Hour, 0)
		l.FenceDebt(d, 0, true)
	}
	for _, d := range l.Take(nil, 0, n) {
		d.Delay = time.Hour + time.Duration(d.Index)*time.Millisecond
		l.Settle(d, false, 0)
	}
	return l
}

// The cost of a node's ledger with many debts, under the group's mutex.
func BenchmarkLedger(b *testing.B) {
	const at = time.Hour + 30*time.Second // half of them are due
	b.Run("look", func(b *testing.B) {
		l := indebted(manyDebts)
		for b.Loop() {
			l.Expire(time.Second)
			l.Take(nil, time.Second, paymentsAtOnce)
			l.Next()
		}
	})
	b.Run("may join", func(b *testing.B) {
		l := indebted(manyDebts)
		for b.Loop() {
			l.Due(at, paymentsAtOnce)
		}
	})
	b.Run("256 refused", func(b *testing.B) {
		l := indebted(manyDebts)
		var batch []*Debt
		for b.Loop() {
			batch = l.Take(batch[:0], at, paymentsAtOnce)
			for _, d := range batch {
				l.Settle(d, false, at-time.Minute)
			}
		}
	})
	b.Run("512 fenced", func(b *testing.B) {
		l := indebted(manyDebts)
		from := 0
		for b.Loop() {
			for _, d := range l.Debts[from : from+512] {
				l.FenceDebt(d, at, false)
			}
			from = (from + 512) % (manyDebts - 512)
		}
	})
	b.Run("256 paid before the join", func(b *testing.B) {
		l := indebted(manyDebts)
		var batch []*Debt
		for b.Loop() {
			l.Expire(at)
			batch = l.Take(batch[:0], at, paymentsAtOnce)
			for _, d := range batch {
				l.Settle(d, true, at)
			}
			l.Due(at, paymentsAtOnce)
			for _, d := range batch { // restores the number of debts
				l.Add([]byte(d.Command), d.ttl, at)
			}
		}
	})
	b.Run("owed", func(b *testing.B) {
		l := indebted(manyDebts)
		for i := 0; b.Loop(); i++ {
			l.Remove(l.Add(fmt.Appendf(nil, "another release %d", i), time.Hour, at))
		}
	})
}
