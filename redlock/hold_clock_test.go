package redlock

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// clocks returns a reading of both clocks, with the monotonic one advanced by
// mono and the wall clock by wall. Package time has no function for this, since
// only a suspend or a step of the clock does it. clocks relies on the layout of
// time.Time: a word with nanoseconds in its lowest 30 bits and seconds in the
// next 33, then the monotonic reading.
func clocks(start time.Time, mono, wall time.Duration) time.Time {
	type layout struct {
		wall uint64
		ext  int64
	}
	t := start.Add(wall)
	(*layout)(unsafe.Pointer(&t)).ext += int64(mono - wall)
	return t
}

func TestClocks(t *testing.T) {
	start := time.Now()
	for _, c := range []struct{ mono, wall time.Duration }{
		{0, 0}, {time.Second, time.Second}, {5 * ms, time.Hour}, {time.Hour, -time.Hour}, {0, time.Nanosecond},
	} {
		now := clocks(start, c.mono, c.wall)
		require.Equal(t, c.mono, now.Sub(start), "%+v", c)
		require.Equal(t, c.wall, now.Round(0).Sub(start.Round(0)), "%+v", c)
	}
}
