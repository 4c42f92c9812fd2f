//go:build !unix || netbsd

package main

import "time"

// monotonic stands in for CLOCK_MONOTONIC: comparable between processes as long
// as nobody sets the clock.
func monotonic() int64 { return time.Now().UnixNano() }

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
