//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package conn

import "syscall"

// unreadNow reports whether a read of the socket would return bytes.
func unreadNow(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == nil && n > 0
}
