package pure

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Debts come in order of time, each can be moved and removed at any moment, and
// only due debts are counted.
func TestAgenda(t *testing.T) {
	rng := seeded(t, 1)
	for range 25 {
		var a agenda[byTurn]
		times := make(map[*Debt]time.Duration)
		debts := make([]*Debt, 1+rng.IntN(40))
		for i := range debts {
			debts[i] = new(Debt)
		}
		for range 200 {
			d := debts[rng.IntN(len(debts))]
			if rng.IntN(3) == 0 {
				a.drop(d)
				delete(times, d)
			} else {
				at := time.Duration(rng.IntN(20))
				a.put(d, at)
				times[d] = at
			}
			now, most := time.Duration(rng.IntN(22)-1), rng.IntN(50)
			come := 0
			for _, at := range times {
				if at <= now {
					come++
				}
			}
			require.Equal(t, min(come, most), a.count(now, most))
			require.Len(t, a.entries, len(times))
			first, at := a.first()
			require.Equal(t, len(times) == 0, first == nil)
			for d, other := range times {
				require.LessOrEqual(t, at, other)
				require.Equal(t, other, a.entries[d.turn-1].at)
				require.Same(t, d, a.entries[d.turn-1].debt)
			}
		}
		var last time.Duration
		for d, at := a.first(); d != nil; d, at = a.first() {
			require.GreaterOrEqual(t, at, last)
			last = at
			a.drop(d)
			require.Zero(t, d.turn)
		}
	}
}

// A ledger agrees with a walk through all of its debts, whatever happens to
// them, in any order: an earlier time for a known debt, a connection that dies
// with pending answers, a fence, a key that expires.
func TestLedgerIsInOrder(t *testing.T) {
	rng := seeded(t, 2)
	for range 60 {
		l, now := newLedger(), time.Duration(0)
		var sent []*Debt
		for range 150 {
			now += time.Duration(rng.IntN(60)) * ms
			switch rng.IntN(9) {
			case 0, 1, 2:
				d := l.Add(fmt.Append(nil, rng.IntN(30)), time.Duration(1+rng.IntN(3000))*ms, now+time.Duration(rng.IntN(100))*ms)
				if rng.IntN(2) == 0 {
					d.Until = l.End(d, now)
					l.Plan(d)
				}
			case 3, 4:
				got := takenInOrder(t, l, now, 1+rng.IntN(10))
				sent = append(sent, got...)
			case 5:
				for _, d := range sent {
					l.Settle(d, rng.IntN(2) == 0, now)
				}
				sent = nil
			case 6:
				for _, d := range sent {
					l.Recall(d)
				}
				sent = nil
			case 7:
				certain := rng.IntN(3) > 0
				for _, d := range l.Debts {
					l.FenceDebt(d, now, certain)
				}
				sent = nil
			case 8:
				for _, d := range l.Debts {
					l.StartDebt(d, now)
				}
				sent = nil
			}
			requireInOrder(t, l, now)
			for _, d := range sent {
				require.True(t, d.Index < 0 || d.Sent)
			}
		}
	}
}

// takenInOrder takes debts, and requires that they are the ones that are due,
// the earliest first.
func takenInOrder(t *testing.T, l *Ledger, now time.Duration, most int) []*Debt {
	t.Helper()
	var want []time.Duration
	for _, d := range l.Debts {
		if !d.Sent && now >= d.Due {
			want = append(want, d.Due)
		}
	}
	slices.Sort(want)
	want = want[:min(most, len(want))]
	got := l.Take(nil, now, most)
	require.Equal(t, len(want), len(got))
	for i, d := range got {
		require.Equal(t, want[i], d.Due)
		require.True(t, d.Sent)
	}
	return got
}

// requireInOrder compares the ledger's answers at the time now with all of its
// debts, and then ends the expired ones.
func requireInOrder(t *testing.T, l *Ledger, now time.Duration) {
	t.Helper()
	var times []time.Duration
	due, over := 0, 0
	for i, d := range l.Debts {
		require.Equal(t, i, d.Index)
		require.Same(t, d, l.known[d.Command])
		if d.Sent {
			continue
		}
		times = append(times, d.Due)
		if now >= d.Due {
			due++
		}
		if d.Until != 0 {
			times = append(times, d.Until)
			if now >= d.Until {
				over++
			}
		}
	}
	at, ok := l.Next()
	require.Equal(t, len(times) > 0, ok)
	if ok {
		require.Equal(t, slices.MinFunc(times, cmp.Compare[time.Duration]), at)
	}
	require.Equal(t, due, l.Due(now, 1000))
	require.Equal(t, min(due, 3), l.Due(now, 3))
	before := len(l.Debts)
	l.Expire(now)
	require.Len(t, l.Debts, before-over)
}

// One look ends a bounded number of debts; the next look is due at once.
func TestManyDebtsEndInTurns(t *testing.T) {
	l := newLedger()
	for i := range 3 * expireAtOnce {
		l.FenceDebt(l.Add(fmt.Append(nil, i), time.Second, time.Hour), 0, true)
		l.Debts[i].Due = time.Hour
		l.Plan(l.Debts[i])
	}
	at, ok := l.Next()
	require.True(t, ok)
	require.Equal(t, 1012*ms, at, "their keys have expired, long before they are due")
	for left := 2; left >= 0; left-- {
		l.Expire(2 * time.Second)
		require.Len(t, l.Debts, left*expireAtOnce)
	}
	_, ok = l.Next()
	require.False(t, ok)
	require.Nil(t, l.turns.entries)
	require.Nil(t, l.ends.entries)
}
