//go:build unix

package redlock_test

import (
	"syscall"
	"time"
)

// processTime returns the CPU time that this process has used.
func processTime(f *fleet) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		f.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
