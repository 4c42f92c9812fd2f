//go:build unix && !netbsd

package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time this process has used, in user and kernel mode.
// Servers are processes of their own and not in it, unless they are embedded.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// terminalWidth is the number of columns of a terminal, at least one; 0 if the
// file is none.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // a terminal that does not say
	}
	return int(size.Col)
}
