//go:build unix

package window

import (
	"syscall"
	"time"
)

// selfCPU returns the user and system time of this process, or 0 if it is not
// known.
func selfCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
