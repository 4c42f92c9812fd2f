//go:build !unix || netbsd

package history

import "time"

// Monotonic stands in for CLOCK_MONOTONIC: comparable between processes as long as nobody sets the clock.
func Monotonic() int64 { return time.Now().UnixNano() }
