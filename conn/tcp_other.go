//go:build !linux

package conn

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: keepalive and package multiplex's probes must
// suffice.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
