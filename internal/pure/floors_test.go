package pure

import (
	"strings"
	"sync"
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

func TestRecord(t *testing.T) {
	for _, r := range []Record{
		{Run: "a"}, {Run: NoRun, Floor: NoFloor}, {Run: "a", Floor: 1, Period: 2, Cur: 3, Prev: 4},
		{Run: strings.Repeat("f", 40), Floor: LastNumber, Period: LastNumber, Cur: LastNumber, Prev: LastNumber},
	} {
		got, err := ParseRecord(r.String())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	good := Record{Run: "a", Floor: 1, Period: 2, Cur: 3, Prev: 4}.String()
	for _, bad := range []string{
		"", " ", good + " ", " " + good, good + "x", good[:len(good)-1], strings.Replace(good, "1 run", "2 run", 1),
		strings.Replace(good, "floor=1", "floor=", 1), strings.Replace(good, "floor=1", "floor=-1", 1), strings.Replace(good, "cur=3", "cur=+3", 1),
		strings.Replace(good, "cur=3", "cur=9007199254740992", 1), strings.Replace(good, "run_id=a", "run_id=", 1),
		strings.Replace(good, "run_id=a", "run_id=a b", 1), strings.Replace(good, "cur=3 prev=4", "prev=4 cur=3", 1),
	} {
		_, err := ParseRecord(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestRecordHigh(t *testing.T) {
	for want, r := range map[int64]Record{
		0: {Floor: NoFloor}, 7: {Floor: 7, Cur: 3, Prev: 4}, 8: {Floor: NoFloor, Cur: 8, Prev: 4}, 9: {Floor: 3, Cur: 4, Prev: 9},
	} {
		require.Equal(t, want, r.High())
	}
}

func TestNumbers(t *testing.T) {
	zero := time.Now()
	at := func(us int64) time.Time { return zero.Add(time.Duration(us) * time.Microsecond) }
	base := zero.UnixMicro()
	n := NewNumbers(zero)
	require.Equal(t, base, n.Next(zero), "the time")
	require.Equal(t, base+1, n.Next(zero), "never the same twice")
	require.Equal(t, base+10, n.Next(at(10)))
	require.Equal(t, base+11, n.Next(at(5)), "nor a lower one")
	n.Correct(time.Second)
	require.Equal(t, base+1e6+20, n.Next(at(20)), "by the nodes' clocks")
	n.Correct(-time.Second)
	require.Equal(t, base+1e6+21, n.Next(at(21)), "the clock was set back")
	n.Learn(base + 5e6)
	require.Equal(t, base+5e6+1, n.Next(at(22)), "what others were granted")
	n.Learn(7)
	require.Equal(t, base+5e6+2, n.Next(at(23)))

	number := n.Next(at(24))
	require.False(t, n.Outdated(number))
	n.Learn(number + 5)
	require.False(t, n.Outdated(number), "the resource is held: a higher number is no help")
	n.Stale(number - 1)
	require.False(t, n.Outdated(number), "of an earlier attempt")
	n.Stale(number)
	require.True(t, n.Outdated(number))
	require.Equal(t, number+6, n.Next(at(25)))
}

// One node's word is enough for a number that a correct clock accounts for, or
// that a quorum of nodes remember (R33).
func TestNumbersBelieved_R33(t *testing.T) {
	zero := time.Now()
	base, belief := zero.UnixMicro(), Belief.Microseconds()
	n := NewBeliefs(zero)
	require.True(t, n.Believes(base+belief, zero))
	require.False(t, n.Believes(base+belief+1, zero))
	require.True(t, n.Believes(base+belief+1, zero.Add(time.Microsecond)), "the clock goes on")
	n.Correct(-time.Hour)
	require.False(t, n.Believes(base, zero), "by the nodes' clocks")
	n.Agree(base + 5*belief)
	require.True(t, n.Believes(base+5*belief, zero), "a quorum remembers it")
	require.False(t, n.Believes(base+5*belief+1, zero))
	n.Agree(LastNumber)
	require.True(t, n.Believes(MostNumber, zero))
	require.False(t, n.Believes(MostNumber+1, zero), "too few are left")
	n.Agree(0)
	n.Correct(0)
	woken := zero.Round(0).Add(time.Hour)
	require.True(t, n.Believes(woken.UnixMicro(), woken))
}

func TestNumbersAreDistinct(t *testing.T) {
	n := NewNumbers(time.Now())
	var all sync.Map
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := int64(0)
			for range 10_000 {
				next := n.Next(time.Now())
				if _, twice := all.LoadOrStore(next, true); twice || next <= last {
					t.Error("not distinct, or not rising")
				}
				last = next
				n.Learn(next - 3)
			}
		})
	}
	wg.Wait()
}

func TestClocksOfNodes(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	c := make(Clocks, 5)
	require.Zero(t, c.Take(3, Reading{Ahead: 4 * s}), "one is not most of them (R33)")
	require.Zero(t, c.Take(0, Reading{Ahead: 2 * s, Trip: ms, At: s}), "nor are two")
	require.Equal(t, 2*s, c.Take(1, Reading{Ahead: 3 * s, Trip: ms, At: s}), "the median, with two that are as this one")
	c.Take(2, Reading{Ahead: 3 * s, Trip: ms, At: s})
	require.Equal(t, 3*s, c.Take(4, Reading{Ahead: 99 * s, Trip: ms, At: s}), "one that is wrong does not matter")
	require.Equal(t, 3*s, c.Take(1, Reading{Ahead: 9 * s, Trip: 3 * ms, At: 2 * s}), "a worse one")
	require.Equal(t, 4*s, c.Take(1, Reading{Ahead: 9 * s, Trip: 3 * ms, At: 3 * s}), "an old one is no better")
	require.Equal(t, 3*s, c.Take(1, Reading{Ahead: 1 * s, Trip: ms, At: 3 * s}), "one as good is newer")
	alone := make(Clocks, 1)
	require.Equal(t, s, alone.Take(0, Reading{Ahead: s}), "the only one, and it took no time")
	alone = make(Clocks, 1)
	require.Equal(t, s, alone.Take(0, Reading{Ahead: s, Trip: s}), "or long")
}
