package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A legal history passes both checkers, and each fault is found by the checker
// that knows of it.
func TestHistoriesMadeByHand(t *testing.T) {
	for _, c := range []struct {
		name, script string
		faults       []string
		porcupine    int // windows that it finds violated
	}{
		{"nothing", "", nil, 0},
		{"one after the other", "1 a1 start; 2 a1 grant 100; 5 b1 start; 9 a1 release 100; 10 b1 grant 90; 11 a1 released; 20 b1 release; 21 b1 released", nil, 0},
		{"at one time, after the release was called", "1 a1 grant 100; 9 a1 release; 9 b1 grant 90", nil, 0},
		{"at one time, noted before the release", "1 a1 grant 100; 9 b1 grant 90; 9 a1 release", nil, 0},
		{"after the validity ended", "1 a1 grant 10; 10 b1 grant 20; 15 a1 release; 16 a1 lost", nil, 0},
		{"never released", "1 a1 grant 10; 12 b1 grant 20; 25 c1 grant 40", nil, 0},
		{"over before it was told", "1 a1 grant 10; 5 b1 grant 4; 6 b1 release; 7 b1 lost", nil, 0},
		{"refusals while another holds it", "1 a1 grant 10; 2 b1 start; 3 b1 held; 4 b2 start; 5 b2 noquorum; 6 b3 start; 7 b3 cancel; 8 b4 start; 9 b4 expired; 9 b5 start; 9 b5 error", nil, 0},
		{"other resources", "1 a1 grant 100; 2 b1 grant 100 on l; 3 c1 grant 100 on m", nil, 0},
		{"released twice", "1 a1 grant 100; 2 a1 release; 3 a1 released; 4 a1 release; 5 a1 lost", nil, 0},
		{"extended", "1 a1 grant 10; 5 a1 extend 20; 15 a1 extend 30; 31 b1 grant 40", nil, 0},
		{"extended, and told late", "1 a1 grant 10; 12 a1 extend 20; 21 b1 grant 40", nil, 0},
		{"extended, and told too late", "1 a1 grant 10; 12 a1 extend 11; 13 b1 grant 40", nil, 0},
		{"lost, then another's", "1 a1 grant 100; 5 a1 lost; 6 b1 grant 100; 7 a1 release; 8 a1 lost", nil, 0},
		{"a renewal that is noted after the release", "1 a1 grant 100; 5 a1 release; 6 a1 extend 200; 7 b1 grant 100", nil, 0},

		{"two holders", "1 a1 grant 100; 50 b1 grant 200", []string{"two holders at a time for 50 from 50"}, 1},
		{"two holders, until one released", "1 a1 grant 100; 50 b1 grant 200; 60 a1 release; 61 a1 released", []string{"two holders at a time for 10 from 50"}, 1},
		{"two holders, until one was lost", "1 a1 grant 100; 50 b1 grant 200; 70 b1 lost", []string{"two holders at a time for 20 from 50"}, 1},
		{"two attempts of one client", "1 a1 grant 100; 50 a2 grant 60", []string{"two holders at a time for 10 from 50"}, 1},
		{"three holders", "1 a1 grant 100; 50 b1 grant 200; 60 c1 grant 70", []string{
			"two holders at a time for 50 from 50", "two holders at a time for 10 from 60", "two holders at a time for 10 from 60"}, 1},
		{"another within an extension", "1 a1 grant 10; 5 a1 extend 20; 15 b1 grant 30", []string{"two holders at a time for 5 from 15"}, 1},
		{"extended over another", "1 a1 grant 10; 12 b1 grant 30; 15 a1 extend 20", []string{
			"extended although another was granted it", "two holders at a time for 5 from 15"}, 1},
		{"extended over a client that came and went", "1 a1 grant 10; 12 b1 grant 30; 14 b1 release; 15 a1 extend 20", []string{
			"extended although another was granted it"}, 0},
		{"a release frees only its own", "1 a1 grant 10; 12 b1 grant 30; 13 a1 release; 14 c1 grant 40", []string{"two holders at a time for 16 from 14"}, 1},
		{"the same token again", "1 a1 grant 10 by x; 2 a1 release by x; 3 a2 grant 20 by x", []string{"a token was granted twice"}, 0},
		{"the same attempt again", "1 a1 grant 10; 5 a1 grant 20", []string{"an attempt was granted twice"}, 0},
		{"the same attempt again, after its release", "1 a1 grant 10; 5 a1 release; 6 a1 grant 20", []string{"an attempt was granted twice"}, 0},
		{"released, never granted", "1 a1 start; 5 a1 release", []string{"extended or released, but never granted"}, 0},
		{"extended, never granted", "5 a1 extend 20", []string{"extended or released, but never granted"}, 0},
		{"confirmed, never granted", "5 a1 released", []string{"extended or released, but never granted"}, 0},
		{"released another's", "1 a1 grant 10; 5 a1 release by other", []string{"another token than was granted"}, 0},
		{"released elsewhere", "1 a1 grant 10; 5 a1 release on elsewhere", []string{"extended or released, but never granted"}, 0},
		{"shortened", "1 a1 grant 10; 5 a1 extend 9", []string{"an extension that ends earlier"}, 0},
		{"extended after it was told lost", "1 a1 grant 100; 5 a1 lost; 6 a1 extend 200", []string{"extended after it was told lost"}, 0},
		{"two resources", "1 a1 start; 1 a1 start on l; 2 a1 grant 100 by x; 2 a1 grant 100 on l by x; 5 a1 release by x; 5 a1 release on l by x; 6 a1 released by x; 6 a1 released on l by x", nil, 0},
		{"two resources, of which another has one", "1 a1 grant 100 by x; 1 a1 grant 100 on l by x; 2 b1 grant 100 on l by y", []string{"two holders at a time for 98 from 2"}, 1},
		{"numbers that rise", "1 a1 start; 2 a1 grant 9 as 5; 10 b1 start; 11 b1 grant 20 as 6; 21 c1 start; 22 c1 grant 30 as 7", nil, 0},
		{"numbers of attempts at one time", "1 a1 start; 1 b1 start; 2 a1 grant 9 as 5; 10 b1 grant 20 as 4; 21 c1 start; 22 c1 grant 30 as 6", nil, 0},
		{"numbers of other resources, and locks without", "1 a1 grant 9 as 5; 2 b1 start on l; 3 b1 grant 9 on l as 4; 10 c1 start; 11 c1 grant 20", nil, 0},
		{"a number that is lower", "1 a1 start; 2 a1 grant 9 as 5; 10 b1 start; 11 b1 grant 20 as 4", []string{
			"a fencing number that is not higher than one granted before the attempt began"}, 0},
		{"a number that is lower than one before the last", "1 a1 start; 1 b1 start; 2 a1 grant 9 as 5; 10 b1 grant 20 as 3; 21 c1 start; 22 c1 grant 30 as 4", []string{
			"a fencing number that is not higher than one granted before the attempt began"}, 0},
		{"a number twice", "1 a1 start; 1 b1 start; 2 a1 grant 9 as 5; 10 b1 grant 20 as 5", []string{"a fencing number was granted twice"}, 0},
		{"a number after a refusal", "1 a1 grant 9 as 5; 10 b1 start; 11 b1 held; 12 b2 start; 13 b2 grant 20 as 5", []string{"a fencing number was granted twice"}, 0},
		{"out of order", "5 a1 grant 10; 4 a2 start", []string{"events out of order: nothing else is certain"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, v := judged(script(t, c.script))
			require.Equal(t, c.faults, faults(x))
			require.Equal(t, c.porcupine, v.Violated, v.Findings)
			require.Zero(t, v.Undecided)
			require.Zero(t, x.More())
		})
	}
}

