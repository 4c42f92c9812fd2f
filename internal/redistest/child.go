package redistest

import (
	"os"
	"os/exec"
)

// Spawn starts a process as servers are started: it dies with this one (on
// Linux), and an interrupt from the terminal does not reach it. Client
// processes that are to be stopped and killed are started so.
func Spawn(cmd *exec.Cmd) error { return spawn(cmd) }

// StopProcess stops a process with SIGSTOP, and ContinueProcess lets it go on.
func StopProcess(p *os.Process) error { return stopProcess(p) }

// ContinueProcess ends a StopProcess.
func ContinueProcess(p *os.Process) error { return continueProcess(p) }
