package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatIsLeftForTheNext(t *testing.T) {
	const whole = 100 * time.Millisecond
	for _, c := range []struct {
		left         time.Duration
		worth, young bool
	}{
		{-1, false, false},
		{0, false, false},
		{whole/2 - 1, false, false},
		{whole / 2, true, false},
		{whole*9/10 - 1, true, false},
		{whole * 9 / 10, true, true},
		{2 * whole, true, true},
	} {
		require.Equal(t, c.worth, WorthHandingOver(c.left, whole), c.left)
		require.Equal(t, c.young, Young(c.left, whole), c.left)
	}
	require.False(t, WorthHandingOver(0, 0))
	require.Equal(t, Never, Added(Never, time.Hour))
	require.Equal(t, 2*time.Hour, Added(time.Hour, time.Hour))
	require.Equal(t, time.Hour-1, Added(time.Hour, -1))
	require.Equal(t, Never, Added(Never, -1))
	require.Equal(t, Never, Added(Never-1, 1))
}

// The first renewal of a hold is due at once, unless none is to be made.
func TestARenewalAtOnce(t *testing.T) {
	const validity = 9 * time.Second
	r := NewRenewal(validity, Never, true).AtOnce()
	require.True(t, r.Held())
	require.Zero(t, r.Alarm())
	_, act := r.On(OnLook, time.Second, 0)
	require.Equal(t, ToRenew, act)
	r = NewRenewal(validity, Never, false).AtOnce()
	_, act = r.On(OnLook, time.Second, 0)
	require.Equal(t, CarryOn, act)
	r, _ = r.On(OnEnd, 0, 0)
	require.False(t, r.Held())
}
