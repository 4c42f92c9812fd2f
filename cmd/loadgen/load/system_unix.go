//go:build unix && !netbsd

package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time of this process, in user and kernel mode.
// It does not include servers, unless they are embedded.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// terminalWidth returns the number of columns of a terminal, at least one, or 0
// if the file is not a terminal.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // a terminal of unknown width
	}
	return int(size.Col)
}
