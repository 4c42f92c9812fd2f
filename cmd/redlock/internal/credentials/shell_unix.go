//go:build unix

package credentials

import (
	"os"
	"os/exec"
	"syscall"
)

const shell, shellFlag = "/bin/sh", "-c"

// forOthers returns what users may do who are neither the owner nor of the
// group.
func forOthers(mode os.FileMode) os.FileMode { return mode.Perm() & 0o007 }

// alone gives the command a process group of its own, which ends as a whole: an
// interrupt at the terminal is not for it, and what it started does not stay.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
