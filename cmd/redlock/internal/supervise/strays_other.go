//go:build unix && !linux

package supervise

import (
	"syscall"
	"time"
)

// Strays are not found here: these systems have no common way to read the
// environment of another process.

func askStrays(string, []int, time.Duration, ...syscall.Signal) {}

func killStrays(string) (gone bool) { return true }

func killGroupButUs() {}
