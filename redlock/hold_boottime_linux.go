package redlock

import (
	"syscall"
	"time"
	"unsafe"
)

// Clocks of clock_gettime(2) whose difference is how long the machine has
// slept: both run at the same rate, but the second also runs during a suspend.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// slept returns how long the machine has been suspended since boot, or zero
// where the system does not tell. It is the difference of two kernel clocks, so
// it does not depend on Go's own clock. The second clock is read between two
// readings of the first; if these are too far apart, slept tries again.
func slept() time.Duration {
	var best, spread time.Duration
	for try := range 3 {
		before, ok := readClock(clockMonotonic)
		boot, okBoot := readClock(clockBoottime)
		after, okAfter := readClock(clockMonotonic)
		if !ok || !okBoot || !okAfter {
			return 0
		}
		if took := after - before; try == 0 || took < spread {
			best, spread = boot-after, took
		}
		if spread < 50*time.Microsecond {
			break
		}
	}
	return best
}

func readClock(id uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
