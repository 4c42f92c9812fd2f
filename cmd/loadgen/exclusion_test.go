package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func TestOwnerWord(t *testing.T) {
	const s = time.Second
	var w ownerWord
	a, violated := w.take(1, 10*s, at(s))
	require.False(t, violated)
	_, violated = w.take(2, 12*s, at(2*s))
	require.True(t, violated, "both are valid")

	w.free(a)
	b, violated := w.take(2, 12*s, at(3*s))
	require.False(t, violated, "the first was released")

	c, violated := w.take(1, 22*s, at(12*s))
	require.False(t, violated, "the second's validity has ended")
	w.free(b)
	_, violated = w.take(3, 30*s, at(13*s))
	require.True(t, violated, "the end of an old claim frees no new one")
	w.free(c)
	require.Zero(t, w.Load())
}

// A caller that was paused past its own validity before it could write its
// claim must not accuse the rightful holder.
func TestOwnerWordAfterAPause(t *testing.T) {
	var w ownerWord
	holder, _ := w.take(1, 30*time.Second, at(20*time.Second))
	late, violated := w.take(2, 10*time.Second, at(21*time.Second))
	require.False(t, violated)
	require.Zero(t, late)
	w.free(late)
	require.EqualValues(t, holder, w.Load(), "and does not disturb the holder")
}

func TestClaimHoldsItsEnd(t *testing.T) {
	for _, until := range []time.Duration{0, 1, time.Microsecond, time.Hour + 999, 200 * 24 * time.Hour} {
		for _, caller := range []int{0, 1, maxCallers - 1} {
			c := newClaim(caller, until)
			require.NotZero(t, c)
			require.Equal(t, until.Truncate(time.Microsecond), c.until())
		}
	}
	require.NotEqual(t, newClaim(0, time.Second), newClaim(1, time.Second))
	require.Zero(t, newClaim(0, math.MinInt64).until(), "an end before the process began")
}
