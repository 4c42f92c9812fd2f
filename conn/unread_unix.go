//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package conn

import "syscall"

// unreadNow returns how many bytes a read of the socket would find, at most
// 512.
func unreadNow(fd uintptr) int {
	var b [512]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if err != nil {
		return 0
	}
	return max(0, n)
}
