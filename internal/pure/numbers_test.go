package pure

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
