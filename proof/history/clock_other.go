//go:build !unix || netbsd

package history

import "time"

// Monotonic stands in for CLOCK_MONOTONIC: its times can be compared between
// processes as long as the clock is not set.
func Monotonic() int64 { return time.Now().UnixNano() }
