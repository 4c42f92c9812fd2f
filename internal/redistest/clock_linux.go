package redistest

import (
	"os"
	"syscall"
	"unsafe"
)

const canPreload = true

// Clocks of clock_gettime(2). They and the calls below are in
// golang.org/x/sys/unix too, but package redlocktest brings this one into the
// builds of others, so it has the standard library do.
const (
	clockRealtime  = 0
	clockMonotonic = 1
)

// mapShared makes a file of zeros and maps it.
func mapShared(path string, size int) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func unmapShared(memory []byte) error { return syscall.Munmap(memory) }

// steadyNow is CLOCK_MONOTONIC, which is the same for all processes of a
// machine.
func steadyNow() int64 { return readClock(clockMonotonic) }

// machineWall is how far the machine's time of day is ahead of CLOCK_MONOTONIC.
// It is measured between two looks at that clock, some times, because on a busy
// machine time passes between two looks.
func machineWall() int64 {
	var best, spread int64
	for try := range 5 {
		before := steadyNow()
		wall := readClock(clockRealtime)
		after := steadyNow()
		if took := after - before; try == 0 || took < spread {
			best, spread = wall-before-took/2, took
		}
	}
	return best
}

func readClock(id uintptr) int64 {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic("redistest: clock_gettime: " + errno.Error())
	}
	return t.Nano()
}
