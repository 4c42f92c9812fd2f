package properties

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/internal/pure"
)

// A ledgerModel is a ledger as a list that is searched from end to end, with
// the times that R8 gives each debt.
type ledgerModel struct {
	ledger *pure.Ledger
	now    time.Duration
	debts  []*modelDebt
	gone   map[string]string // why a debt is gone
}

type modelDebt struct {
	command         string
	ttl, due, until time.Duration
	delay           time.Duration
	sent, repeat    bool
	settled         bool
	real            *pure.Debt
}

// A ledger agrees with that list: which debts are due, when there is work to
// do, when a debt ends. A debt is gone only by an integer or by its end, and
// its end is never before TTL × (1 + drift) after the moment from which no
// older command could come (R8).
func TestLedgerIsAList_R8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &ledgerModel{ledger: &pure.Ledger{Limit: 6, Drift: 0.01}, gone: make(map[string]string)}
		t.Repeat(map[string]func(*rapid.T){
			"owe":    m.owe,
			"doubt":  m.doubt,
			"take":   m.take,
			"settle": m.settle,
			"recall": m.recall,
			"fence":  m.fence,
			"start":  m.start,
			"wait":   m.wait,
			"extend": func(t *rapid.T) {
				m.ledger.Longest = max(m.ledger.Longest, time.Duration(rapid.IntRange(1, 9000).Draw(t, "longest"))*ms)
			},
			"": m.check,
		})
	})
}

func (m *ledgerModel) find(command string) *modelDebt {
	for _, d := range m.debts {
		if d.command == command {
			return d
		}
	}
	return nil
}

func (m *ledgerModel) remove(d *modelDebt, why string) {
	m.debts = slices.DeleteFunc(m.debts, func(o *modelDebt) bool { return o == d })
	m.gone[d.command] = why
}

// drawRelease draws a release, and returns its debt.
func (m *ledgerModel) drawRelease(t *rapid.T, due time.Duration) (pure.Release, *modelDebt) {
	r := pure.Release{
		Command: fmt.Append(nil, "release ", rapid.IntRange(0, 20).Draw(t, "command")),
		TTL:     time.Duration(rapid.IntRange(1, 5000).Draw(t, "ttl")) * ms,
	}
	d := m.find(string(r.Command))
	if d == nil {
		d = &modelDebt{command: string(r.Command), ttl: r.TTL, due: due, delay: pure.RefusedFirst}
		m.debts = append(m.debts, d)
		delete(m.gone, d.command)
	}
	d.ttl, d.due = max(d.ttl, r.TTL), min(d.due, due)
	return r, d
}

// owe has the node owe a release, connected or not.
func (m *ledgerModel) owe(t *rapid.T) {
	due := m.now + time.Duration(rapid.IntRange(0, 100).Draw(t, "due"))*ms
	r, d := m.drawRelease(t, due)
	if r.Unfenced = rapid.Bool().Draw(t, "unfenced"); r.Unfenced {
		d.repeat, d.delay = true, pure.RepeatFirst
	}
	if rapid.Bool().Draw(t, "connected") {
		d.until = m.end(d)
		m.ledger.Owe(r, due, m.now)
	} else {
		d.until = 0
		m.ledger.OweAbsent(r, due)
	}
	m.meet(t, d)
}

// doubt is a release that was answered, whose SET may still come.
func (m *ledgerModel) doubt(t *rapid.T) {
	r, d := m.drawRelease(t, m.now+pure.RepeatFirst)
	since := m.now - time.Duration(rapid.Int64Range(0, int64(lifeOf(r.TTL)-1)).Draw(t, "ago"))
	d.repeat, d.delay = true, pure.RepeatFirst*pure.RepeatTimes
	d.until = max(d.until, since+lifeOf(r.TTL))
	due, ok := m.ledger.Doubt(r, since, m.now)
	require.True(t, ok)
	require.Equal(t, d.due, due)
	m.meet(t, d)
}

// meet finds the debt that the ledger has, which must be the one that it had.
func (m *ledgerModel) meet(t *rapid.T, d *modelDebt) {
	for _, real := range m.ledger.Debts {
		if real.Command == d.command {
			require.True(t, d.real == nil || d.real == real, "a release is owed once")
			d.real = real
			return
		}
	}
	require.Fail(t, "it is not owed")
}

