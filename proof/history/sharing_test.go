package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Locks that are shared, and those with a queue: a legal history passes both
// checkers, and each fault is found.
func TestSharedLocksMadeByHand(t *testing.T) {
	const (
		two   = string(TwoHolders)
		many  = string(TooManyPermits)
		let   = string(LetAWriterIn)
		overt = string(Overtook)
	)
	for _, c := range []struct {
		name, script string
		faults       []string
		porcupine    int // windows that it finds violated
	}{
		{"readers", "1 a1 grant 100 for read; 2 b1 grant 100 for read; 3 c1 grant 50 for read; 4 b1 release; 60 a1 release; 61 d1 grant 99 for write", nil, 0},
		{"readers, then a writer", "1 a1 grant 100 for read; 2 b1 grant 10 for read; 5 a1 release; 11 c1 grant 100 for write; 12 c1 release; 13 b2 grant 50 for read", nil, 0},
		{"a reader that is extended", "1 a1 grant 10 for read; 2 b1 grant 20 for read; 9 a1 extend 30; 21 b2 grant 60 for read; 31 c1 start for write; 32 c1 held", nil, 0},
		{"readers, extended and told late", "1 a1 grant 10 for read; 2 b1 grant 50 for read; 15 c1 grant 50 for read; 16 a1 extend 30", nil, 0},
		{"the only reader becomes the writer, and stays a reader", "1 a1 grant 100 for read; 2 a2 start for write from 1; 3 a2 grant 50; 4 a1 extend 120; 9 a2 release; 10 b1 grant 80 for read; 81 a1 release", nil, 0},
		{"a reader whose time ends under its own writer", "1 a1 grant 10 for read; 2 a2 start for write from 1; 3 a2 grant 50; 20 a1 lost; 60 b1 grant 80 for read", nil, 0},
		{"a writer becomes a reader", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 50 for read; 9 a2 grant 105; 51 c1 start for write; 52 c1 held; 60 a2 release; 61 c2 grant 99 for write", nil, 0},
		{"a downgrade that fails", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 50 for write; 9 a2 held", nil, 0},
		{"a downgrade whose time was over when it was told", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 20 b1 grant 50 for write; 30 a2 grant 19", nil, 0},
		{"a writer before a reader that becomes another's", "1 b1 grant 4 for write; 5 a1 grant 100 for write; 6 a1 release; 6 a2 start for read from 1; 9 a2 grant 105", nil, 0},
		{"a reader comes and goes while another becomes the writer", "1 a1 grant 100 for read; 2 a2 start for write from 1; 3 b1 grant 90 for read; 4 b1 release; 5 a2 grant 50", nil, 0},
		{"a reader under its own writer, extended and told late", "1 a1 grant 10 for read; 2 a2 start for write from 1; 3 a2 grant 50; 15 a1 extend 30; 31 a2 release", nil, 0},

		{"a writer under a reader", "1 a1 grant 100 for read; 20 b1 grant 50 for write; 60 b1 release", []string{two + " for 30 from 20"}, 1},
		{"a reader under a writer", "1 a1 grant 100 for write; 20 b1 grant 50 for read", []string{two + " for 30 from 20"}, 1},
		{"two writers", "1 a1 grant 100 for write; 20 b1 grant 50 for write", []string{two + " for 30 from 20"}, 1},
		{"one of two readers becomes the writer", "1 a1 grant 100 for read; 2 b1 grant 90 for read; 5 a2 start for write from 1; 6 a2 grant 50", []string{two + " for 44 from 6"}, 1},
		{"a reader under one that became the writer", "1 a1 grant 100 for read; 2 a2 start for write from 1; 3 a2 grant 50; 4 b1 grant 20 for read", []string{two + " for 16 from 4"}, 1},
		{"a writer that says that it is another's reader", "1 a1 grant 100 for read; 2 b2 start for write from 1; 3 b2 grant 50", []string{two + " for 47 from 3"}, 1},
		{"a writer that says that it was a reader, and was a writer", "1 a1 grant 100 for write; 2 a2 start for write from 1; 3 a2 grant 50", []string{two + " for 47 from 3"}, 1},
		{"a reader's time extended over a writer", "1 a1 grant 10 for read; 12 b1 grant 30 for write; 15 a1 extend 20", []string{"extended although another was granted it", two + " for 5 from 15"}, 1},
		{"a plain lock under a reader", "1 a1 grant 100 for read; 20 b1 grant 50", []string{two + " for 30 from 20"}, 1},
		{"another writer before the downgrade", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 50 for write; 8 b1 release; 9 a2 grant 105", []string{let}, 1},
		{"two other writers before a downgrade, one after its time", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 9 for write; 20 b2 grant 25 for write; 30 a2 grant 19", []string{let}, 0},
		{"a write lock that is kept until the downgrade is confirmed", "1 a1 grant 100 for write; 5 a2 start for read from 1; 7 b1 grant 50 for read; 9 a2 grant 105; 10 a1 release", []string{
			two + " for 3 from 7", two + " for 1 from 9"}, 1},

		{"permits", "1 a1 grant 100 for permit of 2; 2 b1 grant 100 for permit of 2; 3 c1 start for permit of 2; 4 c1 held; 5 a1 release; 6 c2 grant 100 for permit of 2; 101 d1 grant 120 for permit of 2", nil, 0},
		{"permits, at one time, noted before the release", "1 a1 grant 100 for permit of 1; 9 b1 grant 90 for permit of 1; 9 a1 release", nil, 0},
		{"permits beside a plain lock of that name", "1 a1 grant 100 for permit of 2; 2 b1 grant 100; 3 b1 extend 110; 4 a1 extend 120; 5 b1 release", nil, 0},
		{"fewer permits stop new ones", "1 a1 grant 100 for permit of 3; 2 b1 grant 100 for permit of 3; 3 c1 grant 100 for permit of 3; 4 a1 release; 5 b1 release; 6 d1 grant 100 for permit of 2", nil, 0},
		{"a permit, extended and told late", "1 a1 grant 10 for permit of 2; 2 b1 grant 50 for permit of 2; 12 a1 extend 30; 13 a1 release; 14 c1 grant 50 for permit of 2", nil, 0},
		{"too many", "1 a1 grant 100 for permit of 2; 2 b1 grant 30 for permit of 2; 20 c1 grant 100 for permit of 2", []string{many + " for 10 from 20"}, 1},
		{"as many as the most", "1 a1 grant 100 for permit of 1; 2 b1 grant 100 for permit of 2", nil, 0},
		{"as many as the most, and the last knows of fewer", "1 a1 grant 100 for permit of 3; 2 b1 grant 100 for permit of 3; 3 c1 grant 100 for permit of 2", nil, 0},
		{"more than the most", "1 a1 grant 100 for permit of 2; 2 b1 grant 100 for permit of 2; 20 c1 grant 90 for permit of 1", []string{many + " for 70 from 20"}, 1},
		{"more than the most, the other way round", "1 a1 grant 100 for permit of 1; 2 b1 grant 100 for permit of 2; 20 c1 grant 90 for permit of 2", []string{many + " for 70 from 20"}, 1},
		{"a permit that is extended over its successor", "1 a1 grant 10 for permit of 1; 12 b1 grant 50 for permit of 1; 15 a1 extend 20", []string{many + " for 5 from 15"}, 1},

		{"served in order", "1 a1 grant 20 for fair; 2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 c1 queued 50; 10 a1 release; 11 b1 grant 60; 12 c1 queued 60; 20 b1 release; 21 c1 grant 90", nil, 0},
		{"both began before either knew its place", "2 b1 start for fair; 2 c1 start for fair; 3 b1 queued 50; 5 c1 queued 50; 11 c1 grant 20; 12 b1 queued 60; 21 b1 grant 90", nil, 0},
		{"one that lost its place is overtaken, and comes back", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 queued 50; 11 c1 grant 20; 21 b1 queued 60; 22 b1 grant 90", nil, 0},
		{"one that lost its place is overtaken, and served later", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 11 c1 grant 15; 16 b1 grant 60", nil, 0},
		{"one that left is overtaken", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 queued 50; 6 b1 cancel; 11 c1 grant 20", nil, 0},
		{"one that left before it says so", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 12 b1 noquorum", nil, 0},
		{"one that died", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20", nil, 0},
		{"other queues", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start on l for fair; 5 c1 grant 30 on l for fair; 6 b1 queued 50", nil, 0},
		{"a fair lock that is extended", "1 a1 grant 20 for fair; 2 b1 start for fair; 3 b1 queued 50; 10 a1 extend 30; 31 b1 grant 60", nil, 0},
		{"a plain lock knows no queue", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 c1 held; 6 d1 grant 9; 10 b1 queued 60; 12 b1 grant 70", nil, 0},

		{"overtaken, and still waiting", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 c1 queued 50; 11 c1 grant 20; 12 b1 queued 60", []string{overt}, 1},
		{"overtaken, and asks on", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 12 b1 queued 60; 13 b1 queued 70", []string{overt}, 1},
		{"overtaken before it lost its place", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 grant 8; 12 b1 queued 60; 13 b1 grant 70", []string{overt}, 1},
		{"overtaken when it had its place again", "6 a1 start for fair; 7 a1 queued 8; 9 b1 start for fair; 10 b1 queued 30; 11 a1 queued 50; 13 b1 queued 60; 22 b1 grant 40; 23 a1 queued 60", []string{overt}, 1},
		{"overtaken within the longer of two times", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 b1 queued 9; 11 c1 grant 20; 12 b1 queued 60", []string{overt}, 1},
		{"overtaken, and served later", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 22 b1 grant 60", []string{overt}, 1},
		{"overtaken, and out of patience later", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 52 b1 cancel", []string{overt}, 1},
		{"overtaken twice", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 12 c1 release; 13 d1 start for fair; 14 d1 grant 20; 22 b1 queued 60; 23 b1 cancel", []string{overt, overt}, 1},
		{"overtaken by one that came back to a place that it had not", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 queued 50; 11 b1 held; 12 b2 start for fair; 13 b2 grant 20; 22 c1 queued 60", []string{overt}, 1},
		{"two holders of a fair lock", "1 a1 grant 20 for fair; 2 b1 grant 30 for fair", []string{two + " for 18 from 2"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, v := judged(script(t, c.script))
			require.Equal(t, c.faults, faults(x))
			require.Equal(t, c.porcupine, v.Violated, v.Findings)
			require.Zero(t, v.Undecided)
			x, v = judged(formsAtFirst(script(t, c.script)))
			require.Equal(t, c.faults, faults(x), "with forms on Start and Grant only")
			require.Equal(t, c.porcupine, v.Violated, "with forms on Start and Grant only")
		})
	}
}

// formsAtFirst leaves the forms on those events of an attempt that must have
// them.
func formsAtFirst(events []Event) []Event {
	for i := range events {
		if e := &events[i]; e.Ev != Start && e.Ev != Grant {
			e.Form, e.Permits, e.From = PlainForm, 0, 0
		}
	}
	return events
}

// What dead clients leave behind is forgotten some time later, and what may
// still go on is not.
func TestWhatDeadClientsLeaveIsForgotten(t *testing.T) {
	const n, kept = 4000, int(overdueFor / int64(time.Second))
	var x Exclusion
	var l Locks
	for i := range n {
		e := Event{T: int64(i) * int64(time.Second), Client: i, Resource: fmt.Sprint("k", i)}
		add := func(attempt uint64, ev Kind, form Form) {
			e.Attempt, e.Ev, e.Form = attempt, ev, form
			x.Add(e)
			l.Add(e)
		}
		add(1, Start, FairForm)
		e.Until = e.T + 1
		add(1, Queued, FairForm)
		add(2, Grant, PlainForm)
		e.Until, e.From = 0, 2
		add(3, Start, ReadForm)
	}
	places := 0
	for _, w := range l.resources {
		places += len(w.places)
	}
	for what, left := range map[string]int{
		"holds": len(x.holds), "attempts": len(x.line.started), "places": len(x.line.places), "downgrades": len(x.exchanges),
		"porcupine's attempts": len(l.started) / 2, "porcupine's places": places,
	} {
		require.GreaterOrEqual(t, left, kept, what)
		require.Less(t, left, n*3/4, what)
	}
}

// Figures of the forms.
func TestWhatExclusionCountsOfForms(t *testing.T) {
	x, _ := judged(script(t, `1 a1 grant 10 for read; 2 a2 start for write from 1; 3 a2 grant 10; 4 a2 release; 5 a3 start for read from 2; 6 a3 grant 10;
		7 b1 start on s for permit of 2; 8 b1 grant 10 on s for permit; 9 c1 start on f for fair; 10 c1 queued 20 on f; 11 c1 grant 20 on f; 12 d1 grant 20 on p`))
	require.Equal(t, map[Form]int{PlainForm: 1, ReadForm: 2, WriteForm: 1, PermitForm: 1, FairForm: 1}, x.Forms)
	require.Equal(t, 1, x.Upgrades)
	require.Equal(t, 1, x.Downgrades)
	require.Equal(t, 1, x.Queued)
}

// Exclusion finds the same as a comparison of each hold with every other one,
// and porcupine agrees whether there is any violation: of readers and writers,
// and of permits.
func TestSharingAgainstComparingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, permits := anyHistory(t), rapid.IntRange(0, 3).Draw(t, "permits")
		of := make(map[attempt]Form)
		for i := range events {
			e := &events[i]
			if permits > 0 {
				e.Form, e.Permits = PermitForm, permits
				continue
			}
			if _, ok := of[attemptOf(*e)]; !ok {
				of[attemptOf(*e)] = rapid.SampledFrom([]Form{ReadForm, ReadForm, WriteForm}).Draw(t, "form")
			}
			e.Form = of[attemptOf(*e)]
		}
		x, v := judged(events)
		found, want := len(x.Violations()), 0
		holds := holdsOf(events)
		for i, a := range holds {
			meets := func(b span) bool { return a.resource == b.resource && b.from <= a.from && a.from < b.to }
			at := 1 // how many were held when this one was granted, with it
			for j, b := range holds {
				if j == i || !meets(b) || b.from == a.from && j > i {
					continue
				}
				at++
				if permits == 0 && (a.form == WriteForm || b.form == WriteForm) {
					want++
				}
			}
			if permits > 0 && at > permits {
				want++
			}
		}
		require.Equal(t, want > 0, found > 0, "%v", x.Violations())
		if permits == 0 {
			require.Equal(t, want, found)
		}
		require.Equal(t, want > 0, v.Violated > 0, "%v", v.Findings)
		require.Zero(t, v.Undecided)
	})
}

// A long history is cut into windows, and what was held and who waited is
// carried over: a fault is found wherever it is.
func TestSharedLocksInWindows(t *testing.T) {
	const n = 4000
	for _, form := range []Form{ReadForm, PermitForm, FairForm} {
		t.Run(string(form), func(t *testing.T) {
			base := fourThatShare(form, n)
			_, v := judged(base)
			require.NoError(t, v.Err())
			require.Greater(t, v.Windows, 5)
			for _, at := range []int64{100, 4_321, 22_222, 39_005} {
				e := Event{T: at, Client: 9, Attempt: 1, Resource: "k", Ev: Start, Form: form, Permits: 3}
				if form == ReadForm {
					e.Form = WriteForm
				}
				wrong := append(slices.Clone(base), e)
				e.T, e.Ev, e.Until = e.T+1, Grant, e.T+3
				x, v := judged(inOrder(append(wrong, e)))
				require.NotEmpty(t, x.Violations(), at)
				require.Equal(t, 1, v.Violated, at)
			}
		})
	}
}

// fourThatShare has three that read, or have permits, all the time, each
// beginning before the one before it ends; or one that has a fair lock, and two
// that wait for it.
func fourThatShare(form Form, n int64) (events []Event) {
	for i := range n {
		e := Event{T: 10 * i, Client: int(i % 4), Attempt: uint64(i), Resource: "k", Form: form, Permits: 3, Token: fmt.Sprint(i)}
		add := func(t int64, ev Kind, until int64) {
			e.T, e.Ev, e.Until = t, ev, until
			events = append(events, e)
		}
		add(10*i, Start, 0)
		granted := 10*i + 2
		if form == FairForm {
			add(10*i+1, Queued, 10*i+15)
			add(10*i+11, Queued, 10*i+40)
			granted = 10*i + 20
		}
		add(granted, Grant, granted+100)
		add(granted+map[bool]int64{true: 9, false: 28}[form == FairForm], Release, 0)
	}
	return inOrder(events)
}
