package redistest

import (
	"time"
	"unsafe"
)

// Clocks returns a reading of both clocks, with the monotonic one advanced by
// mono and the wall clock by wall. Package time has no function for this, since
// only a suspend or a step of the clock does it. Clocks relies on the layout of
// time.Time: a word with nanoseconds in its lowest 30 bits and seconds in the
// next 33, then the monotonic reading.
func Clocks(start time.Time, mono, wall time.Duration) time.Time {
	type layout struct {
		wall uint64
		ext  int64
	}
	t := start.Add(wall)
	(*layout)(unsafe.Pointer(&t)).ext += int64(mono - wall)
	return t
}
