//go:build unix

package meter

import (
	"syscall"
	"time"
)

// SelfCPU is the processor time, user's and system's, that this process has used since it began. It is 0 where that is not
// known. On Linux it is the same quantity as that of ProcessCPU, cut to microseconds.
func SelfCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
