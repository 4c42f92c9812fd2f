//go:build !linux

package conn

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: keepalive and the owner's probes have to do.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
