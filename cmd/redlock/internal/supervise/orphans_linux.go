package supervise

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// As process 1 of a container the wrapper becomes the parent of what the command
// leaves behind, and must take in their ends: otherwise they stay as zombies
// until no process can be started. wait(2) for any child would also take the
// ends of the command and of the guard, which others wait for. So each process
// is asked for by its number, unless it is one of these.

// own are the children that this process has started.
var own children

type children struct {
	mu   sync.Mutex // guards the following
	pids map[int]bool
}

// start calls a function that starts a child. There is no moment in which the
// child may end and is not known.
func (c *children) start(do func() (pid int, err error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := do()
	if err != nil {
		return err
	}
	if c.pids == nil {
		c.pids = make(map[int]bool)
	}
	c.pids[pid] = true
	return nil
}

// forget is called when the end of a child was taken in.
func (c *children) forget(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pids, pid)
}

// reap takes in the end of a process if it has ended, is a child of this one,
// and was not started by it.
func (c *children) reap(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pids[pid] {
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // ECHILD for all others
	}
}

const (
	reapPause = 20 * time.Millisecond // between looks at all processes, however many end
	reapMost  = time.Second           // a look without a signal: one for several ends may come before the last
)

// ReapOrphans takes in the ends of processes that are left to this one, from now
// on, if this is process 1. Other processes are left none.
func ReapOrphans() {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() { // until the process ends
		look := time.NewTicker(reapMost)
		for {
			select {
			case <-ended:
			case <-look.C:
			}
			newHunt().eachProcess(func(pid int) (more bool) {
				own.reap(pid)
				return true
			})
			time.Sleep(reapPause)
		}
	}()
}
