package history

import (
	"math"
	"time"
)

// A Clock puts moments of this process on the system's monotonic clock, which all processes of a machine share and nobody
// sets.
type Clock struct {
	base   time.Time
	offset int64 // nanoseconds of the system's monotonic clock at base
}

// clockTries is how often the clocks are related. A try in which this process is interrupted between two readings is off by
// as long, which was 20 ms on a busy machine and would look like two holders. Hardly ever are all of them interrupted.
const clockTries = 16

// NewClock relates Go's clock and the system's by reading the latter between two looks at the former, and keeps the try in
// which these are nearest to each other. Half of what lies between them, some hundred nanoseconds, is how far off it can be.
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

// Now is the moment of the call.
func (c Clock) Now() int64 { return c.At(time.Now()) }

// At is a moment that has a monotonic reading, as those that time.Now returned.
func (c Clock) At(t time.Time) int64 { return c.offset + int64(t.Sub(c.base)) }
