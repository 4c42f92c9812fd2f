//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// A child is the command as a process of ours.
type child struct {
	// states are the changes of its state that wait(2) tells, but for the last. It is closed when the command has ended; code
	// may be read then.
	states chan syscall.WaitStatus
	code   int
	pid    int
}

// startChild starts a command in a process group that is there already, and in the foreground of a terminal if tty is one. Its
// exit code is told by the child. It is to be read until states is closed.
func startChild(path string, argv, env []string, stdio []*os.File, group int, tty *os.File) (*child, error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if tty != nil {
		sys.Foreground, sys.Ctty = true, int(tty.Fd())
	}
	dieWithUs(sys)
	c := &child{states: make(chan syscall.WaitStatus)}
	failed := make(chan error)
	go func() {
		// Linux ties the wish to die with the parent to the thread that forked (prctl(2), PR_SET_PDEATHSIG). This one waits
		// for the command, and so lives for as long.
		runtime.LockOSThread()
		process, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: stdio, Sys: sys})
		if err == nil {
			c.pid = process.Pid
			_ = process.Release()
		}
		failed <- err
		if err == nil {
			c.wait()
		}
	}()
	return c, <-failed
}

// wait tells of each change of state. Package os waits for ends only.
func (c *child) wait() {
	defer close(c.states)
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			c.code = exitFailed // nobody else waits for it, so this cannot be
			return
		case status.Exited():
			c.code = status.ExitStatus()
			return
		case status.Signaled():
			c.code = exitSignal + int(status.Signal())
			return
		default:
			c.states <- status
		}
	}
}
