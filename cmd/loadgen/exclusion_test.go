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

// Readers share, a writer is alone, and there are no more permits than they
// say; whose time is over is no holder.
func TestCrowd(t *testing.T) {
	const s, many = time.Second, math.MaxInt
	var c crowd
	a, violated := c.take(1, 10*s, many, at(s))
	require.False(t, violated)
	_, violated = c.take(2, 5*s, many, at(s))
	require.False(t, violated, "another reader")
	w, violated := c.take(3, 20*s, 1, at(2*s))
	require.True(t, violated, "a writer under readers")
	c.free(w)
	c.free(a)
	w, violated = c.take(3, 20*s, 1, at(6*s))
	require.False(t, violated, "the first was released, and the second is over")
	_, violated = c.take(1, 20*s, many, at(7*s))
	require.True(t, violated, "a reader under a writer")
	c.free(w)

	c = crowd{}
	for i := range 3 {
		_, violated = c.take(i, 10*s, 3, at(s))
		require.False(t, violated)
	}
	late, violated := c.take(3, 9*s, 3, at(9*s))
	require.False(t, violated, "it was paused for too long, and holds nothing")
	require.Zero(t, late)
	_, violated = c.take(3, 10*s, 3, at(9*s))
	require.True(t, violated)
}
