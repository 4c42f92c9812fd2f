package multiplex

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Debts come in the order of their time, each can be moved and removed at any moment, and only what has come is counted.
func TestAgenda(t *testing.T) {
	rng := seeded(t, 1)
	for range 25 {
		var a agenda[byTurn]
		times := make(map[*debt]time.Duration)
		debts := make([]*debt, 1+rng.IntN(40))
		for i := range debts {
			debts[i] = new(debt)
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

// A ledger says what going through all of its debts would say, whatever happens to them, in any order: an earlier time for
// one that is known, a connection that dies with answers awaited, a fence, a key that expires.
func TestLedgerIsInOrder(t *testing.T) {
	rng := seeded(t, 2)
	for range 60 {
		l, now := newLedger(), time.Duration(0)
		var sent []*debt
		for range 150 {
			now += time.Duration(rng.IntN(60)) * ms
			switch rng.IntN(9) {
			case 0, 1, 2:
				d := l.add(fmt.Append(nil, rng.IntN(30)), time.Duration(1+rng.IntN(3000))*ms, now+time.Duration(rng.IntN(100))*ms)
				if rng.IntN(2) == 0 {
					d.until = l.end(d, now)
					l.plan(d)
				}
			case 3, 4:
				got := takenInOrder(t, l, now, 1+rng.IntN(10))
				sent = append(sent, got...)
			case 5:
				for _, d := range sent {
					l.settle(d, rng.IntN(2) == 0, now)
				}
				sent = nil
			case 6:
				for _, d := range sent {
					l.recall(d)
				}
				sent = nil
			case 7:
				certain := rng.IntN(3) > 0
				for _, d := range l.debts {
					l.fenceDebt(d, now, certain)
				}
				sent = nil
			case 8:
				for _, d := range l.debts {
					l.startDebt(d, now)
				}
				sent = nil
			}
			requireInOrder(t, l, now)
			for _, d := range sent {
				require.True(t, d.index < 0 || d.sent)
			}
		}
	}
}

// takenInOrder takes debts, and requires that those are the ones that are due, the earliest first.
func takenInOrder(t *testing.T, l *ledger, now time.Duration, most int) []*debt {
	t.Helper()
	var want []time.Duration
	for _, d := range l.debts {
		if !d.sent && now >= d.due {
			want = append(want, d.due)
		}
	}
	slices.Sort(want)
	want = want[:min(most, len(want))]
	got := l.take(nil, now, most)
	require.Equal(t, len(want), len(got))
	for i, d := range got {
		require.Equal(t, want[i], d.due)
		require.True(t, d.sent)
	}
	return got
}

// requireInOrder compares what a ledger says of the present with all of its debts, and then ends those that are over.
func requireInOrder(t *testing.T, l *ledger, now time.Duration) {
	t.Helper()
	var times []time.Duration
	due, over := 0, 0
	for i, d := range l.debts {
		require.Equal(t, i, d.index)
		require.Same(t, d, l.known[d.command])
		if d.sent {
			continue
		}
		times = append(times, d.due)
		if now >= d.due {
			due++
		}
		if d.until != 0 {
			times = append(times, d.until)
			if now >= d.until {
				over++
			}
		}
	}
	at, ok := l.next()
	require.Equal(t, len(times) > 0, ok)
	if ok {
		require.Equal(t, slices.MinFunc(times, cmp.Compare[time.Duration]), at)
	}
	require.Equal(t, due, l.due(now, 1000))
	require.Equal(t, min(due, 3), l.due(now, 3))
	before := len(l.debts)
	l.expire(now)
	require.Len(t, l.debts, before-over)
}

// So many debts end in one look, and no more; the next look is due at once.
func TestManyDebtsEndInTurns(t *testing.T) {
	l := newLedger()
	for i := range 3 * expireAtOnce {
		l.fenceDebt(l.add(fmt.Append(nil, i), time.Second, time.Hour), 0, true)
		l.debts[i].due = time.Hour
		l.plan(l.debts[i])
	}
	at, ok := l.next()
	require.True(t, ok)
	require.Equal(t, 1012*ms, at, "their keys have expired, long before they are due")
	for left := 2; left >= 0; left-- {
		l.expire(2 * time.Second)
		require.Len(t, l.debts, left*expireAtOnce)
	}
	_, ok = l.next()
	require.False(t, ok)
	require.Nil(t, l.turns.entries)
	require.Nil(t, l.ends.entries)
}

// A debt whose key has expired is gone then, though its next try would be much later and nothing else is going on.
func TestDebtEndsInTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt, err := c.claim(background, "k", "t", 3*time.Second)
		require.NoError(t, err)
		c.nodes[0].Refuse("-MISCONF no", "EVALSHA")
		require.NoError(t, c.release(background, "k", "t", 3*time.Second, receipt))
		time.Sleep(trip)
		spent := c.eventually(5*time.Second, func() bool { return c.debts() == 0 }, "the debt ends")
		require.GreaterOrEqual(t, spent, 3*time.Second)
		require.LessOrEqual(t, spent, 3032*ms+2*tickMost)
	})
}

