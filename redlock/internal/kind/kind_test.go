package kind

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// kinds returns the kinds of a client.
func kinds(nodes int) *Kinds {
	k := &Kinds{Nodes: nodes, Tokens: new(wire.Tokens), Tickets: pure.NewNumbers(time.Now())}
	return k.Complete()
}

// ofEach returns one of each kind for a resource; that of several has a second
// one.
func ofEach(name string) map[string]Kind {
	k := kinds(3)
	several, _ := k.All([]string{name, name + "2"})
	return map[string]Kind{
		"plain": k.Plain(), "several": several, "reading": k.Reader(), "writing": k.Writer(), "permit": k.Permit(1), "fair": k.Fair(),
	}
}

// A hold is as good as the lock that a reentrant call wants if it is of the
// same kind, or on several resources for one of them, or a writer's for a
// reader. A call that waits would wait for a hold with one of its keys.
func TestHoldsThatCallsMeet(t *testing.T) {
	covers := map[[2]string]bool{
		{"plain", "plain"}: true, {"several", "plain"}: true, {"several", "several"}: true,
		{"reading", "reading"}: true, {"writing", "reading"}: true, {"writing", "writing"}: true,
		{"permit", "permit"}: true, {"fair", "fair"}: true,
	}
	for has, held := range ofEach("a") {
		for wants, wanted := range ofEach("a") {
			at := []any{"%s for %s", has, wants}
			require.Equal(t, covers[[2]string{has, wants}], Covers(held, wanted, "a", "a"), at...)
			require.Equal(t, (has == "permit") == (wants == "permit"), Meets(held, wanted, "a", "a"), at...)
			other := ofEach("b")[wants]
			require.False(t, Covers(held, other, "a", "b") || Meets(held, other, "a", "b"), at...)
		}
	}
	two := kinds(3).Permit(2)
	require.False(t, Meets(two, two, "a", "a"), "there may be another permit")
}

// A text that names a key that the lock does not have, or no key, says nothing.
// What an attempt heard is forgotten when it is over (R32).
func TestRefusalsOfEachKind_R32(t *testing.T) {
	token := new(wire.Tokens).Next()
	value := string(token[:]) + ":web-1"
	most := map[string]int{"plain": 1, "several": 2, "reading": 3, "writing": 3, "permit": 1, "fair": 3}
	for name, k := range ofEach("a") {
		var s Said
		for place := range 256 {
			s.Begin(k, true)
			s.Hear(0, fmt.Append(nil, place, " ", value))
			s.Hear(1, []byte(strings.Repeat("9", 1000)))
			r := s.Refused("a")
			require.Equal(t, 0 < place && place <= most[name], !r.Bare, "%s %d", name, place)
			if !r.Bare {
				named := name != "permit" && (name != "fair" || place == 1)
				require.Equal(t, named, r.Owner == "web-1", "%s %d: only the value of a key says whose it is", name, place)
			}
		}
		for node := range multiplex.MaxNodes {
			s.Hear(node, []byte("1 "+value))
			s.Hear(node, []byte("1 1,2,3"))
		}
		s.Begin(k, true)
		require.Empty(t, s.free)
		s.free = nil
		require.Equal(t, Said{kind: k, scripted: true}, s)
	}
}

// The owner is that of the holder of the resource that is named, though nodes
// may say different things: most of those that refused.
func TestMostOfTheRefusals(t *testing.T) {
	all, _ := kinds(3).All([]string{"a", "b"})
	secret := new(wire.Tokens).Next()
	token := string(secret[:])
	for _, x := range []struct {
		texts           []string
		resource, owner string
	}{
		{[]string{"1 " + token + ":web-1"}, "a", "web-1"},
		{[]string{"1 " + token}, "a", ""},
		{[]string{"2 " + token + ":web-2", "1 " + token + ":web-1", "2 " + token + ":web-3", "2 " + token + ":web-3"}, "b", "web-3"},
		{[]string{"1 " + token + ":web-1", "1 " + token + ":web-1", "2 " + token + ":web-2", "2 ", "2 "}, "b", "web-2"},
		{[]string{"3 " + token + ":web-1", "0 x", "x", ""}, "", ""},
		{nil, "", ""},
	} {
		var s Said
		s.Begin(all, true)
		for node, text := range x.texts {
			s.Hear(node, []byte(text))
		}
		r := s.Refused("a, b")
		require.Equal(t, x.resource == "", r.Bare)
		require.Equal(t, x.resource, r.Resource)
		require.Equal(t, x.owner, r.Owner)
	}
}

