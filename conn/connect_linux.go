//go:build !386

package conn

import "syscall"

const sysConnect = syscall.SYS_CONNECT
