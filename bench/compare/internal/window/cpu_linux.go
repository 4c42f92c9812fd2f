package window

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU returns the user and system time of a process since it began,
// including threads that have ended but not its children. The scheduler counts
// it in nanoseconds; /proc has hundredths of a second.
func processCPU(pid int) (time.Duration, error) {
	if pid <= 0 {
		return 0, fmt.Errorf("window: no process has the id %d", pid)
	}
	var used unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &used); err != nil {
		return 0, fmt.Errorf("window: processor time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// cpuClock computes the id of a process's CPU clock, as clock_getcpuclockid(3)
// and MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) in the kernel's
// include/linux/posix-timers_types.h do.
func cpuClock(pid int) int32 {
	const sched = 2
	return ^int32(pid)<<3 | sched
}
