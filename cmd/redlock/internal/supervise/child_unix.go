//go:build unix

package supervise

import (
	"os"
	"runtime"
	"syscall"
)

// A child is the command as a process of the wrapper.
type child struct {
	// states receives each change of state that wait(2) reports, except the
	// last. It is closed when the command has ended; then code may be read.
	states chan syscall.WaitStatus
	code   int
	pid    int
}

// codeSignal plus the number of a signal is the exit code of a process that the
// signal ended.
const codeSignal = 128

// startChild starts a command in an existing process group, and in the
// foreground of tty if that is not nil. The caller must receive from states
// until it is closed.
func startChild(path string, argv, env []string, stdio []*os.File, group int, tty *os.File) (*child, error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if tty != nil {
		sys.Foreground, sys.Ctty = true, int(tty.Fd())
	}
	dieWithUs(sys)
	c := &child{states: make(chan syscall.WaitStatus)}
	failed := make(chan error)
	go func() {
		// Linux ties Pdeathsig to the thread that forked (prctl(2),
		// PR_SET_PDEATHSIG). This thread waits for the command, and so lives as
		// long as it.
		runtime.LockOSThread()
		err := own.start(func() (int, error) {
			process, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: stdio, Sys: sys})
			if err != nil {
				return 0, err
			}
			c.pid = process.Pid
			_ = process.Release()
			return c.pid, nil
		})
		failed <- err
		if err == nil {
			c.wait()
		}
	}()
	return c, <-failed
}

// wait reports each change of state. Package os waits for the end only.
func (c *child) wait() {
	defer close(c.states)
	defer own.forget(c.pid)
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			c.code = codeFailed // impossible: nothing else waits for it
			return
		case status.Exited():
			c.code = status.ExitStatus()
			return
		case status.Signaled():
			c.code = codeSignal + int(status.Signal())
			return
		default:
			c.states <- status
		}
	}
}
