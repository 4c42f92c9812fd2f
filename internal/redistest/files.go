package redistest

import (
	"os"
	"time"
)

// OpenFiles counts this process's descriptors; 0 where the system does not
// tell.
func OpenFiles() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}

// RestingFiles is OpenFiles once two counts, 20 ms apart, agree: what the tests
// before opened may still be closing, and would make room for a leak of this
// one.
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
