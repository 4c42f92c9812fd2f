package main

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootTime is a clock that counts sleep and that nobody sets, in nanoseconds; its zero is the start of the machine.
func bootTime() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0 // it is there since Linux 2.6.39; without it the wall clock alone counts
	}
	return now.Nano()
}

// bootID names this run of this machine: only within it bootTime means something. ok says whether it is known.
func bootID() (id string, ok bool) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id = strings.ReplaceAll(strings.TrimSpace(string(data)), "-", "")
	return id, err == nil && id != ""
}