// Clients of two processes have the same numbers, but are different clients.
func TestAttemptsOfTwoProcesses(t *testing.T) {
	events := script(t, "1 a1 grant 100 by x; 2 a1 grant 100 by y")
	events[1].Source = 1
	x, v := judged(events)
	require.Equal(t, []string{"two holders at a time for 98 from 2"}, faults(x))
	require.Equal(t, 1, v.Violated)
	require.Equal(t, `"k": two holders at a time: client 0.0 attempt 1 grant at t=1 until 99ns, `+
		`then client 1.0 attempt 1 grant at t=2 until 98ns; both valid for 98ns from t=2 on`, x.Violations()[0].String())
}

// Figures that are not faults, and those of the forms.
func TestWhatExclusionCounts(t *testing.T) {
	x, _ := judged(script(t, `1 a1 grant 10; 12 a1 release; 13 b1 grant 12; 14 b1 release; 15 a2 grant 30; 20 a2 extend 40; 25 a2 release`))
	require.Equal(t, 7, x.Events)
	require.Equal(t, 3, x.Grants)
	require.Equal(t, 1, x.Extensions)
	require.Equal(t, 1, x.Empty)
	require.Equal(t, 2, x.Overdue, "both clients that released after their validity")

	x, _ = judged(script(t, `1 a1 grant 10 for read; 2 a2 start for write from 1; 3 a2 grant 10; 4 a2 release; 5 a3 start for read from 2; 6 a3 grant 10;
		7 b1 start on s for permit of 2; 8 b1 grant 10 on s for permit; 9 c1 start on f for fair; 10 c1 queued 20 on f; 11 c1 grant 20 on f; 12 d1 grant 20 on p`))
	require.Equal(t, map[Form]int{PlainForm: 1, ReadForm: 2, WriteForm: 1, PermitForm: 1, FairForm: 1}, x.Forms)
	require.Equal(t, []int{1, 1, 1}, []int{x.Upgrades, x.Downgrades, x.Queued})
}

