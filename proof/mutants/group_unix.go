//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the end of a command end all processes that it started: go
// runs compilers, and tests run servers.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
