//go:build !linux

package conn

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: keepalive and the user's probes must suffice.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
