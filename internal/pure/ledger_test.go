package pure

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newLedger() *Ledger { return &Ledger{Limit: 10, Drift: 0.01} }

// fence does what node.fenceDebts does, with all debts at once.
func (l *Ledger) fence(now time.Duration, certain bool) {
	for _, d := range l.Debts {
		l.FenceDebt(d, now, certain)
	}
}

// absent owes a release of a node that is not connected, and returns its debt.
func (l *Ledger) absent(command []byte, ttl, due time.Duration) *Debt {
	l.OweAbsent(Release{Command: command, TTL: ttl}, due)
	return l.known[string(command)]
}

// sendTimes plays a node that answers each payment at once and always in the
// same way. It returns when the debt was sent, until the debt is gone.
func sendTimes(t *testing.T, l *Ledger, from time.Duration, answered bool) (sent []time.Duration, gone time.Duration) {
	t.Helper()
	for now := from; now < from+time.Minute; now += ms {
		l.Expire(now)
		if len(l.Debts) == 0 {
			return sent, now
		}
		for _, d := range l.Take(nil, now, 10) {
			sent = append(sent, now-from)
			l.Settle(d, answered, now)
		}
	}
	t.Fatal("the debt is never gone")
	return nil, 0
}

// When a debt is sent by what the node answers, and when it is gone. Tried
// again: after 50 ms, doubling to 1 s. Repeated, where the old connection could
// not be killed: at once, then 250 ms, 1 s and 4 s apart, whatever is answered
// (docs/internals/design.md, "The SET that comes late"); a refused repetition
// has no effect, and is tried within a second. A debt lasts for TTL × (1 +
// drift) after the fence (R8).
func TestWhenADebtIsSent_R8(t *testing.T) {
	for name, c := range map[string]struct {
		ttl               time.Duration
		certain, answered bool
		sent              []time.Duration
		gone              time.Duration
	}{
		"paid":     {time.Second, true, true, []time.Duration{0}, ms},
		"refused":  {5 * time.Second, true, false, []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms, 1550 * ms, 2550 * ms, 3550 * ms, 4550 * ms}, 5052 * ms},
		"repeated": {10 * time.Second, false, true, []time.Duration{0, 250 * ms, 1250 * ms, 5250 * ms}, 10*time.Second + 102*ms},
		"repeated and refused": {3 * time.Second, false, false,
			[]time.Duration{0, 250 * ms, 500 * ms, 750 * ms, 1000 * ms, 1250 * ms, 1500 * ms, 1750 * ms, 2000 * ms, 2250 * ms, 2500 * ms, 2750 * ms, 3000 * ms}, 3032 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.absent([]byte("release"), c.ttl, 0)
			l.fence(0, c.certain)
			sent, gone := sendTimes(t, l, 0, c.answered)
			assert.Equal(t, c.sent, sent)
			assert.Equal(t, c.gone, gone)
			paid := map[bool]uint64{true: 1}[c.answered]
			assert.Equal(t, []uint64{1, paid, 1 - paid}, []uint64{l.Made, l.Paid, l.Expired}, "each is counted once")
		})
	}
}

// The time of a debt begins with the first fence: a node that is down may
// execute what was sent before at any time. A second fence does not restart it,
// unless the connection could not be killed: the old SET may arrive now. An
// extension may have been executed unnoticed, so a debt lasts for the longest
// TTL that was requested.
func TestDebtIsNotDroppedBeforeItsKeyIsGone_R8(t *testing.T) {
	const fenced = 2 * time.Hour
	for name, c := range map[string]struct {
		does func(l *Ledger)
		life time.Duration
	}{
		"fenced":            {func(*Ledger) {}, 1012 * ms},
		"fenced twice":      {func(l *Ledger) { l.fence(fenced+500*ms, true) }, 1012 * ms},
		"could not kill it": {func(l *Ledger) { l.fence(fenced+500*ms, false) }, 1512 * ms},
	} {
		l := newLedger()
		d := l.absent([]byte("release"), time.Second, 0)
		l.Expire(time.Hour)
		require.Len(t, l.Debts, 1, "before the fence a debt has no end")
		l.fence(fenced, true)
		c.does(l)
		assert.Equal(t, fenced+c.life, d.Until, name)
		l.Expire(d.Until - 1)
		require.Len(t, l.Debts, 1)
		l.Expire(d.Until)
		require.Empty(t, l.Debts)
	}
	l := newLedger()
	l.Longest = 5 * time.Second
	d := l.absent([]byte("release"), time.Second, 0)
	l.fence(0, true)
	assert.Equal(t, 5052*ms, d.Until)
}

