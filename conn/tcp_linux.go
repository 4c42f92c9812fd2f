package conn

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall does not
// name.
const tcpUserTimeout = 0x12

func setUserTimeout(raw syscall.RawConn, d time.Duration) error {
	var err error
	control := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
	if control != nil {
		return control
	}
	return err
}
