//go:build !unix || netbsd

package load

import (
	"os"
	"time"
)

// cpuTime is unknown here.
func cpuTime() time.Duration { return 0 }

// terminalWidth guesses: a character device is a terminal of the usual width.
func terminalWidth(f *os.File) int {
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return 0
	}
	return 80
}
