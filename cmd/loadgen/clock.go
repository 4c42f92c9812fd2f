package main

import (
	"time"

	records "github.com/redmux/redmux/internal/proof/history"
)

// clock tells the time since the process started: the cheapest reading of the
// monotonic clock there is, and the one that every latency, validity and
// history line of a process is on.
type clock struct {
	base   time.Time
	offset int64 // nanoseconds of the system's monotonic clock at base
}

// newClock relates the two clocks by reading one right after the other; what
// lies between, some hundred nanoseconds, is how far the history's times of two
// processes may be apart.
func newClock() clock {
	c := clock{base: time.Now()}
	c.offset = records.Monotonic() - int64(time.Since(c.base))
	return c
}

func (c clock) now() time.Duration { return time.Since(c.base) }

// at is a moment in time on this clock.
func (c clock) at(t time.Time) time.Duration { return t.Sub(c.base) }

// system is a moment of this clock on the system's monotonic clock, which all
// processes of a machine share.
func (c clock) system(d time.Duration) int64 { return c.offset + int64(d) }