// Each uncertain fence starts the repetitions again, however many there were
// before: what the previous connection carried may arrive at once, and so may
// what an older one carried.
func TestRepetitionsBeginAnewWithEachFence(t *testing.T) {
	for _, certain := range []bool{false, true} {
		l := newLedger()
		d := l.absent([]byte("release"), 10*time.Second, 0)
		l.fence(0, false)
		for i := range 40 {
			now := time.Duration(i) * 100 * ms
			l.fence(now, certain)
			require.Len(t, l.Take(nil, now, 10), 1)
			l.Settle(d, true, now)
		}
		l.fence(5*time.Second, certain)
		sent, _ := sendTimes(t, l, 5*time.Second, true)
		assert.Equal(t, []time.Duration{0, 250 * ms, 1250 * ms}, sent[:3])
	}
}

// A debt that awaits its answer does not expire, and a second answer has no
// effect. What was put off for lack of room is due after the first pause.
func TestAwaitedDebts(t *testing.T) {
	l := newLedger()
	command := []byte("release")
	d := l.absent(command, time.Second, 0)
	command[0] = 'x'
	assert.Equal(t, "release", d.Command, "it is a copy")
	l.fence(0, true)
	require.Equal(t, []*Debt{d}, l.Take(nil, 0, 10))
	_, ok := l.Next()
	assert.False(t, ok, "it is on its way")
	l.Expire(time.Hour)
	require.Len(t, l.Debts, 1, "its answer will look for it")
	l.StartDebt(d, 0) // on the next connection
	assert.Equal(t, 1012*ms, d.Until)
	require.Equal(t, []*Debt{d}, l.Take(nil, 0, 10), "it is sent again")
	due, owed := l.Settle(d, false, time.Hour)
	assert.True(t, owed)
	assert.Equal(t, time.Hour+RefusedFirst, due)
	l.Postpone(d, 2*time.Hour)
	require.Empty(t, l.Take(nil, 2*time.Hour+RefusedFirst-1, 1))
	require.Len(t, l.Take(nil, 2*time.Hour+RefusedFirst, 1), 1)
	for range 2 {
		_, owed = l.Settle(d, true, time.Hour)
		assert.False(t, owed)
		require.Empty(t, l.Debts)
	}
}

// A full ledger still takes debts (R8). Those that were answered, and are
// repeated only to be safe, do not fill it.
func TestLedgerFullStillTakes(t *testing.T) {
	l := newLedger()
	for i := range l.Limit {
		require.False(t, l.Full())
		l.absent(fmt.Append(nil, "release ", i), time.Second, 0)
	}
	require.True(t, l.Full())
	l.absent([]byte("release"), time.Second, 0)
	require.Len(t, l.Debts, l.Limit+1, "a debt is never dropped")
	l.fence(0, false)
	for _, d := range l.Take(nil, 0, l.Limit+1) {
		l.Settle(d, true, 0)
	}
	require.False(t, l.Full())
	require.Len(t, l.Debts, l.Limit+1)
	l.Expire(time.Minute)
	require.Empty(t, l.Debts)
	require.Zero(t, l.safe)
}

// A lock that is released several times is owed once: the number of debts is
// bounded by the number of locks (R26).
func TestOneReleaseIsOwedOnce(t *testing.T) {
	l := newLedger()
	first := l.absent([]byte("release"), time.Second, 50*ms)
	first.Sent = true
	again := l.absent([]byte("release"), 2*time.Second, 20*ms)
	require.Same(t, first, again)
	require.Len(t, l.Debts, 1)
	require.Equal(t, 20*ms, again.Due, "the earlier time counts")
	require.Equal(t, 2*time.Second, again.ttl, "and the longer life")
	l.Settle(again, true, 0)
	require.NotSame(t, first, l.absent([]byte("release"), time.Second, 0), "once paid, it can be owed again")
}

// The times of a debt by how it arises: on a node that is connected, on one
// that is not, and where its SET may still come.
func TestHowADebtBegins_R8(t *testing.T) {
	const (
		now  = time.Hour
		life = time.Second + 12*ms
	)
	release := Release{Command: []byte("release"), TTL: time.Second}
	unfenced := release
	unfenced.Unfenced = true
	for name, c := range map[string]struct {
		owe    func(l *Ledger)
		due    time.Duration
		delay  time.Duration
		until  time.Duration
		repeat bool
	}{
		"connected":           {func(l *Ledger) { l.Owe(release, now+50*ms, now) }, now + 50*ms, RefusedFirst, now + life, false},
		"not connected":       {func(l *Ledger) { l.OweAbsent(release, now) }, now, RefusedFirst, 0, false},
		"unfenced":            {func(l *Ledger) { l.Owe(unfenced, now, now) }, now, RepeatFirst, now + life, true},
		"unfenced and absent": {func(l *Ledger) { l.OweAbsent(unfenced, now) }, now, RepeatFirst, 0, true},
		"it was connected before": {func(l *Ledger) {
			l.Owe(release, now, now-time.Minute)
			l.OweAbsent(release, now)
		}, now, RefusedFirst, 0, false},
		"doubted": {func(l *Ledger) {
			due, ok := l.Doubt(release, now-400*ms, now)
			assert.True(t, ok)
			assert.Equal(t, now+RepeatFirst, due)
		}, now + RepeatFirst, RepeatTimes * RepeatFirst, now - 400*ms + life, true},
		"doubted and owed before": {func(l *Ledger) {
			l.Owe(release, now, now)
			due, ok := l.Doubt(release, now-400*ms, now)
			assert.True(t, ok)
			assert.Equal(t, now, due, "the earlier time counts")
		}, now, RepeatTimes * RepeatFirst, now + life, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			c.owe(l)
			require.Len(t, l.Debts, 1)
			require.Nil(t, l.Misplaced())
			d := l.Debts[0]
			assert.Equal(t, c.due, d.Due)
			assert.Equal(t, c.delay, d.Delay)
			assert.Equal(t, c.until, d.Until)
			assert.Equal(t, c.repeat, d.Repeat)
		})
	}
	l := newLedger()
	_, ok := l.Doubt(release, now-life, now)
	assert.False(t, ok, "the key has expired")
	assert.Empty(t, l.Debts)
}

