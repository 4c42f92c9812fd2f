//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package conn

import "syscall"

// sendNow writes to a socket what fits in its buffer. The descriptor is in
// non-blocking mode, as those of package net are. A write to a socket whose peer
// is gone is an error here, not a signal: the runtime sees to that.
func sendNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		switch err {
		case nil:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
