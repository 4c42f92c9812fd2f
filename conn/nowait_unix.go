//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package conn

import "syscall"

// sendNow writes as much to a socket as fits in its buffer. The descriptor is
// non-blocking, as those of package net are. If the peer is gone, the write
// returns an error and raises no signal: the Go runtime ignores SIGPIPE on
// sockets.
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