// A long resource name is not printed in full (R27).
func TestLongResourcesAreCut_R27(t *testing.T) {
	x, v := judged(script(t, "1 a1 grant 100 on customer:4711:secret; 2 b1 grant 100 on customer:4711:secret"))
	require.NotContains(t, x.Violations()[0].String(), "4711")
	require.NotContains(t, v.Err().Error(), "4711")
	require.Contains(t, v.Err().Error(), "customer:")
}

// Memory holds current locks, not past ones.
func TestExclusionForgets(t *testing.T) {
	const n = 150_000
	var x Exclusion
	var l Locks
	add := func(e Event) {
		x.Add(e)
		l.Add(e)
	}
	second := int64(time.Second)
	for i := range int64(n) {
		e := Event{T: i * second, Client: int(i % 7), Resource: fmt.Sprint("r", i%50), Attempt: uint64(i), Ev: Grant, Until: i*second + second/2}
		add(e)
		if i%2 == 0 { // the other half is never released
			e.T, e.Ev = e.T+1, Release
			add(e)
		}
	}
	require.Empty(t, x.Violations())
	require.Less(t, len(x.holds), 3000)
	require.Len(t, x.released, 7, "one for each client")
	require.LessOrEqual(t, len(x.holders), 50)
	require.Less(t, len(l.holds), 3000)
	require.Empty(t, l.started)
	for _, w := range l.resources {
		require.LessOrEqual(t, len(w.operations), windowSize+2)
	}
	v := l.Finish()
	require.NoError(t, v.Err())
	require.Equal(t, 2*n, v.Operations)
	require.Greater(t, v.Windows, 2*n/(windowSize+3))
	require.Greater(t, x.Overdue, n/2-3000)
}

