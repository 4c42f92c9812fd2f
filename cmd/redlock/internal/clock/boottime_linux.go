package clock

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootTime returns the nanoseconds since the machine started, sleep included.
func bootTime() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0 // before Linux 2.6.39; then only the wall clock counts
	}
	return now.Nano()
}

// BootID names this run of this machine: Moments can be compared only within
// it. ok reports whether it is known.
func BootID() (id string, ok bool) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id = strings.ReplaceAll(strings.TrimSpace(string(data)), "-", "")
	return id, err == nil && id != ""
}
