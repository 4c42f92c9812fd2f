//go:build unix && !linux

package supervise

import (
	"syscall"
	"time"
)

// Strays are not found here: these systems have no common way to adopt orphans.

// dieWithUs does nothing: here a command outlives a guard that is killed, until
// the wrapper notices.
func dieWithUs(*syscall.SysProcAttr) {}

// ignores is not known.
func ignores(syscall.Signal) bool { return false }

func adoptOrphans() bool { return false }

// AdoptOrphans does nothing: a process is left no children that are not its own.
func AdoptOrphans() {}

var own offspring

type offspring struct{}

func (offspring) start(do func() (pid int, err error)) error {
	_, err := do()
	return err
}

func (offspring) forget(int) {}

// wait waits for a change of the command's state.
func (w *ward) wait(command int) (pid int, status syscall.WaitStatus, err error) {
	for {
		pid, err = syscall.Wait4(command, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && !status.Stopped() {
			w.mu.Lock()
			w.pid = 0
			w.mu.Unlock()
		}
		return pid, status, err
	}
}

func (w *ward) killAdopted() {}

func killOrphans([]int) (gone bool) { return true }

func askStrays(int, []int, time.Duration, ...syscall.Signal) {}

func children() []int { return nil }

func adopted(int) bool { return false }
