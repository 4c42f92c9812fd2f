package redistest

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// spawn starts a process that dies with this one.
//
// Linux ties that wish (PR_SET_PDEATHSIG) to the thread that forked, not to the
// process: a server started from an ordinary goroutine dies when Go retires the
// thread. So all servers are started by one goroutine, which is locked to its
// thread and never ends. It is the only thing in this package that outlives a
// Close, and NoLeaks knows it.
func spawn(cmd *exec.Cmd) error {
	spawnOnce.Do(func() { go spawnLoop() })
	dieWithParent(cmd)
	failed := make(chan error)
	spawnRequests <- func() { failed <- cmd.Start() }
	return <-failed
}

var (
	spawnOnce     sync.Once
	spawnRequests = make(chan func())
)

// spawnLoop never ends, see spawn. It must not be started inside a bubble of
// testing/synctest, where real servers have no place anyway.
func spawnLoop() {
	runtime.LockOSThread()
	for start := range spawnRequests {
		start()
	}
}

// Spawn starts a process as servers are started: it dies with this one (on
// Linux), and an interrupt from the terminal does not reach it. Client
// processes that are to be stopped and killed are started so.
func Spawn(cmd *exec.Cmd) error { return spawn(cmd) }

// StopProcess stops a process with SIGSTOP, and ContinueProcess lets it go on.
func StopProcess(p *os.Process) error { return stopProcess(p) }

// ContinueProcess ends a StopProcess.
func ContinueProcess(p *os.Process) error { return continueProcess(p) }