// Each ticket but the first is ahead of the clock: by the time that was spent,
// then by twice as much, and by a second at most. No ticket is one that a
// script cannot compare (R32).
func TestTheLeadOfATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := Waiting(kinds(1).Fair()).(*fair)
		place := f.place
		for _, lead := range []time.Duration{0, 200 * ms, 400 * ms, 800 * ms, leadMost, leadMost} {
			before := place.Waiter
			place.sentTo, place.AdmittedBy = multiplex.All(1), multiplex.All(1)
			f.redraw(0, 200*ms)
			require.Equal(t, time.Now().Add(lead).UnixMicro(), place.Ticket)
			require.NotEqual(t, before, place.Waiter)
			require.Zero(t, place.sentTo|place.AdmittedBy)
			time.Sleep(ms)
		}
		f.redraw(pure.LastNumber-2, 0)
		require.Equal(t, int64(pure.LastNumber), place.Ticket)
	})
}

// What so many nodes say that one of them is in each quorum is believed,
// however wrong the caller's clock is; what one says alone, as far as clocks
// may be apart (R33).
func TestLateTicketsThatAreBelieved_R33(t *testing.T) {
	now := time.Now()
	far, near := now.Add(48*time.Hour).UnixMicro(), now.Add(TicketBelief).UnixMicro()
	for name, c := range map[string]struct {
		lates []int64
		by    multiplex.Set
		late  int64
	}{
		"none":                  {[]int64{0, 0, 0}, 0, 0},
		"one, near":             {[]int64{0, near, 0}, 0b010, near},
		"one, far":              {[]int64{0, near + 1, 0}, 0, 0},
		"one far, and one near": {[]int64{far, near, 0}, 0b010, near},
		"two, far":              {[]int64{far, far + 5, 0}, 0b001, far},
		"three, far":            {[]int64{far, far + 5, far + 3}, 0b101, far + 3},
		"of two, one":           {[]int64{far, 0}, 0b01, far},
		"of two, both":          {[]int64{far, far + 5}, 0b11, far + 5},
		"of four, two":          {[]int64{far, far + 5, 0, 0}, 0b0001, far},
		"of one":                {[]int64{far}, 0b1, far},
	} {
		var p queued
		copy(p.lates[:], c.lates)
		by, late := p.passed(len(c.lates), now)
		require.Equal(t, c.by, by, name)
		require.Equal(t, c.late, late, name)
	}
}

// A ticket that is none, or above which there are too few, is no answer. All
// others are refusals, whether or not they are believed.
func TestWhatTicketsAreAnswers_R33(t *testing.T) {
	for text, want := range map[string]multiplex.Vote{
		"3 1":                                    multiplex.Refused,
		fmt.Sprint("3 ", int64(pure.MostNumber)): multiplex.Refused,
		fmt.Sprint("3 ", int64(pure.MostNumber)+1): multiplex.Beyond,
		fmt.Sprint("3 ", int64(pure.LastNumber)):   multiplex.Beyond,
		"3 9223372036854775808":                    multiplex.Beyond,
		"3 0":                                      multiplex.Beyond,
		"3 -1":                                     multiplex.Beyond,
		"3 x":                                      multiplex.Beyond,
		"3 ":                                       multiplex.Beyond,
		fmt.Sprint("1 ", int64(pure.LastNumber)):   multiplex.Refused, // no ticket
	} {
		require.Equal(t, want, judgeFair(parsed(t, string(resp.AppendBulkString(nil, text)))), text)
	}
}

// What nodes say of free permits and of places is read as far as it is of the
// right form, and most nodes decide (R32).
func TestTextsOfPermitsAndPlaces_R32(t *testing.T) {
	for texts, want := range map[[3]string][]int{
		{"", "", ""}:                            nil,
		{"1,2", "2,3", "2"}:                     {2},
		{"3,1", "1,3", "7"}:                     {1, 3},
		{"-1,8,9", "x", "1 2"}:                  nil,
		{"7,7,,1", "99999999999999999999", "1"}: {1},
		{"4,4,4,4", "2,5", "5,2"}:               {2, 5},
	} {
		var all []int
		for _, text := range texts {
			all = appendFree(all, []byte(text), 8)
		}
		require.Equal(t, want, mostFree(all), "%q", texts)
	}
	secret := new(wire.Tokens).Next()
	token := string(secret[:])
	f := Waiting(kinds(9).Fair())
	var s Said
	s.Begin(f, true)
	for node, text := range []string{"", "x", "-1 " + token, "3", "3 short", "2 " + token, "1 " + token} {
		f.Hear(&s, node, fairQueued, []byte(text))
	}
	said := queued{admitted: multiplex.All(7)}
	said.standings[5] = standing{2, secret}
	require.Equal(t, said, s.queued)
	f.Hear(&s, 7, fairNext, nil)
	require.Equal(t, standing{place: 1}, s.queued.standings[7])
	f.Hear(&s, 8, fairLate, []byte("17"))
	require.Equal(t, multiplex.All(8), s.queued.admitted)
	require.EqualValues(t, 17, s.queued.lates[8])
}

func parsed(t *testing.T, reply string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	r.Commit(copy(r.Space(), reply))
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	return v
}
