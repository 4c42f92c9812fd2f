package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of three nodes, node 0 has lost its memory. What must be found of it and of
// the others until it gets a floor, and which (F3, F4).
func TestFloors_F3(t *testing.T) {
	const s = time.Second
	none := Record{Run: NoRun, Floor: NoFloor}
	sealed := func(high int64) Footing {
		return Footing{Record: Record{Run: "r", Floor: 3, Cur: high}, Known: true, Run: "r", Proof: "p"}
	}
	lost := Footing{Run: "r", Proof: "p"}
	blind := Footing{Record: none, Known: true, Run: "r", Proof: "p"}
	type look struct {
		node       int
		found      Footing
		asked, now time.Duration
	}
	both := func(asked time.Duration) []look { // those of the other nodes
		return []look{{1, sealed(7), asked, asked + s}, {2, sealed(9), asked, asked + s}}
	}
	with := func(looks []look, more ...look) []look { return append(looks, more...) }
	for name, c := range map[string]struct {
		looks []look
		floor int64
		again uint16
		ok    bool
	}{
		"nothing is known":           {},
		"the others were not seen":   {with(nil, look{0, lost, 9 * s, 10 * s}), 0, 0, false},
		"they were seen before":      {with(both(5*s), look{0, lost, 9 * s, 10 * s}), 0, 0b110, false},
		"… or asked before":          {with(both(9*s), look{0, lost, 9 * s, 10 * s}), 0, 0b110, false},
		"one was asked after":        {with(both(5*s), look{0, lost, 9 * s, 10 * s}, look{1, sealed(7), 10 * s, 11 * s}), 7, 0b100, false},
		"both were":                  {with([]look{{0, lost, 9 * s, 10 * s}}, both(10*s)...), 9, 0, true},
		"it is looked at again":      {with(both(10*s), look{0, lost, 9 * s, 10 * s}, look{0, lost, 12 * s, 13 * s}), 9, 0, true},
		"its seal is another one":    {with(with([]look{{0, lost, 9 * s, 10 * s}}, both(10*s)...), look{0, Footing{Run: "r", Proof: "p2"}, 12 * s, 13 * s}), 0, 0b110, false},
		"it was sealed until then":   {with(with([]look{{0, sealed(5), 9 * s, 10 * s}}, both(10*s)...), look{0, lost, 12 * s, 13 * s}), 0, 0b110, false},
		"it has no floor":            {with([]look{{0, blind, 9 * s, 10 * s}}, both(10*s)...), 9, 0, true},
		"what it remembers counts":   {with([]look{{0, Footing{Record: Record{Run: "old", Floor: 2, Prev: 11}, Known: true, Run: "r", Proof: "p"}, 9 * s, 10 * s}}, both(10*s)...), 11, 0, true},
		"its quarantine is not over": {with([]look{{0, Footing{Run: "r"}, 9 * s, 10 * s}}, both(10*s)...), 0, 0, false},
		"it is sealed":               {with([]look{{0, sealed(5), 9 * s, 10 * s}}, both(10*s)...), 0, 0, false},
		"another has no floor":       {with([]look{{0, lost, 9 * s, 10 * s}}, with(both(10*s), look{2, blind, 11 * s, 12 * s})...), 7, 0, false},
		"another is another process": {with([]look{{0, lost, 9 * s, 10 * s}}, with(both(10*s), look{2, Footing{Record: Record{Run: "old", Floor: 3}, Known: true, Run: "r"}, 11 * s, 12 * s})...), 7, 0, false},
		"another's cannot be asked":  {with([]look{{0, lost, 9 * s, 10 * s}}, with(both(10*s), look{2, Footing{Record: Record{Run: NoRun, Floor: 3}, Known: true}, 11 * s, 12 * s})...), 7, 0, false},
		"… but is durable":           {with([]look{{0, lost, 9 * s, 10 * s}}, with(both(10*s), look{2, Footing{Record: Record{Run: NoRun, Floor: 3, Cur: 8}, Known: true, Durable: true}, 11 * s, 12 * s})...), 8, 0, true},
		"the highest of all three":   {with([]look{{0, lost, 9 * s, 10 * s}}, with(both(10*s), look{2, Footing{Record: Record{Run: "r", Floor: 30, Cur: 8, Prev: 20}, Known: true, Run: "r"}, 11 * s, 12 * s})...), 30, 0, true},
		"at the moment it came back": {with([]look{{0, lost, 9 * s, 10 * s}}, both(10*s)...), 9, 0, true},
		"right before it came back":  {with([]look{{0, lost, 9 * s, 10 * s}}, both(10*s-1)...), 0, 0b110, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFloors(3)
			for _, l := range c.looks {
				f.Sight(l.node, l.found, l.asked, l.now, 0)
			}
			floor, again, ok := f.Due(0)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.again, again)
			if ok {
				require.Equal(t, c.floor, floor)
				require.Equal(t, "p", f.Proof(0))
				f.Ordered(0)
				_, _, twice := f.Due(0)
				require.False(t, twice, "it is on its way")
				f.Answered(0)
				f.Blind(0)
				_, _, after := f.Due(0)
				require.False(t, after, "it lost its memory again")
				f.Part(1)
				require.False(t, f.Sealed(1))
			}
		})
	}
}

