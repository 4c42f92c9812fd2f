//go:build !unix

package main

import "os"

// isTTY guesses as most programs do: a character device.
func isTTY(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
