package redistest

import (
	"os"
	"time"
)

// OpenFiles returns the number of this process's descriptors, or 0 where the
// system does not show it.
func OpenFiles() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}

// RestingFiles returns OpenFiles once two counts, 20 ms apart, agree:
// descriptors of earlier tests may still be closing, and would hide a leak of
// this one.
func RestingFiles() int {
	for before := OpenFiles(); ; {
		time.Sleep(20 * time.Millisecond)
		now := OpenFiles()
		if now == before {
			return now
		}
		before = now
	}
}
