//go:build unix

package cases

import (
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
)

// busyVariable is set in the environment of a loop.
const busyVariable = "REDMUX_BUSY"

// beBusy takes CPU until standard input ends, which it does when the parent
// is gone.
func beBusy() {
	if os.Getenv(busyVariable) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		spins.Add(1)
	}
}

var spins atomic.Uint64

// startBusy starts loops, and returns a function that ends them. Each has a session
// of its own: Linux may share the CPU among sessions first, and the client and
// the masters would be half of two sessions, however many loops the other has.
func startBusy(n int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return stop, err
	}
	for range n {
		c := exec.Command(self)
		c.Env = append(os.Environ(), busyVariable+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if _, err := c.StdinPipe(); err != nil { // Wait closes it
			return stop, err
		}
		if err := c.Start(); err != nil {
			return stop, err
		}
		all = append(all, c)
	}
	return stop, nil
}
