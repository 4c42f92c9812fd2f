package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent covers a test run that is killed or panics, where no cleanup runs.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
