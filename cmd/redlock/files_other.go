//go:build !unix

package main

import (
	"os"
)

// openOwn is os.OpenFile: the owner of a link is not known.
func openOwn(path string, flags int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flags, mode)
}

// ownPath accepts every path.
func ownPath(path string) (string, error) { return path, nil }

// lockFolder locks nothing.
func lockFolder(string) (unlock func(), locked bool) { return func() {}, false }

func inProc(string) bool { return true }

// wasClosed is not known here.
func wasClosed(any) bool { return false }
