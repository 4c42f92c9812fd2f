package pure

import (
	"fmt"
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

func TestDebtEndsWithAnInteger(t *testing.T) {
	l := newLedger()
	l.absent([]byte("release"), time.Second, 0)
	sent, gone := sendTimes(t, l, 0, true)
	assert.Equal(t, []time.Duration{0}, sent)
	assert.Equal(t, ms, gone)
}

func TestRefusedDebtIsTriedAgain(t *testing.T) {
	l := newLedger()
	d := l.absent([]byte("release"), 5*time.Second, 0)
	l.fence(0, true)
	sent, gone := sendTimes(t, l, 0, false)
	// R8: 50 ms doubling to 1 s.
	assert.Equal(t, []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms, 1550 * ms, 2550 * ms, 3550 * ms, 4550 * ms}, sent)
	// TTL × (1 + drift) after the fence, and not before.
	assert.Equal(t, 5052*ms, gone)
	assert.Equal(t, 5052*ms, d.Until)
}

func TestDebtIsNotDroppedBeforeItsKeyIsGone(t *testing.T) {
	l := newLedger()
	l.absent([]byte("release"), time.Second, 0)

	// The node is down: what was sent before may still be executed at any time,
	// so the time of the debt does not run.
	l.Expire(time.Hour)
	require.Len(t, l.Debts, 1, "before the fence a debt has no end")

	fenced := 2 * time.Hour
	l.fence(fenced, true)
	l.Expire(fenced + 1011*ms)
	require.Len(t, l.Debts, 1)
	l.Expire(fenced + 1012*ms)
	require.Empty(t, l.Debts)
}

// An extension may have been executed unnoticed, so a debt lasts for the
// longest TTL that was requested (R8).
func TestDebtOutlastsWhatAnExtensionMayHaveGiven_R8(t *testing.T) {
	l := newLedger()
	l.Longest = 5 * time.Second
	l.absent([]byte("release"), time.Second, 0)
	l.fence(0, true)
	l.Expire(5051 * ms)
	require.Len(t, l.Debts, 1)
	l.Expire(5052 * ms)
	require.Empty(t, l.Debts)
}

// Only a fence starts the time of a debt. A second fence does not restart it,
// because nothing older can be executed after the first.
func TestFenceBeginsTheTimeOnce(t *testing.T) {
	l := newLedger()
	d := l.absent([]byte("release"), time.Second, 0)
	l.fence(time.Second, true)
	l.fence(1500*ms, true)
	assert.Equal(t, time.Second+1012*ms, d.Until)
	// If the old connection could not be killed, the time starts again: the old
	// SET may arrive now.
	l.fence(1600*ms, false)
	assert.Equal(t, 1600*ms+1012*ms, d.Until)
}

func TestUnfencedDebtIsRepeated(t *testing.T) {
	l := newLedger()
	l.absent([]byte("release"), 10*time.Second, 0)
	l.fence(0, false)
	sent, gone := sendTimes(t, l, 0, true)
	// docs/internals/design.md, "The SET that comes late": at once, then 250 ms, 1
	// s, 4 s apart, whatever is answered, until the key is gone.
	assert.Equal(t, []time.Duration{0, 250 * ms, 1250 * ms, 5250 * ms}, sent)
	assert.Equal(t, 10*time.Second+102*ms, gone)
}

// Each uncertain fence starts the repetitions again, however many there were
// before: what the previous connection carried may arrive at once, and so may
// what an older one carried. (Before, the pauses grew with each fence until
// time.Duration overflowed.)
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

// A repeated release that the node refuses has no effect: the next try comes
// within a second, as for any refused debt.
func TestRefusedRepetitionIsTriedWithinASecond(t *testing.T) {
	l := newLedger()
	l.absent([]byte("release"), 30*time.Second, 0)
	l.fence(0, false)
	sent, _ := sendTimes(t, l, 0, false)
	require.Greater(t, len(sent), 20)
	for i := 1; i < len(sent); i++ {
		assert.LessOrEqual(t, sent[i]-sent[i-1], refusedMost)
	}
}

func TestExpireWaitsForAnAnswer(t *testing.T) {
	l := newLedger()
	d := l.absent([]byte("release"), time.Second, 0)
	l.fence(0, true)
	require.Equal(t, []*Debt{d}, l.Take(nil, 0, 10))
	l.Expire(time.Hour)
	require.Len(t, l.Debts, 1, "its answer will look for it")
	l.Settle(d, true, time.Hour)
	require.Empty(t, l.Debts)
	l.Settle(d, true, time.Hour) // a second answer has no effect
	require.Empty(t, l.Debts)
}

