package meter

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPU is the processor time, user's and system's, that a process has used since it began, with all its threads,
// also those that have ended; but not that of its children. It is what the scheduler has counted, in nanoseconds, up to the
// moment of the call. /proc has the same in hundredths of a second only, or, thread by thread, without those that ended.
func ProcessCPU(pid int) (time.Duration, error) {
	if pid <= 0 {
		return 0, fmt.Errorf("meter: no process has the id %d", pid)
	}
	var used unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &used); err != nil {
		return 0, fmt.Errorf("meter: processor time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// cpuClock is the clock of a process's processor time: clock_getcpuclockid(3), which asks nobody but computes the name, as
// MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) in the kernel's include/linux/posix-timers_types.h does.
func cpuClock(pid int) int32 {
	const sched = 2
	return ^int32(pid)<<3 | sched
}
