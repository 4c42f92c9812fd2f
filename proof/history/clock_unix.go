//go:build unix && !netbsd

package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC, in nanoseconds.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