// A client is stopped between its release and the answer, while another has
// many locks. Both are correct. A second grant of a released attempt is still
// found.
func TestStoppedWhileItReleases(t *testing.T) {
	const n = 100_000
	var x Exclusion
	late := Event{T: 1, Client: 1, Resource: "l", Attempt: 5, Ev: Grant, Until: 10 * n}
	x.Add(late)
	late.T, late.Ev = 2, Release
	x.Add(late)
	for i := range int64(n) {
		e := Event{T: 2*i + 3, Resource: "k", Attempt: uint64(i), Ev: Grant, Until: 2*i + 5}
		x.Add(e)
		e.T, e.Ev = e.T+1, Release
		x.Add(e)
	}
	late.T, late.Ev = 3*n, Released
	x.Add(late)
	require.Empty(t, x.Violations())
	late.Ev = Grant
	x.Add(late)
	require.Equal(t, []string{"an attempt was granted twice"}, faults(&x))
}

func TestManyViolationsAreBounded(t *testing.T) {
	var x Exclusion
	for i := range int64(maxFound + 10) {
		x.Add(Event{T: i, Attempt: uint64(i), Ev: Release})
	}
	require.Len(t, x.Violations(), maxFound)
	require.Equal(t, 10, x.More())
}

// A fault is found wherever it is in a long history, which is cut into windows,
// and a window that cannot be decided in time is no success.
func TestLocksInWindows(t *testing.T) {
	var base []Event
	for i := range int64(10_000) {
		one := Event{T: 10 * i, Resource: "k", Client: int(i % 3), Attempt: uint64(i), Ev: Start}
		two := one
		two.T, two.Ev, two.Until = 10*i+2, Grant, 10*i+20
		three := two
		three.T, three.Ev = 10*i+9, Release
		base = append(base, one, two, three)
	}
	_, v := judged(base)
	require.NoError(t, v.Err())
	require.Greater(t, v.Windows, 300)
	for range 5 {
		at := 10*rand.Int64N(10_000) + 3
		x, v := judged(inOrder(append(slices.Clone(base), Event{T: at, Resource: "k", Client: 9, Ev: Grant, Until: at + 2})))
		require.Len(t, x.Violations(), 1, at)
		require.Equal(t, 1, v.Violated, at)
	}
	l := Locks{Patience: 1}
	for i := range int64(5000) { // held by too many at all times, so that it is one window
		l.Add(Event{T: i, Resource: "k", Attempt: uint64(i), Ev: Grant, Until: 1 << 30})
	}
	v = l.Finish()
	require.Equal(t, 1, v.Undecided)
	require.ErrorContains(t, v.Err(), "1 not decided")
}

// Exclusion finds the same as a comparison of each hold with every other one,
// and porcupine agrees whether there is any violation.
func TestExclusionAgainstComparingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := anyHistory(t)
		x, v := judged(events)
		var found, want int
		for _, one := range x.Violations() {
			require.Equal(t, TwoHolders, one.Fault, "%v", one)
			found++
		}
		for i, a := range holdsOf(events) {
			for _, b := range holdsOf(events)[:i] {
				if a.resource == b.resource && a.from < b.to && b.from < a.to {
					want++
				}
			}
		}
		require.Equal(t, want, found)
		require.Equal(t, want > 0, v.Violated > 0, "%v", v.Findings)
		require.Zero(t, v.Undecided)
	})
}

// anyHistory draws clients that acquire, extend, and release or die,
// independently of each other, so that some of them overlap.
func anyHistory(t *rapid.T) (events []Event) {
	resources := rapid.IntRange(1, 3).Draw(t, "resources")
	for client := range rapid.IntRange(1, 4).Draw(t, "clients") {
		now := rapid.Int64Range(0, 400).Draw(t, "begin")
		for attempt := range rapid.IntRange(0, 6).Draw(t, "attempts") {
			e := Event{
				T: now, Client: client, Attempt: uint64(attempt), Ev: Start,
				Resource: fmt.Sprint("r", rapid.IntRange(0, resources-1).Draw(t, "resource")),
			}
			step := func(kind Kind) {
				e.T += rapid.Int64Range(1, 60).Draw(t, "step")
				e.Ev = kind
				events = append(events, e)
			}
			events = append(events, e)
			if rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
				step(Held)
				now = e.T
				continue
			}
			e.Token = fmt.Sprintf("%d-%d", client, attempt)
			e.Until = e.T + rapid.Int64Range(1, 150).Draw(t, "validity")
			step(Grant)
			// Extensions are reported before the old validity ends here; late
			// reports have tests of their own.
			for range rapid.IntRange(0, 2).Draw(t, "extensions") {
				if e.Until-e.T > 61 {
					e.Until += rapid.Int64Range(0, 100).Draw(t, "more")
					step(Extend)
				}
			}
			switch rapid.IntRange(0, 3).Draw(t, "end") {
			case 0: // the client dies
				now = e.T
			case 1:
				step(Lost)
				now = e.T
			default:
				step(Release)
				step(Released)
				now = e.T
			}
		}
	}
	return inOrder(events)
}