// More debts than are gone through at once are all fenced and started, also those that come while others have the mutex.
func TestEachDebtIsMet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		n := c.group.nodes[0]
		owe := func(i int) { n.ledger.add(fmt.Append(nil, "release ", i), time.Second, time.Hour) }
		c.group.mu.Lock()
		for i := range 2*debtsAtOnce + 10 {
			owe(i)
		}
		c.group.mu.Unlock()
		met, more := make(map[*debt]bool), 5*debtsAtOnce
		n.eachDebt(func(d *debt, _ time.Duration) {
			require.False(t, met[d])
			met[d] = true
			if len(n.ledger.debts) < more {
				owe(len(n.ledger.debts))
			}
		})
		require.Len(t, met, len(n.ledger.debts))
		require.Greater(t, len(met), 4*debtsAtOnce)
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		for len(n.ledger.debts) > 0 {
			n.ledger.remove(n.ledger.debts[0])
		}
	})
}

// requirePlanned requires that each debt stands in the ledger's agendas with the times that it has.
func requirePlanned(t *testing.T, l *ledger) {
	t.Helper()
	for _, d := range l.debts {
		require.Equal(t, !d.sent, d.turn > 0)
		require.Equal(t, !d.sent && d.until != 0, d.ending > 0)
		if d.turn > 0 {
			require.Equal(t, d.due, l.turns.entries[d.turn-1].at)
		}
		if d.ending > 0 {
			require.Equal(t, d.until, l.ends.entries[d.ending-1].at)
		}
	}
}

// Whoever changes a debt's times, in the lane and beside it, has it stand where they say: one that stood with an old end
// would be dropped with its key there, and one that stood nowhere would never be paid (R8).
func TestNodeKeepsItsDebtsPlanned_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		synctest.Wait() // what the reader owns is ours then
		g, n := c.group, c.group.nodes[0]
		r := &round{group: g, kind: releaseKind, ttl: time.Second, receipt: receipt, command: releaseCommand("k", "t")}
		g.mu.Lock()
		n.previous.unfenced, n.previous.since = math.MaxUint64, g.now()
		g.mu.Unlock()
		n.doubt(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		require.Len(t, n.ledger.debts, 1)
		d := n.ledger.debts[0]
		require.NotZero(t, d.until)
		requirePlanned(t, &n.ledger)

		d.due = g.now()
		n.ledger.plan(d)
		n.lane.queued = make([]laneEntry, maxLane)
		n.payBeside(g.now())
		require.Equal(t, g.now()+retryFirst, d.due, "no room in the lane")
		require.False(t, d.sent)
		requirePlanned(t, &n.ledger)

		n.lane.queued = nil
		d.due = g.now()
		n.ledger.plan(d)
		n.payBeside(g.now())
		require.True(t, d.sent)
		requirePlanned(t, &n.ledger)
		n.abandonLane(&fault{err: ErrSilent})
		require.False(t, d.sent)
		requirePlanned(t, &n.ledger)
		n.ledger.remove(d)
		n.previous.unfenced = 0
	})
}
