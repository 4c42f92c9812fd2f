package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/internal/errtext"
)

// The line has the form that scripts rely on.
func TestLine(t *testing.T) {
	line := string(Event{T: 1005, Client: 3, Resource: "k1", Attempt: 17, Ev: Grant, Token: "de47c9b2de47c9b2", Until: 1009}.AppendLine(nil))
	require.Equal(t, `{"t":1005,"client":3,"resource":"k1","attempt":17,"ev":"grant","token":"de47c9b2de47c9b2","until":1009}`+"\n", line)
	line = string(Event{T: 1005, Resource: "k\"\\\n\xff1", Attempt: 17, Ev: Held}.AppendLine(nil))
	require.Equal(t, `{"t":1005,"client":0,"resource":"k\"\\\u000a\\xff1","attempt":17,"ev":"held"}`+"\n", line)
	for _, name := range []string{"a\xff\\x\\", `\xff`, "\xe2\x82é\x01"} {
		var e Event
		require.NoError(t, json.Unmarshal(Event{Resource: name}.AppendLine(nil), &e))
		require.Equal(t, errtext.Name(name), e.Resource)
	}
	line = string(Event{T: 1005, Resource: "k1", Attempt: 17, Ev: Start, Form: WriteForm, From: 16}.AppendLine(nil))
	require.Equal(t, `{"t":1005,"client":0,"resource":"k1","attempt":17,"ev":"start","form":"write","from":16}`+"\n", line)
	line = string(Event{T: 1005, Resource: "k1", Attempt: 17, Ev: Start, Form: PermitForm, Permits: 3}.AppendLine(nil))
	require.Equal(t, `{"t":1005,"client":0,"resource":"k1","attempt":17,"ev":"start","form":"permit","permits":3}`+"\n", line)
}

// Reading returns what was written, and so does encoding/json.
func TestLinesAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			T:        rapid.Int64().Draw(t, "t"),
			Client:   rapid.Int().Draw(t, "client"),
			Resource: rapid.String().Draw(t, "resource"),
			Attempt:  rapid.Uint64().Draw(t, "attempt"),
			Ev:       rapid.SampledFrom(slices.Sorted(maps.Values(kinds))).Draw(t, "ev"),
			Token:    rapid.SampledFrom([]string{"", "00c0ffee"}).Draw(t, "token"),
			Until:    rapid.Int64().Draw(t, "until"),
			Fence:    rapid.Uint64().Draw(t, "fence"),
			Form:     rapid.SampledFrom(slices.Sorted(maps.Values(forms))).Draw(t, "form"),
			Permits:  rapid.Int().Draw(t, "permits"),
			From:     rapid.Uint64().Draw(t, "from"),
		}
		line := e.AppendLine(nil)
		require.True(t, utf8.Valid(line))
		var plain Event
		require.NoError(t, json.Unmarshal(line, &plain))
		require.Equal(t, e, plain)
		events, err := all(Read(bytes.NewReader(append(line, line...))))
		require.NoError(t, err)
		require.Equal(t, []Event{e, e}, events)
	})
}

// all reads up to the first error.
func all(stream func(func(Event, error) bool)) (events []Event, err error) {
	for e, err := range stream {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

const goodLine = `{"t":1,"client":0,"resource":"k","attempt":1,"ev":"start"}` + "\n"

func TestLinesThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ text, err string }{
		{"nonsense\n", "history: line 1: "},
		{goodLine + "\n", "history: line 2: "},
		{goodLine + goodLine + `{"t":1,"ev":"won"}` + "\n", `history: line 3: no event is called "won"`},
		{goodLine + `{"t":1,"ev":"start","form":"lease"}` + "\n", "line 2: no lock has such a form"},
		{goodLine + `{"t":1}` + "\n", `line 2: no event is called ""`},
		{goodLine + `{"t":"1","ev":"start"}` + "\n", "line 2: "},
		{goodLine + `{"t":1,"client":-1,"attempt":-1,"ev":"start"}` + "\n", "line 2: "},
		{goodLine + `{"t":1,"resource":"` + strings.Repeat("k", maxLine) + "\"}\n", "line 2: longer than 65536 bytes"},
	} {
		events, err := all(Read(strings.NewReader(c.text)))
		require.ErrorContains(t, err, c.err)
		require.NotErrorIs(t, err, ErrCut)
		require.Len(t, events, strings.Count(c.text, goodLine))
	}
	events, err := all(Read(iotest.ErrReader(io.ErrClosedPipe)))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Empty(t, events)
}

