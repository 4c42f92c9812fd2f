package history

import (
	"math"
	"time"
)

// A Clock converts times of this process to the system's monotonic clock, which
// all processes of a machine share and which is never set.
type Clock struct {
	base   time.Time
	offset int64 // nanoseconds of the system's monotonic clock at base
}

// clockTries is how often NewClock compares the clocks. If this process is
// interrupted between two readings, that try is wrong by the length of the
// interruption, which was 20 ms on a busy machine and would look like two
// holders. It is very rare that all tries are interrupted.
const clockTries = 16

// NewClock relates Go's clock to the system's by reading the latter between two
// readings of the former, and keeps the try in which those two are closest.
// Half of the difference, some hundred nanoseconds, bounds the error.
func NewClock() Clock {
	c := Clock{base: time.Now()}
	least := time.Duration(math.MaxInt64)
	for range clockTries {
		before := time.Since(c.base)
		system := Monotonic()
		took := time.Since(c.base) - before
		if took < least {
			least, c.offset = took, system-int64(before+took/2)
		}
	}
	return c
}

// Now returns the current time.
func (c Clock) Now() int64 { return c.At(time.Now()) }

// At converts a time with a monotonic reading, such as time.Now returns.
func (c Clock) At(t time.Time) int64 { return c.offset + int64(t.Sub(c.base)) }
