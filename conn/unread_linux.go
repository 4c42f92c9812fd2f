package conn

import (
	"syscall"
	"unsafe"
)

// unreadNow returns how many bytes a read of the socket would find. It uses
// FIONREAD, which package syscall has by its other name, TIOCINQ:
// syscall.Recvfrom with MSG_PEEK would allocate the peer's address each time.
// The call never waits, so the scheduler need not know of it.
func unreadNow(fd uintptr) int {
	var n int32
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return 0
	}
	return int(n)
}