// span is a whole hold, found without the checkers' methods.
type span struct {
	resource string
	form     Form
	from, to int64
}

func holdsOf(events []Event) (all []span) {
	of := make(map[attempt]int)
	for _, e := range events {
		i, ok := of[attemptOf(e)]
		switch {
		case e.Ev == Grant && e.Until > e.T:
			of[attemptOf(e)] = len(all)
			all = append(all, span{e.Resource, e.Form, e.T, e.Until})
		case ok && e.Ev == Extend:
			all[i].to = e.Until
		case ok && (e.Ev == Release || e.Ev == Lost):
			all[i].to = min(all[i].to, e.T)
		}
	}
	return all
}

// script parses a history made by hand, one event after another, separated by
// semicolons:
//
//	time who kind [until] [on resource] [by token] [as number] [for form]
//	[of permits] [from attempt]
//
// "who" is a client's letter and the number of its attempt, as in a1. By
// default the resource is "k", the token is the attempt's own, and the form is
// that of the attempt's first event.
func script(t *testing.T, text string) (events []Event) {
	t.Helper()
	started := make(map[string]Event)
	for one := range strings.SplitSeq(text, ";") {
		words := strings.Fields(one)
		if len(words) == 0 {
			continue
		}
		require.GreaterOrEqual(t, len(words), 3, one)
		e := Event{
			T: number(t, words[0]), Client: int(words[1][0] - 'a'), Attempt: uint64(number(t, words[1][1:])),
			Resource: "k", Ev: Kind(words[2]), Token: "token-" + words[1],
		}
		require.Contains(t, kinds, string(e.Ev), one)
		e.Form, e.Permits, e.From = started[words[1]].Form, started[words[1]].Permits, started[words[1]].From
		for rest := words[3:]; len(rest) > 0; rest = rest[1:] {
			switch rest[0] {
			case "on":
				e.Resource, rest = rest[1], rest[1:]
			case "by":
				e.Token, rest = rest[1], rest[1:]
			case "as":
				e.Fence, rest = uint64(number(t, rest[1])), rest[1:]
			case "for":
				e.Form, rest = Form(rest[1]), rest[1:]
				require.Contains(t, forms, string(e.Form), one)
			case "of":
				e.Permits, rest = int(number(t, rest[1])), rest[1:]
			case "from":
				e.From, rest = uint64(number(t, rest[1])), rest[1:]
			default:
				e.Until = number(t, rest[0])
			}
		}
		if _, ok := started[words[1]]; !ok {
			started[words[1]] = e
		}
		events = append(events, e)
	}
	return events
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

// judged returns the results of the two checkers for a history.
func judged(events []Event) (*Exclusion, Verdict) {
	var x Exclusion
	var l Locks
	for _, e := range events {
		x.Add(e)
		l.Add(e)
	}
	return &x, l.Finish()
}

// inOrder sorts by time, stably.
func inOrder(events []Event) []Event {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
	return events
}

// faults lists the findings, in short form.
func faults(x *Exclusion) (all []string) {
	for _, v := range x.Violations() {
		s := string(v.Fault)
		if v.Overlap > 0 {
			s = fmt.Sprintf("%s for %d from %d", v.Fault, v.Overlap, v.From)
		}
		all = append(all, s)
	}
	return all
}