// A process that is killed may leave an incomplete line.
func TestTheLastLineIsCut(t *testing.T) {
	for n := 1; n < len(goodLine); n++ {
		events, err := all(Read(strings.NewReader(goodLine + goodLine[:n])))
		require.ErrorIs(t, err, ErrCut)
		require.ErrorContains(t, err, "line 2")
		require.Len(t, events, 1)
	}
	events, err := all(Read(strings.NewReader("")))
	require.NoError(t, err)
	require.Empty(t, events)
}

// Lines of a later version have more members.
func TestUnknownMembersAreIgnored(t *testing.T) {
	events, err := all(Read(strings.NewReader(`{"t":1,"node":4,"resource":"k","ev":"start"}` + "\n")))
	require.NoError(t, err)
	require.Equal(t, []Event{{T: 1, Resource: "k", Ev: Start}}, events)
}

func TestReadStopsWhenAsked(t *testing.T) {
	for range Read(strings.NewReader(goodLine + goodLine)) {
		break
	}
	name := filepath.Join(t.TempDir(), "history")
	require.NoError(t, os.WriteFile(name, []byte(goodLine+goodLine), 0o600))
	events, err := all(Open(name))
	require.NoError(t, err)
	require.Len(t, events, 2)
	_, err = all(Open(name + "not there"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Merge returns all events in order. Among equal times it keeps each stream's
// own order, and it sets the sources.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const disorder = 20
		var streams []iterator
		var want []Event
		for source := range rapid.IntRange(0, 4).Draw(t, "streams") {
			var events []Event
			now := rapid.Int64Range(-50, 50).Draw(t, "begin")
			for i := range rapid.IntRange(0, 30).Draw(t, "events") {
				now += rapid.Int64Range(0, 10).Draw(t, "later")
				events = append(events, Event{T: now - rapid.Int64Range(0, disorder).Draw(t, "late"), Attempt: uint64(i), Source: source})
			}
			want = append(want, events...)
			streams = append(streams, stored(events, nil))
		}
		got, err := all(Merge(disorder, streams...))
		require.NoError(t, err)
		require.ElementsMatch(t, want, got)
		require.True(t, slices.IsSortedFunc(got, func(a, b Event) int { return int(a.T - b.T) }))
		for i := 1; i < len(got); i++ {
			if got[i].T == got[i-1].T && got[i].Source == got[i-1].Source {
				require.Greater(t, got[i].Attempt, got[i-1].Attempt)
			}
		}
	})
}

type iterator = iter.Seq2[Event, error]

// stored returns a stream of events without sources, with an error at its end.
func stored(events []Event, err error) iterator {
	return func(yield func(Event, error) bool) {
		for _, e := range events {
			e.Source = 0
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// The end of one stream, with or without an error, does not end the others.
func TestMergeGoesOnAfterAnError(t *testing.T) {
	broken := errors.New("broken")
	var got []int64
	var errs []error
	for e, err := range Merge(0, stored([]Event{{T: 1}, {T: 5}}, broken), stored([]Event{{T: 2}, {T: 9}}, nil)) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, e.T)
	}
	require.Equal(t, []int64{1, 2, 5, 9}, got)
	require.Len(t, errs, 1)
	require.ErrorIs(t, errs[0], broken)
	require.ErrorContains(t, errs[0], "stream 0")

	for range Merge(0, stored([]Event{{T: 1}, {T: 5}}, nil), stored([]Event{{T: 2}}, nil)) {
		break // ends both streams
	}
}

// A line that comes later than allowed is reported and left out: the order of
// the yielded events stays intact.
func TestMergeTellsOfTooMuchDisorder(t *testing.T) {
	var got []int64
	var errs []error
	for e, err := range Merge(3, stored([]Event{{T: 10}, {T: 20}, {T: 17}, {T: 16}, {T: 9}, {T: 30}}, nil)) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, e.T)
	}
	require.Equal(t, []int64{10, 16, 17, 20, 30}, got)
	require.Len(t, errs, 1)
	require.ErrorIs(t, errs[0], ErrDisorder)
	require.Equal(t, int64(math.MaxInt64), (&merger{}).certain())
}

// Events come out in order of time, and those of one time as they were pushed.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var q Queue
	for i := range 500 {
		q.Push(Event{T: int64(random.IntN(50)), Attempt: uint64(i)})
	}
	last := Event{T: -1}
	for until := range int64(51) {
		for e := range q.Before(until) {
			require.Less(t, e.T, until)
			require.True(t, last.T < e.T || last.T == e.T && last.Attempt < e.Attempt)
			last = e
		}
		for range q.Before(until) {
			t.Fatal("one was left")
		}
	}
	require.Zero(t, q.Len())
}
