package single_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/faults/single"
)

// A node that is connected and silent costs little memory, and the others go on
// (R5, R26). The long measurement is `make faults`.
func TestStalledNodeCostsNoMemory_R26(t *testing.T) {
	redistest.Long(t)
	redistest.Alone(t)
	redistest.Require(t)
	redistest.NoLeaks(t)
	if redistest.Raceful {
		t.Skip("skipped: the race detector keeps memory of its own for each word of ours")
	}
	// Of the healthy throughput. Other tests share the processors; `make
	// faults` measures exactly.
	const least = 0.5
	// How often memory may grow beyond its bound.
	const memoryForgiven = 2
	ways := []string{single.Stopped, single.HeldUp, single.HeldDown, single.Silenced}
	if testing.Short() {
		ways = []string{single.Stopped, single.Silenced}
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			var why error
			grown := 0
			for range 10 { // other programs can only make the throughput worse: one measurement that holds is enough
				s, err := single.MeasureStalled(t.Context(), single.StalledOptions{
					Faults: []string{way}, Callers: []int{128}, Healthy: time.Second, Stalled: 2 * time.Second,
				})
				require.NoError(t, err)
				t.Log(s)
				l := s.Lines[0]
				require.NotZero(t, l.Healthy.Heap)
				require.NotZero(t, l.Healthy.RSS)
				if why = s.Err(); why != nil {
					// A busy machine may spoil a measurement or two, but does
					// not make memory grow in every other one.
					if grown++; grown > memoryForgiven {
						break
					}
				}
				if why == nil && l.GivenUp == 0 {
					why = errors.New("it was never found to be silent")
				}
				if why == nil && l.Stalled.Rate < least*l.Healthy.Rate {
					why = fmt.Errorf("throughput fell to %.2f of the healthy one", l.Stalled.Rate/l.Healthy.Rate)
				}
				if why == nil {
					return
				}
				t.Log("again:", why)
			}
			t.Error(why)
		})
	}
}

// A line that grew too much is named, whichever of the two it was.
func TestStalledErr(t *testing.T) {
	const mib = 1 << 20
	l := single.StalledLine{Fault: single.HeldUp, Callers: 128}
	l.Healthy.Heap, l.Stalled.Heap = 10*mib, 26*mib
	l.Healthy.RSS, l.Stalled.RSS = 40*mib, 30*mib
	s := single.Stalled{Lines: []single.StalledLine{l}}
	require.NoError(t, s.Err())
	require.Zero(t, l.RSSGrowth())
	require.Contains(t, s.String(), "held up")
	s.Lines[0].Stalled.Heap++
	require.ErrorContains(t, s.Err(), "R26: held up, 128 callers: the heap grew by 16.0 MiB")
	s.Lines[0].Stalled.Heap = 0
	s.Lines[0].Stalled.RSS = 72 * mib
	require.NoError(t, s.Err())
	s.Lines[0].Stalled.RSS++
	require.ErrorContains(t, s.Err(), "the resident memory by 32.0 MiB")
	_, err := single.MeasureStalled(t.Context(), single.StalledOptions{Faults: []string{"upside down"}})
	require.Error(t, err)
}
