//go:build !unix

package main

// wasClosed is not known here.
func wasClosed(any) bool { return false }
