package multiplex

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newLedger() *ledger { return &ledger{limit: 10, drift: 0.01} }

// fence is what node.fenceDebts does, with all debts at once.
func (l *ledger) fence(now time.Duration, certain bool) {
	for _, d := range l.debts {
		l.fenceDebt(d, now, certain)
	}
}

// sendTimes plays a node that answers each payment at once in the same way, and returns when the debt was sent, until it
// is gone.
func sendTimes(t *testing.T, l *ledger, from time.Duration, answered bool) (sent []time.Duration, gone time.Duration) {
	t.Helper()
	for now := from; now < from+time.Minute; now += ms {
		l.expire(now)
		if len(l.debts) == 0 {
			return sent, now
		}
		for _, d := range l.take(nil, now, 10) {
			sent = append(sent, now-from)
			l.settle(d, answered, now)
		}
	}
	t.Fatal("the debt is never gone")
	return nil, 0
}

func TestDebtEndsWithAnInteger(t *testing.T) {
	l := newLedger()
	l.add([]byte("release"), time.Second, 0)
	sent, gone := sendTimes(t, l, 0, true)
	assert.Equal(t, []time.Duration{0}, sent)
	assert.Equal(t, ms, gone)
}

func TestRefusedDebtIsTriedAgain(t *testing.T) {
	l := newLedger()
	d := l.add([]byte("release"), 5*time.Second, 0)
	l.fence(0, true)
	sent, gone := sendTimes(t, l, 0, false)
	// R8: 50 ms doubling to 1 s.
	assert.Equal(t, []time.Duration{0, 50 * ms, 150 * ms, 350 * ms, 750 * ms, 1550 * ms, 2550 * ms, 3550 * ms, 4550 * ms}, sent)
	// TTL × (1 + drift) after the fence, and not before.
	assert.Equal(t, 5052*ms, gone)
	assert.Equal(t, 5052*ms, d.until)
}

func TestDebtIsNotDroppedBeforeItsKeyIsGone(t *testing.T) {
	l := newLedger()
	l.add([]byte("release"), time.Second, 0)

	// The node is down: what was sent before may be executed at any time, so no time runs.
	l.expire(time.Hour)
	require.Len(t, l.debts, 1, "before the fence a debt has no end")

	fenced := 2 * time.Hour
	l.fence(fenced, true)
	l.expire(fenced + 1011*ms)
	require.Len(t, l.debts, 1)
	l.expire(fenced + 1012*ms)
	require.Empty(t, l.debts)
}

// Only a fence begins the time of a debt; a second fence does not begin it again, since from the first on nothing older
// can be executed.
func TestFenceBeginsTheTimeOnce(t *testing.T) {
	l := newLedger()
	d := l.add([]byte("release"), time.Second, 0)
	l.fence(time.Second, true)
	l.fence(1500*ms, true)
	assert.Equal(t, time.Second+1012*ms, d.until)
	// Where the old connection could not be killed, it begins anew: its SET may come now.
	l.fence(1600*ms, false)
	assert.Equal(t, 1600*ms+1012*ms, d.until)
}

func TestUnfencedDebtIsRepeated(t *testing.T) {
	l := newLedger()
	l.add([]byte("release"), 10*time.Second, 0)
	l.fence(0, false)
	sent, gone := sendTimes(t, l, 0, true)
	// engine.md: at once, then 250 ms, 1 s, 4 s apart, whatever is answered, until the key is gone.
	assert.Equal(t, []time.Duration{0, 250 * ms, 1250 * ms, 5250 * ms}, sent)
	assert.Equal(t, 10*time.Second+102*ms, gone)
}

// A repeated release that the node refuses did nothing: the next try comes within a second, as for any refused debt.
func TestRefusedRepetitionIsTriedWithinASecond(t *testing.T) {
	l := newLedger()
	l.add([]byte("release"), 30*time.Second, 0)
	l.fence(0, false)
	sent, _ := sendTimes(t, l, 0, false)
	require.Greater(t, len(sent), 20)
	for i := 1; i < len(sent); i++ {
		assert.LessOrEqual(t, sent[i]-sent[i-1], retryMost)
	}
}

