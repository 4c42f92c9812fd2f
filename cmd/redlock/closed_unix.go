//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// wasClosed reports whether a stream was closed when this process began, as by
// >&- in a shell. The Go runtime opens /dev/null in its place, for reading and
// writing, which >/dev/null does not.
func wasClosed(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := file.Stat()
	if err != nil || !os.SameFile(info, null) {
		return err != nil
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}
