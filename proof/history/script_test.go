package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
