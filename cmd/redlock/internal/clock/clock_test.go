package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock that gives less counts (R4): a step of the wall clock may shorten a
// validity but never lengthens it.
func TestMoment_R4(t *testing.T) {
	start := Moment{Wall: 1000, Boot: 10}
	end := start.Add(100)
	require.Equal(t, time.Duration(100), end.Sub(start))
	require.Equal(t, time.Duration(40), end.Sub(Moment{Wall: 1060, Boot: 20}), "the wall clock stepped forward, or the other is slow")
	require.Equal(t, time.Duration(90), end.Sub(Moment{Wall: 500, Boot: 20}), "it stepped back")
	m, err := Parse(end.String())
	require.NoError(t, err)
	require.Equal(t, end, m)
	for _, bad := range []string{"", "1", "1 ", " 1", "1 x", "x 1", "1 2 3"} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
}