func TestExpireWaitsForAnAnswer(t *testing.T) {
	l := newLedger()
	d := l.add([]byte("release"), time.Second, 0)
	l.fence(0, true)
	require.Equal(t, []*debt{d}, l.take(nil, 0, 10))
	l.expire(time.Hour)
	require.Len(t, l.debts, 1, "its answer will look for it")
	l.settle(d, true, time.Hour)
	require.Empty(t, l.debts)
	l.settle(d, true, time.Hour) // a second answer finds nothing and does nothing
	require.Empty(t, l.debts)
}

func TestTakeGivesWhatIsDueOnce(t *testing.T) {
	l := newLedger()
	for i := range 5 {
		l.add(fmt.Append(nil, "release ", i), time.Second, time.Duration(i)*ms)
	}
	assert.Len(t, l.take(nil, 2*ms, 2), 2)
	assert.Len(t, l.take(nil, 2*ms, 10), 1)
	assert.Empty(t, l.take(nil, 2*ms, 10))
	at, ok := l.next()
	assert.True(t, ok)
	assert.Equal(t, 3*ms, at)
	assert.Len(t, l.take(nil, time.Second, 10), 2)
	_, ok = l.next()
	assert.False(t, ok, "all are on their way")
}

func TestLedgerFullStillTakes(t *testing.T) {
	l := newLedger()
	for i := range l.limit {
		require.False(t, l.full())
		l.add(fmt.Append(nil, "release ", i), time.Second, 0)
	}
	require.True(t, l.full())
	l.add([]byte("release"), time.Second, 0)
	require.Len(t, l.debts, l.limit+1, "a debt is never dropped (R8)")
}

// Whoever releases a lock again and again owes it once: what can be owed is bounded by the locks there were (R26).
func TestOneReleaseIsOwedOnce(t *testing.T) {
	l := newLedger()
	first := l.add([]byte("release"), time.Second, 50*ms)
	first.sent = true
	again := l.add([]byte("release"), 2*time.Second, 20*ms)
	require.Same(t, first, again)
	require.Len(t, l.debts, 1)
	require.Equal(t, 20*ms, again.due, "the earlier time counts")
	require.Equal(t, 2*time.Second, again.ttl, "and the longer life")
	l.settle(again, true, 0)
	require.Empty(t, l.debts)
	require.NotSame(t, first, l.add([]byte("release"), time.Second, 0), "once paid, it can be owed anew")
}

// What was answered and is repeated only to be safe keeps no node out (R8, where CLIENT KILL is forbidden).
func TestRepetitionsDoNotFillTheLedger(t *testing.T) {
	l := newLedger()
	for i := range l.limit {
		l.add(fmt.Append(nil, "release ", i), time.Second, 0)
	}
	l.fence(0, false)
	require.True(t, l.full())
	for _, d := range l.take(nil, 0, l.limit) {
		l.settle(d, true, 0)
	}
	require.False(t, l.full())
	require.Len(t, l.debts, l.limit)
	l.expire(time.Minute)
	require.Empty(t, l.debts)
	require.Zero(t, l.safe)
}

// Removing in any order leaves each debt's index right.
func TestLedgerRemoves(t *testing.T) {
	rng := seeded(t, 1)
	for range 100 {
		l := newLedger()
		for i := range rng.IntN(20) {
			l.add(fmt.Append(nil, "release ", i), time.Second, 0)
		}
		for len(l.debts) > 0 {
			l.remove(l.debts[rng.IntN(len(l.debts))])
			for i, d := range l.debts {
				require.Equal(t, i, d.index)
			}
		}
	}
}

func TestDebtCopiesItsCommand(t *testing.T) {
	command := []byte("release")
	d := newLedger().add(command, time.Second, 0)
	spoil(command)
	command[0] = 'x'
	assert.Equal(t, "release", string(d.command))
}