// A command may still come if its place is before the end of the connection
// that could not be killed.
func TestWhatIsUnfenced_R8(t *testing.T) {
	assert.False(t, Unfenced{}.Has(0), "nothing, as long as every fence succeeded")
	assert.True(t, Unfenced{End: 7}.Has(6))
	assert.False(t, Unfenced{End: 7}.Has(7))
}

// A node joins while what is due fits into one batch.
func TestMayJoin(t *testing.T) {
	l := &Ledger{Limit: 1000, Drift: 0.01}
	for i := range PaymentsAtOnce {
		l.absent(fmt.Append(nil, i), time.Second, 0)
	}
	assert.True(t, l.MayJoin(0))
	d := l.absent([]byte("one more"), time.Second, ms)
	assert.True(t, l.MayJoin(0), "it is not due")
	assert.False(t, l.MayJoin(ms))
	l.Remove(d)
	l.Limit = PaymentsAtOnce
	assert.False(t, l.MayJoin(0), "the table is full")
}

// Debts come in order of time, each can be moved and removed at any moment, and
// only due debts are counted.
func TestHeap(t *testing.T) {
	rng := seeded(t, 1)
	for range 25 {
		var a Heap[*Debt]
		times := make(map[*Debt]time.Duration)
		debts := make([]*Debt, 1+rng.IntN(40))
		for i := range debts {
			debts[i] = new(Debt)
		}
		for range 200 {
			d := debts[rng.IntN(len(debts))]
			if rng.IntN(3) == 0 {
				a.Remove(&d.turn)
				delete(times, d)
			} else {
				at := time.Duration(rng.IntN(20))
				a.Put(d, &d.turn, at)
				times[d] = at
			}
			now, most := time.Duration(rng.IntN(22)-1), rng.IntN(50)
			come := 0
			for _, at := range times {
				if at <= now {
					come++
				}
			}
			require.Equal(t, min(come, most), a.Count(now, most))
			require.Len(t, a.entries, len(times))
			_, at := a.First()
			require.Equal(t, len(times) == 0, at == Never)
			for d, other := range times {
				require.LessOrEqual(t, at, other)
				require.Equal(t, other, a.entries[d.turn-1].at)
				require.Same(t, d, a.entries[d.turn-1].item)
			}
		}
		var last time.Duration
		for a.Len() > 0 {
			d, at := a.First()
			require.GreaterOrEqual(t, at, last)
			last = at
			a.Remove(&d.turn)
			require.Zero(t, d.turn)
		}
	}
}

// Take removes what is due in the order of time, as long as there is room, and
// TakeAll all of it in any order. What was taken can be put again.
func TestHeapTake(t *testing.T) {
	var h Heap[int]
	places := make([]Place, 10)
	put := func() {
		for _, i := range []int{7, 2, 9, 4, 0, 6, 1, 8, 3, 5} {
			h.Put(i, &places[i], time.Duration(i)*ms)
		}
	}
	put()
	require.Empty(t, h.Take(make([]int, 0, 3), -1))
	require.Equal(t, []int{0, 1, 2}, h.Take(make([]int, 0, 3), 4*ms))
	require.Equal(t, []int{3, 4}, h.Take(make([]int, 0, 3), 4*ms))
	require.Equal(t, 5, h.Len())
	put()
	require.Equal(t, 10, h.Len())
	all := h.TakeAll(nil)
	slices.Sort(all)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, all)
	require.Equal(t, make([]Place, 10), places)
	_, at := h.First()
	require.Equal(t, Never, at)
	h.Remove(&places[3])
	require.Zero(t, h.Len())
}

// One look ends a bounded number of debts; the next look is due at once.
func TestManyDebtsEndInTurns(t *testing.T) {
	l := newLedger()
	for i := range 3 * expireAtOnce {
		l.FenceDebt(l.absent(fmt.Append(nil, i), time.Second, time.Hour), 0, true)
		l.Debts[i].Due = time.Hour
		l.plan(l.Debts[i])
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
