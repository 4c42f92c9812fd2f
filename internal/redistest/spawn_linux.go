package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent covers a test run that is killed or panics, where no cleanup
// runs. The server gets a process group of its own, so that a Ctrl-C in the
// terminal does not reach it: its starter may still have locks to release.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
