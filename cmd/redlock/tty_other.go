//go:build !unix

package main

import (
	"io"
	"os"
)

// isTTY guesses as most programs do: a character device.
func isTTY(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// terminalWidth is the number of columns of a terminal, 0 if it is unknown.
func terminalWidth(*os.File) int { return 0 }

// errPipe stands for a pipe without a reader, which is not told apart here.
var errPipe = io.ErrClosedPipe
