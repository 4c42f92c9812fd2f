package load

import (
	"time"

	records "github.com/redmux/redmux/proof/history"
)

// clock returns the time since the process started. This is the cheapest
// reading of the monotonic clock, and every latency, validity and history line
// of a process uses it.
type clock struct {
	base   time.Time
	offset int64 // nanoseconds of the system's monotonic clock at base
}

// newClock relates the two clocks by reading one right after the other. The
// time in between, some hundred nanoseconds, is the possible error between the
// history times of two processes.
func newClock() clock {
	c := clock{base: time.Now()}
	c.offset = records.Monotonic() - int64(time.Since(c.base))
	return c
}

func (c clock) now() time.Duration { return time.Since(c.base) }

// at converts a time to this clock.
func (c clock) at(t time.Time) time.Duration { return t.Sub(c.base) }

// system converts a time on this clock to the system's monotonic clock, which
// all processes of a machine share.
func (c clock) system(d time.Duration) int64 { return c.offset + int64(d) }
