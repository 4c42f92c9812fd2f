//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTTY asks the system: /dev/null is a character device, too, and nobody sits there.
func isTTY(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
