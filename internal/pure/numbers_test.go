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

	n.Correct(time.Hour)
	number = n.Next(at(26))
	n.TooFarAhead(base+6e6, at(30))
	require.True(t, n.Outdated(number))
	require.Equal(t, base+6e6+1, n.Next(at(30)), "the clock is corrected")
	require.Equal(t, base+6e6+100, n.Next(at(130)), "and goes on")
	n.TooFarAhead(base+9e6, at(140))
	require.Equal(t, base+6e6+110, n.Next(at(140)), "never forward")

	n.Learn(LastNumber)
	require.Equal(t, int64(LastNumber), n.Next(at(200)))
	n.TooFarAhead(base+7e6, at(200))
	require.Equal(t, base+7e6+1, n.Next(at(200)), "a node that lied is forgotten")
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
	require.Equal(t, 4*s, c.Take(3, Reading{Ahead: 4 * s}), "the only one, and it took no time")
	require.Equal(t, 2*s, c.Take(0, Reading{Ahead: 2 * s, Trip: ms, At: s}), "the lower of two")
	require.Equal(t, 3*s, c.Take(1, Reading{Ahead: 3 * s, Trip: ms, At: s}), "the median")
	require.Equal(t, 3*s, c.Take(1, Reading{Ahead: 9 * s, Trip: 3 * ms, At: 2 * s}), "a worse one")
	require.Equal(t, 4*s, c.Take(1, Reading{Ahead: 9 * s, Trip: 3 * ms, At: 3 * s}), "an old one is no better")
	require.Equal(t, 2*s, c.Take(1, Reading{Ahead: 1 * s, Trip: ms, At: 3 * s}), "one as good is newer")
}
