package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Locks that are shared, and those with a queue: a legal history passes, and
// each fault is found.
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
	}{
		{"readers", "1 a1 grant 100 for read; 2 b1 grant 100 for read; 3 c1 grant 50 for read; 4 b1 release; 60 a1 release; 61 d1 grant 99 for write", nil},
		{"readers, then a writer", "1 a1 grant 100 for read; 2 b1 grant 10 for read; 5 a1 release; 11 c1 grant 100 for write; 12 c1 release; 13 b2 grant 50 for read", nil},
		{"a reader that is extended", "1 a1 grant 10 for read; 2 b1 grant 20 for read; 9 a1 extend 30; 21 b2 grant 60 for read; 31 c1 start for write; 32 c1 held", nil},
		{"readers, extended and told late", "1 a1 grant 10 for read; 2 b1 grant 50 for read; 15 c1 grant 50 for read; 16 a1 extend 30", nil},
		{"the only reader becomes the writer, and stays a reader", "1 a1 grant 100 for read; 2 a2 start for write from 1; 3 a2 grant 50; 4 a1 extend 120; 9 a2 release; 10 b1 grant 80 for read; 81 a1 release", nil},
		{"a reader whose time ends under its own writer", "1 a1 grant 10 for read; 2 a2 start for write from 1; 3 a2 grant 50; 20 a1 lost; 60 b1 grant 80 for read", nil},
		{"a writer becomes a reader", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 50 for read; 9 a2 grant 105; 51 c1 start for write; 52 c1 held; 60 a2 release; 61 c2 grant 99 for write", nil},
		{"a downgrade that fails", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 50 for write; 9 a2 held", nil},
		{"a downgrade whose time was over when it was told", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 20 b1 grant 50 for write; 30 a2 grant 19", nil},
		{"a writer before a reader that becomes another's", "1 b1 grant 4 for write; 5 a1 grant 100 for write; 6 a1 release; 6 a2 start for read from 1; 9 a2 grant 105", nil},
		{"a reader comes and goes while another becomes the writer", "1 a1 grant 100 for read; 2 a2 start for write from 1; 3 b1 grant 90 for read; 4 b1 release; 5 a2 grant 50", nil},
		{"a reader under its own writer, extended and told late", "1 a1 grant 10 for read; 2 a2 start for write from 1; 3 a2 grant 50; 15 a1 extend 30; 31 a2 release", nil},

		{"a writer under a reader", "1 a1 grant 100 for read; 20 b1 grant 50 for write; 60 b1 release", []string{two + " for 30 from 20"}},
		{"a reader under a writer", "1 a1 grant 100 for write; 20 b1 grant 50 for read", []string{two + " for 30 from 20"}},
		{"two writers", "1 a1 grant 100 for write; 20 b1 grant 50 for write", []string{two + " for 30 from 20"}},
		{"one of two readers becomes the writer", "1 a1 grant 100 for read; 2 b1 grant 90 for read; 5 a2 start for write from 1; 6 a2 grant 50", []string{two + " for 44 from 6"}},
		{"a reader under one that became the writer", "1 a1 grant 100 for read; 2 a2 start for write from 1; 3 a2 grant 50; 4 b1 grant 20 for read", []string{two + " for 16 from 4"}},
		{"a writer that says that it is another's reader", "1 a1 grant 100 for read; 2 b2 start for write from 1; 3 b2 grant 50", []string{two + " for 47 from 3"}},
		{"a writer that says that it was a reader, and was a writer", "1 a1 grant 100 for write; 2 a2 start for write from 1; 3 a2 grant 50", []string{two + " for 47 from 3"}},
		{"a reader's time extended over a writer", "1 a1 grant 10 for read; 12 b1 grant 30 for write; 15 a1 extend 20", []string{"extended although another was granted it", two + " for 5 from 15"}},
		{"a plain lock under a reader", "1 a1 grant 100 for read; 20 b1 grant 50", []string{two + " for 30 from 20"}},
		{"another writer before the downgrade", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 50 for write; 8 b1 release; 9 a2 grant 105", []string{let}},
		{"two other writers before a downgrade, one after its time", "1 a1 grant 100 for write; 5 a1 release; 5 a2 start for read from 1; 7 b1 grant 9 for write; 20 b2 grant 25 for write; 30 a2 grant 19", []string{let}},
		{"a write lock that is kept until the downgrade is confirmed", "1 a1 grant 100 for write; 5 a2 start for read from 1; 7 b1 grant 50 for read; 9 a2 grant 105; 10 a1 release", []string{
			two + " for 3 from 7", two + " for 1 from 9"}},

		{"permits", "1 a1 grant 100 for permit of 2; 2 b1 grant 100 for permit of 2; 3 c1 start for permit of 2; 4 c1 held; 5 a1 release; 6 c2 grant 100 for permit of 2; 101 d1 grant 120 for permit of 2", nil},
		{"permits, at one time, noted before the release", "1 a1 grant 100 for permit of 1; 9 b1 grant 90 for permit of 1; 9 a1 release", nil},
		{"permits beside a plain lock of that name", "1 a1 grant 100 for permit of 2; 2 b1 grant 100; 3 b1 extend 110; 4 a1 extend 120; 5 b1 release", nil},
		{"fewer permits stop new ones", "1 a1 grant 100 for permit of 3; 2 b1 grant 100 for permit of 3; 3 c1 grant 100 for permit of 3; 4 a1 release; 5 b1 release; 6 d1 grant 100 for permit of 2", nil},
		{"a permit, extended and told late", "1 a1 grant 10 for permit of 2; 2 b1 grant 50 for permit of 2; 12 a1 extend 30; 13 a1 release; 14 c1 grant 50 for permit of 2", nil},
		{"too many", "1 a1 grant 100 for permit of 2; 2 b1 grant 30 for permit of 2; 20 c1 grant 100 for permit of 2", []string{many + " for 10 from 20"}},
		{"as many as the most", "1 a1 grant 100 for permit of 1; 2 b1 grant 100 for permit of 2", nil},
		{"as many as the most, and the last knows of fewer", "1 a1 grant 100 for permit of 3; 2 b1 grant 100 for permit of 3; 3 c1 grant 100 for permit of 2", nil},
		{"more than the most", "1 a1 grant 100 for permit of 2; 2 b1 grant 100 for permit of 2; 20 c1 grant 90 for permit of 1", []string{many + " for 70 from 20"}},
		{"more than the most, the other way round", "1 a1 grant 100 for permit of 1; 2 b1 grant 100 for permit of 2; 20 c1 grant 90 for permit of 2", []string{many + " for 70 from 20"}},
		{"a permit that is extended over its successor", "1 a1 grant 10 for permit of 1; 12 b1 grant 50 for permit of 1; 15 a1 extend 20", []string{many + " for 5 from 15"}},

		{"served in order", "1 a1 grant 20 for fair; 2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 c1 queued 50; 10 a1 release; 11 b1 grant 60; 12 c1 queued 60; 20 b1 release; 21 c1 grant 90", nil},
		{"both began before either knew its place", "2 b1 start for fair; 2 c1 start for fair; 3 b1 queued 50; 5 c1 queued 50; 11 c1 grant 20; 12 b1 queued 60; 21 b1 grant 90", nil},
		{"one that lost its place is overtaken, and comes back", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 queued 50; 11 c1 grant 20; 21 b1 queued 60; 22 b1 grant 90", nil},
		{"one that lost its place is overtaken, and served later", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 11 c1 grant 15; 16 b1 grant 60", nil},
		{"one that left is overtaken", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 queued 50; 6 b1 cancel; 11 c1 grant 20", nil},
		{"one that left before it says so", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 12 b1 noquorum", nil},
		{"one that died", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20", nil},
		{"other queues", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start on l for fair; 5 c1 grant 30 on l for fair; 6 b1 queued 50", nil},
		{"a fair lock that is extended", "1 a1 grant 20 for fair; 2 b1 start for fair; 3 b1 queued 50; 10 a1 extend 30; 31 b1 grant 60", nil},
		{"a plain lock knows no queue", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 c1 held; 6 d1 grant 9; 10 b1 queued 60; 12 b1 grant 70", nil},

		{"overtaken, and still waiting", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 c1 queued 50; 11 c1 grant 20; 12 b1 queued 60", []string{overt}},
		{"overtaken, and asks on", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 12 b1 queued 60; 13 b1 queued 70", []string{overt}},
		{"overtaken before it lost its place", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 grant 8; 12 b1 queued 60; 13 b1 grant 70", []string{overt}},
		{"overtaken when it had its place again", "6 a1 start for fair; 7 a1 queued 8; 9 b1 start for fair; 10 b1 queued 30; 11 a1 queued 50; 13 b1 queued 60; 22 b1 grant 40; 23 a1 queued 60", []string{overt}},
		{"overtaken within the longer of two times", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 5 b1 queued 9; 11 c1 grant 20; 12 b1 queued 60", []string{overt}},
		{"overtaken, and served later", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 22 b1 grant 60", []string{overt}},
		{"overtaken, and out of patience later", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 52 b1 cancel", []string{overt}},
		{"overtaken twice", "2 b1 start for fair; 3 b1 queued 50; 4 c1 start for fair; 11 c1 grant 20; 12 c1 release; 13 d1 start for fair; 14 d1 grant 20; 22 b1 queued 60; 23 b1 cancel", []string{overt, overt}},
		{"overtaken by one that came back to a place that it had not", "2 b1 start for fair; 3 b1 queued 10; 4 c1 start for fair; 5 c1 queued 50; 11 b1 held; 12 b2 start for fair; 13 b2 grant 20; 22 c1 queued 60", []string{overt}},
		{"two holders of a fair lock", "1 a1 grant 20 for fair; 2 b1 grant 30 for fair", []string{two + " for 18 from 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, _ := judged(script(t, c.script))
			require.Equal(t, c.faults, faults(x))
			x, _ = judged(formsAtFirst(script(t, c.script)))
			require.Equal(t, c.faults, faults(x), "with forms on Start and Grant only")
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
	for what, left := range map[string]int{
		"holds": len(x.holds), "attempts": len(x.line.started), "places": len(x.line.places), "downgrades": len(x.exchanges),
		"porcupine's attempts": len(l.started),
	} {
		require.GreaterOrEqual(t, left, kept, what)
		require.Less(t, left, n*3/4, what)
	}
}

// Exclusion finds the same as a comparison of each hold with every other one:
// of readers and writers, and of permits.
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
		x, _ := judged(events)
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
	})
}