func TestTakeGivesWhatIsDueOnce(t *testing.T) {
	l := newLedger()
	for i := range 5 {
		l.absent(fmt.Append(nil, "release ", i), time.Second, time.Duration(i)*ms)
	}
	assert.Len(t, l.Take(nil, 2*ms, 2), 2)
	assert.Len(t, l.Take(nil, 2*ms, 10), 1)
	assert.Empty(t, l.Take(nil, 2*ms, 10))
	at, ok := l.Next()
	assert.True(t, ok)
	assert.Equal(t, 3*ms, at)
	assert.Len(t, l.Take(nil, time.Second, 10), 2)
	_, ok = l.Next()
	assert.False(t, ok, "all are on their way")
}

func TestLedgerFullStillTakes(t *testing.T) {
	l := newLedger()
	for i := range l.Limit {
		require.False(t, l.Full())
		l.absent(fmt.Append(nil, "release ", i), time.Second, 0)
	}
	require.True(t, l.Full())
	l.absent([]byte("release"), time.Second, 0)
	require.Len(t, l.Debts, l.Limit+1, "a debt is never dropped (R8)")
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
	require.Empty(t, l.Debts)
	require.NotSame(t, first, l.absent([]byte("release"), time.Second, 0), "once paid, it can be owed again")
}

// Releases that were answered, and are repeated only to be safe, keep no node
// out (R8, if CLIENT KILL is forbidden).
func TestRepetitionsDoNotFillTheLedger(t *testing.T) {
	l := newLedger()
	for i := range l.Limit {
		l.absent(fmt.Append(nil, "release ", i), time.Second, 0)
	}
	l.fence(0, false)
	require.True(t, l.Full())
	for _, d := range l.Take(nil, 0, l.Limit) {
		l.Settle(d, true, 0)
	}
	require.False(t, l.Full())
	require.Len(t, l.Debts, l.Limit)
	l.Expire(time.Minute)
	require.Empty(t, l.Debts)
	require.Zero(t, l.safe)
}

// Removing debts in any order leaves each debt's index right.
func TestLedgerRemoves(t *testing.T) {
	rng := seeded(t, 1)
	for range 100 {
		l := newLedger()
		for i := range rng.IntN(20) {
			l.absent(fmt.Append(nil, "release ", i), time.Second, 0)
		}
		for len(l.Debts) > 0 {
			l.Remove(l.Debts[rng.IntN(len(l.Debts))])
			for i, d := range l.Debts {
				require.Equal(t, i, d.Index)
			}
		}
	}
}

func TestDebtCopiesItsCommand(t *testing.T) {
	command := []byte("release")
	d := newLedger().absent(command, time.Second, 0)
	command[0] = 'x'
	assert.Equal(t, "release", string(d.Command))
}

// A release that is repeated to be safe is paid with the first answer, and not
// counted again when it ends.
func TestADebtThatIsRepeatedIsPaidOnce(t *testing.T) {
	l := Ledger{Limit: 10, Drift: 0.01}
	d := l.absent([]byte("release"), time.Second, 0)
	l.fence(0, false)
	for now := time.Duration(0); len(l.Debts) > 0; now += 50 * ms {
		for range l.Take(nil, now, 10) {
			l.Settle(d, true, now)
		}
		l.Expire(now)
	}
	assert.Equal(t, []uint64{1, 1, 0}, []uint64{l.Made, l.Paid, l.Expired})
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

// What Settle returns is when the debt is due next.
func TestSettleSaysWhatIsNext(t *testing.T) {
	l := newLedger()
	d := l.absent([]byte("release"), time.Second, 0)
	due, owed := l.Settle(d, false, time.Minute)
	assert.True(t, owed)
	assert.Equal(t, time.Minute+RefusedFirst, due)
	_, owed = l.Settle(d, true, time.Minute)
	assert.False(t, owed)
	_, owed = l.Settle(d, true, time.Minute)
	assert.False(t, owed, "a second answer")
}

// A debt for which there was no room is due again after the first pause.
func TestPostponedDebtIsDueAgain(t *testing.T) {
	l := newLedger()
	d := l.absent([]byte("release"), time.Second, 0)
	require.Len(t, l.Take(nil, time.Second, 1), 1)
	l.Postpone(d, time.Second)
	require.Nil(t, l.Misplaced())
	require.Empty(t, l.Take(nil, time.Second+RefusedFirst-1, 1))
	require.Len(t, l.Take(nil, time.Second+RefusedFirst, 1), 1)
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