// What one node remembers beyond what the clocks account for is no answer: it
// is not sealed, no other learns from it, and it gets no floor. What a quorum
// remembers is one, wherever the clocks are (R33).
func TestFloorsDoNotBelieveOneNode_R33(t *testing.T) {
	now := time.Now().UnixMicro()
	most := now + Belief.Microseconds()
	holds := func(high int64) Footing {
		return Footing{Record: Record{Run: "r", Floor: 0, Cur: high}, Known: true, Run: "r", Proof: "p"}
	}
	for name, c := range map[string]struct {
		highs  []int64
		beyond []bool
	}{
		"all are right":             {[]int64{now, now + 5, now + 60e6}, []bool{false, false, false}},
		"as far as is believed":     {[]int64{now, now, most}, []bool{false, false, false}},
		"one is beyond":             {[]int64{now, now, most + 1}, []bool{false, false, true}},
		"… and is the first":        {[]int64{LastNumber, now, now}, []bool{true, false, false}},
		"a quorum is far ahead":     {[]int64{now, 2 * now, 2*now + 1}, []bool{false, false, false}},
		"… and one of it further":   {[]int64{now, 2 * now, 2*now + recordSlack + 1}, []bool{false, false, true}},
		"two of four are no quorum": {[]int64{now, now, 2 * now, 2 * now}, []bool{false, false, true, true}},
		"one of two":                {[]int64{now, 2 * now}, []bool{false, true}},
		"the only one":              {[]int64{2 * now}, []bool{false}},
		"no numbers are left":       {[]int64{LastNumber, LastNumber, LastNumber}, []bool{true, true, true}},
		"nor for the only one":      {[]int64{MostNumber + 1}, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFloors(len(c.highs))
			for i, high := range c.highs {
				f.Sight(i, holds(high), 1, 2, now)
			}
			for i, high := range c.highs { // again, after each of them was found as it is
				f.Sight(i, holds(high), 5, 6, now)
			}
			for i, beyond := range c.beyond {
				require.Equal(t, beyond, f.Beyond(i), "node %d", i)
				require.Equal(t, !beyond, f.Sealed(i), "node %d", i)
				_, _, ok := f.Due(i)
				require.False(t, ok)
			}
		})
	}
	f := NewFloors(5)
	f.Sight(0, Footing{Run: "r", Proof: "p"}, 0, 1, now)
	for i, high := range []int64{LastNumber, now, now + 7, most} {
		f.Sight(i+1, holds(high), 1, 2, now)
	}
	floor, _, ok := f.Due(0)
	require.True(t, ok)
	require.Equal(t, most, floor, "the lie is no floor")
	f.Sight(2, Footing{Strange: true, Run: "r", Proof: "p"}, 1, 2, now)
	require.True(t, f.Beyond(2), "something else stands there")
	_, _, ok = f.Due(2)
	require.False(t, ok, "it is the operator's")
}

// As many others are asked as make sure that one of them took part in each
// grant (F3).
func TestFloorsNeedN_q_1Others_F3(t *testing.T) {
	for nodes, needed := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 7: 4, 15: 8, 16: 8} {
		f := NewFloors(nodes)
		f.Sight(0, Footing{Run: "r", Proof: "p"}, 0, 1, 0)
		for others := 0; others < nodes; others++ {
			_, _, ok := f.Due(0)
			require.Equal(t, others >= needed, ok, "%d of %d", others, nodes)
			if others+1 < nodes {
				f.Sight(others+1, Footing{Record: Record{Run: "r"}, Known: true, Run: "r"}, 1, 2, 0)
			}
		}
		for lost := 0; lost < nodes-1; lost++ {
			require.Equal(t, nodes-1-lost >= needed, f.Learnable(0), "%d of %d lost", lost, nodes)
			f.Sight(lost+1, Footing{Run: "r"}, 1, 2, 0)
		}
		for i := range nodes {
			f.Part(i) // what it is shows when it is back
		}
		require.Equal(t, nodes > 1, f.Learnable(0))
	}
}