// take requires the debts that are due longest.
func (m *ledgerModel) take(t *rapid.T) {
	most := rapid.IntRange(1, 5).Draw(t, "most")
	var due []time.Duration
	for _, d := range m.debts {
		if !d.sent && d.due <= m.now {
			due = append(due, d.due)
		}
	}
	slices.Sort(due)
	var got []time.Duration
	for _, real := range m.ledger.Take(nil, m.now, most) {
		d := m.find(real.Command)
		require.NotNil(t, d)
		require.False(t, d.sent, "sent twice")
		d.sent = true
		got = append(got, d.due)
	}
	require.True(t, slices.Equal(due[:min(len(due), most)], got), "%v, and %v were taken", due, got)
}

// sentOnes returns the debts whose answer is pending.
func (m *ledgerModel) sentOnes() (sent []*modelDebt) {
	for _, d := range m.debts {
		if d.sent {
			sent = append(sent, d)
		}
	}
	return sent
}

func (m *ledgerModel) settle(t *rapid.T) {
	sent := m.sentOnes()
	if len(sent) == 0 {
		t.Skip()
	}
	d := rapid.SampledFrom(sent).Draw(t, "debt")
	answered := rapid.Bool().Draw(t, "answered")
	m.ledger.Settle(d.real, answered, m.now)
	d.sent = false
	switch {
	case answered && !d.repeat:
		m.remove(d, "an integer")
		return
	case answered:
		d.settled = true
		d.due = m.now + d.delay
		d.delay *= pure.RepeatTimes
	case d.repeat:
		d.due = m.now + min(d.delay, time.Second)
	default:
		d.due = m.now + d.delay
		d.delay = min(2*d.delay, time.Second)
	}
	m.begin(d)
}

// begin starts the time of a debt, if it has not started.
func (m *ledgerModel) begin(d *modelDebt) {
	if d.until == 0 {
		d.until = m.end(d)
	}
}

func (m *ledgerModel) end(d *modelDebt) time.Duration {
	ttl := max(d.ttl, m.ledger.Longest)
	if d.repeat {
		ttl = d.ttl
	}
	return m.now + lifeOf(ttl)
}

// lifeOf is TTL × (1 + drift).
func lifeOf(ttl time.Duration) time.Duration { return ttl + time.Duration(float64(ttl)*0.01) + 2*ms }

func (m *ledgerModel) recall(t *rapid.T) {
	for _, d := range m.sentOnes() {
		d.sent = false
		m.ledger.Recall(d.real)
	}
}

func (m *ledgerModel) fence(t *rapid.T) {
	certain := rapid.Bool().Draw(t, "certain")
	for _, d := range m.debts {
		d.due, d.sent = m.now, false
		if !certain || d.repeat {
			d.repeat, d.delay = true, pure.RepeatFirst
		}
		if !certain || d.until == 0 {
			d.until = m.end(d)
		}
		m.ledger.FenceDebt(d.real, m.now, certain)
	}
}

func (m *ledgerModel) start(t *rapid.T) {
	for _, d := range m.debts {
		m.begin(d)
		d.sent = false
		m.ledger.StartDebt(d.real, m.now)
	}
}

func (m *ledgerModel) wait(t *rapid.T) {
	m.now += time.Duration(rapid.IntRange(1, 3000).Draw(t, "wait")) * ms
	m.ledger.Expire(m.now)
	for _, d := range slices.Clone(m.debts) {
		if !d.sent && d.until != 0 && d.until <= m.now {
			m.remove(d, "its end")
		}
	}
}

func (m *ledgerModel) check(t *rapid.T) {
	require.Nil(t, m.ledger.Misplaced())
	require.Len(t, m.ledger.Debts, len(m.debts))
	owed, due, next, waits := 0, 0, time.Duration(0), false
	for i, real := range m.ledger.Debts {
		require.Equal(t, i, real.Index)
		d := m.find(real.Command)
		require.NotNil(t, d, "%s is gone by %s", real.Command, m.gone[real.Command])
		// The TTL shows in Until, and settled debts show in Full.
		require.Equal(t, modelDebt{d.command, 0, d.due, d.until, d.delay, d.sent, d.repeat, false, real},
			modelDebt{real.Command, 0, real.Due, real.Until, real.Delay, real.Sent, real.Repeat, false, real})
		if !d.settled {
			owed++
		}
		if d.sent {
			continue
		}
		if d.due <= m.now {
			due++
		}
		if !waits || d.due < next {
			next, waits = d.due, true
		}
		if d.until != 0 {
			next = min(next, d.until)
		}
	}
	require.Equal(t, due, m.ledger.Due(m.now, 1000))
	at, ok := m.ledger.Next()
	require.Equal(t, waits, ok)
	if ok {
		require.Equal(t, next, at)
	}
	require.Equal(t, owed >= 6, m.ledger.Full())
	require.Equal(t, uint64(owed), m.ledger.Made-m.ledger.Paid-m.ledger.Expired, "what was made is owed, paid or expired")
}
