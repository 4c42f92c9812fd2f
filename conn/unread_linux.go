package conn

import (
	"syscall"
	"unsafe"
)

// unreadNow reports whether a read of the socket would return bytes. It asks for their number (FIONREAD, which package
// syscall knows by its other name): syscall.Recvfrom with MSG_PEEK would allocate the peer's address each time.
func unreadNow(fd uintptr) bool {
	var n int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return errno == 0 && n > 0
}
